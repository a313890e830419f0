package ssh

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
)

// A wire is the transport of a connection. It remembers how much arrived, and
// what came first, which tells a silent port from a slow one, another protocol
// from SSH, and a dead connection from a busy one.
type wire struct {
	net.Conn
	got   atomic.Int64
	first chan struct{} // closed at the first byte

	mu   sync.Mutex
	head []byte // the first bytes
}

const headSize = 60

func newWire(c net.Conn) *wire { return &wire{Conn: c, first: make(chan struct{})} }

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if n > 0 {
		if before := w.got.Add(int64(n)) - int64(n); before < headSize {
			w.mu.Lock()
			if w.head == nil {
				close(w.first)
			}
			w.head = append(w.head, p[:min(n, headSize-len(w.head))]...)
			w.mu.Unlock()
		}
	}
	return n, err
}

// begin returns what arrived first.
func (w *wire) begin() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.head)
}

// isForeign reports whether what arrived can't come from an SSH server.
func (w *wire) isForeign() bool {
	head := w.begin()
	return head != "" && !strings.HasPrefix(head, "SSH-"[:min(4, len(head))])
}
