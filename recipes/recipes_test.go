package recipes_test

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bazelbuild/buildtools/build"
	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/recipes"
	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/stdlib"
)

var update = flag.Bool("update", false, "write the golden files")

func engine(t *testing.T) *runtime.Engine {
	t.Helper()
	files, err := fs.Sub(recipes.FS, "files")
	if err != nil {
		t.Fatal(err)
	}
	return runtime.New(runtime.Config{Modules: stdlib.Modules(stdlib.Env{}),
		Layers: []runtime.Layer{{Name: "embedded", Prefix: "recipes", Recipes: recipes.FS, Files: files}}})
}

// each calls f with the path of every recipe file.
func each(t *testing.T, f func(path string)) {
	t.Helper()
	err := fs.WalkDir(recipes.FS, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".star") {
			f(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLoad loads every file, and checks what users copy: docstrings, and steps
// no longer than a screen.
func TestLoad(t *testing.T) {
	n := 0
	each(t, func(path string) {
		n++
		globals, err := engine(t).Globals(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		src, err := fs.ReadFile(recipes.FS, path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(src), `"""`) {
			t.Errorf("%s doesn't begin with its docstring", path)
		}
		r, ok := globals["main"].(*runtime.Recipe)
		if !ok {
			return
		}
		for _, s := range r.Steps {
			if s.Fn == nil {
				continue
			}
			if lines := strings.Count(function(string(src), s.Name), "\n"); lines > 60 {
				t.Errorf("%s: step %s has %d lines", path, s.Name, lines)
			}
		}
	})
	if n < 9 {
		t.Errorf("only %d files", n)
	}
}

// function returns the text of a top-level function.
func function(src, name string) string {
	_, after, _ := strings.Cut(src, "\ndef "+name+"(")
	text, _, _ := strings.Cut(after, "\n\ndef ")
	text, _, _ = strings.Cut(text, "\n\nmain = ")
	return text
}

// TestFormat checks that the recipes are formatted as buildifier does it.
func TestFormat(t *testing.T) {
	each(t, func(path string) {
		src, err := fs.ReadFile(recipes.FS, path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := build.ParseDefault(path, src)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		want := build.FormatWithoutRewriting(f)
		if string(want) == string(src) {
			return
		}
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		t.Errorf("%s isn't formatted; run go test ./recipes -run TestFormat -update", path)
	})
}

// TestRenderSpoke compares what is rendered of a spoke with golden files: the
// same inputs always give the same bytes.
func TestRenderSpoke(t *testing.T) {
	e := engine(t)
	r, err := e.Load("spoke.star")
	if err != nil {
		t.Fatal(err)
	}
	inputs, err := r.ResolveInputs(map[string]string{"git_url": "ssh://git@git.example.org/spokes.git", "git_host_key": "ssh-ed25519 AAAA", "name": "east", "workers": "3", "control_planes": "3"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files := renderSpoke(t, e, inputs)
	for name, text := range files {
		golden := filepath.Join("testdata", "spoke", name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil || string(want) != text {
			t.Errorf("%s differs from what is rendered; see go test ./recipes -run TestRenderSpoke -update (%v)", golden, err)
		}
	}
	again := renderSpoke(t, engine(t), inputs)
	for name, text := range files {
		if again[name] != text {
			t.Errorf("%s isn't the same the second time", name)
		}
	}
	inputs["control_planes"] = starlark.MakeInt(2)
	if _, err := e.CallFile(t.Context(), "spoke/render.star", "render", starlark.Tuple{runtime.Struct(inputs), starlark.String("spoke-east")}); err == nil || !strings.Contains(err.Error(), "lose their quorum") {
		t.Errorf("an even number of control planes: %v", err)
	}
}

func renderSpoke(t *testing.T, e *runtime.Engine, inputs starlark.StringDict) map[string]string {
	t.Helper()
	v, err := e.CallFile(t.Context(), "spoke/render.star", "render", starlark.Tuple{runtime.Struct(inputs), starlark.String("spoke-east")})
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for _, item := range v.(*starlark.Dict).Items() {
		name, _ := starlark.AsString(item[0])
		out[name], _ = starlark.AsString(item[1])
	}
	return out
}

func TestSubstitute(t *testing.T) {
	for text, want := range map[string]string{
		"a: ${X:=1}, ${Y}": "a: 1, why", "${Y:-no}${X=z}": "whyz", "plain $x {y}": "plain $x {y}",
	} {
		values := starlark.NewDict(1)
		if err := values.SetKey(starlark.String("Y"), starlark.String("why")); err != nil {
			t.Fatal(err)
		}
		v, err := engine(t).CallFile(t.Context(), "manifests.star", "substitute", starlark.Tuple{starlark.String(text), values})
		if err != nil || v != starlark.String(want) {
			t.Errorf("%s: %v %v", text, v, err)
		}
	}
	if _, err := engine(t).CallFile(t.Context(), "manifests.star", "substitute", starlark.Tuple{starlark.String("${Z}"), starlark.NewDict(0)}); err == nil || !strings.Contains(err.Error(), "asks for Z, which has no value") {
		t.Errorf("no value: %v", err)
	}
}
