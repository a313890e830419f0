package openstack_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/openstack"
)

// strangers are clouds without a file: all that connects is in the arguments or
// in the environment.
func strangers(t *testing.T, env map[string]string) (*world, *builtin.Module) {
	t.Helper()
	w := newWorld(t, lab.Config{ApplicationCredentials: []lab.ApplicationCredential{{ID: "ac1", Name: "ci", Secret: "app-secret-1234", User: "demo", Project: "demo"}}})
	m := openstack.Module(openstack.Config{LookupEnv: func(name string) (string, bool) {
		if env == nil {
			t.Errorf("%s of the environment was read, though nobody named it", name)
		}
		v, ok := env[name]
		return strings.ReplaceAll(v, "URL", w.url), ok
	}})
	t.Cleanup(func() {
		if err := m.Recv.(*openstack.Clouds).Close(); err != nil {
			t.Error(err)
		}
	})
	return w, m
}

// runAlone is run without a cloud.
func (w *world) runAlone(m *builtin.Module, door *effect.Door, source string) error {
	return w.run(context.Background(), m, door, strings.ReplaceAll(source, "URL", w.url+"/identity"))
}

func TestConnectByArguments(t *testing.T) {
	for name, args := range map[string]string{
		"password":               `auth_url = "URL", user = "demo", password = demo_password, project = "demo", user_domain = "Default"`,
		"secret":                 `auth_url = "URL", user = "demo", password = demo_password, project = "demo", user_domain = "Default"`,
		"credential":             `auth_url = "URL", credential = struct(id = "ac1", name = "ci", secret = ac_secret)`,
		"dict":                   `auth_url = "URL/v3", credential = {"id": "ac1", "secret": ac_secret}`,
		"endpoint":               `auth_url = "URL", credential = {"id": "ac1", "secret": ac_secret}, endpoints = {"network": "NET/network"}, region = "RegionOne", interface = "internal", timeout = "7s"`,
		"other project":          `"admin", project = "demo"`,
		"credential of an entry": `"lab", credential = {"id": "ac1", "secret": ac_secret}`,
		"user of an entry":       `"admin", user = "demo", password = demo_password, project = "demo"`,
	} {
		t.Run(name, func(t *testing.T) {
			w, m := strangers(t, nil)
			if strings.HasPrefix(args, `"`) {
				m = w.newModule()
			}
			args := strings.ReplaceAll(args, "NET", w.url)
			err := w.runAlone(m, startest.NewDoor(effect.Apply), `
cloud = openstack.connect(`+args+`)
cloud.network.ensure("n")`)
			if err != nil {
				t.Fatal(startest.Explain(err))
			}
			nets := w.cloud.State(true)["network"]
			found := false
			for _, n := range nets {
				found = found || n["name"] == "n" && n["project_id"] == "project:demo"
			}
			if !found {
				t.Errorf("there is no network n in the project: %v", nets)
			}
		})
	}
}

func TestConnectByEnvironment(t *testing.T) {
	env := map[string]string{"OS_AUTH_URL": "URL/identity/v3", "OS_USERNAME": "demo", "OS_PASSWORD": "secret", "OS_PROJECT_NAME": "demo", "OS_USER_DOMAIN_NAME": "Default", "OS_PROJECT_DOMAIN_NAME": "Default", "OS_REGION_NAME": "RegionOne"}
	w, m := strangers(t, env)
	if err := w.runAlone(m, startest.NewDoor(effect.Apply), `openstack.connect(env = True).network.ensure("a")`); err != nil {
		t.Fatal(startest.Explain(err))
	}
	site := openstack.Module(openstack.Config{CloudsEnv: true, LookupEnv: func(name string) (string, bool) {
		v, ok := env[name]
		return strings.ReplaceAll(v, "URL", w.url), ok
	}})
	if err := w.runAlone(site, startest.NewDoor(effect.Apply), `openstack.connect("openstack").network.ensure("b")`); err != nil {
		t.Fatal(startest.Explain(err))
	}
	if writes := w.writes(0); len(writes) != 2 {
		t.Errorf("wrote %q", writes)
	}
	env["OS_AUTH_URL"] = "http://u:topsecret@127.0.0.1:1/v3"
	_, m = strangers(t, env)
	if err := w.runAlone(m, startest.NewDoor(effect.Apply), `openstack.connect(env = True).network.list()`); !strings.Contains(fmt.Sprint(err), "the environment: OS_AUTH_URL has a user name or password in it") || strings.Contains(fmt.Sprint(err), "topsecret") {
		t.Errorf("got %v", err)
	}
	delete(env, "OS_PASSWORD")
	delete(env, "OS_PROJECT_DOMAIN_NAME")
	env["OS_AUTH_URL"] = "URL/identity/v2.0"
	_, m = strangers(t, env)
	err := w.runAlone(m, startest.NewDoor(effect.Apply), `openstack.connect(env = True).network.ensure("a")`)
	if want := "the environment: OS_AUTH_URL names Identity v2.0, which no longer exists; name /v3; OS_PASSWORD is missing; OS_PROJECT_DOMAIN_NAME (or OS_PROJECT_DOMAIN_ID) is missing"; fault.KindOf(err) != fault.Invalid || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestConnectRefusesWhatCantBeMeant(t *testing.T) {
	for args, want := range map[string][2]string{
		`""`:                                   {"the cloud's name is empty", `openstack.connect("NAME")`},
		`"lab"`:                                {"the site names no clouds.yaml", "name clouds: in site.yaml"},
		`"lab", env = True`:                    {"give one of the two", ""},
		`auth_url = "URL", name = "a/b"`:       {"has a slash", ""},
		`auth_url = "URL"`:                     {`openstack.connect: user is missing; password is missing; project is missing`, ""},
		`auth_url = "URL", credential = "ac1"`: {"credential is no application credential", "application_credential.ensure"},
		`auth_url = "URL", credential = {"id": "ac1"}`:                                                           {"it lacks id or secret", ""},
		`auth_url = "URL", credential = {"id": "ac1", "secret": hidden}, project = "p"`:                          {"credential and project are given", ""},
		`auth_url = "URL", user = "u", token = hidden`:                                                           {"user and token are given", ""},
		`auth_url = "URL", user = "u", password = hidden, domain = "d", system = True`:                           {"domain and system are given", ""},
		`auth_url = "URL", user = "u", password = hidden, project = "p"`:                                         {"user_domain is missing", ""},
		`auth_url = "keystone:5000", user = "u", password = hidden, project = "p", user_domain = "D"`:            {`auth_url is no http or https address`, ""},
		`auth_url = "URL", token = hidden, endpoints = {"databases": "http://x"}`:                                {`there is no type of service "databases"`, "volumev3"},
		`auth_url = "URL", token = hidden, endpoints = {"network": "x"}`:                                         {`network_endpoint_override is no http or https address: "x"`, ""},
		`auth_url = "http://u:topsecret@h/v3", user = "u"`:                                                       {"openstack.connect: auth_url has a user name or password in it", "addresses are shown"},
		`auth_url = "URL", token = hidden, endpoints = {"network": "http://topsecret@h"}`:                        {"endpoints: the address of network has a user name or password in it", "addresses are shown"},
		`auth_url = "URL", user = "u", password = "topsecret"`:                                                   {"argument password: it is no secret", "get it by secret()"},
		`auth_url = "URL", token = "topsecret"`:                                                                  {"argument token: it is no secret", "get it by secret()"},
		`auth_url = "URL", credential = {"id": "ac1", "secret": "topsecret"}`:                                    {"the secret of credential is no secret", "application_credential.ensure"},
		`auth_url = "URL", token = hidden, key = "-----BEGIN topsecret"`:                                         {"key is no secret", ""},
		`auth_url = "URL", token = hidden, interface = "inner"`:                                                  {`interface is "inner"`, ""},
		`auth_url = "URL", token = hidden, cacert = "ca.pem"`:                                                    {"cacert is neither an absolute path nor a text in PEM form", ""},
		`auth_url = "URL", token = hidden, cacert = "/nowhere/ca.pem"`:                                           {"cacert can't be read", ""},
		`auth_url = "URL", token = hidden, cert = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"`: {"cert and key go together", ""},
	} {
		w, m := strangers(t, nil)
		err := w.runAlone(m, startest.NewDoor(effect.Apply), `openstack.connect(`+args+`).network.list()`)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fmt.Sprint(err), want[0]) || !strings.Contains(fault.HintOf(err), want[1]) {
			t.Errorf("%s: got %v (%s), hint %q; want %q", args, err, fault.KindOf(err), fault.HintOf(err), want)
		}
		if n := len(w.cloud.Requests(0)); n > 0 {
			t.Errorf("%s: %d calls", args, n)
		}
		if text := fmt.Sprint(err) + fault.HintOf(err); strings.Contains(text, "topsecret") {
			t.Errorf("%s: the error shows the password: %s", args, text)
		}
	}
}

// TestConnectionsHaveNames tells connections of one run apart.
func TestConnectionsHaveNames(t *testing.T) {
	w := newWorld(t, lab.Config{})
	m := w.newModule()
	if err := w.run(context.Background(), m, startest.NewDoor(effect.Apply), `
for c in [openstack.connect("lab"), openstack.connect("admin"), openstack.connect("admin", project = "demo"), openstack.connect("admin", project = "demo", name = "mine")]:
    c.network.list()`); err != nil {
		t.Fatal(startest.Explain(err))
	}
	got := strings.Join(m.Recv.(*openstack.Clouds).Scopes(), " ")
	if want := "openstack/admin openstack/admin@demo openstack/lab openstack/mine"; got != want {
		t.Errorf("scopes are %s, want %s", got, want)
	}
	err := w.run(context.Background(), m, startest.NewDoor(effect.Apply), `openstack.connect("lab", name = "mine")`)
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "connected to mine already, with other arguments") {
		t.Errorf("got %v", err)
	}
	// A run that hasn't connected to it finds the scope of an earlier one.
	fresh := w.newModule().Recv.(*openstack.Clouds)
	ctx := effect.With(context.Background(), effect.NewScope(startest.NewDoor(effect.Apply), effect.Owner{Site: "test", Recipe: "test"}, "step", nil))
	for scope, want := range map[string]string{"openstack/admin@demo": "", "openstack/admin@credential=ci": "only the recipe that connected"} {
		if _, err := fresh.ListOwned(ctx, scope, []string{"gsrun:"}); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", scope, err, want)
		}
	}
}

// TestConnectByWhatIsStillToCome plans with a credential that the run would
// make first: nothing is asked, and nothing is claimed.
func TestConnectByWhatIsStillToCome(t *testing.T) {
	for _, args := range []string{`auth_url = "URL", credential = unknown`, `auth_url = "URL", credential = struct(id = unknown, name = "ci", secret = unknown)`,
		`auth_url = "URL", user = "demo", password = unknown, user_domain = "Default", project = "demo"`, `auth_url = "URL", user = "demo", password = demo_password, user_domain = "Default", project = unknown`} {
		w, m := strangers(t, nil)
		door := startest.NewDoor(effect.Plan)
		if err := w.runAlone(m, door, `
cloud = openstack.connect(`+args+`)
net = cloud.network.ensure("n")
cloud.subnet.ensure("n", network = net, cidr = "10.20.0.0/24")
cloud.network.list()
cloud.server.get("x")
cloud.flavor.list()`); err != nil {
			t.Fatal(startest.Explain(err))
		}
		if n := len(w.cloud.Requests(0)); n > 0 {
			t.Errorf("%s: %d calls", args, n)
		}
		planned := door.Planned()
		if len(planned) != 2 || planned[0].Change.Kind != effect.Later {
			t.Errorf("%s: planned %v", args, planned)
		}
		if s := m.Recv.(*openstack.Clouds).Scopes(); len(s) > 0 {
			t.Errorf("%s: scopes %q", args, s)
		}
	}
}

// TestRefusedLoginIsTriedOnce lets many steps meet the same wrong password.
func TestRefusedLoginIsTriedOnce(t *testing.T) {
	w, m := strangers(t, nil)
	var all sync.WaitGroup
	errs := make([]error, 50)
	for i := range errs {
		all.Go(func() {
			errs[i] = w.runAlone(m, startest.NewDoor(effect.Apply), `openstack.connect(auth_url = "URL", user = "demo", password = hidden, user_domain = "Default", project = "demo").network.ensure("n")`)
		})
	}
	all.Wait()
	for _, err := range errs {
		if fault.KindOf(err) != fault.Denied || !strings.Contains(fault.HintOf(err), "check user, password, user_domain and project of the arguments of openstack.connect") {
			t.Fatalf("got %v, hint %s", err, fault.HintOf(err))
		}
		if strings.Contains(fmt.Sprint(err)+fault.HintOf(err), "correct horse") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
	if n := len(w.cloud.Requests(0)); n != 1 {
		t.Errorf("%d logins, want 1", n)
	}
}
