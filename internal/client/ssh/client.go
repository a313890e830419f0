package ssh

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Client is one host. It connects at first use, shares that connection among
// all callers, and connects again when it broke. Its methods may be called at
// the same time.
type Client struct {
	cfg    Config
	key    ssh.Signer       // nil: the agent has it
	chosen ssh.PublicKey    // of the agent's; nil means each
	cert   *ssh.Certificate // of key; nil means none
	trust  *trust           // nil with FirstUse
	gate   *gate

	ctx  context.Context // ends with Close
	stop context.CancelCauseFunc
	work sync.WaitGroup // every goroutine of the client

	mu       sync.Mutex
	live     *conn
	attempt  *attempt
	dials    int
	shells   []*shell
	forwards map[string]*net.TCPAddr // ports here, by where they lead
	// noShells: the server allows so few sessions that commands need them all.
	noShells bool
}

// An attempt is a connection being made, for all who wait for it.
type attempt struct {
	done chan struct{} // closed when conn and err are set
	conn *conn
	err  error
}

// New returns the client for a host. It checks the keys and connects to
// nothing. The error is of kind Invalid.
func New(cfg Config) (*Client, error) {
	cfg.defaults()
	if cfg.Address == "" || cfg.User == "" {
		return nil, fault.New(fault.Invalid, "an SSH host needs an address and a user")
	}
	c := &Client{cfg: cfg, gate: newGate(cfg.MaxSessions)}
	var err error
	if cfg.FirstUse == nil {
		if c.trust, err = parseTrust(&c.cfg); err != nil {
			return nil, err
		}
	}
	if c.cert, err = cfg.certificate(); err != nil {
		return nil, err
	}
	if cfg.Agent != "" {
		c.chosen = keyIn(cfg.Key)
	}
	if cfg.Agent == "" || cfg.Key != "" && c.chosen == nil {
		if c.key, err = cfg.signer(); err != nil {
			return nil, err
		}
		if c.key, err = cfg.certified(c.key, c.cert); err != nil {
			return nil, err
		}
	}
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	return c, nil
}

// Label names the host for messages: its name and where it is.
func (c *Client) Label() string { return c.cfg.label() }

// Dials returns how many connections have been made so far.
func (c *Client) Dials() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dials
}

// Connect makes sure that there is a connection. Errors: Unreachable, Denied,
// Untrusted, Invalid if something else than SSH answers.
func (c *Client) Connect(ctx context.Context) error {
	_, err := c.connection(ctx)
	return err
}

// connection returns the live connection, or makes one. Callers that come
// while one is being made wait for the same.
func (c *Client) connection(ctx context.Context) (*conn, error) {
	c.mu.Lock()
	if err := c.ctx.Err(); err != nil {
		c.mu.Unlock()
		return nil, context.Cause(c.ctx)
	}
	if c.live != nil && !c.live.isDead() {
		defer c.mu.Unlock()
		return c.live, nil
	}
	c.live = nil
	a := c.attempt
	if a == nil {
		a = &attempt{done: make(chan struct{})}
		c.attempt = a
		c.work.Go(func() {
			a.conn, a.err = c.dial(c.ctx)
			c.mu.Lock()
			c.attempt = nil
			switch {
			case a.err == nil && c.ctx.Err() != nil: // closed meanwhile
				a.conn.end(errClosed(c))
				a.conn, a.err = nil, errClosed(c)
			case a.err == nil:
				c.live = a.conn
				c.dials++
			}
			c.mu.Unlock()
			close(a.done)
		})
	}
	c.mu.Unlock()
	select {
	case <-a.done:
		return a.conn, a.err
	case <-ctx.Done():
		return nil, c.leg(fault.FromContext(ctx))
	}
}

// session opens a session, on a new connection if the old one turns out to be
// dead. Nothing has been asked of the host before, so that is safe.
func (c *Client) session(ctx context.Context) (*ssh.Session, *conn, error) {
	refusals, breaks := 0, 0
	for {
		cn, err := c.connection(ctx)
		if err != nil {
			return nil, nil, err
		}
		s, err := cn.open(ctx, c)
		if err == nil {
			return s, cn, nil
		}
		if ctx.Err() != nil {
			return nil, nil, fault.FromContext(ctx)
		}
		var refused *ssh.OpenChannelError
		if errors.As(err, &refused) {
			refusals++
			if c.freeShell() {
				continue
			}
			if err := c.waitForPlace(ctx, refusals, refused); err != nil {
				return nil, nil, err
			}
			continue
		}
		if breaks++; breaks > 1 {
			return nil, nil, c.lost(cn)
		}
		c.drop(cn, plainEOF(err))
	}
}

// maxRefusals is how often a session is asked for that the server refuses
// while none of ours is open.
const maxRefusals = 20

// waitForPlace waits until the server may take another session. Where none of
// ours is open, the server may not have noticed yet that the last one ended.
func (c *Client) waitForPlace(ctx context.Context, refusals int, refused *ssh.OpenChannelError) error {
	if c.gate.refused() {
		c.gate.leave()
		if err := c.gate.enter(ctx); err != nil {
			c.gate.force() // the caller leaves once more: it entered before
			return err
		}
		return nil
	}
	if refusals > maxRefusals {
		return fault.Hinted(fault.Denied, "raise MaxSessions in its sshd_config", "%s refuses a session: %s", c.cfg.label(), refused.Message)
	}
	timer := time.NewTimer(time.Duration(refusals) * 2 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fault.FromContext(ctx)
	}
}

// drop ends a connection that is of no use any more.
func (c *Client) drop(cn *conn, why error) {
	c.mu.Lock()
	if c.live == cn {
		c.live = nil
	}
	c.mu.Unlock()
	cn.end(why)
}

// lost returns the error of a connection that broke.
func (c *Client) lost(cn *conn) error {
	why := cn.why()
	if why == nil {
		why = errors.New("closed by the other side")
	}
	return fault.Hinted(fault.Unreachable, "the host may have rebooted or the network failed", "the connection to %s was lost: %v", c.cfg.label(), why)
}

// DialContext connects to addr from the host. Errors: those of Connect,
// Unreachable if the host can't connect, Denied if it doesn't forward.
func (c *Client) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil, fault.New(fault.Invalid, "%s forwards tcp, not %s", c.cfg.label(), network)
	}
	for try := 1; ; try++ {
		cn, err := c.connection(ctx)
		if err != nil {
			return nil, err
		}
		conn, err := cn.client.DialContext(ctx, network, addr)
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, fault.FromContext(ctx)
		}
		var refused *ssh.OpenChannelError
		switch {
		case errors.As(err, &refused) && refused.Reason == ssh.Prohibited:
			return nil, fault.Hinted(fault.Denied, "set AllowTcpForwarding yes in its sshd_config", "%s doesn't forward to %s: %s", c.cfg.label(), addr, refused.Message)
		case errors.As(err, &refused):
			return nil, fault.New(fault.Unreachable, "%s can't connect to %s: %s", c.cfg.label(), addr, strings.TrimSpace(refused.Message))
		case try > 1:
			return nil, fault.New(fault.Unreachable, "connecting to %s through %s: %v", addr, c.cfg.label(), plainEOF(err))
		}
		c.drop(cn, plainEOF(err))
	}
}

// Close ends the connection, stops what is running, and waits for it. A client
// that is closed can't be used again. Clients whose connections go through
// each other are closed at the same time.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.ctx.Err() == nil {
		c.stop(errClosed(c))
	}
	live := c.live
	c.live = nil
	c.mu.Unlock()
	if live != nil {
		live.end(errClosed(c))
	}
	c.work.Wait()
	return nil
}

func errClosed(c *Client) error {
	return fault.New(fault.Cancelled, "the client for %s is closed", c.cfg.label())
}

// begin counts a call as work that Close waits for.
func (c *Client) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return errClosed(c)
	}
	c.work.Add(1)
	return nil
}
