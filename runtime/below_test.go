package runtime

import (
	"strings"
	"testing"
	"testing/fstest"
)

// TestPinsAreOfWhatIsBelow: a pin doesn't change with what the site has instead
// of a shipped file or value, and does with what is shipped.
func TestPinsAreOfWhatIsBelow(t *testing.T) {
	files := func(names ...string) fstest.MapFS {
		m := fstest.MapFS{}
		for i := 0; i < len(names); i += 2 {
			m[names[i]] = &fstest.MapFile{Data: []byte(names[i+1])}
		}
		return m
	}
	const shipped = `
load("versions.star", "SIZE", tool = "helper")

def nat():
    """NAT."""
    return ["files/nat.conf", SIZE, tool()]

def report(nat):
    """Report."""
    return nat

main = recipe(steps = [nat, report])
`
	const versions = "SIZE = 1\n\ndef helper():\n    return 1\n"
	of := ""
	engine := func(template, versions string, site ...string) *Engine {
		override := "load(\"@base//gw.star\", base = \"main\")\ndef loud(original):\n    \"\"\"Loud.\"\"\"\n    return original()\nmain = base.extend(wrap = {\"nat\": loud}" + of + ")\n"
		top := Layer{Name: "site", Prefix: "site/recipes", Recipes: files("gw.star", override), Files: files()}
		for i := 0; i < len(site); i += 2 {
			if rest, ok := strings.CutPrefix(site[i], "files/"); ok {
				top.Files.(fstest.MapFS)[rest] = &fstest.MapFile{Data: []byte(site[i+1])}
				continue
			}
			top.Recipes.(fstest.MapFS)[site[i]] = &fstest.MapFile{Data: []byte(site[i+1])}
		}
		return New(Config{Layers: []Layer{top, {Name: "tree", Prefix: "recipes", Recipes: files("gw.star", shipped, "versions.star", versions), Files: files("nat.conf", template)}}})
	}
	load := func(e *Engine) *Recipe {
		t.Helper()
		r, err := e.Load("gw.star")
		if err != nil {
			t.Fatal(e.Explain(err))
		}
		return r
	}
	e := engine("shipped", versions)
	digest, code, err := e.Code(load(e), "nat")
	if err != nil || !strings.Contains(code, "# versions.star\nSIZE = 1\n") || !strings.Contains(code, "# files/nat.conf\nshipped") {
		t.Fatalf("%v\n%s", err, code)
	}
	of = `, of = {"nat": "` + digest + `"}`
	ownTemplate := []string{"files/nat.conf", "the site's"}
	ownValue := []string{"versions.star", "load(\"@base//versions.star\", _helper = \"helper\")\nSIZE = 2\n\ndef helper():\n    return _helper() + 1\n"}
	for name, site := range map[string][]string{"nothing of its own": nil, "a template": ownTemplate, "values": ownValue} {
		e := engine("shipped", versions, site...)
		if st := load(e).Stale(); len(st) != 0 {
			t.Errorf("the site has %s, and the pin doesn't hold: %+v", name, st)
		}
		if got, _, err := e.Code(load(e), "nat"); err != nil || got != digest {
			t.Errorf("the site has %s: pinned anew it is %s, %v", name, got, err)
		}
		if st := load(engine("changed", versions, site...)).Stale(); len(st) != 1 || !strings.Contains(st[0].Code, "# files/nat.conf\nchanged") {
			t.Errorf("the site has %s, and a change of the shipped template goes unnoticed: %+v", name, st)
		}
		if st := load(engine("shipped", strings.Replace(versions, "SIZE = 1", "SIZE = 3", 1), site...)).Stale(); len(st) != 1 || !strings.Contains(st[0].Code, "SIZE = 3") {
			t.Errorf("the site has %s, and a change of the shipped values goes unnoticed: %+v", name, st)
		}
	}
	// What a run resumes by is what runs.
	runs := func(e *Engine) string {
		t.Helper()
		d, err := e.Digests(load(e))
		if err != nil {
			t.Fatal(err)
		}
		return d["nat"]
	}
	base := runs(engine("shipped", versions))
	for _, site := range [][]string{ownTemplate, ownValue} {
		if runs(engine("shipped", versions, site...)) == base {
			t.Errorf("the site has %s, and what runs has the same digest", site[0])
		}
	}
}
