// Package cloudproxy stands in front of an OpenStack, so that tests can do
// with a real cloud what they can do with the simulated one: have requests
// fail by the same rules, read the same log of them, and be called before and
// after each takes effect.
//
// The services appear below the paths that the simulator has: /identity,
// /compute and so on. Every address of the cloud in what it answers, the
// catalog above all, is replaced by the proxy's.
package cloudproxy

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

// Moment is when a hook is called, seen from the effect of the request.
type Moment string

// The moments.
const (
	Before Moment = "before" // nothing has been sent to the cloud
	After  Moment = "after"  // the cloud has answered; the client hasn't got the answer yet
)

// Hook is called at each request to the cloud, by the goroutine that serves
// it. At Before the request has no status yet. Requests that an injected fault
// keeps from the cloud have no moments.
type Hook func(Moment, openstack.Request)

// Proxy is an http.Handler in front of one cloud, with the faults, the log and
// the switches of [openstack.Cloud]. All methods are safe for concurrent use.
type Proxy struct {
	*openstack.FaultSet
	openstack.RequestLog

	services []backend
	client   *http.Transport
	life     context.Context // of the proxy
	end      context.CancelFunc

	mu     sync.Mutex
	hook   Hook
	tokens map[string]caller    // those that went through the proxy
	lost   map[string]bool      // tokens that were made to expire
	hidden map[string]time.Time // ids that lists don't show until then
	lag    map[string]time.Duration
}

// backend is one service of the cloud.
type backend struct{ name, root string }

// caller is whom a token was given to.
type caller struct{ user, project string }

// New returns a proxy for the services: the roots of their addresses by the
// names identity, compute, network, image, volume, load-balancer, placement
// and object-store. It doesn't connect to any of them yet.
func New(services map[string]string) *Proxy {
	// A connection that is kept for later would hold up a service that has one
	// thread, until the service cuts it off, perhaps within a request.
	p := &Proxy{client: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		tokens: map[string]caller{}, lost: map[string]bool{}, hidden: map[string]time.Time{}, lag: map[string]time.Duration{}}
	p.life, p.end = context.WithCancel(context.Background())
	var names []string
	for name, root := range services {
		p.services = append(p.services, backend{name, strings.TrimRight(root, "/")})
		names = append(names, name)
	}
	// An address that begins with another one's is to be replaced first.
	slices.SortFunc(p.services, func(a, b backend) int { return len(b.root) - len(a.root) })
	slices.Sort(names)
	p.FaultSet = openstack.NewFaultSet(names...)
	return p
}

// Server is a proxy that listens on loopback.
type Server struct {
	*Proxy
	http *httptest.Server
}

// Serve returns a proxy that listens, until Close.
func Serve(services map[string]string) *Server {
	p := New(services)
	return &Server{p, httptest.NewServer(p)}
}

// URL is the root of the proxy's address.
func (s *Server) URL() string { return s.http.URL }

// AuthURL is Keystone's address.
func (s *Server) AuthURL() string { return s.http.URL + "/identity/v3" }

// Close stops listening and closes the proxy.
func (s *Server) Close() {
	s.Proxy.Close()
	s.http.CloseClientConnections()
	s.http.Close()
}

// Close gives up requests that the cloud hasn't answered, and closes all
// connections to it.
func (p *Proxy) Close() {
	p.end()
	p.client.CloseIdleConnections()
}

// SetHook has hook called at each request from now on; nil for none.
func (p *Proxy) SetHook(hook Hook) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = hook
}

func (p *Proxy) tell(m Moment, q openstack.Request) {
	p.mu.Lock()
	hook := p.hook
	p.mu.Unlock()
	if hook != nil {
		hook(m, q)
	}
}

// ExpireTokens makes every token that was given out through the proxy invalid.
func (p *Proxy) ExpireTokens() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for token := range p.tokens {
		p.lost[token] = true
	}
	clear(p.tokens)
}

// SetLag makes lists eventually consistent: what is created from now on isn't
// listed before lag has passed, though it can be read by its id. The kind is
// what a create's body calls it ("network", "server"), or "image"; empty means
// all. A lag of 0 ends it.
func (p *Proxy) SetLag(kind string, lag time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case lag > 0:
		p.lag[kind] = lag
	case kind == "":
		clear(p.lag)
	default:
		delete(p.lag, kind)
	}
}
