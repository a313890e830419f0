package conformance

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
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
	interval time.Duration // between two looks at something under way
	retry    time.Duration // the first pause before another try
	open     func(t *testing.T) (cloud, tenant)
}

// A tenant is a project of a cloud, with a user who is a member of it.
type tenant struct {
	project, user, password, admin string // admin is the administrator's password
}

// targets returns the targets that this machine can have.
func targets() []target {
	return []target{simulator()}
}

func simulator() target {
	return target{"simulator", 5 * time.Millisecond, 5 * time.Millisecond, openSimulator}
}

// console is what a server of the simulator writes, which has no machines.
const console = `[    0.000000] Linux version lab
-----BEGIN SSH HOST KEY KEYS-----
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFEprDqY8tc7vJ3kGk0o2q8Xn3b8b2v1Xq0b0Yw3q0bq root@lab
-----END SSH HOST KEY KEYS-----
lab login:
`

func openSimulator(t *testing.T) (cloud, tenant) {
	c := lab.New(lab.Config{BootDelay: 30 * time.Millisecond, ConsoleLog: func(string) string { return console }})
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
