// Package arch holds the import rule: which parts of the tree may import which.
package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "git.vanillacore.net/govstack/gsrun"

// A part is a folder of the tree with what is below it, and the parts that it
// may import beside itself.
type part struct {
	dir string
	may []string
}

// parts lists every part. A package belongs to the part with the longest
// folder that it lies in; arrows point down.
func parts() []part {
	stdlib := []string{"runtime/builtin", "runtime/effect", "internal/fault"}
	list := []part{
		{"cmd", []string{"runtime", "runtime/assert", "runtime/thread", "runtime/builtin", "runtime/effect", "runtime/journal", "runtime/dialect", "stdlib", "stdlib/secret", "recipes", "internal/lab", "internal/site", "internal/client", "internal/durable", "internal/fault"}},
		{"recipes", nil},
		{"runtime", []string{"runtime/builtin", "runtime/effect", "runtime/dialect", "runtime/thread", "internal/fault"}},
		{"runtime/assert", []string{"runtime/effect", "internal/fault"}},
		{"runtime/startest", []string{"runtime/assert", "runtime/builtin", "runtime/effect", "runtime/dialect", "runtime/thread", "internal/fault"}},
		{"runtime/thread", []string{"runtime/builtin", "internal/fault"}},
		{"runtime/dialect", []string{"runtime/effect", "internal/fault"}},
		{"runtime/builtin", []string{"runtime/effect", "internal/fault"}},
		{"runtime/journal", []string{"runtime/effect", "internal/durable", "internal/fault"}},
		{"runtime/effect", []string{"internal/fault"}},
		{"internal/client", []string{"internal/fault"}},
		// What tests start may leave a test out, and nothing else.
		{"internal/client/ssh/sshtest", []string{"internal/client/ssh", "internal/fault", "internal/skip"}},
		{"internal/client/git/gittest", []string{"internal/client/git", "internal/fault", "internal/skip"}},
		{"internal/lab/real/hosts/hoststest", []string{"internal/lab", "internal/skip"}},
		{"internal/skip", nil},
		{"internal/lab", []string{"internal/site", "internal/fault"}},
		{"internal/lab/kubernetes", nil},
		{"internal/bench", []string{"runtime", "runtime/builtin", "runtime/dialect", "runtime/effect", "runtime/journal", "stdlib/openstack", "internal/lab"}},
		{"internal/site", []string{"internal/fault"}},
		{"internal/fault", nil},
		{"internal/durable", nil},
		{"internal/arch", nil},
		{"internal/agree", nil},       // only a test
		{"internal/conformance", nil}, // only a test
	}
	all := []string{"runtime/builtin", "runtime/effect", "internal/client", "internal/fault"}
	entries, _ := os.ReadDir("../../stdlib")
	for _, e := range entries {
		if !e.IsDir() || e.Name() == "testdata" {
			continue
		}
		// A module may import its own client and no other.
		list = append(list, part{"stdlib/" + e.Name(), append(slices.Clone(stdlib), "internal/client/"+e.Name())})
		all = append(all, "stdlib/"+e.Name())
	}
	clients, _ := os.ReadDir("../../internal/client")
	for _, e := range clients {
		list = append(list, part{"internal/client/" + e.Name(), []string{"internal/durable", "internal/fault"}})
		all = append(all, "internal/client/"+e.Name())
		list[0].may = append(list[0].may, "internal/client/"+e.Name())
	}
	return append(list, part{"stdlib", all})
}

func TestImports(t *testing.T) {
	table := parts()
	find := func(dir string) *part {
		var longest *part
		for i, p := range table {
			if (dir == p.dir || strings.HasPrefix(dir, p.dir+"/")) && (longest == nil || len(p.dir) > len(longest.dir)) {
				longest = &table[i]
			}
		}
		return longest
	}
	files := 0
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != ".") {
			return fs.SkipDir
		}
		// A test stands above what it tests: it may use a lab.
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || path.Dir(name) == "examples" {
			return nil
		}
		files++
		from := find(path.Dir(name))
		if from == nil {
			t.Errorf("%s is in no row of the table", name)
			return nil
		}
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value)
			to, local := strings.CutPrefix(imp, module+"/")
			if !local {
				continue
			}
			target := find(to)
			if target == nil {
				t.Errorf("%s imports %s, which is in no row of the table", name, to)
			} else if target.dir != from.dir && !slices.Contains(from.may, target.dir) {
				t.Errorf("%s: %s must not import %s", fset.Position(spec.Pos()), from.dir, target.dir)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 {
		t.Fatalf("only %d files were looked at", files)
	}
}
