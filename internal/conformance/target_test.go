package conformance

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

// A cloud is what the tests do to a control plane besides calling it.
type cloud interface {
	Requests(since int) []lab.Request
	Inject(lab.Fault) (string, error)
	ClearFaults(id string) int
	ExpireTokens()
}

// A target is a kind of cloud.
type target struct {
	name     string
	interval time.Duration // between two looks at something under way
	retry    time.Duration // the first pause before another try
	// open returns a cloud, and a clouds.yaml with the entries lab, for a new
	// project, and admin.
	open func(t *testing.T) (cloud, string)
}

// targets returns the targets that this machine can have.
func targets() []target {
	return []target{{"simulator", 5 * time.Millisecond, 5 * time.Millisecond, openSimulator}}
}

const simulatorClouds = `
clouds:
  lab:
    auth: {auth_url: %[1]s/identity/v3, username: demo, password: secret, project_name: demo, user_domain_name: Default, project_domain_name: Default}
    region_name: RegionOne
  admin:
    auth: {auth_url: %[1]s/identity/v3, username: admin, password: secret, project_name: admin, user_domain_name: Default, project_domain_name: Default}
    region_name: RegionOne
`

func openSimulator(t *testing.T) (cloud, string) {
	c := lab.New(lab.Config{BootDelay: 30 * time.Millisecond})
	server := httptest.NewServer(c)
	t.Cleanup(func() { server.Close(); c.Close() })
	return c, writeClouds(t, fmt.Sprintf(simulatorClouds, server.URL))
}

func writeClouds(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
