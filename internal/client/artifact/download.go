package artifact

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/durable"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

const (
	maxRedirects  = 10
	maxResumes    = 100
	dialTimeout   = 30 * time.Second
	headerTimeout = time.Minute
	// stallTimeout is how long a download may bring no byte before the
	// connection counts as broken.
	stallTimeout  = time.Minute
	progressEvery = 16 << 20
)

// client returns the HTTP client, with the rule for redirects: to https, or
// within the mirror.
func (c *Client) client() *http.Client {
	c.once.Do(func() {
		own := &http.Client{Transport: &http.Transport{
			ForceAttemptHTTP2: true, DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, ResponseHeaderTimeout: headerTimeout,
			TLSHandshakeTimeout: 20 * time.Second, IdleConnTimeout: 30 * time.Second, MaxIdleConnsPerHost: 4,
		}}
		if c.HTTP != nil {
			copied := *c.HTTP
			own = &copied
		}
		own.CheckRedirect = func(req *http.Request, via []*http.Request) error {
			if len(via) >= maxRedirects {
				return fault.New(fault.Invalid, "more than %d redirects", maxRedirects)
			}
			if m, err := url.Parse(c.Mirror); err == nil && c.Mirror != "" {
				if req.URL.Scheme != m.Scheme || req.URL.Host != m.Host {
					return fault.Hinted(fault.Untrusted, "put the file itself on the mirror", "the mirror redirects to %s", req.URL.Redacted())
				}
				return nil
			}
			if req.URL.Scheme != "https" {
				return fault.Hinted(fault.Untrusted, "name the final URL, or a mirror", "redirected from https to %s", req.URL.Redacted())
			}
			return nil
		}
		c.own = own
	})
	return c.own
}

// CloseIdle closes the connections that are kept for later.
func (c *Client) CloseIdle() { c.client().CloseIdleConnections() }

// transfer is one download into a temporary file, over as many connections as
// it takes.
type transfer struct {
	from  string
	file  *os.File
	sum   hash.Hash
	have  int64
	limit int64
	etag  string // of the first answer: the rest must be of the same content
}

func (c *Client) download(ctx context.Context, source string, want Pin) (File, error) {
	from, err := c.location(source)
	if err != nil {
		return File{}, err
	}
	at := source
	if from != source {
		at = fmt.Sprintf("%s (from %s)", source, redactURL(from))
	}
	dir := filepath.Join(c.Cache, "sha256")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return File{}, &fault.Error{Op: "fetching", Target: at, Kind: fault.Failed, Err: err}
	}
	tmp, err := durable.Temp(dir)
	if err != nil {
		return File{}, &fault.Error{Op: "fetching", Target: at, Kind: fault.Failed, Err: err}
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	t := &transfer{from: from, file: tmp, sum: sha256.New(), limit: c.MaxSize}
	if t.limit <= 0 {
		t.limit = MaxSize
	}
	if want.Size > 0 {
		t.limit = min(t.limit, want.Size)
	}
	for broken := 0; ; broken++ {
		before := t.have
		err := c.attempt(ctx, source, t)
		if err == nil {
			break
		}
		if cerr := fault.FromContext(ctx); cerr != nil {
			return File{}, fault.Wrap("fetching", at, cerr)
		}
		// A connection that broke after it brought something is taken up
		// again; one that brought nothing is left to the caller's patience.
		if fault.KindOf(err) == fault.Unreachable && t.have > before && broken < maxResumes {
			continue
		}
		return File{}, &fault.Error{Op: "fetching", Target: at, Kind: fault.KindOf(err), Hint: fault.HintOf(err), After: fault.AfterOf(err), Err: err}
	}
	return c.keep(t, source, at, want)
}

// keep moves a download that is what it should be into the cache.
func (c *Client) keep(t *transfer, source, at string, want Pin) (File, error) {
	got := hex.EncodeToString(t.sum.Sum(nil))
	if want.SHA256 != "" && got != want.SHA256 {
		return File{}, &fault.Error{Op: "fetching", Target: at, Kind: fault.Untrusted,
			Hint: "find out why the file changed; if the new content is right, run `gsrun vendor` to pin it",
			Err:  fmt.Errorf("its SHA-256 is %s, but %s pins %s", got, c.Lock.Name(), want.SHA256)}
	}
	path := c.path(got)
	if err := durable.Commit(t.file, path, 0o600); err != nil {
		return File{}, &fault.Error{Op: "keeping", Target: at, Kind: fault.Failed, Err: err}
	}
	if info, err := os.Stat(path); err == nil {
		c.remember(path, stamp{info.Size(), info.ModTime()})
	}
	return File{URL: source, Path: path, SHA256: got, Size: t.have}, nil
}

// attempt asks once for what is missing of t.
func (c *Client) attempt(ctx context.Context, source string, t *transfer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.from, nil)
	if err != nil {
		return fault.New(fault.Invalid, "%v", err)
	}
	// A transparently unpacked body would have another digest than the file.
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "gsrun")
	if t.have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", t.have))
		if t.etag != "" {
			req.Header.Set("If-Range", t.etag)
		}
	}
	resp, err := c.client().Do(req)
	if err != nil {
		return connectionError(err)
	}
	defer resp.Body.Close()
	total := int64(-1)
	switch {
	case resp.StatusCode == http.StatusOK:
		if err := t.restart(); err != nil {
			return err
		}
		t.etag = resp.Header.Get("ETag")
		total = resp.ContentLength
	case resp.StatusCode == http.StatusPartialContent && t.have > 0:
		start, whole, ok := contentRange(resp.Header.Get("Content-Range"))
		if !ok || start != t.have {
			return fault.New(fault.Failed, "asked for the rest from byte %d, got the range %q", t.have, resp.Header.Get("Content-Range"))
		}
		total = whole
	default:
		return statusError(resp)
	}
	if total > t.limit {
		return tooLarge(t.limit)
	}
	return c.body(ctx, cancel, source, resp.Body, t, total)
}

// body copies the answer until it ends. A server that sends nothing for a
// while is given up.
func (c *Client) body(ctx context.Context, cancel context.CancelCauseFunc, source string, r io.Reader, t *transfer, total int64) error {
	stalled := fmt.Errorf("no data for %s", stallTimeout)
	stall := time.AfterFunc(stallTimeout, func() { cancel(stalled) })
	defer stall.Stop()
	buf := make([]byte, 128<<10)
	told := t.have
	for {
		n, err := r.Read(buf)
		if n > 0 {
			stall.Reset(stallTimeout)
			if t.have+int64(n) > t.limit {
				return tooLarge(t.limit)
			}
			if _, werr := t.file.Write(buf[:n]); werr != nil {
				return fault.New(fault.Failed, "%v", werr)
			}
			t.sum.Write(buf[:n])
			t.have += int64(n)
			if c.Progress != nil && t.have-told >= progressEvery {
				told = t.have
				c.Progress(ctx, source, t.have, total)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			if total >= 0 && t.have != total {
				return fault.New(fault.Unreachable, "the connection ended after %d of %d bytes", t.have, total)
			}
			return nil
		case err != nil:
			if cause := context.Cause(ctx); errors.Is(cause, stalled) {
				err = cause
			}
			return fault.New(fault.Unreachable, "the connection broke after %d bytes: %v", t.have, err)
		}
	}
}

// restart forgets what t has: the server sends all of it again.
func (t *transfer) restart() error {
	if t.have == 0 {
		return nil
	}
	if _, err := t.file.Seek(0, io.SeekStart); err != nil {
		return fault.New(fault.Failed, "%v", err)
	}
	if err := t.file.Truncate(0); err != nil {
		return fault.New(fault.Failed, "%v", err)
	}
	t.sum.Reset()
	t.have = 0
	return nil
}

func tooLarge(limit int64) error {
	return fault.Hinted(fault.Limit, "run `gsrun vendor` if the file is meant to be larger than what was pinned", "it has more than %d bytes", limit)
}

// contentRange reads "bytes 100-199/200".
func contentRange(s string) (start, total int64, ok bool) {
	var end int64
	if n, err := fmt.Sscanf(s, "bytes %d-%d/%d", &start, &end, &total); n == 3 && err == nil {
		return start, total, true
	}
	if n, err := fmt.Sscanf(s, "bytes %d-%d/*", &start, &end); n == 2 && err == nil {
		return start, end + 1, true
	}
	return 0, 0, false
}

// connectionError says why no answer came.
func connectionError(err error) error {
	var own *fault.Error
	if errors.As(err, &own) {
		return own
	}
	var uerr *url.Error
	if errors.As(err, &uerr) {
		err = uerr.Err
	}
	var verify *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &verify) || errors.As(err, &unknown) {
		return fault.Hinted(fault.Untrusted, "check the host, its certificate and this machine's CA certificates", "%v", err)
	}
	return fault.Hinted(fault.Unreachable, "check the network, or let the site name a mirror", "%v", err)
}

// statusError says what an answer other than success means.
func statusError(resp *http.Response) error {
	e := fault.New(fault.Failed, "the server answered %s", resp.Status)
	switch s := resp.StatusCode; {
	case s == http.StatusNotFound || s == http.StatusGone:
		e.Kind, e.Hint = fault.NotFound, "check the URL; with a mirror, put the file there as MIRROR/HOST/PATH"
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		e.Kind = fault.Denied
	case s == http.StatusTooManyRequests || s >= 500:
		e.Kind = fault.Unavailable
		e.After = fault.RetryAfter(resp.Header.Get("Retry-After"), resp.Header.Get("Date"))
	}
	return e
}
