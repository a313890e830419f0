package openstack_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

func TestPrincipal(t *testing.T) {
	_, server := simulator(t)
	c, err := connect(t, server.URL+"/identity", passwordAuth, "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Principal()
	if err != nil {
		t.Fatal(err)
	}
	if p.UserName != "demo" || p.UserDomainID != "default" || p.ProjectName != "demo" || p.ProjectID != c.Project() || p.CredentialID != "" || !slices.Equal(p.Roles, []string{"member", "reader"}) || !p.Expires.After(time.Now()) {
		t.Errorf("by password: %+v", p)
	}
	if c, err = connect(t, server.URL+"/identity", `application_credential_id: ac1, application_credential_secret: app-secret`, ""); err != nil {
		t.Fatal(err)
	}
	if p, err = c.Principal(); err != nil || p.CredentialName != "ci" || !p.Restricted || p.ProjectName != "demo" {
		t.Errorf("by credential: %+v, %v", p, err)
	}
	all, err := c.Endpoints()
	if err != nil || !slices.ContainsFunc(all, func(e openstack.Endpoint) bool {
		return e.Type == "network" && e.Interface == "public" && e.URL == server.URL+"/network"
	}) {
		t.Errorf("endpoints: %v, %v", all, err)
	}
	if !c.Offers(openstack.Compute) {
		t.Error("no Nova")
	}
}

// What is tried is no concern of the client's own login.
func TestAccepts(t *testing.T) {
	cloud, server := simulator(t)
	c, err := connect(t, server.URL+"/identity", passwordAuth, "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Principal()
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	since := len(cloud.Requests(0))
	for name, try := range map[string]struct {
		ask  func() (bool, error)
		want bool
	}{
		"password":           {func() (bool, error) { return c.AcceptsPassword(ctx, p.UserID, "secret") }, true},
		"wrong password":     {func() (bool, error) { return c.AcceptsPassword(ctx, p.UserID, "other") }, false},
		"unknown user":       {func() (bool, error) { return c.AcceptsPassword(ctx, "nosuch", "secret") }, false},
		"credential":         {func() (bool, error) { return c.AcceptsCredential(ctx, "ac1", "app-secret") }, true},
		"wrong secret":       {func() (bool, error) { return c.AcceptsCredential(ctx, "ac1", "other") }, false},
		"unknown credential": {func() (bool, error) { return c.AcceptsCredential(ctx, "nosuch", "app-secret") }, false},
	} {
		if ok, err := try.ask(); err != nil || ok != try.want {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
	if n := len(cloud.Requests(since)); n != 6 {
		t.Errorf("%d calls", n)
	}
	if _, err := cloud.Inject(lab.Fault{Service: "identity", Method: "POST", Status: 503}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AcceptsPassword(ctx, p.UserID, "secret"); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("503: %v", err)
	}
}

// Keystone answers 404 to a login by an application credential that has gone.
func TestRevokedCredential(t *testing.T) {
	_, server := simulator(t)
	_, err := connect(t, server.URL+"/identity", `application_credential_id: nosuch, application_credential_secret: app-secret`, "")
	if fault.KindOf(err) != fault.Denied || !strings.Contains(err.Error(), "Could not find Application Credential") || !strings.Contains(fault.HintOf(err), "application_credential_id") {
		t.Errorf("got %v (%s), hint %q", err, fault.KindOf(err), fault.HintOf(err))
	}
}

func TestTimestamp(t *testing.T) {
	want := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, s := range []string{"2027-01-02T03:04:05Z", "2027-01-02T03:04:05.000000Z", "2027-01-02T03:04:05.000000", "2027-01-02T03:04:05", "2027-01-02T04:04:05+01:00"} {
		if got, err := openstack.Timestamp(s); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	if got, err := openstack.Timestamp(""); err != nil || !got.IsZero() {
		t.Errorf("empty: %v, %v", got, err)
	}
	if _, err := openstack.Timestamp("tomorrow"); err == nil {
		t.Error("tomorrow: no error")
	}
}
