package real

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Tenant is a project with a user of its own, who can do nothing elsewhere.
type Tenant struct {
	Login
	UserID string

	lab     *Lab
	leaving bool // Delete was called
}

// NewTenant makes a project and a user in it, both named name, with the
// roles; without any, those of an ordinary member.
func (l *Lab) NewTenant(ctx context.Context, name string, roles ...string) (*Tenant, error) {
	if len(roles) == 0 {
		roles = []string{"member", "reader", "load-balancer_member"}
	}
	ids, err := l.roleIDs(ctx, roles)
	if err != nil {
		return nil, err
	}
	t := &Tenant{lab: l, Login: Login{AuthURL: l.AuthURL(), Region: region, User: name, Password: rand.Text(), Project: name, Domain: "Default"}}
	t.ProjectID, err = l.admin.made(ctx, "identity", "/projects", "project", doc{"name": name, "domain_id": "default"})
	if err != nil {
		return nil, fmt.Errorf("making the tenant %s: %w", name, err)
	}
	t.UserID, err = l.admin.made(ctx, "identity", "/users", "user", doc{"name": name, "domain_id": "default", "password": t.Password, "default_project_id": t.ProjectID})
	for _, id := range ids {
		if err == nil {
			err = l.admin.grant(ctx, t.ProjectID, t.UserID, id)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making the tenant %s: %w", name, err), t.Delete(ctx))
	}
	return t, nil
}

// roleIDs finds roles by their names.
func (l *Lab) roleIDs(ctx context.Context, names []string) ([]string, error) {
	all, err := l.admin.listed(ctx, "identity", "/roles", "roles")
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, name := range names {
		id := ""
		for _, r := range all {
			if r["name"] == name {
				id = fmt.Sprint(r["id"])
			}
		}
		if id == "" {
			return nil, fmt.Errorf("making a tenant: there is no role %q", name)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// SetQuota changes the tenant's limits in a service: compute, network, volume
// or load-balancer; -1 is without a limit.
func (t *Tenant) SetQuota(ctx context.Context, service string, limits map[string]int) error {
	c := t.lab.admin
	switch service {
	case "compute":
		return c.call(ctx, http.MethodPut, "compute", "/os-quota-sets/"+t.ProjectID, doc{"quota_set": limits}, nil)
	case "network":
		return c.call(ctx, http.MethodPut, "network", "/v2.0/quotas/"+t.ProjectID, doc{"quota": limits}, nil)
	case "volume":
		return c.call(ctx, http.MethodPut, "volumev3", "/os-quota-sets/"+t.ProjectID, doc{"quota_set": limits}, nil)
	case "load-balancer":
		return c.call(ctx, http.MethodPut, "load-balancer", "/v2/quotas/"+t.ProjectID, doc{"quota": limits}, nil)
	}
	return fmt.Errorf("setting quotas: there are none in %q", service)
}

// Delete removes the tenant with everything in its project.
func (t *Tenant) Delete(ctx context.Context) error {
	var errs []error
	t.leaving = true
	if t.UserID != "" {
		errs = append(errs, t.Empty(ctx))
	}
	for _, path := range []string{"/users/" + t.UserID, "/projects/" + t.ProjectID} {
		if strings.HasSuffix(path, "/") {
			continue
		}
		if err := t.lab.admin.call(ctx, http.MethodDelete, "identity", path, nil, nil); err != nil && !refused(err, http.StatusNotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
