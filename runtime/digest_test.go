package runtime

import (
	"strings"
	"testing"
	"testing/fstest"
)

// TestDigest changes one thing at a time that a step's code reaches, or
// doesn't.
func TestDigest(t *testing.T) {
	files := map[string]string{
		"main.star": `
load("lib.star", "helper", "SIZES", tool = "renamed")

PORT = 22
UNUSED = 1

def near(x):
    return x + PORT

def unused():
    return 1

def make(n):
    def step(ctx, k = SIZES["small"]):
        """Do it."""
        f = lambda x: near(x) + n
        return [f(1), helper(2), tool(), template.render("files/conf.tmpl", vars = {}), mutual_a]
    return step

def mutual_a(n):
    return mutual_b

def mutual_b(n):
    return mutual_a

main = recipe(steps = [make(3)])
`,
		"lib.star": `
SIZES = {"small": 1}
LIMIT = 7

def helper(x):
    return deeper(x)

def deeper(x):
    return x + LIMIT

def renamed():
    return "tool"
`,
		"files/conf.tmpl": "one",
	}
	digest := func(change func(map[string]string)) string {
		t.Helper()
		recipes, layered := fstest.MapFS{}, fstest.MapFS{}
		all := make(map[string]string)
		for name, text := range files {
			all[name] = text
		}
		change(all)
		for name, text := range all {
			if rest, ok := strings.CutPrefix(name, "files/"); ok {
				layered[rest] = &fstest.MapFile{Data: []byte(text)}
				continue
			}
			text = strings.Replace(text, `template.render("files/conf.tmpl", vars = {})`, `"files/conf.tmpl"`, 1)
			recipes[name] = &fstest.MapFile{Data: []byte(text)}
		}
		e := New(Config{Layers: []Layer{{Name: "tree", Prefix: "recipes", Recipes: recipes, Files: layered}}})
		r, err := e.Load("main.star")
		if err != nil {
			t.Fatal(e.Explain(err))
		}
		d, err := r.Step("step").Digest(e.loader)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	edit := func(file, from, to string) func(map[string]string) {
		return func(all map[string]string) {
			changed := strings.Replace(all[file], from, to, 1)
			if changed == all[file] {
				t.Fatalf("%s has no %q", file, from)
			}
			all[file] = changed
		}
	}
	base := digest(func(map[string]string) {})
	for name, change := range map[string]func(map[string]string){
		"the function":              edit("main.star", "f(1), ", "f(2), "),
		"a lambda in it":            edit("main.star", "near(x) + n", "near(x) - n"),
		"a helper":                  edit("main.star", "return x + PORT", "return x - PORT"),
		"a value of the file":       edit("main.star", "PORT = 22", "PORT = 23"),
		"a captured value":          edit("main.star", "make(3)", "make(4)"),
		"a loaded helper":           edit("lib.star", "return deeper(x)", "return deeper(x) + 1"),
		"a helper's helper":         edit("lib.star", "return x + LIMIT", "return LIMIT + x"),
		"a value that those reach":  edit("lib.star", "LIMIT = 7", "LIMIT = 8"),
		"a default":                 edit("lib.star", `"small": 1`, `"small": 2`),
		"a loaded, renamed helper":  edit("lib.star", `"tool"`, `"other"`),
		"a template":                edit("files/conf.tmpl", "one", "two"),
		"one of a circle of names":  edit("main.star", "return mutual_a\n", "return [mutual_a]\n"),
		"a template that went away": func(all map[string]string) { delete(all, "files/conf.tmpl") },
	} {
		if digest(change) == base {
			t.Errorf("%s changed, the digest didn't", name)
		}
	}
	for name, change := range map[string]func(map[string]string){
		"nothing":                 func(map[string]string) {},
		"a line above":            edit("main.star", "PORT = 22", "# The port.\n\nPORT = 22"),
		"a function without use":  edit("main.star", "return 1", "return 2"),
		"a value without use":     edit("main.star", "UNUSED = 1", "UNUSED = 2"),
		"what a recipe also says": edit("main.star", "steps = [make(3)]", "steps = [make(3)], outputs = lambda step: {}"),
	} {
		if digest(change) != base {
			t.Errorf("%s: the digest changed", name)
		}
	}
}
