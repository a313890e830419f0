package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/site"
)

// writeSite writes the lab's own site: what an operator would write for a real
// cloud, with the addresses and credentials of the lab.
func writeSite(i Info, password, admin string, keys gitKeys) error {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return fault.Wrap("making", "the lab's age key", err)
	}
	files := map[string]string{
		"keys/age.txt":    identity.String() + "\n",
		"keys/git_deploy": string(keys.private),
		"clouds.yaml":     "clouds:\n" + cloud("openstack", i.OpenStack, "gsrun", password) + cloud("admin", i.OpenStack, "admin", admin),
	}
	for name, text := range files {
		path := filepath.Join(i.Site, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return &fault.Error{Op: "writing", Target: path, Kind: fault.Failed, Err: err}
		}
	}
	s := &site.Site{
		Dir: i.Site, Name: "lab", Clouds: "clouds.yaml",
		Secrets: site.Secrets{
			Recipients: []string{identity.Recipient().String()}, Identity: "keys/age.txt",
			Sources: map[string]any{"git_deploy": map[string]any{"file": "keys/git_deploy"}, "clouds_yaml": map[string]any{"file": "clouds.yaml"}},
		},
		Artifacts: site.Artifacts{Mirror: i.Mirror, Cache: "cache"},
		Limits:    site.Limits{Interval: 500 * time.Millisecond, Patience: 1500 * time.Millisecond}, // what is under way in the lab ends soon
		Inputs:    inputs(i, keys),
	}
	return s.Write()
}

// cloud is an entry of clouds.yaml for the lab's project.
func cloud(name, url, user, password string) string {
	return fmt.Sprintf(`  %s:
    auth:
      auth_url: %s/identity/v3
      username: %s
      password: %s
      project_name: gsrun
      user_domain_name: Default
      project_domain_name: Default
    region_name: RegionOne
    interface: public
    identity_api_version: 3
`, name, url, user, password)
}

// inputs are what the lab says for the inputs of the recipes.
func inputs(i Info, keys gitKeys) map[string]map[string]any {
	port := func() map[string]any { return map[string]any{"ssh_port": i.SSHPort} }
	git := func() map[string]any {
		m := port()
		m["git_url"], m["git_host_key"] = i.Git, hostKeyLine(keys.host)
		return m
	}
	return map[string]map[string]any{
		"gateway": port(), "seed": port(), "capo": port(), "endpoints": port(), "revoke": port(), "storage": port(), "argocd": git(), "spoke": git(), "bootstrap": git(),
	}
}

// hostKeyLine writes a public key as a line of known_hosts has it.
func hostKeyLine(k ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k)))
}
