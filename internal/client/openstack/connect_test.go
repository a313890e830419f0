package openstack_test

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

func simulator(t *testing.T) (*lab.Cloud, *httptest.Server) {
	t.Helper()
	cloud := lab.New(lab.Config{ApplicationCredentials: []lab.ApplicationCredential{{ID: "ac1", Name: "ci", Secret: "app-secret", User: "demo", Project: "demo"}}})
	server := httptest.NewServer(cloud)
	t.Cleanup(func() { server.Close(); cloud.Close() })
	return cloud, server
}

const passwordAuth = `username: demo, password: secret, project_name: demo, default_domain: Default`

func connect(t *testing.T, url, auth, more string) (*openstack.Client, error) {
	t.Helper()
	e, err := entry(t, "clouds: {lab: {"+more+"auth: {auth_url: \""+url+"\", "+auth+"}}}", "", "lab")
	if err != nil {
		t.Fatal(err)
	}
	c, err := openstack.Connect(context.Background(), e)
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

func networks(c *openstack.Client) error {
	_, err := c.List(context.Background(), openstack.Call{Service: openstack.Network, Path: "/networks"}, "networks")
	return err
}

func TestWaysToLogIn(t *testing.T) {
	cloud, server := simulator(t)
	url := server.URL + "/identity"
	// Nothing of this is looked at.
	t.Setenv("OS_AUTH_URL", "http://127.0.0.1:1/")
	t.Setenv("OS_CLOUD", "other")
	t.Setenv("OS_PASSWORD", "other")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	for name, auth := range map[string]string{
		"password":           passwordAuth,
		"domain ids":         `username: demo, password: secret, project_name: demo, user_domain_id: default, project_domain_id: default`,
		"credential":         `application_credential_id: ac1, application_credential_secret: app-secret`,
		"credential by name": `application_credential_name: ci, application_credential_secret: app-secret, username: demo, user_domain_name: Default`,
	} {
		c, err := connect(t, url, auth, "")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := networks(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.Project() == "" {
			t.Errorf("%s: no project", name)
		}
	}
	token := issueToken(t, url)
	c, err := connect(t, url+"/v3", "token: "+token, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := networks(c); err != nil {
		t.Errorf("token: %v", err)
	}
	cloud.ExpireTokens()
	if err := networks(c); fault.KindOf(err) != fault.Denied || !strings.Contains(fault.HintOf(err), "renew the credentials") {
		t.Errorf("expired token: %v (hint %s)", err, fault.HintOf(err))
	}
}

func issueToken(t *testing.T, url string) string {
	t.Helper()
	body := `{"auth": {"identity": {"methods": ["password"], "password": {"user": {"name": "demo", "password": "secret", "domain": {"name": "Default"}}}}, "scope": {"project": {"name": "demo", "domain": {"name": "Default"}}}}}`
	resp, err := http.Post(url+"/v3/auth/tokens", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.Header.Get("X-Subject-Token")
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	_, server := simulator(t)
	url := server.URL + "/identity"
	for name, c := range map[string]struct {
		url, auth, more string
		kind            fault.Kind
		text, hint      string
	}{
		"password":     {url: url, auth: `username: demo, password: wrong-password, project_name: demo, default_domain: Default`, kind: fault.Denied, text: "logging in to cloud lab: Keystone answered 401", hint: "check auth.username, auth.password"},
		"credential":   {url: url, auth: `application_credential_id: ac1, application_credential_secret: wrong-secret`, kind: fault.Denied, hint: "check auth.application_credential_id"},
		"token":        {url: url, auth: `token: abcdefgh`, kind: fault.Denied, hint: "may have expired"},
		"path":         {url: server.URL + "/nowhere", auth: passwordAuth, kind: fault.Invalid, hint: "check auth.auth_url"},
		"nobody there": {url: "http://127.0.0.1:1", auth: passwordAuth, kind: fault.Unreachable, text: "127.0.0.1:1", hint: "check auth.auth_url"},
		"https":        {url: "https" + strings.TrimPrefix(url, "http"), auth: passwordAuth, kind: fault.Invalid, hint: "http"},
		"region":       {url: url, auth: passwordAuth, more: "region_name: Mars, ", kind: fault.Invalid, text: `there is no region "Mars"`, hint: "the cloud has: RegionOne"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := connect(t, c.url, c.auth, c.more)
			if fault.KindOf(err) != c.kind {
				t.Fatalf("kind is %s, want %s (%v)", fault.KindOf(err), c.kind, err)
			}
			if !strings.Contains(err.Error(), c.text) || !strings.Contains(fault.HintOf(err), c.hint) {
				t.Errorf("error is %q, hint %q; want %q and %q in them", err, fault.HintOf(err), c.text, c.hint)
			}
			if strings.Contains(err.Error()+fault.HintOf(err), "wrong-") {
				t.Errorf("error shows a secret: %v", err)
			}
		})
	}
}

func TestEndpointOverridesAndMissingServices(t *testing.T) {
	var calls []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls = append(calls, r.URL.Path)
		w.Write([]byte(`{"networks": []}`))
	}))
	defer other.Close()
	_, server := simulator(t)
	for _, suffix := range []string{"", "/", "/v2.0", "/v2.0/"} {
		c, err := connect(t, server.URL+"/identity", passwordAuth, `network_endpoint_override: "`+other.URL+suffix+`", `)
		if err != nil {
			t.Fatal(err)
		}
		if err := networks(c); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range calls {
		if path != "/v2.0/networks" {
			t.Errorf("called %s", path)
		}
	}
	if len(calls) != 4 {
		t.Errorf("%d calls", len(calls))
	}
	calls = nil
	for _, suffix := range []string{"/v2.1", "/v2/project", "/compute/v2.1/", "/v2x"} {
		c, err := connect(t, server.URL+"/identity", passwordAuth, `compute_endpoint_override: "`+other.URL+suffix+`", `)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Do(context.Background(), openstack.Call{Service: openstack.Compute, Method: "GET", Path: "/x"}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := strings.Join(calls, " "), "/v2.1/x /v2/project/x /compute/v2.1/x /v2x/v2.1/x"; got != want {
		t.Errorf("called %s, want %s", got, want)
	}
	c := fake(t, func(http.ResponseWriter, *http.Request) {})
	_, err := c.Do(context.Background(), openstack.Call{Service: openstack.Identity, Method: "GET", Path: "/x"})
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "cloud x offers no identity service with the interface public") {
		t.Errorf("got %v", err)
	}
}

func TestCertificates(t *testing.T) {
	cloud := lab.New(lab.Config{})
	server := httptest.NewTLSServer(cloud)
	defer func() { server.Close(); cloud.Close() }()
	url := server.URL + "/identity"
	_, err := connect(t, url, passwordAuth, "")
	if fault.KindOf(err) != fault.Untrusted || !strings.Contains(fault.HintOf(err), "cacert") {
		t.Errorf("got %v (%s), hint %s", err, fault.KindOf(err), fault.HintOf(err))
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := connect(t, url, passwordAuth, "cacert: "+ca+", ")
	if err != nil {
		t.Fatal(err)
	}
	if err := networks(c); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(ca, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = connect(t, url, passwordAuth, "cacert: "+ca+", "); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "holds no certificate") {
		t.Errorf("got %v", err)
	}
}

// TestServicesByTheirOtherTypes finds each service in catalogs that call it by
// a type of its own or by one that it had before.
func TestServicesByTheirOtherTypes(t *testing.T) {
	var called string
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	var catalog string
	mux.HandleFunc("POST /v3/auth/tokens", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Subject-Token", "token-1")
		w.WriteHeader(http.StatusCreated)
		w.Write([]byte(`{"token": {"catalog": [` + catalog + `]}}`))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		called = r.URL.Path
		w.Write([]byte(`{}`))
	})
	service := func(kind, path string) string {
		return `{"type": "` + kind + `", "endpoints": [{"interface": "public", "region": "R", "url": "` + server.URL + path + `"}]}`
	}
	for name, c := range map[string]struct {
		catalog []string
		service openstack.Service
		more    string
		want    string // "" if there is none
	}{
		"the type itself":           {[]string{service("volumev3", "/no/v3"), service("block-storage", "/yes/v3")}, openstack.BlockStorage, "", "/yes/v3/x"},
		"volumev3":                  {[]string{service("volumev2", "/no/v2"), service("volumev3", "/yes/v3/p1")}, openstack.BlockStorage, "", "/yes/v3/p1/x"},
		"volume without a version":  {[]string{service("volume", "/yes")}, openstack.BlockStorage, "", "/yes/v3/x"},
		"volume of an old version":  {[]string{service("volume", "/no/v1/p1")}, openstack.BlockStorage, "", ""},
		"only volumev2":             {[]string{service("volumev2", "/no/v2")}, openstack.BlockStorage, "", ""},
		"load balancer":             {[]string{service("load-balancer", "/lb")}, openstack.LoadBalancer, "", "/lb/v2.0/x"},
		"objects":                   {[]string{service("object-store", "/swift/v1/AUTH_p1")}, openstack.ObjectStorage, "", "/swift/v1/AUTH_p1/x"},
		"override by the type":      {nil, openstack.LoadBalancer, `load_balancer_endpoint_override: "` + server.URL + `/own", `, "/own/v2.0/x"},
		"override by another":       {nil, openstack.BlockStorage, `volumev3_endpoint_override: "` + server.URL + `/own/v3", `, "/own/v3/x"},
		"override over the catalog": {[]string{service("object-store", "/no/v1")}, openstack.ObjectStorage, `object_store_endpoint_override: "` + server.URL + `/own/v1/A", `, "/own/v1/A/x"},
	} {
		t.Run(name, func(t *testing.T) {
			catalog = strings.Join(c.catalog, ",")
			called = ""
			client, err := connect(t, server.URL+"/v3", passwordAuth, c.more)
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Do(context.Background(), openstack.Call{Service: c.service, Method: "GET", Path: "/x"})
			if c.want == "" {
				if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "offers no "+string(c.service)+" service") || !strings.Contains(fault.HintOf(err), "block_storage_endpoint_override") {
					t.Errorf("got %v, hint %q", err, fault.HintOf(err))
				}
			} else if err != nil || called != c.want {
				t.Errorf("called %q (%v), want %q", called, err, c.want)
			}
		})
	}
}
