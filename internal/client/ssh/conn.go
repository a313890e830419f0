package ssh

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// A conn is one live connection. It ends when the other side closes it, when
// it stays silent for too long, or by close.
type conn struct {
	wire   *wire
	client *ssh.Client
	dead   chan struct{} // closed when the connection has ended

	mu    sync.Mutex
	cause error // why it ended, once dead is closed
}

func newConn(c *Client, w *wire, client *ssh.Client) *conn {
	cn := &conn{wire: w, client: client, dead: make(chan struct{})}
	c.work.Go(func() {
		err := client.Wait()
		cn.mu.Lock()
		if cn.cause == nil {
			cn.cause = plainEOF(err)
		}
		cn.mu.Unlock()
		close(cn.dead)
	})
	c.work.Go(func() { cn.keepalive(c, c.cfg.Keepalive, c.cfg.Silence) })
	return cn
}

func (cn *conn) isDead() bool {
	select {
	case <-cn.dead:
		return true
	default:
		return false
	}
}

// why says why the connection ended.
func (cn *conn) why() error {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	return cn.cause
}

// end closes the connection because of err.
func (cn *conn) end(err error) {
	cn.mu.Lock()
	if cn.cause == nil {
		cn.cause = err
	}
	cn.mu.Unlock()
	cn.client.Close()
	cn.wire.Close()
}

// keepalive asks now and then whether the other side is there, and ends the
// connection when nothing at all arrives for the time given.
func (cn *conn) keepalive(c *Client, interval, silence time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-cn.dead:
			return
		case <-ticker.C:
		}
		answered := make(chan struct{})
		c.work.Go(func() {
			defer close(answered)
			// A refusal is an answer, and the end of the connection shows in dead.
			_, _, _ = cn.client.SendRequest("keepalive@openssh.com", true, nil)
		})
		if !cn.await(answered, silence) {
			cn.end(fmt.Errorf("the host was silent for %s", silence))
			return
		}
	}
}

// await waits for an answer, as long as something arrives.
func (cn *conn) await(answered <-chan struct{}, silence time.Duration) bool {
	timer := time.NewTimer(silence)
	defer timer.Stop()
	for {
		seen := cn.wire.got.Load()
		select {
		case <-answered:
			return true
		case <-cn.dead:
			return true
		case <-timer.C:
			if cn.wire.got.Load() == seen {
				return false
			}
			timer.Reset(silence)
		}
	}
}

// open opens a session. It returns when ctx ends; a session that comes later
// is closed.
func (cn *conn) open(ctx context.Context, c *Client) (*ssh.Session, error) {
	type opened struct {
		s   *ssh.Session
		err error
	}
	ch := make(chan opened, 1)
	c.work.Go(func() {
		s, err := cn.client.NewSession()
		if err == nil && ctx.Err() != nil {
			s.Close()
		}
		ch <- opened{s, err}
	})
	select {
	case o := <-ch:
		return o.s, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
