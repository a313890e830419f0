package kube_test

import (
	"strings"
	"sync"
	"testing"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/kube"
)

func TestKubeconfig(t *testing.T) {
	const plain = `
apiVersion: v1
kind: Config
current-context: a
contexts:
- {name: a, context: {cluster: k, user: u}}
- {name: b, context: {cluster: none, user: u}}
- {name: c, context: {cluster: k, user: nobody}}
clusters:
- {name: k, cluster: {server: "https://127.0.0.1:1"}}
users:
- {name: u, user: {token: abcdefgh}}
`
	for name, test := range map[string]struct{ conf, args, want, hint string }{
		"fine":          {conf: plain},
		"no context":    {conf: plain, args: `, context = "x"`, want: `it has no context "x"`, hint: "it has a, b, c"},
		"no current":    {conf: strings.Replace(plain, "current-context: a", "", 1), want: "it has no current context", hint: "it has a, b, c"},
		"no cluster":    {conf: plain, args: `, context = "b"`, want: `it doesn't say where cluster "none" is`},
		"no user":       {conf: plain, args: `, context = "c"`, want: `it has no user "nobody"`},
		"empty":         {conf: " \n", want: "the kubeconfig is empty"},
		"no kubeconfig": {conf: "just: [text", want: "reading kubeconfig"},
		"file of a certificate": {conf: strings.Replace(plain, "{token: abcdefgh}", "{client-certificate: /etc/a.crt, client-key: /etc/a.key}", 1),
			want: `user "u" names the local file "/etc/a.crt"`, hint: "embed it: kubectl config view --flatten --raw"},
		"file of a token":     {conf: strings.Replace(plain, "{token: abcdefgh}", "{tokenFile: /etc/token}", 1), want: `user "u" names the local file "/etc/token"`},
		"file of a authority": {conf: strings.Replace(plain, `"https://127.0.0.1:1"`, `"https://127.0.0.1:1", certificate-authority: /etc/ca.crt`, 1), want: `cluster "k" names the local file "/etc/ca.crt"`},
		"program": {conf: strings.Replace(plain, "{token: abcdefgh}", "{exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/false, interactiveMode: Never}}", 1),
			want: `user "u" wants to run the local program "/bin/false"`, hint: "allow it with exec = True"},
		"program allowed": {conf: strings.Replace(plain, "{token: abcdefgh}", "{exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/false, interactiveMode: Never}}", 1),
			args: ", exec = True"},
		"auth provider": {conf: strings.Replace(plain, "{token: abcdefgh}", "{auth-provider: {name: oidc}}", 1), args: ", exec = True", want: `the auth provider plugin "oidc"`},
		"bad name":      {conf: plain, args: `, name = "a/b"`, want: `"a/b" can't be the name of a cluster`},
		"bad via":       {conf: plain, args: `, via = 7`, want: "argument via: got int"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := startest.Options{Modules: []*builtin.Module{module(t, kube.Config{})}, Globals: starlark.StringDict{"conf": starlark.String(test.conf)}}
			args := test.args
			if !strings.Contains(args, "name =") {
				args += `, name = "k"`
			}
			_, err := run(t, opts, "def test():\n    return kube.cluster(kubeconfig = conf"+args+").name\n")
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v (%s), want %q", err, fault.KindOf(err), test.want)
			}
			if !strings.Contains(fault.HintOf(err), test.hint) {
				t.Errorf("hint %q, want %q", fault.HintOf(err), test.hint)
			}
		})
	}
}

// The pod's service account is only looked for when asked, and not found here.
func TestInCluster(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	opts := startest.Options{Modules: []*builtin.Module{module(t, kube.Config{})}}
	_, err := run(t, opts, `
def test():
    return kube.in_cluster("here")
`)
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "reading the pod's service account") {
		t.Errorf("got %v (%s)", err, fault.KindOf(err))
	}
}

// Texts can be rendered without anything to talk to.
func TestTexts(t *testing.T) {
	n := 0
	kube.Module(kube.Config{}).Functions(func(name string, f builtin.Func) {
		n++
		if f.Doc == "" || f.Returns == "" || f.Example == "" || len(f.Errors) == 0 {
			t.Errorf("%s lacks a text", name)
		}
	})
	if n != 9 {
		t.Errorf("%d functions", n)
	}
}

// A second run of everything writes nothing: the API server's own log says so.
func TestSecondRunWritesNothing(t *testing.T) {
	cluster := start(t)
	const user = "auditor"
	src := `
MANIFESTS = """
apiVersion: v1
kind: Namespace
metadata: {name: audited}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.audit.test}
spec: {group: audit.test, scope: Namespaced, names: {kind: Lamp, plural: lamps}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}
---
apiVersion: audit.test/v1
kind: Lamp
metadata: {name: l, namespace: audited}
spec: {watts: 60}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: audited}
spec:
  replicas: 1
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec: {containers: [{name: d, image: "d.test/d:1", resources: {limits: {cpu: 1000m, memory: 1024Mi}}, env: [{name: A, value: ""}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: d, namespace: audited}
spec: {selector: {app: d}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Secret
metadata: {name: s, namespace: audited}
stringData: {password: hunter22hunter22}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: audited}
webhooks:
- name: never.audit.test
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  clientConfig: {caBundle: Cg==, service: {name: none, namespace: audited}}
  rules: [{apiGroups: [never.test], apiVersions: [v1], operations: ["*"], resources: ["*"]}]
"""

def test():
    c = kube.cluster("lab", kubeconfig = kubeconfig)
    c.apply(manifests = MANIFESTS, timeout = "30s")
    c.wait("Deployment", "d", namespace = "audited", condition = "Available")
    c.secret("s", "audited", "password")
    c.list("Lamp")
    c.admits({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})
    c.delete("ConfigMap", "no-such", namespace = "audited")
`
	count := func() int {
		requests, err := cluster.Requests()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, r := range requests {
			if r.User == user && r.Writes() {
				n++
			}
		}
		return n
	}
	seen := func(marker string) func() bool {
		return func() bool {
			requests, err := cluster.Requests()
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range requests {
				if r.User == marker {
					return true
				}
			}
			return false
		}
	}
	for i, want := range []int{7, 7} {
		opts := startest.Options{Modules: []*builtin.Module{module(t, kube.Config{})}, Globals: starlark.StringDict{"kubeconfig": starlark.String(kubeconfig(t, user, "system:masters"))}}
		if _, err := run(t, opts, src); err != nil {
			t.Fatal(startest.Explain(err))
		}
		// The log is in order: once it tells of a later request, it is complete.
		marker := "marker-" + string(rune('a'+i))
		_ = get(t, kubeconfig(t, marker))
		await(t, "the marker in the audit log", seen(marker))
		if n := count(); n != want {
			t.Errorf("after run %d: %d writes, want %d", i+1, n, want)
		}
	}
}

// The API server's warnings are told once, whoever causes them.
func TestWarnings(t *testing.T) {
	var mu sync.Mutex
	var logged []string
	door := startest.NewDoor(effect.Apply)
	door.Emit = func(e effect.Event) {
		if e.Kind == effect.Log {
			mu.Lock()
			defer mu.Unlock()
			logged = append(logged, e.Message)
		}
	}
	opts := startest.Options{Modules: []*builtin.Module{module(t, kube.Config{})}, Door: door, Globals: starlark.StringDict{"kubeconfig": starlark.String(kubeconfig(t, "warned", "system:masters"))}}
	if _, err := run(t, opts, `
def test():
    for i in range(2):
        kube.cluster("lab", kubeconfig = kubeconfig).list("Endpoints")
`); err != nil {
		t.Fatal(startest.Explain(err))
	}
	if len(logged) != 1 || !strings.Contains(logged[0], "the API server warns: v1 Endpoints is deprecated") {
		t.Errorf("logged %q", logged)
	}
}
