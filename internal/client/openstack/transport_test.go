package openstack_test

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/client/openstack"
)

// A hall is a server that counts the connections made to it.
type hall struct {
	mu          sync.Mutex
	connections int
	protocols   map[string]int
}

// open starts a server that logs in, and answers all else with h.
func (l *hall) open(t *testing.T, secure bool, h http.HandlerFunc) (*httptest.Server, *openstack.Client) {
	t.Helper()
	l.protocols = make(map[string]int)
	mux := http.NewServeMux()
	server := httptest.NewUnstartedServer(mux)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.connections++
		}
	}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // connections that weren't needed in the end
	keystone(mux, func() string { return server.URL })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		l.protocols[r.Proto]++
		l.mu.Unlock()
		h(w, r)
	})
	ca := ""
	if secure {
		server.EnableHTTP2 = true
		server.StartTLS()
		ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	e, err := openstack.GivenEntry("x", openstack.Given{By: "test", Values: map[string]string{"auth.auth_url": server.URL + "/v3", "auth.token": "t0ken-t0ken", "auth.project_id": "p1", "region_name": "R"}})
	if err != nil {
		t.Fatal(err)
	}
	e.CACert = ca
	c, err := openstack.Connect(context.Background(), e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return server, c
}

func (l *hall) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.connections
}

func get(c *openstack.Client, service openstack.Service) error {
	out, err := c.Do(context.Background(), openstack.Call{Service: service, Method: "GET", Path: "/x"})
	if err == nil && out["a"] != "b" {
		err = fmt.Errorf("got %v", out)
	}
	return err
}

func fine(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"a": "b"}`) }

func TestConnectionsAreKept(t *testing.T) {
	l := new(hall)
	_, c := l.open(t, false, fine)
	for range 20 {
		for _, s := range []openstack.Service{openstack.Network, openstack.Compute, openstack.Image} {
			if err := get(c, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := l.count(); n != 1 {
		t.Errorf("%d connections for calls one after the other", n)
	}
	for range 5 {
		for _, err := range inParallel(40, func() error { return get(c, openstack.Network) }) {
			if err != nil {
				t.Error(err)
			}
		}
	}
	// Some are dialled and not needed in the end; without reuse there would be 200.
	if n := l.count(); n > 60 {
		t.Errorf("%d connections, though at most 10 calls run at the same time", n)
	}
}

// TestServicesThatCloseAreServed has answers that say Connection: close, and
// connections that are cut while nobody uses them.
func TestServicesThatCloseAreServed(t *testing.T) {
	l := new(hall)
	_, c := l.open(t, false, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		fine(w, r)
	})
	for _, err := range inParallel(30, func() error { return get(c, openstack.Network) }) {
		if err != nil {
			t.Error(err)
		}
	}
	l = new(hall)
	var server *httptest.Server
	server, c = l.open(t, false, fine)
	for range 20 {
		if err := get(c, openstack.Network); err != nil {
			t.Fatal(err)
		}
		server.CloseClientConnections()
	}
}

func TestAnswersMayBeZipped(t *testing.T) {
	_, c := new(hall).open(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			fine(w, r)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		fmt.Fprint(z, `{"a": "b"}`)
		z.Close()
	})
	if err := get(c, openstack.Network); err != nil {
		t.Error(err)
	}
}

// TestHTTP2 has a service that speaks it, and one that says goodbye after each
// answer.
func TestHTTP2(t *testing.T) {
	l := new(hall)
	server, c := l.open(t, true, fine)
	for _, err := range inParallel(30, func() error { return get(c, openstack.Network) }) {
		if err != nil {
			t.Error(err)
		}
	}
	if l.protocols["HTTP/2.0"] != 30 || l.count() > 2 {
		t.Errorf("protocols %v, %d connections", l.protocols, l.count())
	}
	before := l.count()
	server.Config.SetKeepAlivesEnabled(false) // GOAWAY
	for range 5 {
		for _, err := range inParallel(10, func() error { return get(c, openstack.Network) }) {
			if err != nil {
				t.Error(err)
			}
		}
	}
	if l.count() == before {
		t.Error("the service never said goodbye")
	}
}

// TestCreatesAreBounded lets creates hang: no more than so many are sent to one
// service, and reads and other services don't wait for them.
func TestCreatesAreBounded(t *testing.T) {
	var mu sync.Mutex
	now, most := 0, 0
	hang := make(chan struct{})
	full := make(chan struct{}, 100)
	_, c := new(hall).open(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/network/v2.0/x" {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			full <- struct{}{}
			<-hang
			mu.Lock()
			now--
			mu.Unlock()
		}
		fine(w, r)
	})
	post := func(s openstack.Service) error {
		_, err := c.Do(context.Background(), openstack.Call{Service: s, Method: "POST", Path: "/x", Body: openstack.Object{}})
		return err
	}
	done := make(chan []error)
	go func() { done <- inParallel(20, func() error { return post(openstack.Network) }) }()
	for range 5 {
		<-full
	}
	if err := get(c, openstack.Network); err != nil {
		t.Error(err)
	}
	if err := post(openstack.Compute); err != nil {
		t.Error(err)
	}
	close(hang)
	for _, err := range <-done {
		if err != nil {
			t.Error(err)
		}
	}
	if most != 5 {
		t.Errorf("%d creates at the same time, want 5", most)
	}
}
