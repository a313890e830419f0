package stdlib

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.starlark.net/syntax"

	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
)

var update = flag.Bool("update", false, "write the generated pages and stubs")

// TestGenerated compares the reference pages and editor stubs with the
// declarations that they are made from.
func TestGenerated(t *testing.T) {
	for _, m := range Modules(Env{}) {
		compare(t, filepath.Join(m.Name, "README.md"), m.Markdown())
		compare(t, filepath.Join(m.Name, m.Name+".pyi"), m.Stub())
	}
}

func compare(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil || string(have) != want {
		t.Errorf("%s isn't what the declarations say; run make generate (%v)", path, err)
	}
}

// TestModules checks what holds for every module: names that don't collide,
// examples that are Starlark, texts that end as sentences.
func TestModules(t *testing.T) {
	names := make(map[string]bool)
	last := ""
	for _, m := range Modules(Env{}) {
		if m.Name <= last {
			t.Errorf("%s comes after %s", m.Name, last)
		}
		last = m.Name
		m.Functions(func(name string, f builtin.Func) {
			if names[name] {
				t.Errorf("%s is declared twice", name)
			}
			names[name] = true
			if _, err := (&syntax.FileOptions{TopLevelControl: true}).Parse(name, f.Example, 0); err != nil {
				t.Errorf("the example of %s: %v", name, err)
			}
			for what, text := range texts(f) {
				if !strings.HasSuffix(strings.TrimSpace(text), ".") {
					t.Errorf("%s: %s doesn't end as a sentence: %q", name, what, text)
				}
			}
		})
	}
	if len(names) < 50 {
		t.Errorf("only %d functions", len(names))
	}
}

func texts(f builtin.Func) map[string]string {
	all := map[string]string{"Doc": f.Doc}
	for _, p := range f.Params {
		all["parameter "+p.Name] = p.Doc
	}
	return all
}
