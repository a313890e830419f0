package ssh

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// acceptPause is how long no connection is taken after one couldn't be.
const acceptPause = 50 * time.Millisecond

// Forward opens a port here, on loopback, whose connections go on from the host
// to addr, and returns its address. The port is the same for each call with
// addr, and is there until Close. Errors: those of DialContext, for a
// connection to addr is tried first.
func (c *Client) Forward(ctx context.Context, addr string) (*net.TCPAddr, error) {
	try, err := c.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	_ = try.Close() // nothing was sent
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, errClosed(c)
	}
	if local := c.forwards[addr]; local != nil {
		return local, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, &fault.Error{Op: "opening", Target: "a port here for " + addr, Kind: fault.Failed, Err: err}
	}
	local := l.Addr().(*net.TCPAddr)
	if c.forwards == nil {
		c.forwards = make(map[string]*net.TCPAddr)
	}
	c.forwards[addr] = local
	c.work.Go(func() {
		defer context.AfterFunc(c.ctx, func() { l.Close() })()
		for {
			near, err := l.Accept()
			if c.ctx.Err() != nil {
				return
			}
			if err != nil { // the process is short of files for a while
				select {
				case <-time.After(acceptPause):
				case <-c.ctx.Done():
				}
				continue
			}
			c.work.Go(func() { c.relay(near.(*net.TCPConn), addr) })
		}
	})
	return local, nil
}

// relay connects a connection from here to addr, until both sides have ended.
func (c *Client) relay(near *net.TCPConn, addr string) {
	defer near.Close()
	far, err := c.DialContext(c.ctx, "tcp", addr)
	if err != nil {
		_ = near.SetLinger(0) // a reset looks like what it is, an end like an empty answer
		return
	}
	defer far.Close()
	defer context.AfterFunc(c.ctx, func() {
		near.Close()
		far.Close()
	})()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{far, near}, {near, far}} {
		both.Go(func() {
			_, err := io.Copy(way[0], way[1])
			if half, ok := way[0].(interface{ CloseWrite() error }); err == nil && ok {
				err = half.CloseWrite()
			}
			if err != nil { // the other way is of no use any more
				near.Close()
				far.Close()
			}
		})
	}
	both.Wait()
}
