package artifact_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"go.starlark.net/starlark"

	client "git.vanillacore.net/govstack/gsrun/internal/client/artifact"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/artifact"
)

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// mirror serves small files, one of them only at the third try.
func mirror(t *testing.T) (string, *client.Lock) {
	const host = "/upstream.example.org/"
	files := map[string]string{"app.yaml": "hello: world\n", "changed": "new", "binary": "\xff\xfe", "flaky": "at last",
		"private": "p", "down": "d", "broken": "b", "large": strings.Repeat("x", 2000)}
	var asked atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, ok := files[r.URL.Path[len(host):]]
		switch {
		case !ok:
			http.NotFound(w, r)
		case r.URL.Path == host+"flaky" && asked.Add(1) < 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == host+"private":
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == host+"down":
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == host+"broken":
			panic(http.ErrAbortHandler)
		default:
			_, _ = w.Write([]byte(content))
		}
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // a connection is broken on purpose
	srv.Start()
	t.Cleanup(srv.Close)
	lock := client.NewLock("test.lock")
	files["gone"] = "gone"
	for name, content := range files {
		if name == "changed" {
			content = "old"
		}
		if err := lock.Set(client.Pin{Kind: client.KindFile, Source: "https:/" + host + name, SHA256: digest(content)}); err != nil {
			t.Fatal(err)
		}
	}
	delete(files, "gone")
	return srv.URL, lock
}

func options(t *testing.T, mode effect.Mode, fetched func(client.File)) startest.Options {
	url, lock := mirror(t)
	m := artifact.Module(artifact.Config{Lock: lock, Mirror: url, Cache: t.TempDir(), MaxSize: 1000, Fetched: fetched})
	t.Cleanup(func() {
		if err := m.Recv.(*artifact.Fetcher).Close(); err != nil {
			t.Error(err)
		}
	})
	return startest.Options{Door: startest.NewDoor(mode), Modules: []*builtin.Module{m},
		Globals: starlark.StringDict{"hello_sha256": starlark.String(digest("hello: world\n"))}}
}

func TestFetch(t *testing.T) {
	for name, mode := range map[string]effect.Mode{"apply": effect.Apply, "plan": effect.Plan} {
		t.Run(name, func(t *testing.T) {
			var urls []string
			startest.Run(t, "testdata/*.star", options(t, mode, func(f client.File) { urls = append(urls, f.URL) }))
			if !slices.Contains(urls, "https://upstream.example.org/app.yaml") || slices.Contains(urls, "https://upstream.example.org/gone") {
				t.Errorf("was told of %v", urls)
			}
		})
	}
}

// call fetches a file and returns the handle.
func call(t *testing.T, opts startest.Options, url string) starlark.Value {
	t.Helper()
	fetch, err := opts.Modules[0].Value().(starlark.HasAttrs).Attr("fetch")
	if err != nil {
		t.Fatal(err)
	}
	v, err := startest.Call(t, starlark.NewBuiltin("x", func(thread *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		return starlark.Call(thread, fetch, starlark.Tuple{starlark.String(url)}, nil)
	}), opts)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A fetched file goes to other primitives, and through the journal.
func TestLocalFile(t *testing.T) {
	v := call(t, options(t, effect.Apply, nil), "https://upstream.example.org/app.yaml")
	var l effect.LocalFile
	if err := l.Unpack(v); err != nil || l.SHA256 != digest("hello: world\n") || l.Size != 13 {
		t.Errorf("got %+v (%v)", l, err)
	}
	form, err := effect.Codec{}.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	back, err := effect.Codec{}.Decode(context.Background(), form)
	if err != nil {
		t.Fatal(err)
	}
	var again effect.LocalFile
	if err := again.Unpack(back); err != nil || again != l {
		t.Errorf("after the journal: %+v (%v)", again, err)
	}
}

// A copy that was changed after it was fetched isn't read.
func TestChangedCopy(t *testing.T) {
	opts := options(t, effect.Apply, nil)
	v := call(t, opts, "https://upstream.example.org/app.yaml")
	var l effect.LocalFile
	if err := l.Unpack(v); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.Path, []byte("evil: world!\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := v.(starlark.HasAttrs).Attr("text")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := startest.Call(t, text.(starlark.Callable), opts); fault.KindOf(err) != fault.Untrusted {
		t.Errorf("got %v", err)
	}
}

func TestTextsOnly(t *testing.T) {
	m := artifact.Module(artifact.Config{})
	if err := m.Recv.(*artifact.Fetcher).Close(); err != nil {
		t.Error(err)
	}
	opts := startest.Options{Modules: []*builtin.Module{m}}
	fetch, _ := m.Value().(starlark.HasAttrs).Attr("fetch")
	_, err := startest.Call(t, starlark.NewBuiltin("x", func(thread *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		return starlark.Call(thread, fetch, starlark.Tuple{starlark.String("https://a/b")}, nil)
	}), opts)
	if fault.KindOf(err) != fault.Invalid {
		t.Errorf("without a cache: %v", err)
	}
}
