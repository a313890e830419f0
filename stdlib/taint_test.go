package stdlib

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

// noText are the functions of pure modules that take no text.
var noText = map[string]bool{"hash.file": true, "time.now": true, "time.from_timestamp": true, "time.timestamp": true, "time.format": true, "time.add": true, "time.sub": true, "time.duration": true}

// TestTaint gives a secret to every function that makes text of text. What the
// run would show holds no piece of it.
func TestTaint(t *testing.T) {
	const plain = "hunter2&hunter2"
	door := startest.NewDoor(effect.Apply)
	var shown strings.Builder
	door.Emit = func(e effect.Event) { fmt.Fprintln(&shown, e.Message) }
	reveal := func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		s, ok := args[0].(*effect.Secret)
		if !ok {
			return nil, fmt.Errorf("%v is no secret", args[0])
		}
		return starlark.String(s.Reveal()), nil
	}
	// refused calls a function and checks that it fails without a word of the secret.
	refused := func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		v, err := starlark.Call(thread, args[0], nil, nil)
		if err == nil {
			return nil, fmt.Errorf("got %v, want an error", v)
		}
		for _, piece := range []string{"hunter", "{b0rken"} {
			if strings.Contains(startest.Explain(err), piece) {
				return nil, fmt.Errorf("the error shows a piece of the secret: %w", err)
			}
		}
		return starlark.None, nil
	}
	modules := Modules(Env{})
	opts := startest.Options{Modules: modules, Door: door, Globals: starlark.StringDict{
		"s": effect.SecretOf(plain, ""), "lines": effect.SecretOf("a\nhunter2\nb", ""), "broken": effect.SecretOf("\"{b0rken: [hunter2\n\tx: {b0rken %%", ""),
		"reveal": starlark.NewBuiltin("reveal", reveal), "refused": starlark.NewBuiltin("refused", refused)}}
	startest.Run(t, "testdata/taint.star", opts)
	if strings.Contains(shown.String(), "hunter") || !strings.Contains(shown.String(), effect.Mask) {
		t.Errorf("the log shows %q", shown.String())
	}

	src, err := os.ReadFile("testdata/taint.star")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		switch m.Name {
		case "json", "yaml", "toml", "base64", "hash", "re", "template", "csv", "log", "path", "net", "time":
			m.Functions(func(name string, _ builtin.Func) {
				if !strings.Contains(string(src), name) && !noText[name] {
					t.Errorf("no case for %s", name)
				}
			})
		}
	}
}
