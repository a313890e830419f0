package git

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// httpTransport speaks Git's smart protocol over HTTP.
type httpTransport struct {
	base   string // without a slash at its end
	user   string
	token  string
	client *http.Client
}

func newHTTP(u *url.URL, o Options) (*httpTransport, error) {
	base := *u
	base.User = nil
	t := &httpTransport{base: strings.TrimSuffix(base.String(), "/"), token: o.Token, user: "git"}
	if name := u.User.Username(); name != "" {
		t.user = name
	}
	rt := &http.Transport{ForceAttemptHTTP2: true, TLSHandshakeTimeout: dialTimeout, IdleConnTimeout: time.Minute,
		DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext}
	if o.Dialer != nil {
		rt.DialContext = o.Dialer.DialContext
	}
	if o.CA != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(o.CA)) {
			return nil, fault.New(fault.Invalid, "ca holds no PEM certificate")
		}
		rt.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	t.client = &http.Client{Transport: rt, CheckRedirect: func(req *http.Request, _ []*http.Request) error {
		return fault.Hinted(fault.Invalid, "give the repository's own URL", "the server redirects to %s", req.URL.Redacted())
	}}
	return t, nil
}

func (t *httpTransport) Close() error {
	t.client.CloseIdleConnections()
	return nil
}

func (t *httpTransport) open(ctx context.Context, service string) (exchange, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	x := &httpExchange{ctx: ctx, cancel: cancel, t: t, service: service}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.base+"/info/refs?service="+service, nil)
	if err != nil {
		x.close()
		return nil, fault.New(fault.Invalid, "%v", err)
	}
	if x.refs, err = x.do(req, "application/x-"+service+"-advertisement"); err != nil {
		defer x.close()
		return nil, x.explain(err)
	}
	return x, nil
}

type httpExchange struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	t       *httpTransport
	service string
	refs    io.Reader
	bodies  []io.Closer
}

var errIdle = fault.New(fault.Unreachable, "the server sent nothing for %s", idleTimeout)

// do sends req and returns the answer's body, which must be of that type.
func (x *httpExchange) do(req *http.Request, contentType string) (io.Reader, error) {
	req.Header.Set("User-Agent", "git/gsrun")
	if x.t.token != "" {
		req.SetBasicAuth(x.t.user, x.t.token)
	}
	idle := time.AfterFunc(idleTimeout, func() { x.cancel(errIdle) })
	resp, err := x.t.client.Do(req)
	idle.Stop()
	if err != nil {
		return nil, err
	}
	x.bodies = append(x.bodies, resp.Body)
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
		return nil, httpStatus(resp, strings.TrimSpace(string(said)))
	}
	if got := resp.Header.Get("Content-Type"); got != contentType {
		return nil, fault.Hinted(fault.NotFound, "check the URL: it must be that of the repository", "no Git repository is served here: the answer is of type %q", got)
	}
	return watch(resp.Body, func() { x.cancel(errIdle) }), nil
}

func httpStatus(resp *http.Response, said string) error {
	e := fault.New(fault.Failed, "the server answered %s", resp.Status)
	if said != "" && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		e.Err = fmt.Errorf("%w: %s", e.Err, said)
	}
	switch s := resp.StatusCode; {
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		e.Kind, e.Hint = fault.Denied, "check the token, and that it may do this: token = secret(...)"
	case s == http.StatusNotFound:
		e.Kind, e.Hint = fault.NotFound, "check the URL, and that the token may read the repository: some servers say this of one that it may not"
	case s == http.StatusTooManyRequests || s >= 500:
		e.Kind = fault.Unavailable
		e.After = fault.RetryAfter(resp.Header.Get("Retry-After"), resp.Header.Get("Date"))
	}
	return e
}

func (x *httpExchange) references() io.Reader { return x.refs }

func (x *httpExchange) send(request io.Reader) (io.Reader, error) {
	req, err := http.NewRequestWithContext(x.ctx, http.MethodPost, x.t.base+"/"+x.service, request)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-"+x.service+"-request")
	req.Header.Set("Accept", "application/x-"+x.service+"-result")
	return x.do(req, "application/x-"+x.service+"-result")
}

func (x *httpExchange) close() {
	for _, b := range x.bodies {
		b.Close()
	}
	x.cancel(nil)
}

func (x *httpExchange) explain(err error) error {
	if cerr := fault.FromContext(x.ctx); cerr != nil {
		return cerr
	}
	var own *fault.Error
	if errors.As(err, &own) {
		return own
	}
	var uerr *url.Error
	if errors.As(err, &uerr) {
		err = uerr.Err
	}
	var verify *tls.CertificateVerificationError
	if errors.As(err, &verify) {
		return fault.Hinted(fault.Untrusted, "give the certificate of the authority that issued it: ca = ...", "%w", err)
	}
	return fault.Hinted(fault.Unreachable, "check host, port and network", "%w", err)
}
