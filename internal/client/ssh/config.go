// Package ssh connects to hosts by SSH: with host keys that are known
// beforehand, through jump hosts, over one connection per host that every
// caller shares. It runs commands and forwards connections.
package ssh

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Config says how a host is reached.
type Config struct {
	Name       string // for messages; empty means Address
	Address    string // host name or IP address, as the last leg sees it
	Port       int    // 0 means 22
	User       string //
	Key        string // private key: PEM or OpenSSH form; ed25519, RSA or ECDSA
	Passphrase string // of Key, if it is encrypted
	// Certificate is of Key, if hosts trust an authority: "ssh-ed25519-cert-v01@openssh.com AAAA...".
	// Key alone isn't offered then.
	Certificate string
	// Agent is the socket of an SSH agent whose keys are offered. Key may be
	// empty then, or a public key, which is the only one of the agent's that is
	// offered then. A private key is offered first.
	Agent string
	// HostKeys and KnownHosts say what the host may prove itself with: keys as
	// "ssh-ed25519 AAAA...", or lines of known_hosts. KnownHosts is a text of the
	// latter alone. Lines for other hosts don't count. A line that begins with
	// @cert-authority has an authority whose certificates count, one with @revoked
	// a key that doesn't.
	HostKeys   []string
	KnownHosts string
	// FirstUse, instead, has the key trusted that the host shows first, and no
	// other from then on.
	FirstUse Memory
	Jump     *Client // the host through which this one is reached; nil means directly

	// Timeout bounds each phase of connecting: the transport, the server's
	// first answer, the key exchange with authentication. 0 means 10 s.
	Timeout time.Duration
	// Keepalive is the pause between two questions whether the host is still
	// there; 0 means 15 s.
	Keepalive time.Duration
	// Silence is how long such a question may stay unanswered, with nothing
	// else arriving, before the connection counts as dead. 0 means 30 s.
	Silence time.Duration
	// Grace is how long a cancelled command gets to end after SIGTERM, and
	// again after SIGKILL. 0 means 1 s.
	Grace time.Duration
	// MaxSessions bounds the commands that run at the same time; further ones
	// wait. A server that allows fewer is found out. 0 means 8.
	MaxSessions int
	// Now is the time that certificates must hold at; nil means time.Now.
	Now func() time.Time
}

func (c *Config) defaults() {
	if c.Name == "" {
		c.Name = c.Address
	}
	if c.Port == 0 {
		c.Port = 22
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&c.Timeout, 10 * time.Second}, {&c.Keepalive, 15 * time.Second}, {&c.Silence, 30 * time.Second}, {&c.Grace, time.Second}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.MaxSessions <= 0 {
		c.MaxSessions = 8
	}
}

// addr returns the host and port to dial.
func (c *Config) addr() string { return net.JoinHostPort(c.Address, strconv.Itoa(c.Port)) }

// label names the host for messages: "gw (127.0.0.1:2222)".
func (c *Config) label() string {
	if c.Name == c.Address {
		return c.addr()
	}
	return fmt.Sprintf("%s (%s)", c.Name, c.addr())
}

func isMissingPassphrase(err error) bool {
	var m *ssh.PassphraseMissingError
	return errors.As(err, &m)
}

// signer returns the private key.
func (c *Config) signer() (ssh.Signer, error) {
	var s ssh.Signer
	var err error
	if c.Passphrase != "" {
		s, err = ssh.ParsePrivateKeyWithPassphrase([]byte(c.Key), []byte(c.Passphrase))
	} else {
		s, err = ssh.ParsePrivateKey([]byte(c.Key))
	}
	if err == nil {
		return s, nil
	}
	// The parser's own text may quote what it was given.
	what, hint := "it isn't a private key in PEM or OpenSSH form", "pass the whole file, from -----BEGIN to -----END"
	switch {
	case c.Key == "":
		what = "it is empty"
	case keyIn(c.Key) != nil:
		what, hint = "it is a public key", "pass the private one, or have an SSH agent use it (agent = True)"
	case isMissingPassphrase(err):
		what, hint = "it is encrypted", "pass its passphrase"
	case c.Passphrase != "":
		what, hint = "it can't be decrypted", "check the passphrase"
	}
	return nil, fault.Hinted(fault.Invalid, hint, "private key for %s: %s", c.label(), what)
}
