package openstack

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Principal is who the client is logged in as, and what for, as the token
// says. Fields that don't apply are empty.
type Principal struct {
	UserID, UserName                   string
	UserDomainID, UserDomainName       string
	ProjectID, ProjectName             string
	ProjectDomainID, ProjectDomainName string
	DomainID, DomainName               string // the scope, where it is no project
	CredentialID, CredentialName       string // of the application credential that was used
	Restricted                         bool   // that credential may not make others
	Roles                              []string
	Expires                            time.Time // when the token ends; it is renewed before it is needed
}

// tokenBody is what a token says, as Keystone writes it.
type tokenBody struct {
	User struct {
		namedIn
		Domain namedIn `json:"domain"`
	} `json:"user"`
	Project struct {
		namedIn
		Domain namedIn `json:"domain"`
	} `json:"project"`
	Domain     namedIn `json:"domain"`
	Credential struct {
		namedIn
		Restricted bool `json:"restricted"`
	} `json:"application_credential"`
	Roles   []namedIn `json:"roles"`
	Expires string    `json:"expires_at"`
	Catalog []struct {
		Type      string `json:"type"`
		Name      string `json:"name"`
		Endpoints []struct {
			Interface string `json:"interface"`
			Region    string `json:"region"`
			RegionID  string `json:"region_id"`
			URL       string `json:"url"`
		} `json:"endpoints"`
	} `json:"catalog"`
}

type namedIn struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// token returns what the present token says.
func (c *Client) token() (tokenBody, error) {
	var body tokenBody
	r, ok := c.provider.GetAuthResult().(interface{ ExtractInto(any) error })
	if !ok {
		return tokenBody{}, fault.New(fault.Failed, "cloud %s: the login says nothing of itself", c.entry.Name)
	}
	if err := r.ExtractInto(&body); err != nil {
		return tokenBody{}, fault.New(fault.Unavailable, "cloud %s: Keystone describes the token in a way that can't be read: %v", c.entry.Name, err)
	}
	return body, nil
}

// Principal returns who the client is logged in as.
func (c *Client) Principal() (Principal, error) {
	t, err := c.token()
	if err != nil {
		return Principal{}, err
	}
	p := Principal{
		UserID: t.User.ID, UserName: t.User.Name, UserDomainID: t.User.Domain.ID, UserDomainName: t.User.Domain.Name,
		ProjectID: t.Project.ID, ProjectName: t.Project.Name, ProjectDomainID: t.Project.Domain.ID, ProjectDomainName: t.Project.Domain.Name,
		DomainID: t.Domain.ID, DomainName: t.Domain.Name,
		CredentialID: t.Credential.ID, CredentialName: t.Credential.Name, Restricted: t.Credential.Restricted,
	}
	for _, r := range t.Roles {
		p.Roles = append(p.Roles, r.Name)
	}
	slices.Sort(p.Roles)
	// Keystone leaves the zone out where an application credential ends the token.
	p.Expires, err = Timestamp(t.Expires)
	if err != nil {
		return Principal{}, fault.New(fault.Unavailable, "cloud %s: Keystone gives the token's end as %q", c.entry.Name, t.Expires)
	}
	return p, nil
}

// Timestamp reads a time as Keystone writes it: with or without fractions and
// zone, which is UTC. Empty is the zero time.
func Timestamp(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.UTC(), nil
	}
	return time.Parse("2006-01-02T15:04:05", strings.TrimSuffix(s, "Z"))
}

// An Endpoint is one address of the catalog.
type Endpoint struct {
	Type, Name, Interface, Region, URL string
}

// Endpoints returns the catalog: the addresses of all services, interfaces and
// regions, in the catalog's order.
func (c *Client) Endpoints() ([]Endpoint, error) {
	t, err := c.token()
	if err != nil {
		return nil, err
	}
	var out []Endpoint
	for _, s := range t.Catalog {
		for _, e := range s.Endpoints {
			region := e.Region
			if region == "" {
				region = e.RegionID
			}
			out = append(out, Endpoint{s.Type, s.Name, e.Interface, region, e.URL})
		}
	}
	return out, nil
}

// Offers reports whether the cloud has the service.
func (c *Client) Offers(s Service) bool { return c.endpoints[s] != "" }

// Types are the types under which catalogs list a service: t itself, where it
// is none that is known.
func Types(t string) []string {
	for _, s := range Services() {
		if slices.Contains(s.types(), t) {
			return s.types()
		}
	}
	return []string{t}
}

// AcceptsPassword reports whether a user can log in with a password. It is no
// error that they can't.
func (c *Client) AcceptsPassword(ctx context.Context, userID, password string) (bool, error) {
	return c.accepts(ctx, Object{"methods": []string{"password"}, "password": Object{"user": Object{"id": userID, "password": password}}}, "unscoped")
}

// AcceptsCredential reports whether an application credential lets somebody in.
func (c *Client) AcceptsCredential(ctx context.Context, id, secret string) (bool, error) {
	return c.accepts(ctx, Object{"methods": []string{"application_credential"}, "application_credential": Object{"id": id, "secret": secret}}, nil)
}

// accepts tries to log in. The client's own login has no part in it: its token
// isn't sent, and isn't renewed when the answer is no.
func (c *Client) accepts(ctx context.Context, identity Object, scope any) (bool, error) {
	address, err := c.url(Identity, "/auth/tokens?nocatalog", nil)
	if err != nil {
		return false, err
	}
	auth := Object{"identity": identity}
	if scope != nil {
		auth["scope"] = scope
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.entry.Timeout, tooSlow(Identity, c.entry.Timeout))
	defer cancel()
	other := &gophercloud.ProviderClient{HTTPClient: http.Client{Transport: c.transport}, UserAgent: c.provider.UserAgent}
	resp, err := other.Request(ctx, http.MethodPost, address, &gophercloud.RequestOpts{JSONBody: Object{"auth": auth}, OkCodes: []int{http.StatusCreated}})
	if err == nil {
		return true, resp.Body.Close()
	}
	var code gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &code) && code.ResponseHeader.Get("Openstack-Auth-Receipt") != "" {
		return true, nil // this much was right, and something else is asked for besides
	}
	switch f := translate(ctx, Identity, err); f.Kind {
	case fault.Denied, fault.NotFound:
		return false, nil
	default:
		return false, f
	}
}
