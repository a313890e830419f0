package openstack_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// speaking is a Nova that says that it speaks so.
func speaking(t *testing.T, document string, status int) (*openstack.Client, func() string) {
	t.Helper()
	var mu sync.Mutex
	var calls []string
	c := fake(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, r.Method+" "+r.URL.Path+" "+r.Header.Get("OpenStack-API-Version"))
		if strings.HasSuffix(r.URL.Path, "/v2.1/") {
			w.WriteHeader(status)
			fmt.Fprint(w, document)
			return
		}
		fmt.Fprint(w, "{}")
	})
	return c, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(calls, ", ")
	}
}

func versionOf(max string) string {
	return `{"version": {"id": "v2.1", "version": "` + max + `", "min_version": "2.1"}}`
}

func TestMicroversionsAreNegotiated(t *testing.T) {
	const asked = "GET /compute/v2.1/ "
	for name, c := range map[string]struct {
		document string
		status   int
		version  string
		calls    string
		err      string
	}{
		"the base":       {versionOf("2.12"), 200, "", "GET /compute/v2.1/x ", ""},
		"the base named": {versionOf("2.12"), 200, "2.1", "GET /compute/v2.1/x compute 2.1", ""},
		"enough":         {versionOf("2.93"), 200, "2.19", asked + ", GET /compute/v2.1/x compute 2.19", ""},
		"just enough":    {versionOf("2.19"), 200, "2.19", asked + ", GET /compute/v2.1/x compute 2.19", ""},
		"too old":        {versionOf("2.9"), 200, openstack.ServerVersion, asked, "Nova of cloud x speaks the microversions 2.1 to 2.9, and servers need " + openstack.ServerVersion},
		"a list":         {`{"versions": [{"id": "v2.0", "version": "", "min_version": ""}, {"id": "v2.1", "version": "2.12", "min_version": "2.1"}]}`, 300, "2.50", asked, "2.1 to 2.12, and this call needs 2.50"},
		"no document":    {"", 404, "2.19", asked + ", GET /compute/v2.1/x compute 2.19", ""},
		"no JSON":        {"<html>", 200, "2.19", asked + ", GET /compute/v2.1/x compute 2.19", ""},
		"no versions":    {`{"version": {"id": "v2.1", "version": ""}}`, 200, "2.19", asked + ", GET /compute/v2.1/x compute 2.19", ""},
	} {
		t.Run(name, func(t *testing.T) {
			client, calls := speaking(t, c.document, c.status)
			_, err := client.Do(context.Background(), openstack.Call{Service: openstack.Compute, Version: c.version, Method: "GET", Path: "/x"})
			if (err != nil) != (c.err != "") || err != nil && (fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got %v (%s), want %q", err, fault.KindOf(err), c.err)
			}
			if got := calls(); got != c.calls {
				t.Errorf("called %q, want %q", got, c.calls)
			}
		})
	}
}

// TestVersionsAreAskedForOnce sends many calls at the same time.
func TestVersionsAreAskedForOnce(t *testing.T) {
	client, calls := speaking(t, versionOf("2.93"), 200)
	var group sync.WaitGroup
	for range 30 {
		group.Go(func() {
			if _, err := client.Do(context.Background(), openstack.Call{Service: openstack.Compute, Version: "2.19", Method: "GET", Path: "/x"}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := strings.Count(calls(), "GET /compute/v2.1/ "); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// TestServiceThatIsDownIsNoOldOne asks again what couldn't be asked.
func TestServiceThatIsDownIsNoOldOne(t *testing.T) {
	down := true
	client := fake(t, func(w http.ResponseWriter, r *http.Request) {
		if down {
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(503)
			return
		}
		fmt.Fprint(w, versionOf("2.93"))
	})
	call := openstack.Call{Service: openstack.Compute, Version: "2.19", Method: "GET", Path: "/x"}
	if _, err := client.Do(context.Background(), call); fault.KindOf(err) != fault.Unavailable || fault.AfterOf(err).Seconds() != 3 {
		t.Errorf("got %v", err)
	}
	down = false
	if _, err := client.Do(context.Background(), call); err != nil {
		t.Error(err)
	}
}

// TestEveryVersionIsInTheTable reads the constants and the calls of the module.
func TestEveryVersionIsInTheTable(t *testing.T) {
	uses := make(map[string]bool)
	for _, u := range openstack.Uses() {
		if u.Calls == "" || u.Why == "" {
			t.Errorf("%+v lacks a text", u)
		}
		uses[u.Version] = true
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "microversion.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	constants := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasSuffix(spec.Names[0].Name, "Version") || len(spec.Values) != 1 {
			return true
		}
		constants++
		if v, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value); err != nil || !uses[v] {
			t.Errorf("%s isn't in the table", spec.Names[0].Name)
		}
		return true
	})
	if constants < 3 {
		t.Errorf("%d constants", constants)
	}
	// A version that stands in the calls themselves would be in no table.
	files, err := filepath.Glob("../../../stdlib/openstack/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if kv, ok := n.(*ast.KeyValueExpr); ok {
				if key, ok := kv.Key.(*ast.Ident); ok && strings.EqualFold(key.Name, "version") {
					if lit, ok := kv.Value.(*ast.BasicLit); ok && lit.Kind == token.STRING {
						t.Errorf("%s: %s: name it in microversion.go", fset.Position(lit.Pos()), lit.Value)
					}
				}
			}
			return true
		})
	}
}

func TestHighest(t *testing.T) {
	for want, of := range map[string][]string{"": nil, "2.19": {"2.9", "2.19", ""}, "3.2": {"3.2", "2.93"}, "2.1": {"", "2.1"}} {
		if got := openstack.Highest(of...); got != want {
			t.Errorf("the highest of %q is %q, want %q", of, got, want)
		}
	}
}
