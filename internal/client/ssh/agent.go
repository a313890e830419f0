package ssh

import (
	"bytes"
	"context"
	"net"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// maxOffers is how many keys sshd hears before it hangs up, unless its
// MaxAuthTries says otherwise.
const maxOffers = 6

// login returns what the user can log in with now. Where keys are an agent's,
// done ends the connection to it.
func (c *Client) login(ctx context.Context) (signers []ssh.Signer, done func(), err error) {
	if err := c.userCertificateError(); err != nil {
		return nil, nil, err
	}
	if c.key != nil {
		signers = append(signers, c.key)
	}
	if c.cfg.Agent == "" || c.key != nil && c.cert != nil {
		return signers, func() {}, nil
	}
	dctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(dctx, "unix", c.cfg.Agent)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, fault.FromContext(ctx)
		}
		return nil, nil, fault.Hinted(fault.Invalid, "start one with ssh-agent, or take the right SSH_AUTH_SOCK", "no SSH agent answers at %s: %v", c.cfg.Agent, plainDial(err))
	}
	// The deadline is for the list alone: for a signature, the agent may ask a person.
	_ = conn.SetDeadline(time.Now().Add(c.cfg.Timeout)) // a socket that can't have one has failed
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	done = func() { stop(); conn.Close() }
	held, err := agent.NewClient(conn).Signers()
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		done()
		if ctx.Err() != nil {
			return nil, nil, fault.FromContext(ctx)
		}
		return nil, nil, fault.Hinted(fault.Invalid, "is it an SSH agent? `ssh-add -l` asks it the same", "the SSH agent at %s doesn't list its keys: %v", c.cfg.Agent, plainEOF(err))
	}
	chosen, err := c.choose(held)
	if err != nil {
		done()
		return nil, nil, err
	}
	return append(signers, chosen...), done, nil
}

// choose returns those of the agent's keys that are offered.
func (c *Client) choose(held []ssh.Signer) ([]ssh.Signer, error) {
	if len(held) == 0 {
		return nil, fault.Hinted(fault.Denied, "add a key with ssh-add; a locked agent shows none: unlock it with ssh-add -X", "the SSH agent at %s has no keys, or is locked", c.cfg.Agent)
	}
	only := c.chosen
	if c.cert != nil {
		only = c.cert.Key
	}
	if only == nil {
		return held, nil
	}
	var out []ssh.Signer
	for _, s := range held {
		key, err := ssh.ParsePublicKey(s.PublicKey().Marshal())
		if err != nil {
			continue // of a type that isn't known here
		}
		held, isCert := key.(*ssh.Certificate)
		switch {
		case same(key, only) && c.cert == nil:
			out = append(out, s)
		case same(key, only):
			s, err := ssh.NewCertSigner(c.cert, s)
			if err != nil {
				return nil, fault.New(fault.Invalid, "certificate for %s: it can't be used with the agent's key: %v", c.Label(), err)
			}
			out = append(out, s)
		case isCert && same(held.Key, only) && c.cert == nil: // the agent has a certificate of the key
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, fault.Hinted(fault.Denied, "add it with ssh-add; `ssh-add -l` lists what the agent has", "the SSH agent at %s has %d keys, but not %s", c.cfg.Agent, len(held), printOf(only))
	}
	return out, nil
}

// keyIn returns the public key that text is, or nil.
func keyIn(text string) ssh.PublicKey {
	key, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil || len(bytes.TrimSpace(rest)) > 0 {
		return nil
	}
	return key
}

// refused explains that a host refused all that the user has.
func (c *Client) refused(signers []ssh.Signer) error {
	hint := "is the user right, and is the key in its authorized_keys?"
	switch {
	case c.cert != nil:
		return c.refusedCertificate()
	case len(signers) == 1:
		return fault.Hinted(fault.Denied, hint, "the host refuses user %q with key %s", c.cfg.User, ssh.FingerprintSHA256(signers[0].PublicKey()))
	}
	if len(signers) >= maxOffers {
		hint = "it may have heard only the first of them (MaxAuthTries): choose one by key = \"ssh-ed25519 AAAA...\", its public key"
	}
	keys := make([]ssh.PublicKey, len(signers))
	for i, s := range signers {
		keys[i] = s.PublicKey()
	}
	return fault.Hinted(fault.Denied, hint, "the host refuses user %q with each of %d keys: %s", c.cfg.User, len(keys), printsOf(keys))
}

// plainDial returns why a socket doesn't answer, without its name.
func plainDial(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		inner := u.Unwrap()
		if inner == nil {
			return err
		}
		err = inner
	}
}
