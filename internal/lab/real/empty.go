package real

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// holding is a kind of resource that a tenant may have.
type holding struct {
	service, list, kind string
	one                 string // the path of one: %s is its id
	before              func(ctx context.Context, t *Tenant, found doc) error
	gone                bool // wait until it is: others are in use until then
}

// emptyLimit is how long Empty waits for what is deleted slowly.
const emptyLimit = 5 * time.Minute

// Empty deletes everything in the tenant's project, and keeps the tenant.
func (t *Tenant) Empty(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, emptyLimit)
	defer cancel()
	if err := t.removeContainers(ctx); err != nil {
		return fmt.Errorf("emptying the project %s: %w", t.Project, err)
	}
	for _, stage := range t.stages() {
		all, ctx := errgroup.WithContext(ctx)
		for _, h := range stage {
			all.Go(func() error { return t.remove(ctx, h) })
		}
		if err := all.Wait(); err != nil {
			return fmt.Errorf("emptying the project %s: %w", t.Project, err)
		}
	}
	return nil
}

// stages lists what there may be; what is in use by others comes after them.
func (t *Tenant) stages() [][]holding {
	owner := "project_id"
	net := func(path, kind string, before func(context.Context, *Tenant, doc) error) holding {
		return holding{service: "network", list: "/v2.0/" + path + query(owner, t.ProjectID), kind: kind, one: "/v2.0/" + path + "/%s", before: before}
	}
	return [][]holding{
		{
			{service: "load-balancer", list: "/v2/lbaas/loadbalancers" + query(owner, t.ProjectID), kind: "loadbalancers", one: "/v2/lbaas/loadbalancers/%s?cascade=true", gone: true},
			{service: "compute", list: "/servers/detail" + query("all_tenants", "1", owner, t.ProjectID), kind: "servers", one: "/servers/%s", gone: true},
			net("floatingips", "floatingips", nil),
			net("routers", "routers", detach),
		},
		{
			{service: "compute", list: "/os-server-groups" + query("all_projects", "1"), kind: "server_groups", one: "/os-server-groups/%s"},
			{service: "compute", list: "/os-keypairs" + query("user_id", t.UserID), kind: "keypairs", one: "/os-keypairs/%s" + query("user_id", t.UserID)},
			{service: "volumev3", list: "/snapshots/detail" + query("all_tenants", "1", owner, t.ProjectID), kind: "snapshots", one: "/snapshots/%s", gone: true},
			{service: "image", list: "/v2/images" + query("owner", t.ProjectID), kind: "images", one: "/v2/images/%s", before: unprotect},
			net("trunks", "trunks", nil),
		},
		{
			{service: "volumev3", list: "/volumes/detail" + query("all_tenants", "1", owner, t.ProjectID), kind: "volumes", one: "/volumes/%s?force=true", before: resetVolume, gone: true},
			net("ports", "ports", nil),
		},
		{net("networks", "networks", nil), net("security-groups", "security_groups", nil), net("rbac-policies", "rbac_policies", nil)},
		{net("subnetpools", "subnetpools", nil), net("qos/policies", "policies", nil), net("address-groups", "address_groups", nil)},
		{net("address-scopes", "address_scopes", nil)},
	}
}

// remove deletes all of one kind.
func (t *Tenant) remove(ctx context.Context, h holding) error {
	var asked sync.Map // ids whose deletion is under way
	for {
		found, err := t.found(ctx, h)
		if err != nil || len(found) == 0 {
			return err
		}
		all, each := errgroup.WithContext(ctx)
		all.SetLimit(4)
		for _, f := range found {
			if _, done := asked.Load(f["id"]); done && !failed(f) {
				continue
			}
			all.Go(func() error {
				accepted, err := t.removeOne(each, h, f)
				if accepted {
					asked.Store(f["id"], true)
				}
				return err
			})
		}
		if err := all.Wait(); err != nil || !h.gone {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %d %s are gone: %w", len(found), h.kind, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// removeContainers deletes the project's containers with their objects.
func (t *Tenant) removeContainers(ctx context.Context) error {
	// The administrator's own account is what the catalog has.
	base, _ := t.lab.admin.endpoint("object-store")
	account := strings.Replace(base, "AUTH_"+t.lab.admin.projectID, "AUTH_"+t.ProjectID, 1)
	for {
		containers, err := t.lab.admin.names(ctx, account)
		if err != nil || len(containers) == 0 {
			return err
		}
		for _, c := range containers {
			if err := t.removeContainer(ctx, account+"/"+url.PathEscape(c)); err != nil {
				return err
			}
		}
	}
}

// removeContainer deletes one container with its objects, page by page.
func (t *Tenant) removeContainer(ctx context.Context, address string) error {
	for {
		objects, err := t.lab.admin.names(ctx, address)
		if err != nil {
			return err
		}
		if len(objects) == 0 {
			return t.lab.admin.store(ctx, http.MethodDelete, address, nil)
		}
		all, ctx := errgroup.WithContext(ctx)
		all.SetLimit(4)
		for _, o := range objects {
			all.Go(func() error { return t.lab.admin.store(ctx, http.MethodDelete, address+"/"+url.PathEscape(o), nil) })
		}
		if err := all.Wait(); err != nil {
			return err
		}
	}
}

// failed reports whether a deletion has, so that it is to be asked for again.
func failed(d doc) bool {
	return d["status"] == "ERROR" || d["status"] == "error_deleting" || d["provisioning_status"] == "ERROR"
}

// found lists what is the tenant's of one kind.
func (t *Tenant) found(ctx context.Context, h holding) ([]doc, error) {
	all, err := t.lab.admin.listed(ctx, h.service, h.list, h.kind)
	if refused(err, http.StatusNotFound) {
		return nil, nil // an extension that isn't loaded
	}
	if err != nil {
		return nil, err
	}
	var mine []doc
	for _, d := range all {
		switch h.kind {
		case "server_groups": // the list can't be narrowed
			if d["project_id"] != t.ProjectID {
				continue
			}
		case "keypairs":
			d = d["keypair"].(doc)
			d["id"] = d["name"]
		case "security_groups":
			if d["name"] == "default" && !t.leaving {
				continue // it would come again
			}
		}
		mine = append(mine, d)
	}
	return mine, nil
}

// removeOne asks for a deletion, and reports whether that was accepted.
func (t *Tenant) removeOne(ctx context.Context, h holding, d doc) (accepted bool, err error) {
	if h.before != nil {
		if err := h.before(ctx, t, d); err != nil && !refused(err, http.StatusNotFound) {
			return false, err
		}
	}
	err = t.lab.admin.call(ctx, http.MethodDelete, h.service, fmt.Sprintf(h.one, d["id"]), nil, nil)
	// What is being changed can't be deleted yet, and is asked for again.
	if refused(err, http.StatusNotFound) || h.gone && refused(err, http.StatusConflict, http.StatusBadRequest) {
		return false, nil
	}
	return err == nil, err
}

// detach takes the interfaces off a router.
func detach(ctx context.Context, t *Tenant, d doc) error {
	c := t.lab.admin
	router := fmt.Sprint(d["id"])
	if routes, _ := d["routes"].([]any); len(routes) > 0 {
		if err := c.call(ctx, http.MethodPut, "network", "/v2.0/routers/"+router, doc{"router": doc{"routes": []any{}}}, nil); err != nil {
			return err
		}
	}
	ports, err := c.listed(ctx, "network", "/v2.0/ports"+query("device_id", router), "ports")
	if err != nil {
		return err
	}
	for _, p := range ports {
		if !strings.HasPrefix(fmt.Sprint(p["device_owner"]), "network:router_interface") {
			continue
		}
		if err := c.call(ctx, http.MethodPut, "network", "/v2.0/routers/"+router+"/remove_router_interface", doc{"port_id": p["id"]}, nil); err != nil {
			return err
		}
	}
	return nil
}

// unprotect lets an image be deleted.
func unprotect(ctx context.Context, t *Tenant, d doc) error {
	if d["protected"] != true {
		return nil
	}
	return t.lab.admin.call(ctx, http.MethodPatch, "image", fmt.Sprintf("/v2/images/%s", d["id"]), imagePatch{{"op": "replace", "path": "/protected", "value": false}}, nil)
}

// resetVolume lets a volume be deleted whose attachment nobody has ended.
func resetVolume(ctx context.Context, t *Tenant, d doc) error {
	switch d["status"] {
	case "available", "deleting", "error", "creating", "error_deleting":
		return nil
	}
	return t.lab.admin.call(ctx, http.MethodPost, "volumev3", fmt.Sprintf("/volumes/%s/action", d["id"]),
		doc{"os-reset_status": doc{"status": "available", "attach_status": "detached"}}, nil)
}
