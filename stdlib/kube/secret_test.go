package kube_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/kube"
)

// No event, planned change or error shows a secret, in whatever form Kubernetes
// has it.
func TestNothingLeaks(t *testing.T) {
	const canary = "canary-5b1f0c9d7e"
	names := starlark.StringDict{
		"kubeconfig": starlark.String(kubeconfig(t, "leaky", "system:masters")),
		"canary": starlark.NewBuiltin("canary", func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			suffix, _ := starlark.AsString(args[0])
			return effect.NewSecret(builtin.Context(thread), canary+suffix, "test")
		}),
	}
	src := `
def objects(s):
    meta = lambda name: {"name": name, "namespace": "default"}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": meta("leak"), "stringData": {"k": s}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("leak"), "data": {"k": "key=" + s}},
    ]

def test():
    c = kube.cluster("lab", kubeconfig = kubeconfig)
    c.apply(objects(canary("")))
    c.apply(objects(canary("-2")))
    c.get("Secret", "leak")
    c.list("Secret", namespace = "default")
    c.secret("leak", "default", "k")
    c.wait("Secret", "leak", path = "data.k", value = "other", timeout = "100ms") if WAIT else None
    c.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "leak-2", "labels": {"a": canary(" refused")}}}])
`
	for _, mode := range []effect.Mode{effect.Plan, effect.Apply, effect.Plan} {
		for _, wait := range []bool{false, true} {
			door := startest.NewDoor(mode)
			var mu sync.Mutex
			var shown strings.Builder
			door.Emit = func(e effect.Event) {
				mu.Lock()
				defer mu.Unlock()
				fmt.Fprintf(&shown, "%+v %v\n", e, e.Err)
				if e.Change != nil {
					text, err := json.Marshal(e.Change.Fields)
					fmt.Fprintf(&shown, "%s %v\n", text, err)
				}
			}
			names["WAIT"] = starlark.Bool(wait)
			_, err := run(t, startest.Options{Modules: []*builtin.Module{module(t, kube.Config{})}, Globals: names, Door: door}, src)
			if err == nil && mode == effect.Apply {
				t.Fatal("the last apply should be refused")
			}
			fmt.Fprintf(&shown, "%v %+v\n", door.Redacted(err), door.Planned())
			for _, form := range []string{canary, base64.RawStdEncoding.EncodeToString([]byte(canary))} {
				if i := strings.Index(shown.String(), form); i >= 0 {
					t.Errorf("mode %v: shown: ...%s...", mode, shown.String()[max(0, i-100):min(shown.Len(), i+100)])
				}
			}
			if !strings.Contains(shown.String(), effect.Mask) && mode == effect.Apply {
				t.Error("nothing was masked: the test sees nothing")
			}
		}
	}
}
