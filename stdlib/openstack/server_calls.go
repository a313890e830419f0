package openstack

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// ownMetadata begins the keys of metadata that this module keeps for itself.
const ownMetadata = "gsrun_"

func serverCall(method, path string, body any) client.Call {
	return client.Call{Service: client.Compute, Version: client.ServerVersion, Method: method, Path: "/servers" + path, Body: body}
}

func getServer(ctx context.Context, cl *client.Client, id string) (client.Object, error) {
	return cl.One(ctx, serverCall(http.MethodGet, "/"+url.PathEscape(id), nil), "server")
}

// serverAction sends an action and returns its answer.
func serverAction(ctx context.Context, cl *client.Client, id string, body client.Object) (client.Object, error) {
	return cl.Do(ctx, serverCall(http.MethodPost, "/"+id+"/action", body))
}

// listServers lists the project's servers; only those of that name if one is
// given.
func listServers(ctx context.Context, cl *client.Client, name string) ([]client.Object, error) {
	return listServersBy(ctx, cl, name, url.Values{})
}

// listServersBy lists those that match query too.
func listServersBy(ctx context.Context, cl *client.Client, name string, query url.Values) ([]client.Object, error) {
	call := serverCall(http.MethodGet, "/detail", nil)
	if name != "" {
		query.Set("name", "^"+regexp.QuoteMeta(name)+"$") // Nova takes a regular expression
	}
	call.Query = query
	return cl.List(ctx, call, "servers")
}

// serversNamed lists the servers of exactly that name: databases may compare
// without regard to case.
func serversNamed(ctx context.Context, cl *client.Client, name string) ([]client.Object, error) {
	all, err := listServers(ctx, cl, name)
	return slices.DeleteFunc(all, func(o client.Object) bool { return str(o, "name") != name }), err
}

// serverChoice is where a server that a recipe has chosen is looked for.
func serverChoice() choice {
	return choice{label: "server", byID: getServer, tagged: func(ctx context.Context, cl *client.Client, tag string) ([]client.Object, error) {
		return listServersBy(ctx, cl, "", url.Values{"tags": {tag}})
	}}
}

// findServer returns the server that bears the mark, or with adopt the one
// that it says, or that only has the name; nil if there is neither.
func findServer(ctx context.Context, cl *client.Client, name, mark string, adopt adoption) (client.Object, error) {
	named, err := serversNamed(ctx, cl, name)
	if err != nil {
		return nil, err
	}
	own := markedOnes(named, mark)
	if len(own) == 0 {
		// It may have been renamed. Nova filters by description for administrators only.
		all, err := listServers(ctx, cl, "")
		if err != nil {
			return nil, err
		}
		own = markedOnes(all, mark)
	}
	switch len(own) {
	case 0:
		if adopt.chosen() {
			return adopt.pick(ctx, cl, serverChoice())
		}
		return foreign("server", name, mark, named, adopt.same)
	case 1:
		return adopt.keep(ctx, cl, own[0], name, serverChoice())
	}
	return nil, fault.Hinted(fault.Exists, "delete all but the one that is used", "%d servers bear the owner mark %s: %s", len(own), mark, ids(own))
}

func markedOnes(all []client.Object, mark string) []client.Object {
	var out []client.Object
	for _, o := range all {
		if str(o, "description") == mark {
			out = append(out, o)
		}
	}
	return out
}

// removeServer forgets a server's host keys, deletes it, and waits until it is
// gone. Of a server that is gone nobody would know which keys were its.
func removeServer(ctx context.Context, c *Cloud, cl *client.Client, id string) error {
	restore, err := c.forgetHostKeys(ctx, id)
	if err != nil {
		return err
	}
	if _, err = cl.Do(ctx, serverCall(http.MethodDelete, "/"+id, nil)); err == nil {
		err = c.gone(ctx, c.target("server", ""), id, func(ctx context.Context) (string, error) {
			obj, err := getServer(ctx, cl, id)
			return serverState(obj), err
		})
	} else if fault.KindOf(err) != fault.NotFound {
		return errors.Join(err, restore())
	}
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	return err
}

// forgetHostKeys drops the kept host keys of a server, and returns what keeps
// them again.
func (c *Cloud) forgetHostKeys(ctx context.Context, id string) (restore func() error, err error) {
	restore = func() error { return nil }
	store, slot := c.config.HostKeys, hostKeySlot(id)
	if store == nil {
		return restore, nil
	}
	kept, found, err := store.Get(ctx, slot)
	if err != nil || !found {
		return restore, err
	}
	return func() error { return store.Put(ctx, slot, kept) }, store.Delete(ctx, slot)
}

// serverState is the status with what is being done.
func serverState(obj client.Object) string {
	if task := str(obj, "OS-EXT-STS:task_state"); task != "" {
		return str(obj, "status") + " (" + task + ")"
	}
	return str(obj, "status")
}

// serverData returns what recipes see of a server.
func serverData(obj client.Object) map[string]any {
	image, _ := obj["image"].(client.Object) // a text if it boots from a volume
	flavor, _ := obj["flavor"].(client.Object)
	addresses, first := fixedAddresses(obj)
	own, _ := obj["metadata"].(client.Object)
	imageID := str(image, "id")
	if imageID == "" {
		imageID = str(own, imageKey) // of a volume that was made of it
	}
	volumes := []any{}
	for _, v := range objects(obj, "os-extended-volumes:volumes_attached") {
		volumes = append(volumes, v["id"])
	}
	return map[string]any{
		"id": obj["id"], "name": obj["name"], "status": obj["status"],
		"address": first, "addresses": addresses, "interfaces": interfacesOf(obj), "tags": tagsAttr().read(obj), "volumes": volumes,
		"image": imageID, "flavor": str(flavor, "id"), "key_name": str(obj, "key_name"),
		"availability_zone": str(obj, "OS-EXT-AZ:availability_zone"),
		"security_groups":   groupNames(obj), "metadata": metadataOf(obj), "mark": markOf(obj),
	}
}

// fixedAddresses returns the fixed addresses by network, and the first.
func fixedAddresses(obj client.Object) (byNetwork map[string]any, first string) {
	byNetwork = map[string]any{}
	all, _ := obj["addresses"].(client.Object)
	var networks []string
	for n := range all {
		networks = append(networks, n)
	}
	slices.Sort(networks)
	var six string
	for _, n := range networks {
		list := []any{}
		for _, a := range objects(all, n) {
			if t := str(a, "OS-EXT-IPS:type"); t != "" && t != "fixed" {
				continue
			}
			addr := str(a, "addr")
			list = append(list, addr)
			if strings.Contains(addr, ":") {
				if six == "" {
					six = addr
				}
			} else if first == "" {
				first = addr
			}
		}
		byNetwork[n] = list
	}
	if first == "" {
		first = six
	}
	return byNetwork, first
}

func groupNames(obj client.Object) any {
	out := []any{}
	for _, g := range objects(obj, "security_groups") {
		if n := str(g, "name"); !slices.Contains(out, any(n)) {
			out = append(out, n)
		}
	}
	return sorted(out)
}

func metadataOf(obj client.Object) map[string]any {
	out := map[string]any{}
	m, _ := obj["metadata"].(client.Object)
	for k, v := range m {
		if !strings.HasPrefix(k, ownMetadata) {
			out[k] = v
		}
	}
	return out
}
