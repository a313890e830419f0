// Package artifact fetches files by URL, checks them against the digests that
// a site has pinned, and keeps them in a cache by digest.
package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// MaxSize is the largest file that is fetched unless a Client says otherwise:
// enough for a cloud image.
const MaxSize = 8 << 30

// A Client fetches pinned files. It may be used by several goroutines at once.
type Client struct {
	// Lock holds the digests. Nil is an empty lock.
	Lock *Lock
	// Mirror is the base URL of a mirror. If set, https://HOST/PATH is fetched
	// from MIRROR/HOST/PATH, and nothing else is asked.
	Mirror string
	// Cache is the folder that files are kept in, made when it is needed.
	Cache string
	// AllowUnlocked lets files be fetched whose digest isn't pinned.
	AllowUnlocked bool
	// HTTP is the client whose transport is used; nil means one of its own
	// that uses no proxy of the environment.
	HTTP *http.Client
	// MaxSize is the largest file in bytes; 0 means MaxSize.
	MaxSize int64
	// Progress is told about a download that goes on; nil means nobody is.
	Progress func(ctx context.Context, url string, done, total int64)
	// Sleep waits between the tries of Vendor; nil means the system's clock.
	Sleep func(context.Context, time.Duration) error

	once     sync.Once
	own      *http.Client
	mu       sync.Mutex
	busy     map[string]chan struct{} // by source: being fetched
	verified map[string]stamp         // by path: read and found right in this process
}

// stamp tells whether a file was written to since it was verified.
type stamp struct {
	size int64
	mod  time.Time
}

// A File is a fetched file in the cache.
type File struct {
	URL    string // the upstream URL, whatever it was fetched from
	Path   string // the local copy: read only
	SHA256 string
	Size   int64
}

// Fetch returns the local copy of the file at url, which it downloads if the
// cache lacks it. Errors: Invalid for a URL that can't be fetched, Untrusted
// for one that isn't pinned or whose content isn't what was pinned, NotFound,
// Denied, Unreachable, Unavailable, and Limit for a file that is too large.
func (c *Client) Fetch(ctx context.Context, source string) (File, error) {
	if err := checkURL(source, c.Mirror != ""); err != nil {
		return File{}, err
	}
	want, err := c.pinned(source)
	if err != nil {
		return File{}, err
	}
	done, err := c.begin(ctx, source)
	if err != nil {
		return File{}, fault.Wrap("fetching", source, err)
	}
	defer done()
	if want.SHA256 != "" {
		f, ok, err := c.cached(ctx, want)
		if err != nil {
			return File{}, fault.Wrap("reading the cached copy of", source, err)
		}
		if ok {
			return f, nil
		}
	}
	return c.download(ctx, source, want)
}

// pinned returns the pin of source, or one without a digest where that is
// allowed.
func (c *Client) pinned(source string) (Pin, error) {
	name := "the lock"
	if c.Lock != nil {
		if p, ok := c.Lock.Find(KindFile, source); ok {
			return p, nil
		}
		name = c.Lock.Name()
	}
	if c.AllowUnlocked {
		return Pin{Kind: KindFile, Source: source}, nil
	}
	return Pin{}, &fault.Error{Op: "fetching", Target: source, Kind: fault.Untrusted,
		Hint: "run `gsrun vendor` to fetch it once and record its digest",
		Err:  fmt.Errorf("its digest isn't in %s", name)}
}

// begin waits until nobody else in this process fetches source.
func (c *Client) begin(ctx context.Context, source string) (func(), error) {
	for {
		c.mu.Lock()
		ch, taken := c.busy[source]
		if !taken {
			if c.busy == nil {
				c.busy = make(map[string]chan struct{})
			}
			ch = make(chan struct{})
			c.busy[source] = ch
			c.mu.Unlock()
			return func() {
				c.mu.Lock()
				delete(c.busy, source)
				c.mu.Unlock()
				close(ch)
			}, nil
		}
		c.mu.Unlock()
		select {
		case <-ch:
		case <-ctx.Done():
			return nil, fault.FromContext(ctx)
		}
	}
}

func (c *Client) path(digest string) string { return filepath.Join(c.Cache, "sha256", digest) }

// cached returns the file of that digest from the cache. It is read in full
// the first time in a process: a copy that was damaged is thrown away.
func (c *Client) cached(ctx context.Context, want Pin) (File, bool, error) {
	path := c.path(want.SHA256)
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return File{}, false, nil
	}
	if err != nil {
		return File{}, false, &fault.Error{Kind: fault.Failed, Err: err}
	}
	f := File{URL: want.Source, Path: path, SHA256: want.SHA256, Size: info.Size()}
	now := stamp{info.Size(), info.ModTime()}
	c.mu.Lock()
	ok := c.verified[path] == now
	c.mu.Unlock()
	if ok {
		return f, true, nil
	}
	got, err := digestOf(ctx, path)
	if err != nil {
		return File{}, false, err
	}
	if got != want.SHA256 {
		if err := os.Remove(path); err != nil {
			return File{}, false, &fault.Error{Kind: fault.Failed, Err: err}
		}
		return File{}, false, nil
	}
	c.remember(path, now)
	return f, true, nil
}

func (c *Client) remember(path string, s stamp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.verified == nil {
		c.verified = make(map[string]stamp)
	}
	c.verified[path] = s
}

func digestOf(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", &fault.Error{Kind: fault.Failed, Err: err}
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, &contextReader{ctx, f}); err != nil {
		if cerr := fault.FromContext(ctx); cerr != nil {
			return "", cerr
		}
		return "", &fault.Error{Kind: fault.Failed, Err: err}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// contextReader ends with the error of its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// checkURL refuses what can't or mustn't be fetched. Plain HTTP is only for
// mirrors, which a site names itself.
func checkURL(source string, mirrored bool) error {
	refuse := func(hint, format string, args ...any) error {
		return &fault.Error{Op: "fetching", Target: redactURL(source), Kind: fault.Invalid, Hint: hint, Err: fmt.Errorf(format, args...)}
	}
	u, err := url.Parse(source)
	if err != nil || u.Host == "" {
		return refuse("give the upstream URL: https://HOST/PATH", "it is no URL with a host")
	}
	if u.Scheme != "https" && !(mirrored && u.Scheme == "http") {
		return refuse("use https, or let the site name a mirror", "scheme %q isn't fetched", u.Scheme)
	}
	if u.User != nil {
		return refuse("artifacts are public files; a mirror may ask for credentials", "the URL has credentials in it")
	}
	if u.Fragment != "" {
		return refuse("drop the part after #", "the URL has a fragment")
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if part == ".." || part == "." {
			return refuse("write the path without . and ..", "the URL's path isn't plain")
		}
	}
	return nil
}

// redactURL returns source without its credentials.
func redactURL(source string) string {
	u, err := url.Parse(source)
	if err != nil {
		return "a URL"
	}
	return u.Redacted()
}

// location returns where source is really fetched from.
func (c *Client) location(source string) (string, error) {
	if c.Mirror == "" {
		return source, nil
	}
	m, err := url.Parse(c.Mirror)
	if err != nil || m.Host == "" || m.Scheme != "http" && m.Scheme != "https" {
		return "", &fault.Error{Op: "using", Target: "mirror " + redactURL(c.Mirror), Kind: fault.Invalid,
			Hint: "a mirror is named by a base URL such as https://mirror.example.org/files", Err: errors.New("it is no http or https URL")}
	}
	u, _ := url.Parse(source) // checked before
	m.RawQuery, m.Fragment = "", ""
	out := strings.TrimSuffix(m.String(), "/") + "/" + u.Host + u.EscapedPath()
	if u.RawQuery != "" {
		out += "?" + u.RawQuery
	}
	return out, nil
}
