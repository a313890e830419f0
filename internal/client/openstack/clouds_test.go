package openstack_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// write writes a clouds.yaml, and a secure.yaml if one is given.
func write(t *testing.T, clouds, secure string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"clouds.yaml": clouds, "secure.yaml": secure} {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "clouds.yaml")
}

func entry(t *testing.T, clouds, secure, name string) (openstack.Entry, error) {
	t.Helper()
	file, err := openstack.ReadClouds(write(t, clouds, secure), func(name string, among []string) string {
		for _, c := range among {
			if strings.HasPrefix(c, name[:3]) {
				return c
			}
		}
		return ""
	})
	if err != nil {
		return openstack.Entry{}, err
	}
	return file.Entry(name, openstack.Given{})
}

func TestEntryIsReadWithSecure(t *testing.T) {
	e, err := entry(t, `
clouds:
  a:
    auth: {auth_url: "https://k/v3", username: u, project_name: p, default_domain: Default}
    regions: [{name: one}]
    interface: internalURL
    profile: ovh
    identity_api_version: 3
    secgroup_source: neutron
    network_endpoint_override: http://net
  b:
    auth_type: v3applicationcredential
    auth: {auth_url: "https://k/v3", application_credential_id: 12, application_credential_secret: s}
  c:
    auth: {auth_url: "https://k/v3", token: t0ken}
`, `
clouds:
  a: {auth: {password: from-secure}}
  elsewhere: {auth: {password: x}}
`, "a")
	if err != nil {
		t.Fatal(err)
	}
	if e.Password != "from-secure" || e.UserDomainName != "Default" || e.ProjectDomainName != "Default" || e.Region != "one" ||
		e.Interface != "internal" || e.Endpoints[openstack.Network] != "http://net" || e.Method != openstack.ByPassword {
		t.Errorf("got %+v", e)
	}
	if s := e.Secrets(); len(s) != 1 || s[0] != "from-secure" {
		t.Errorf("secrets are %q", s)
	}
}

func TestEntryNamesWhatIsWrong(t *testing.T) {
	const good = `auth_url: "https://k/v3", username: u, password: p, project_name: p, default_domain: Default`
	for name, c := range map[string]struct{ clouds, want, hint string }{
		"unknown cloud":      {`clouds: {open: {auth: {}}, other: {auth: {}}}`, `there is no cloud "openstack"`, "did you mean open? the file has: open, other"},
		"no clouds":          {`clouds: {}`, `there is no cloud "openstack"`, "the file has no clouds"},
		"no key":             {`cloud: {}`, "it has no key clouds", "the form is"},
		"not YAML":           {"clouds:\n  openstack:\n\tauth: {password: hunter22}", "it isn't a clouds.yaml (line 3)", "the form is"},
		"a list":             {"clouds: [hunter22]", "it isn't a clouds.yaml (line 1)", "the form is"},
		"empty cloud":        {"clouds:\n  openstack:\n", "auth is missing", ""},
		"no auth":            {`clouds: {openstack: {region_name: x}}`, "auth is missing", ""},
		"profile":            {`clouds: {openstack: {profile: vexxhost}}`, "auth is missing", "profiles of vendors"},
		"all missing":        {`clouds: {openstack: {auth: {}}}`, "auth.auth_url is missing; auth.username (or auth.user_id) is missing; auth.password is missing; auth.project_name (or auth.project_id) is missing", ""},
		"domains missing":    {`clouds: {openstack: {auth: {auth_url: "http://k", username: u, password: p, project_name: p}}}`, "auth.user_domain_name (or auth.user_domain_id) is missing; auth.project_domain_name (or auth.project_domain_id) is missing", ""},
		"secret missing":     {`clouds: {openstack: {auth_type: v3applicationcredential, auth: {auth_url: "http://k"}}}`, "auth.application_credential_secret is missing; auth.application_credential_id (or auth.application_credential_name) is missing", ""},
		"project given":      {`clouds: {openstack: {auth: {auth_url: "http://k", application_credential_id: a, application_credential_secret: s, project_id: p}}}`, "auth.project_id doesn't go with an application credential", ""},
		"token missing":      {`clouds: {openstack: {auth_type: token, auth: {auth_url: "http://k"}}}`, "auth.token is missing", ""},
		"unknown field":      {`clouds: {openstack: {auth: {passwort: x, ` + good + `}}}`, "auth.passwort is unknown", "did you mean auth.password?"},
		"misspelt setting":   {`clouds: {openstack: {regoin_name: X, auth: {` + good + `}}}`, "clouds.yaml:1: cloud \"openstack\": regoin_name is unknown", "did you mean region_name?"},
		"unknown method":     {`clouds: {openstack: {auth_type: v3kerberos, auth: {` + good + `}}}`, `auth_type is "v3kerberos"`, ""},
		"URL without scheme": {`clouds: {openstack: {auth: {auth_url: "k:5000", username: u, password: p, project_id: p, default_domain: D}}}`, "auth.auth_url is no http or https address", ""},
		"login in URL":       {`clouds: {openstack: {auth: {auth_url: "http://u:hunter22@k/v3", username: u, password: p, project_id: p, default_domain: D}}}`, "clouds.yaml:1: cloud \"openstack\": auth.auth_url has a user name or password in it", "addresses are shown"},
		"login without //":   {`clouds: {openstack: {auth: {auth_url: "u:hunter22@k/v3", username: u, password: p, project_id: p, default_domain: D}}}`, "auth.auth_url has a user name or password in it", ""},
		"login, no URL":      {`clouds: {openstack: {auth: {auth_url: "http://u:hunter22%zz@k/v3", username: u, password: p, project_id: p, default_domain: D}}}`, "auth.auth_url has a user name or password in it", ""},
		"login in endpoint":  {`clouds: {openstack: {volumev3_endpoint_override: "http://hunter22@k", auth: {` + good + `}}}`, "volumev3_endpoint_override has a user name or password in it", "addresses are shown"},
		"v2.0":               {`clouds: {openstack: {auth: {auth_url: "http://k/v2.0/", username: u, password: p, project_id: p, default_domain: D}}}`, "Identity v2.0", ""},
		"verify off":         {`clouds: {openstack: {verify: false, auth: {` + good + `}}}`, "verify switches the check of certificates off", "cacert"},
		"bad interface":      {`clouds: {openstack: {interface: secret, auth: {` + good + `}}}`, `interface is "secret"`, ""},
		"bad timeout":        {`clouds: {openstack: {api_timeout: soon, auth: {` + good + `}}}`, "api_timeout is no number of seconds", ""},
		"many regions":       {`clouds: {openstack: {regions: [a, b], auth: {` + good + `}}}`, "region_name is missing; regions has a, b", ""},
		"no CA":              {`clouds: {openstack: {cacert: nope.pem, auth: {` + good + `}}}`, "cacert can't be read: open ", ""},
		"key alone":          {`clouds: {openstack: {key: clouds.yaml, auth: {` + good + `}}}`, "cert and key go together", ""},
		"not text":           {`clouds: {openstack: {auth: {auth_url: [x], username: u, password: p, project_id: p, default_domain: D}}}`, "auth.auth_url is no text", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := entry(t, c.clouds, "clouds: {openstack: {more: x}}", "openstack")
			if err == nil {
				t.Fatal("no error")
			}
			if fault.KindOf(err) != fault.Invalid {
				t.Errorf("kind is %s", fault.KindOf(err))
			}
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "clouds.yaml") {
				t.Errorf("error is %q, want %q in it", err, c.want)
			}
			if strings.Contains(err.Error(), "hunter22") {
				t.Errorf("error shows a password: %q", err)
			}
			if !strings.Contains(fault.HintOf(err), c.hint) {
				t.Errorf("hint is %q, want %q in it", fault.HintOf(err), c.hint)
			}
		})
	}
}

func TestFileThatIsNotThere(t *testing.T) {
	_, err := openstack.ReadClouds(filepath.Join(t.TempDir(), "clouds.yaml"), nil)
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
	_, err = entry(t, "clouds: {a: {}}", "what: ever", "a")
	if err == nil || !strings.Contains(err.Error(), "secure.yaml: it has no key clouds") {
		t.Errorf("got %v", err)
	}
}
