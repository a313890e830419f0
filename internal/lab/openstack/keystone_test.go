package openstack_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	gopenstack "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
)

func (l *lab) tryLogin(o gophercloud.AuthOptions) error {
	o.IdentityEndpoint = l.url + "/identity/v3"
	_, err := gopenstack.AuthenticatedClient(l.ctx, o)
	return err
}

func TestLogin(t *testing.T) {
	l := newLab(t, nil)
	app := gophercloud.AuthOptions{ApplicationCredentialID: "0123456789abcdef0123456789abcdef", ApplicationCredentialSecret: "app-secret-canary"}
	for name, o := range map[string]gophercloud.AuthOptions{
		"password":                       {Username: "demo", Password: demoPassword, DomainName: "Default", TenantName: "demo"},
		"default project":                {Username: "demo", Password: demoPassword, DomainID: "default"},
		"application credential":         app,
		"application credential by name": {Username: "demo", DomainName: "Default", ApplicationCredentialName: "lab", ApplicationCredentialSecret: "app-secret-canary"},
		"token":                          {TokenID: l.demo.Token(), TenantName: "demo", DomainName: "Default"},
	} {
		if err := l.tryLogin(o); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	wrongSecret := app
	wrongSecret.ApplicationCredentialSecret = "x"
	for name, o := range map[string]gophercloud.AuthOptions{
		"wrong password":       {Username: "demo", Password: "x", DomainName: "Default", TenantName: "demo"},
		"unknown user":         {Username: "nobody", Password: "x", DomainName: "Default", TenantName: "demo"},
		"unknown domain":       {Username: "demo", Password: demoPassword, DomainName: "Other", TenantName: "demo"},
		"unknown project":      {Username: "demo", Password: demoPassword, DomainName: "Default", TenantName: "nowhere"},
		"project without role": {Username: "demo", Password: demoPassword, DomainName: "Default", TenantName: "other"},
		"wrong secret":         wrongSecret,
		"unknown token":        {TokenID: "gAAAAAx", TenantName: "demo", DomainName: "Default"},
	} {
		t.Run(name, func(t *testing.T) {
			wantStatus(t, l.tryLogin(o), 401, `{"error":{"code":401,"message":"The request you have made requires authentication.","title":"Unauthorized"}}`)
		})
	}
}

func TestTokenDocument(t *testing.T) {
	l := newLab(t, nil)
	r := tokens.Get(l.ctx, l.identity, l.demo.Token())
	u := must[*tokens.User](t, "user")(r.ExtractUser())
	p := must[*tokens.Project](t, "project")(r.ExtractProject())
	cat := must[*tokens.ServiceCatalog](t, "catalog")(r.ExtractServiceCatalog())
	tok := must[*tokens.Token](t, "token")(r.ExtractToken())
	if u.Name != "demo" || p.Name != "demo" || len(cat.Entries) != 7 || !tok.ExpiresAt.Equal(l.clock.Now().Add(time.Hour)) {
		t.Errorf("user %s, project %s, %d services, expires %s", u.Name, p.Name, len(cat.Entries), tok.ExpiresAt)
	}
	for _, e := range cat.Entries {
		for _, ep := range e.Endpoints {
			if ep.Region != "RegionOne" || !strings.HasPrefix(ep.URL, l.url+"/"+strings.TrimSuffix(e.Type, "v3")) {
				t.Errorf("endpoint %+v of %s", ep, e.Type)
			}
		}
	}
	wantStatus(t, tokens.Get(l.ctx, l.identity, "nonsense").Err, 404, "Failed to validate token")
}

// countReauth counts how often a client logs in again.
func countReauth(p *gophercloud.ProviderClient) *int {
	n := 0
	again := p.ReauthFunc
	p.ReauthFunc = func(ctx context.Context) error { n++; return again(ctx) }
	return &n
}

func TestTokenExpiryAndReauth(t *testing.T) {
	l := newLab(t, nil)
	n := countReauth(l.demo)
	once := l.login(gophercloud.AuthOptions{Username: "demo", Password: demoPassword, DomainName: "Default", TenantName: "demo"})
	l.clock.Advance(59 * time.Minute)
	nano := l.flavor("m1.nano")
	if *n != 0 {
		t.Fatalf("logged in again %d times before expiry", *n)
	}
	l.clock.Advance(2 * time.Minute)
	if l.flavor("m1.nano") != nano || *n != 1 {
		t.Errorf("after expiry: logged in again %d times, want once", *n)
	}
	_, err := flavors.Get(l.ctx, l.service(once, "compute"), nano).Extract()
	wantStatus(t, err, 401, "requires authentication")

	l.cloud.ExpireTokens()
	if l.flavor("m1.nano") != nano || *n != 2 {
		t.Errorf("after all tokens expired: logged in again %d times, want twice", *n)
	}
}

func TestTokenRevoked(t *testing.T) {
	l := newLab(t, nil)
	n := countReauth(l.demo)
	if err := tokens.Revoke(l.ctx, l.identity, l.demo.Token()).Err; err != nil {
		t.Fatal(err)
	}
	l.flavor("m1.nano")
	if *n != 1 {
		t.Errorf("logged in again %d times", *n)
	}
}

func TestApplicationCredential(t *testing.T) {
	l := newLab(t, nil)
	u := must[*tokens.User](t, "user")(tokens.Get(l.ctx, l.identity, l.demo.Token()).ExtractUser())
	expires := l.clock.Now().Add(30 * time.Minute)
	create := func(o applicationcredentials.CreateOpts) (*applicationcredentials.ApplicationCredential, error) {
		return applicationcredentials.Create(l.ctx, l.identity, u.ID, o).Extract()
	}
	ac := must[*applicationcredentials.ApplicationCredential](t, "create")(create(applicationcredentials.CreateOpts{Name: "ci", ExpiresAt: &expires, Roles: []applicationcredentials.Role{{Name: "member"}}}))
	_, err := create(applicationcredentials.CreateOpts{Name: "ci"})
	wantStatus(t, err, 409, "Duplicate entry found with name ci")
	_, err = create(applicationcredentials.CreateOpts{Name: "root", Roles: []applicationcredentials.Role{{Name: "admin"}}})
	wantStatus(t, err, 400, "with unassigned role")
	past := l.clock.Now().Add(-time.Minute)
	_, err = create(applicationcredentials.CreateOpts{Name: "late", ExpiresAt: &past})
	wantStatus(t, err, 400, "must not be before now")

	o := gophercloud.AuthOptions{ApplicationCredentialID: ac.ID, ApplicationCredentialSecret: ac.Secret}
	p := l.login(o)
	_, err = applicationcredentials.Create(l.ctx, l.service(p, "identity"), u.ID, applicationcredentials.CreateOpts{Name: "more"}).Extract()
	wantStatus(t, err, 403, "not allowed for managing additional application credentials")
	net := l.service(p, "network")
	must[*networks.Network](t, "network with a credential")(networks.Create(l.ctx, net, networks.CreateOpts{Name: "n"}).Extract())
	l.clock.Advance(31 * time.Minute)
	_, err = networks.List(net, nil).AllPages(l.ctx)
	wantStatus(t, err, 401, "")
	wantStatus(t, l.tryLogin(o), 401, "")

	if err := applicationcredentials.Delete(l.ctx, l.identity, u.ID, ac.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	_, err = applicationcredentials.Get(l.ctx, l.identity, u.ID, ac.ID).Extract()
	wantStatus(t, err, 404, "Could not find Application Credential")
}

func TestProjectsAndUsers(t *testing.T) {
	l := newLab(t, nil)
	p := must[*projects.Project](t, "project")(projects.Create(l.ctx, l.identityAdmin, projects.CreateOpts{Name: "p", DomainID: "default", Tags: []string{"t1"}}).Extract())
	_, err := projects.Create(l.ctx, l.identityAdmin, projects.CreateOpts{Name: "p", DomainID: "default"}).Extract()
	wantStatus(t, err, 409, "two projects with either the same name")
	_, err = projects.Create(l.ctx, l.identity, projects.CreateOpts{Name: "q", DomainID: "default"}).Extract()
	wantStatus(t, err, 403, `"title":"Forbidden"`)
	u := must[*users.User](t, "user")(users.Create(l.ctx, l.identityAdmin, users.CreateOpts{Name: "u", DomainID: "default", Password: "pw", DefaultProjectID: p.ID}).Extract())
	login := gophercloud.AuthOptions{Username: "u", Password: "pw", DomainName: "Default", TenantName: "p"}
	wantStatus(t, l.tryLogin(login), 401, "")
	pages, err := roles.List(l.identityAdmin, roles.ListOpts{Name: "member"}).AllPages(l.ctx)
	if err != nil {
		t.Fatal(err)
	}
	member := must[[]roles.Role](t, "roles")(roles.ExtractRoles(pages))[0]
	if err := roles.Assign(l.ctx, l.identityAdmin, member.ID, roles.AssignOpts{UserID: u.ID, ProjectID: p.ID}).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	client := l.login(login)
	if err := users.Delete(l.ctx, l.identityAdmin, u.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	_, err = networks.List(l.service(client, "network"), nil).AllPages(l.ctx)
	wantStatus(t, err, 401, "")
	if err := projects.Delete(l.ctx, l.identityAdmin, p.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	_, err = projects.Get(l.ctx, l.identityAdmin, p.ID).Extract()
	wantStatus(t, err, 404, "Could not find project: "+p.ID)
}

func TestDiscoveryNeedsNoToken(t *testing.T) {
	l := newLab(t, nil)
	for path, status := range map[string]int{"/identity": 300, "/identity/v3": 200, "/identity/v3/": 200, "/compute": 200, "/compute/v2.1/": 200,
		"/network/": 200, "/network/v2.0/": 200, "/image": 300, "/image/versions": 200,
		"/compute/v2.1/servers": 401, "/network/v2.0/ports": 401, "/image/v2/images": 401, "/identity/v3/projects": 401, "/compute/v2.1/nothing": 404, "/elsewhere": 404} {
		resp, err := http.Get(l.url + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("GET %s: %d, want %d", path, resp.StatusCode, status)
		}
		if path != "/elsewhere" && !strings.HasPrefix(resp.Header.Get("X-Openstack-Request-Id"), "req-") {
			t.Errorf("GET %s: no request id", path)
		}
		if status == 401 && !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Keystone uri=") {
			t.Errorf("GET %s: no challenge", path)
		}
	}
}
