package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bazelbuild/buildtools/build"

	"git.vanillacore.net/govstack/gsrun/recipes"
)

// TestOverrideEveryStep overrides every step of every shipped recipe, in both
// ways: each result loads, is formatted, and pins what is there.
func TestOverrideEveryStep(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(siteVariable, "")
	files, err := fs.Glob(recipes.FS, "*.star")
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	for _, file := range files {
		src, err := findRecipe(strings.TrimSuffix(file, ".star"), nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := textEngine(src).Load(src.path)
		if err != nil {
			continue // a library
		}
		for _, flag := range []string{"", "--wrap"} {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "site.yaml"), []byte("name: test\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, s := range r.Steps {
				if s.Use != nil {
					continue
				}
				steps++
				args := []string{"override", r.Path, s.Name, "--site", dir}
				if flag != "" {
					args = append(args, flag)
				}
				var out bytes.Buffer
				if code := run(args, strings.NewReader(""), &out, &out); code != 0 {
					t.Errorf("%v: exit code %d\n%s", args, code, &out)
				}
			}
			var out bytes.Buffer
			if code := run([]string{"check", r.Path, "--site", dir}, strings.NewReader(""), &out, &out); code != 0 {
				t.Errorf("check %s %s: exit code %d\n%s", r.Path, flag, code, &out)
			}
			path := filepath.Join(dir, "recipes", file)
			text, err := os.ReadFile(path)
			if os.IsNotExist(err) {
				continue // it has no steps but recipes
			}
			f, err := build.ParseDefault(path, text)
			if err != nil || string(build.FormatWithoutRewriting(f)) != string(text) {
				t.Errorf("%s isn't formatted (%v):\n%s", path, err, text)
			}
		}
	}
	if steps < 60 {
		t.Errorf("only %d overrides were written", steps)
	}
}
