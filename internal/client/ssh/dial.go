package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// dial makes a connection: transport, first answer, key exchange and
// authentication, each within the host's timeout.
func (c *Client) dial(ctx context.Context) (*conn, error) {
	signers, done, err := c.login(ctx)
	if err != nil {
		return nil, c.leg(err)
	}
	defer done()
	trust, err := c.trusted(ctx)
	if err != nil {
		return nil, c.leg(err)
	}
	raw, err := c.dialTransport(ctx)
	if err != nil {
		return nil, err
	}
	w := newWire(raw)
	var verdict error
	type made struct {
		conn  ssh.Conn
		chans <-chan ssh.NewChannel
		reqs  <-chan *ssh.Request
		err   error
	}
	ended := make(chan made, 1)
	c.work.Go(func() {
		var m made
		m.conn, m.chans, m.reqs, m.err = ssh.NewClientConn(w, c.cfg.addr(), &ssh.ClientConfig{
			User: c.cfg.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signers...)},
			HostKeyCallback: trust.callback(&c.cfg, &verdict), HostKeyAlgorithms: trust.algorithms(),
			ClientVersion: "SSH-2.0-gsrun",
		})
		ended <- m
	})
	timer := time.NewTimer(c.cfg.Timeout)
	defer timer.Stop()
	first := w.first
	for {
		select {
		case m := <-ended:
			if m.err != nil {
				w.Close()
				return nil, c.handshakeError(w, signers, trust, verdict, m.err)
			}
			return newConn(c, w, ssh.NewClient(m.conn, m.chans, m.reqs)), nil
		case <-first:
			first = nil
			timer.Reset(c.cfg.Timeout)
		case <-timer.C:
			w.Close()
			return nil, c.timeoutError(w)
		case <-ctx.Done():
			w.Close()
			return nil, c.leg(fault.FromContext(ctx))
		}
	}
}

// dialTransport connects to the host's port, directly or through the jump host.
func (c *Client) dialTransport(ctx context.Context) (net.Conn, error) {
	dctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	if j := c.cfg.Jump; j != nil {
		if _, err := j.connection(ctx); err != nil {
			return nil, &fault.Error{Op: "connecting to", Target: c.cfg.label(), Kind: fault.KindOf(err), Hint: fault.HintOf(err),
				Err: fmt.Errorf("its jump host is the problem: %w", err)}
		}
		raw, err := j.DialContext(dctx, "tcp", c.cfg.addr())
		if err == nil {
			return raw, nil
		}
		if ctx.Err() != nil {
			return nil, c.leg(fault.FromContext(ctx))
		}
		if fault.KindOf(err) == fault.Timeout {
			err = fault.New(fault.Unreachable, "%s got no answer from it within %s", j.cfg.label(), c.cfg.Timeout)
		}
		return nil, c.leg(&fault.Error{Kind: fault.KindOf(err), Err: err,
			Hint: fmt.Sprintf("%s answers; is %s up, on the jump host's network, and is port %d open to it?", j.cfg.Name, c.cfg.Name, c.cfg.Port)})
	}
	raw, err := new(net.Dialer).DialContext(dctx, "tcp", c.cfg.addr())
	if err != nil {
		if ctx.Err() != nil {
			return nil, c.leg(fault.FromContext(ctx))
		}
		return nil, c.leg(c.transportError(err))
	}
	return raw, nil
}

// leg says which connection an error is about.
func (c *Client) leg(err error) error {
	target := c.cfg.label()
	if c.cfg.Jump != nil {
		target += " through " + c.cfg.Jump.cfg.label()
	}
	return &fault.Error{Op: "connecting to", Target: target, Kind: fault.KindOf(err), Hint: fault.HintOf(err), Err: err}
}

func (c *Client) transportError(err error) error {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return fault.Hinted(fault.Unreachable, "check the name, or give the address", "the name %s can't be resolved: %s", c.cfg.Address, dns.Err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fault.Hinted(fault.Unreachable, "the address answers, but nothing listens on that port: is it the right port, and has sshd started?", "connection refused")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return fault.Hinted(fault.Unreachable, "is the host up, is the address right, and does its security group let this port in?",
			"no answer within %s", c.cfg.Timeout)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return fault.Hinted(fault.Unreachable, "is there a route from here, or does it need a jump host?", "no route to it")
	}
	return &fault.Error{Kind: fault.Unreachable, Err: err}
}

// timeoutError explains a handshake that didn't end in time.
func (c *Client) timeoutError(w *wire) error {
	switch {
	case w.begin() == "":
		return c.leg(fault.Hinted(fault.Unreachable, "the port is open but silent: the host may be starting, overloaded or frozen",
			"no SSH banner within %s", c.cfg.Timeout))
	case w.isForeign():
		return c.leg(foreign(w))
	}
	return c.leg(fault.Hinted(fault.Unreachable, "the host may be overloaded, or the link loses large packets (MTU)",
		"the SSH handshake didn't end within %s", c.cfg.Timeout))
}

func foreign(w *wire) error {
	return fault.Hinted(fault.Invalid, "is it the right port?", "what answers isn't SSH: it says %q", firstLine(w.begin()))
}

// handshakeError explains a handshake that failed.
func (c *Client) handshakeError(w *wire, signers []ssh.Signer, known *trust, verdict, err error) error {
	var negotiation *ssh.AlgorithmNegotiationError
	switch {
	case verdict != nil:
		return c.leg(verdict)
	case errors.As(err, &negotiation) && strings.Contains(err.Error(), "host key"):
		hint := "give the key of a type that the host has"
		if known.forget != "" {
			hint = known.changed()
		}
		return c.leg(fault.Hinted(fault.Untrusted, hint,
			"the host has no key of the known types %s", strings.Join(known.algorithms(), ", ")))
	case errors.As(err, &negotiation):
		return c.leg(&fault.Error{Kind: fault.Failed, Err: err, Hint: "the host's SSH server is too old or too restricted"})
	case w.isForeign():
		return c.leg(foreign(w))
	case strings.Contains(err.Error(), "agent: "):
		return c.leg(fault.Hinted(fault.Denied, "is it locked, or did nobody confirm the use of the key?", "the SSH agent at %s doesn't sign", c.cfg.Agent))
	case strings.Contains(err.Error(), "unable to authenticate"), strings.Contains(err.Error(), "Too many authentication failures"):
		return c.leg(c.refused(signers))
	case w.begin() == "":
		return c.leg(fault.Hinted(fault.Unreachable, "sshd may be starting, or refuse further connections (MaxStartups)",
			"the connection was closed before an SSH banner: %v", plainEOF(err)))
	}
	return c.leg(fault.Hinted(fault.Unreachable, "", "the connection broke during the SSH handshake: %v", plainEOF(err)))
}

// plainEOF spares people the word EOF.
func plainEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("closed by the other side")
	}
	return err
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return strings.TrimSpace(s)
}
