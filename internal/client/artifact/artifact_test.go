package artifact_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/client/artifact"
	"git.vanillacore.net/govstack/gsrun/internal/durable"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A server serves content, badly where a test asks for that.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	files    map[string][]byte
	requests []string
	fail     func(w http.ResponseWriter, r *http.Request) bool // true: it answered
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.URL.RequestURI()+" "+r.Header.Get("Range"))
	content, ok := s.files[r.URL.RequestURI()]
	fail := s.fail
	s.mu.Unlock()
	if fail != nil && fail(w, r) {
		return
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", `"`+digest(content)[:8]+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

func newServer(t *testing.T, secure bool) *server {
	s := &server{files: make(map[string][]byte)}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // a test breaks its connections on purpose
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

const source = "https://upstream.example.org/dir/app.yaml"

var content = []byte(strings.Repeat("some content, of some length\n", 10000))

// pinned returns a client of the server as a mirror, whose lock pins content.
func pinned(t *testing.T, s *server) *artifact.Client {
	l := artifact.NewLock("gsrun.lock")
	if err := l.Set(artifact.Pin{Kind: artifact.KindFile, Source: source, SHA256: digest(content), Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	s.files["/m/upstream.example.org/dir/app.yaml"] = content
	c := &artifact.Client{Lock: l, Mirror: s.URL + "/m/", Cache: filepath.Join(t.TempDir(), "cache")}
	t.Cleanup(c.CloseIdle)
	return c
}

func TestFetchAndCache(t *testing.T) {
	s := newServer(t, false)
	c := pinned(t, s)
	for range 3 {
		f, err := c.Fetch(context.Background(), source)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(f.Path)
		if err != nil || !bytes.Equal(got, content) || f.SHA256 != digest(content) || f.Size != int64(len(content)) || f.URL != source {
			t.Fatalf("got %+v (%v)", f, err)
		}
		info, err := os.Stat(f.Path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v (%v)", info.Mode(), err)
		}
	}
	if n := s.count(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	// Another process finds it; a damaged copy is replaced.
	fresh := &artifact.Client{Lock: c.Lock, Mirror: c.Mirror, Cache: c.Cache}
	defer fresh.CloseIdle()
	f, err := fresh.Fetch(context.Background(), source)
	if err != nil || s.count() != 1 {
		t.Fatalf("%v, %d requests", err, s.count())
	}
	if err := os.WriteFile(f.Path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err = fresh.Fetch(context.Background(), source); err != nil || s.count() != 2 {
		t.Fatalf("%v, %d requests", err, s.count())
	}
	if got, _ := os.ReadFile(f.Path); !bytes.Equal(got, content) {
		t.Error("the damaged copy was handed out")
	}
}

func TestRefusals(t *testing.T) {
	s := newServer(t, false)
	for _, tt := range []struct {
		name, url string
		change    func(*artifact.Client)
		kind      fault.Kind
		want      string
	}{
		{"not pinned", "https://upstream.example.org/other", nil, fault.Untrusted, "isn't in gsrun.lock"},
		{"other content", source, func(*artifact.Client) { s.files["/m/upstream.example.org/dir/app.yaml"] = []byte("evil") }, fault.Untrusted, digest([]byte("evil"))},
		{"missing", source, func(*artifact.Client) { delete(s.files, "/m/upstream.example.org/dir/app.yaml") }, fault.NotFound, "404"},
		{"denied", source, func(*artifact.Client) { s.fail = status(403) }, fault.Denied, "403"},
		{"unavailable", source, func(*artifact.Client) { s.fail = status(503) }, fault.Unavailable, "503"},
		{"teapot", source, func(*artifact.Client) { s.fail = status(418) }, fault.Failed, "418"},
		{"larger than pinned", source, func(*artifact.Client) {
			s.files["/m/upstream.example.org/dir/app.yaml"] = append([]byte("x"), content...)
		}, fault.Limit, "more than"},
		{"too large", source, func(c *artifact.Client) { c.MaxSize = 10 }, fault.Limit, "more than 10 bytes"},
		{"nobody there", source, func(c *artifact.Client) { c.Mirror = "http://127.0.0.1:1" }, fault.Unreachable, "refused"},
		{"bad mirror", source, func(c *artifact.Client) { c.Mirror = "mirror" }, fault.Invalid, "mirror"},
		{"plain http", "http://upstream.example.org/x", func(c *artifact.Client) { c.Mirror = "" }, fault.Invalid, "scheme"},
		{"credentials", "https://u:hunter2@upstream.example.org/x", nil, fault.Invalid, "credentials"},
		{"fragment", "https://upstream.example.org/x#y", nil, fault.Invalid, "fragment"},
		{"dots", "https://upstream.example.org/a/../x", nil, fault.Invalid, "plain"},
		{"no url", "app.yaml", nil, fault.Invalid, "no URL"},
		{"redirect off the mirror", source, func(*artifact.Client) {
			s.fail = func(w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, "https://127.0.0.1:1/x", http.StatusFound)
				return true
			}
		}, fault.Untrusted, "the mirror redirects"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.fail = nil
			c := pinned(t, s)
			if tt.change != nil {
				tt.change(c)
			}
			_, err := c.Fetch(context.Background(), tt.url)
			if fault.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %s %v, want %s with %q", fault.KindOf(err), err, tt.kind, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Error("the error shows a password")
			}
			left, _ := filepath.Glob(filepath.Join(c.Cache, "sha256", "*"))
			hidden, _ := filepath.Glob(filepath.Join(c.Cache, "sha256", ".*"))
			if len(left)+len(hidden) > 0 {
				t.Errorf("left in the cache: %v %v", left, hidden)
			}
		})
	}
}

func status(code int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(code)
		return true
	}
}

func TestRetryAfter(t *testing.T) {
	s := newServer(t, false)
	c := pinned(t, s)
	s.fail = status(429)
	if _, err := c.Fetch(context.Background(), source); fault.AfterOf(err) != 7*time.Second {
		t.Errorf("asked to wait for %s: %v", fault.AfterOf(err), err)
	}
}

// A connection that breaks in the middle is taken up where it broke.
func TestResume(t *testing.T) {
	s := newServer(t, false)
	c := pinned(t, s)
	var broken atomic.Int32
	s.fail = func(w http.ResponseWriter, r *http.Request) bool {
		if broken.Add(1) > 3 {
			return false
		}
		var start int
		_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &start)
		w.Header().Set("ETag", `"`+digest(content)[:8]+`"`)
		w.Header().Set("Content-Length", fmt.Sprint(len(content)-start))
		if start > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, len(content)-1, len(content)))
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = w.Write(content[start : start+1000])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	if _, err := c.Fetch(context.Background(), source); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.requests, ", "); s.count() != 4 || !strings.Contains(got, "bytes=3000-") {
		t.Errorf("the requests were %s", got)
	}
}

// A file that changed between two parts is fetched anew, not mixed.
func TestResumeOfChangedFile(t *testing.T) {
	s := newServer(t, false)
	c := pinned(t, s)
	first := true
	s.fail = func(w http.ResponseWriter, _ *http.Request) bool {
		if !first {
			return false
		}
		first = false
		w.Header().Set("ETag", `"another"`)
		w.Header().Set("Content-Length", "5000")
		_, _ = w.Write(bytes.Repeat([]byte("x"), 1000))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	if _, err := c.Fetch(context.Background(), source); err != nil {
		t.Fatal(err)
	}
}

// What a killed download left is removed, and not what another one is writing
// now.
func TestSweep(t *testing.T) {
	s := newServer(t, false)
	c := pinned(t, s)
	dir := filepath.Join(c.Cache, "sha256")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	left, err := durable.Temp(dir)
	if err != nil {
		t.Fatal(err)
	}
	left.Close() // as the end of its process does
	other, err := durable.Temp(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := c.Fetch(context.Background(), source); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left.Name()); !os.IsNotExist(err) {
		t.Errorf("the leftover is there: %v", err)
	}
	if _, err := os.Stat(other.Name()); err != nil {
		t.Errorf("the other download's file is gone: %v", err)
	}
}

func TestCancel(t *testing.T) {
	s := newServer(t, false)
	c := pinned(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.fail = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Length", "5000")
		_, _ = w.Write([]byte("x"))
		w.(http.Flusher).Flush()
		cancel()
		<-r.Context().Done()
		return true
	}
	start := time.Now()
	if _, err := c.Fetch(ctx, source); fault.KindOf(err) != fault.Cancelled {
		t.Errorf("got %v", err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("it took %s to end", d)
	}
}

// Many steps that want one file fetch it once.
func TestFetchTogether(t *testing.T) {
	s := newServer(t, false)
	c := pinned(t, s)
	errs := make(chan error)
	for range 10 {
		go func() {
			_, err := c.Fetch(context.Background(), source)
			errs <- err
		}()
	}
	for range 10 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := s.count(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// Without a mirror, the upstream is asked by https, and redirects stay there.
func TestUpstream(t *testing.T) {
	s := newServer(t, true)
	plain := newServer(t, false)
	s.files["/a?x=1"] = []byte("upstream")
	c := &artifact.Client{AllowUnlocked: true, Cache: t.TempDir(), HTTP: s.Client()}
	f, err := c.Fetch(context.Background(), s.URL+"/a?x=1")
	if err != nil || f.SHA256 != digest([]byte("upstream")) {
		t.Fatalf("%+v %v", f, err)
	}
	s.fail = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/away" {
			return false
		}
		http.Redirect(w, r, plain.URL+"/x", http.StatusFound)
		return true
	}
	if _, err := c.Fetch(context.Background(), s.URL+"/away"); fault.KindOf(err) != fault.Untrusted {
		t.Errorf("a redirect to http: %v", err)
	}
	stranger := &artifact.Client{AllowUnlocked: true, Cache: t.TempDir()}
	defer stranger.CloseIdle()
	if _, err := stranger.Fetch(context.Background(), s.URL+"/a?x=1"); fault.KindOf(err) != fault.Untrusted {
		t.Errorf("a certificate that nobody trusts: %v", err)
	}
}

func TestVendor(t *testing.T) {
	s := newServer(t, false)
	c := pinned(t, s)
	other := "https://upstream.example.org/other"
	s.files["/m/upstream.example.org/other"] = []byte("other")
	s.files["/m/upstream.example.org/dir/app.yaml"] = []byte("new")
	failed := 0
	s.fail = func(w http.ResponseWriter, r *http.Request) bool {
		if failed >= 2 {
			return false
		}
		failed++
		return status(503)(w, r)
	}
	var slept []time.Duration
	c.Sleep = func(_ context.Context, d time.Duration) error {
		slept = append(slept, d)
		return nil
	}
	var told []artifact.Pin
	pins, err := artifact.Vendor(context.Background(), c, []string{other, source}, func(old, now artifact.Pin) error {
		told = append(told, old, now)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pins) != 2 || pins[0].SHA256 != digest([]byte("other")) || pins[0].Size != 5 || pins[1].SHA256 != digest([]byte("new")) {
		t.Errorf("pins %+v", pins)
	}
	if len(told) != 2 || told[0].SHA256 != digest(content) || told[1].SHA256 != digest([]byte("new")) {
		t.Errorf("told of %+v", told)
	}
	if len(slept) != 2 || slept[0] != 7*time.Second {
		t.Errorf("slept %v", slept)
	}
	if _, err := artifact.Vendor(context.Background(), c, []string{source}, func(_, _ artifact.Pin) error {
		return fault.New(fault.Untrusted, "it changed")
	}); fault.KindOf(err) != fault.Untrusted {
		t.Errorf("a refused change: %v", err)
	}
	if p, _ := c.Lock.Find(artifact.KindFile, source); p.SHA256 != digest(content) {
		t.Error("Vendor wrote to the lock")
	}
}
