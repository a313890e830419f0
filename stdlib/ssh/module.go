// Package ssh is the module `ssh`: hosts that are configured over SSH. A host
// needs a POSIX shell and coreutils (busybox will do), nothing else.
package ssh

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/ssh"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A Config says how this run uses SSH. The zero Config is ready for use.
type Config struct {
	Keepalive time.Duration // pause between questions whether a host is still there; 0 means 15 s
	Silence   time.Duration // after which a connection counts as dead; 0 means 30 s
	Grace     time.Duration // for a cancelled command to end; 0 means 1 s
	// HostKeys keeps the host keys that were trusted because they were seen first.
	// Nil keeps none, and such hosts are refused.
	HostKeys effect.Store
	// LookupEnv reads a variable of the environment, which is asked only where a
	// recipe uses an SSH agent. Nil means that there is none.
	LookupEnv   func(string) (string, bool)
	MaxSessions int // commands at the same time on one host; 0 means 8
}

// A Pool holds the connections of one run: one per host, shared by all steps.
type Pool struct {
	cfg Config

	mu      sync.Mutex
	closed  bool
	clients map[string]*client.Client
	seen    seen
	locks   map[string]chan struct{}
}

// Module returns the module. Its receiver is a *Pool, which is closed at the
// end of the run.
func Module(c Config) *builtin.Module {
	return builtin.NewModule(builtin.Module{
		Name: "ssh",
		Doc: "Hosts over SSH. A host is configured with a POSIX shell and coreutils (busybox will do); it needs no interpreter. " +
			"Hosts are always recognized by keys, or by authorities for them, that are known; a key is trusted at its first use only where a recipe says so. One connection per host serves all steps of a run.",
		Recv:  &Pool{cfg: c, clients: make(map[string]*client.Client), locks: make(map[string]chan struct{})},
		Funcs: []builtin.Func{hostFunc()},
		Types: []*builtin.Type{hostType()},
	})
}

// Close ends all connections and what still runs on them.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	clients := p.clients
	p.clients = make(map[string]*client.Client)
	p.mu.Unlock()
	var all sync.WaitGroup
	for _, c := range clients { // at the same time: one may go through another
		all.Go(func() { _ = c.Close() }) // it has nothing to report
	}
	all.Wait()
	return nil
}

// client returns the client for h, the same for all handles that mean the
// same host, user and keys.
func (p *Pool) client(h *Host) (*client.Client, error) {
	if !h.Known() {
		return nil, fault.New(fault.Internal, "%s is dialled before its address and keys are known", h.scope())
	}
	var jump *client.Client
	if h.jump != nil {
		var err error
		if jump, err = p.client(h.jump); err != nil {
			return nil, err
		}
	}
	id := h.id()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fault.New(fault.Cancelled, "the run has ended")
	}
	if c := p.clients[id]; c != nil {
		return c, nil
	}
	cfg := client.Config{
		Name: h.name, Address: h.address.Reveal(), Port: h.port, User: h.user, Key: h.key.Reveal(), Passphrase: h.passphrase.Reveal(), Certificate: h.certificate.Reveal(), Agent: h.agent,
		HostKeys: h.hostKeyLines(), KnownHosts: h.knownHosts.Reveal(), Jump: jump, Timeout: h.timeout,
		Keepalive: p.cfg.Keepalive, Silence: p.cfg.Silence, Grace: p.cfg.Grace, MaxSessions: p.cfg.MaxSessions,
	}
	if h.firstUse {
		cfg.FirstUse = p.memory(h)
	}
	c, err := client.New(cfg)
	if err != nil {
		return nil, err
	}
	p.clients[id] = c
	return c, nil
}

// id identifies the connection that h needs. It is a digest, since keys are
// part of it.
func (h *Host) id() string {
	parts := []any{h.address.Reveal(), h.port, h.user, h.key.Reveal(), h.passphrase.Reveal(), h.certificate.Reveal(), h.agent, h.hostKeyLines(), h.knownHosts.Reveal(), h.firstUse, h.planned}
	if h.jump != nil {
		parts = append(parts, h.jump.id())
	}
	text, _ := json.Marshal(parts) // texts and numbers always marshal
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// lock waits until nobody else in this run changes the thing called name.
func (p *Pool) lock(ctx context.Context, name string) (unlock func(), err error) {
	p.mu.Lock()
	l := p.locks[name]
	if l == nil {
		l = make(chan struct{}, 1)
		p.locks[name] = l
	}
	p.mu.Unlock()
	select {
	case l <- struct{}{}:
		return func() { <-l }, nil
	case <-ctx.Done():
		return nil, fault.FromContext(ctx)
	}
}
