package apiproxy

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A queue is a listener whose connections are handed to it.
type queue struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newQueue() *queue { return &queue{conns: make(chan net.Conn), done: make(chan struct{})} }

// serve hands over a connection and waits until it is closed.
func (q *queue) serve(conn net.Conn) {
	c := &handed{Conn: conn, closed: make(chan struct{})}
	select {
	case q.conns <- c:
		<-c.closed
	case <-q.done:
		_ = conn.Close()
	}
}

// Accept waits for a connection.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.done:
		return nil, errClosed
	}
}

// Close ends the listener, and not the connections.
func (q *queue) Close() error {
	q.once.Do(func() { close(q.done) })
	return nil
}

// Addr is that of nothing: connections come from within.
func (q *queue) Addr() net.Addr { return &net.TCPAddr{} }

// handed is a connection that tells of its end.
type handed struct {
	net.Conn
	closed chan struct{}
	once   sync.Once
}

func (h *handed) Close() error {
	err := h.Conn.Close()
	h.once.Do(func() { close(h.closed) })
	return err
}

// ending is a body that ends early.
type ending struct {
	io.ReadCloser
	lines bool // it ends after its first line
	timer *time.Timer
	over  atomic.Bool
}

func (e *ending) Read(b []byte) (int, error) {
	if e.over.Load() {
		return 0, io.EOF
	}
	n, err := e.ReadCloser.Read(b)
	if i := bytes.IndexByte(b[:n], '\n'); e.lines && i >= 0 {
		e.over.Store(true)
		return i + 1, nil
	}
	if err != nil && e.over.Load() {
		return n, io.EOF
	}
	return n, err
}

func (e *ending) Close() error {
	if e.timer != nil {
		e.timer.Stop()
	}
	return e.ReadCloser.Close()
}
