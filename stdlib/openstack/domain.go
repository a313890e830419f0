package openstack

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// homeDomain returns the domain that the login's project is in, where what has
// no domain given is made and looked for.
func homeDomain(cl *client.Client) (string, error) {
	p, err := cl.Principal()
	if err != nil {
		return "", err
	}
	for _, id := range []string{p.ProjectDomainID, p.DomainID, p.UserDomainID} {
		if id != "" {
			return id, nil
		}
	}
	return "default", nil
}

// findDomain returns the id of a domain, which is named by its id or name.
// Empty is the login's own.
func findDomain(ctx context.Context, cl *client.Client, name string) (string, error) {
	home, err := homeDomain(cl)
	if err != nil || name == "" || name == home {
		return home, err
	}
	p, err := cl.Principal()
	if err != nil {
		return "", err
	}
	switch name {
	case p.ProjectDomainName:
		return p.ProjectDomainID, nil
	case p.DomainName:
		return p.DomainID, nil
	case p.UserDomainName, p.UserDomainID:
		return p.UserDomainID, nil
	}
	all, err := cl.List(ctx, client.Call{Service: client.Identity, Path: "/domains", Query: url.Values{"name": {name}}}, "domains")
	if err != nil {
		return "", err
	}
	for _, d := range all {
		if str(d, "name") == name {
			return str(d, "id"), nil
		}
	}
	d, err := cl.One(ctx, client.Call{Service: client.Identity, Method: http.MethodGet, Path: "/domains/" + url.PathEscape(name)}, "domain")
	if fault.KindOf(err) == fault.NotFound {
		return "", fault.New(fault.NotFound, "there is no domain %q", name)
	}
	return str(d, "id"), err
}

// administers reports whether the login may see what other projects and users
// have: lists of those aren't worth asking for otherwise.
func administers(cl *client.Client) (bool, error) {
	p, err := cl.Principal()
	return slices.Contains(p.Roles, "admin"), err
}
