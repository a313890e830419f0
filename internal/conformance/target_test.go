package conformance

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/cloudproxy"
	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/lab/real"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
)

// A cloud is a control plane, and what the tests do to it besides calling it.
type cloud interface {
	http.Handler
	Requests(since int) []lab.Request
	Inject(lab.Fault) (string, error)
	ClearFaults(id string) int
	Faults() []lab.Fault
	ExpireTokens()
}

// A target is a kind of cloud.
type target struct {
	name     string
	interval time.Duration      // between two looks at something under way
	patience time.Duration      // how long what a killed run asked for is looked for; 0 means as gsrun does by itself
	retry    time.Duration      // the first pause before another try
	slots    chan struct{}      // held by each project that is in use; nil bounds nothing
	need     func(t *testing.T) // leaves the test out where the target can't be had
	open     func(t *testing.T) (cloud, tenant)
}

// A tenant is a project of a cloud, with a user who is a member of it.
type tenant struct {
	project, user, password, admin string // admin is the administrator's password
}

// targets returns both targets.
func targets() []target { return []target{simulator(), controlPlane()} }

func simulator() target {
	return target{name: "simulator", interval: 5 * time.Millisecond, patience: 300 * time.Millisecond, retry: 5 * time.Millisecond, need: func(*testing.T) {}, open: openSimulator}
}

// realSlots bounds how many projects of the real control plane are worked in at
// a time: its services have one process each.
var realSlots = make(chan struct{}, 4)

func controlPlane() target {
	return target{name: "real", interval: 200 * time.Millisecond, retry: 300 * time.Millisecond, slots: realSlots, need: needReal, open: openReal}
}

func needReal(t *testing.T) {
	skip.Slow(t, "it starts OpenStack")
	missing := real.Missing()
	skip.Unless(t, missing == "", "the openstack module against a real control plane", missing)
}

// controlPlanes keeps the one that runs while the tests do.
var controlPlanes struct {
	start sync.Once
	lab   *real.Lab
	err   error
}

func startControlPlane() {
	cfg := real.Config{Progress: func(line string) { fmt.Fprintln(os.Stderr, line) }}
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	begun := time.Now()
	if controlPlanes.err = real.Install(ctx, cfg); controlPlanes.err == nil {
		controlPlanes.lab, controlPlanes.err = real.Start(ctx, cfg)
	}
	fmt.Fprintf(os.Stderr, "the control plane was set up in %s\n", time.Since(begun).Round(time.Second))
}

func openReal(t *testing.T) (cloud, tenant) {
	controlPlanes.start.Do(startControlPlane)
	if controlPlanes.err != nil {
		t.Fatal(controlPlanes.err)
	}
	ctx := context.Background() // the test's has ended when the tenant is deleted
	n, err := controlPlanes.lab.NewTenant(ctx, "t-"+strings.ToLower(rand.Text()[:10]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Delete(ctx); err != nil {
			t.Error(err)
		}
	})
	p := cloudproxy.New(controlPlanes.lab.Endpoints())
	t.Cleanup(p.Close)
	return p, tenant{n.Project, n.User, n.Password, controlPlanes.lab.Admin().Password}
}

// console is what a server of the simulator writes, which has no machines.
const console = `[    0.000000] Linux version lab
-----BEGIN SSH HOST KEY KEYS-----
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFEprDqY8tc7vJ3kGk0o2q8Xn3b8b2v1Xq0b0Yw3q0bq root@lab
-----END SSH HOST KEY KEYS-----
lab login:
`

func openSimulator(t *testing.T) (cloud, tenant) {
	c := lab.New(lab.Config{BootDelay: 30 * time.Millisecond, ConsoleLog: func(string) string { return console }, ImportMethods: []string{"glance-direct", "web-download"}})
	t.Cleanup(c.Close)
	return c, tenant{"demo", "demo", "secret", "secret"}
}

// clouds writes a clouds.yaml with the entries lab, of the tenant, and admin,
// and returns its path.
func (n tenant) clouds(t *testing.T, url string) string {
	t.Helper()
	entry := func(name, user, password, project string) string {
		return fmt.Sprintf("  %s:\n    region_name: RegionOne\n    auth: {auth_url: %s/identity/v3, username: %s, password: %s, project_name: %s, user_domain_name: Default, project_domain_name: Default}\n",
			name, url, user, password, project)
	}
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	text := "clouds:\n" + entry("lab", n.user, n.password, n.project) + entry("admin", "admin", n.admin, "admin")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestMain ends what all tests share.
func TestMain(m *testing.M) {
	flag.Parse()
	if !testing.Short() {
		// Most of their time the tests wait for a cloud.
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if built.Load() {
		if path, err := program(); err == nil {
			os.RemoveAll(filepath.Dir(path))
		}
	}
	if l := controlPlanes.lab; l != nil {
		if err := l.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
