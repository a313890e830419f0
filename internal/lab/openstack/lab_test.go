package openstack_test

import (
	"bytes"
	"context"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	gopenstack "github.com/gophercloud/gophercloud/v2/openstack"

	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

// lab is a running Cloud with clients of the users demo and admin.
type lab struct {
	t     *testing.T
	ctx   context.Context
	cloud *openstack.Cloud
	url   string
	clock *openstack.ManualClock
	log   *syncBuffer

	demo, admin                *gophercloud.ProviderClient
	compute, network, image    *gophercloud.ServiceClient
	computeAdmin, networkAdmin *gophercloud.ServiceClient
	identity, identityAdmin    *gophercloud.ServiceClient
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

const demoPassword = "demo-password-canary"

// newLab starts a Cloud on a clock that the test moves; change may alter the configuration.
func newLab(t *testing.T, change func(*openstack.Config)) *lab {
	t.Helper()
	l := &lab{t: t, log: &syncBuffer{}, clock: openstack.NewManualClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
	var cancel context.CancelFunc
	l.ctx, cancel = context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	cfg := openstack.Config{Clock: l.clock, Seed: 7, RequestLog: l.log,
		Users: []openstack.User{
			{Name: "admin", Password: "secret", Projects: []string{"admin", "demo"}, Roles: []string{"admin", "member", "reader"}},
			{Name: "demo", Password: demoPassword, Projects: []string{"demo"}, Roles: []string{"member", "reader"}},
			{Name: "other", Password: "secret", Projects: []string{"other"}, Roles: []string{"member"}},
		},
		ApplicationCredentials: []openstack.ApplicationCredential{{ID: "0123456789abcdef0123456789abcdef", Name: "lab", Secret: "app-secret-canary", User: "demo", Project: "demo"}},
	}
	if change != nil {
		change(&cfg)
	}
	l.cloud = openstack.New(cfg)
	server := httptest.NewServer(l.cloud)
	t.Cleanup(l.cloud.Close)
	t.Cleanup(server.Close)
	l.url = server.URL
	l.demo = l.login(gophercloud.AuthOptions{Username: "demo", Password: demoPassword, DomainName: "Default", TenantName: "demo", AllowReauth: true})
	l.admin = l.login(gophercloud.AuthOptions{Username: "admin", Password: "secret", DomainName: "Default", TenantName: "admin", AllowReauth: true})
	l.compute, l.network, l.image = l.service(l.demo, "compute"), l.service(l.demo, "network"), l.service(l.demo, "image")
	l.computeAdmin, l.networkAdmin = l.service(l.admin, "compute"), l.service(l.admin, "network")
	l.identity, l.identityAdmin = l.service(l.demo, "identity"), l.service(l.admin, "identity")
	return l
}

func (l *lab) login(o gophercloud.AuthOptions) *gophercloud.ProviderClient {
	l.t.Helper()
	o.IdentityEndpoint = l.url + "/identity/v3"
	p, err := gopenstack.AuthenticatedClient(l.ctx, o)
	if err != nil {
		l.t.Fatalf("logging in: %v", err)
	}
	return p
}

func (l *lab) service(p *gophercloud.ProviderClient, kind string) *gophercloud.ServiceClient {
	l.t.Helper()
	eo := gophercloud.EndpointOpts{Region: "RegionOne"}
	make := map[string]func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error){
		"compute": gopenstack.NewComputeV2, "network": gopenstack.NewNetworkV2, "image": gopenstack.NewImageV2, "identity": gopenstack.NewIdentityV3}
	c, err := make[kind](p, eo)
	if err != nil {
		l.t.Fatalf("finding service %s: %v", kind, err)
	}
	return c
}

// at is a copy of a client that asks for a microversion.
func at(c *gophercloud.ServiceClient, version string) *gophercloud.ServiceClient {
	v := *c
	v.Microversion = version
	return &v
}

func must[T any](t *testing.T, what string) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return v
	}
}

// wantStatus checks that an error is the service's answer with that status and a body that has the text.
func wantStatus(t *testing.T, err error, status int, text string) {
	t.Helper()
	var e gophercloud.ErrUnexpectedResponseCode
	if !asCode(err, &e) {
		t.Fatalf("got %v, want an answer with status %d", err, status)
	}
	if e.Actual != status || !bytes.Contains(e.Body, []byte(text)) {
		t.Fatalf("got %d %s, want %d and %q", e.Actual, e.Body, status, text)
	}
}
