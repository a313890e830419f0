// Package apiproxy stands in front of a lab's Kubernetes API server and makes
// requests go wrong.
//
// While there are no faults it only joins connections, and the client speaks
// TLS with the API server itself. With faults it speaks TLS with the client,
// as the API server would, and passes requests on as the same user. So nothing
// is slower where nothing is to go wrong.
package apiproxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/inject"
)

// A Cluster is the API server behind a proxy.
type Cluster interface {
	// Serving returns the certificate that the API server shows.
	Serving() (tls.Certificate, error)
	// CA returns the certificate of the authority of its clients, as PEM.
	CA() []byte
	// REST returns how to call the API server as a user.
	REST(user string, groups ...string) (*rest.Config, error)
}

// A Config says what a proxy stands in front of. All fields are required.
type Config struct {
	Cluster Cluster
	Address string // of the API server
	Host    string // name of the host that the cluster runs on
	Faults  *inject.Set[Fault]
}

// A Proxy serves connections to one API server.
type Proxy struct {
	cfg    Config
	server *http.Server
	conns  *queue
	ended  chan struct{} // closed once the server has ended

	mu     sync.Mutex
	closed bool
	joined map[net.Conn]struct{} // connections that faults can't be had on
	users  map[string]http.RoundTripper
}

// New returns a proxy. It has to be closed.
func New(c Config) (*Proxy, error) {
	cert, err := c.Cluster.Serving()
	if err != nil {
		return nil, fault.Wrap("reading", "the API server's certificate", err)
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(c.Cluster.CA()) {
		return nil, fault.New(fault.Internal, "the cluster's authority has no certificate")
	}
	p := &Proxy{cfg: c, conns: newQueue(), ended: make(chan struct{}), joined: make(map[net.Conn]struct{}), users: make(map[string]http.RoundTripper)}
	p.server = &http.Server{
		Handler:           http.HandlerFunc(p.serve),
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: clients},
		ReadHeaderTimeout: time.Minute,
		// Clients that break connections are no news here.
		ErrorLog:    log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	go func() {
		defer close(p.ended)
		_ = p.server.ServeTLS(p.conns, "", "") // it ends by Close
	}()
	return p, nil
}

type connKey struct{}

// Close breaks all connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Break()
	_ = p.server.Close() // nothing that it closes is needed any more
	<-p.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, rt := range p.users {
		if idle, ok := rt.(interface{ CloseIdleConnections() }); ok {
			idle.CloseIdleConnections()
		}
	}
}

// Break breaks the connections that faults can't be had on, since they were
// made while there were none.
func (p *Proxy) Break() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.joined {
		_ = c.Close()
	}
}

// Serve serves a connection until it ends.
func (p *Proxy) Serve(conn net.Conn) {
	p.mu.Lock()
	// Under the lock, so that Break misses none.
	joins := !p.cfg.Faults.Live() && !p.closed
	if joins {
		p.joined[conn] = struct{}{}
	}
	p.mu.Unlock()
	if !joins {
		p.conns.serve(conn)
		return
	}
	defer func() {
		p.mu.Lock()
		delete(p.joined, conn)
		p.mu.Unlock()
	}()
	out, err := net.Dial("tcp", p.cfg.Address)
	if err != nil {
		return
	}
	defer out.Close()
	join(conn, out)
}

// join copies both ways until one has ended. Neither side of a TLS connection
// goes on once the other has ended it.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(a, b)
		_ = a.Close()
	})
	_, _ = io.Copy(b, a)
	_ = b.Close()
	both.Wait()
}

// serve answers a request, or lets the API server answer it.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	f := take(p.cfg.Faults, p.cfg.Host, r)
	if f == nil {
		p.forward(w, r, nil)
		return
	}
	if f.DelayMS > 0 && !f.End {
		timer := time.NewTimer(time.Duration(f.DelayMS) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	}
	switch {
	case f.Reset == "before":
		p.reset(r)
	case f.Reset == "after":
		p.forward(newRecorder(), r, nil)
		p.reset(r)
	case f.Status != 0:
		if f.Effect {
			p.forward(newRecorder(), r, nil)
		}
		f.answer(w)
	case f.Cut:
		whole := newRecorder()
		p.forward(whole, r, nil)
		whole.half(w)
		p.reset(r)
	default:
		p.forward(w, r, f)
	}
}

// reset breaks the connection that a request came on.
func (p *Proxy) reset(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(*tls.Conn); ok {
		_ = c.NetConn().Close() // without a word
	}
	panic(http.ErrAbortHandler)
}

// forward lets the API server answer. A fault that ends a watch is heeded.
func (p *Proxy) forward(w http.ResponseWriter, r *http.Request, f *Fault) {
	rt, err := p.as(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	proxy := &httputil.ReverseProxy{
		Transport:     rt,
		FlushInterval: -1, // a watch is told what happens at once
		ErrorLog:      p.server.ErrorLog,
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.SetURL(&url.URL{Scheme: "https", Host: p.cfg.Address})
			pr.Out.Host = r.Host
		},
	}
	if f != nil && f.End {
		proxy.ModifyResponse = func(resp *http.Response) error {
			resp.Body = endAfter(resp.Body, time.Duration(f.DelayMS)*time.Millisecond)
			return nil
		}
	}
	proxy.ServeHTTP(w, r)
}

// as returns the way to the API server for the user of a request. A token is
// passed on with the request.
func (p *Proxy) as(r *http.Request) (http.RoundTripper, error) {
	user, groups := "", []string(nil)
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		subject := r.TLS.PeerCertificates[0].Subject
		user, groups = subject.CommonName, subject.Organization
	}
	key := strings.Join(append([]string{user}, groups...), "\x00")
	p.mu.Lock()
	defer p.mu.Unlock()
	if rt := p.users[key]; rt != nil {
		return rt, nil
	}
	conf, err := p.cfg.Cluster.REST(user, groups...)
	if err != nil {
		return nil, err
	}
	if user == "" {
		conf.CertData, conf.KeyData = nil, nil
	}
	tlsConf, err := rest.TLSConfigFor(conf)
	if err != nil {
		return nil, err
	}
	// The transport speaks HTTP/1.1, so that a connection may be upgraded.
	rt := &http.Transport{TLSClientConfig: tlsConf, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute}
	p.users[key] = rt
	return rt, nil
}

// endAfter returns a body that ends in good order after its first line, or
// after d if that isn't 0.
func endAfter(body io.ReadCloser, d time.Duration) io.ReadCloser {
	e := &ending{ReadCloser: body, lines: d == 0}
	if d > 0 {
		e.timer = time.AfterFunc(d, func() {
			e.over.Store(true)
			_ = body.Close()
		})
	}
	return e
}

// A recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newRecorder() *recorder { return &recorder{header: make(http.Header), status: http.StatusOK} }

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// half answers with half of what was kept.
func (r *recorder) half(w http.ResponseWriter) {
	for k, v := range r.header {
		w.Header()[k] = v
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body.Bytes()[:r.body.Len()/2])
	_ = http.NewResponseController(w).Flush() // the client gets it, or has gone
}

var errClosed = errors.New("the proxy is closed")
