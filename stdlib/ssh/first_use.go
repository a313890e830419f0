package ssh

import (
	"context"
	"net"
	"net/url"
	"strconv"
	"sync"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// seen are the host keys that were trusted because they were seen first, in
// this run.
type seen struct {
	mu      sync.Mutex
	keys    map[string]string // by slot
	tunnels map[string]string // the places that local ports lead to
}

// A memory keeps the key of one host: in the site's state, or in a plan for
// the run alone.
type memory struct {
	seen  *seen
	store effect.Store
	slot  string
	plan  bool
}

// remember sets up that the host's first key is trusted.
func (h *Host) remember(ctx context.Context) error {
	if h.pool.cfg.HostKeys == nil {
		return fault.Hinted(fault.Invalid, "pass host_key", "ssh.host: trust_first_use needs a site with a state, where the key is kept")
	}
	h.firstUse = true
	s := effect.From(ctx)
	h.planned = s != nil && s.Door.Mode == effect.Plan
	return nil
}

// place names where a host is: its address may mean another one elsewhere.
func (h *Host) place() string {
	addr := net.JoinHostPort(h.address.Reveal(), strconv.Itoa(h.port))
	at := url.PathEscape(addr)
	if h.jump == nil {
		s := &h.pool.seen
		s.mu.Lock()
		defer s.mu.Unlock()
		if far := s.tunnels[addr]; far != "" {
			return far // the port is another one in each run
		}
	} else {
		at += "@" + h.jump.place()
	}
	return at
}

func (p *Pool) memory(h *Host) *memory {
	return &memory{seen: &p.seen, store: p.cfg.HostKeys, slot: "ssh/" + h.place(), plan: h.planned}
}

// Known returns the key that was seen first, in an earlier run or in this one.
func (m *memory) Known(ctx context.Context) (string, error) {
	kept, found, err := m.store.Get(ctx, m.slot)
	if err != nil || found {
		return string(kept), err
	}
	if !m.plan {
		return "", nil // what a plan saw is compared when it is kept
	}
	m.seen.mu.Lock()
	defer m.seen.mu.Unlock()
	return m.seen.keys[m.slot], nil
}

// Keep keeps a key that no run has seen before.
func (m *memory) Keep(ctx context.Context, line string) (string, error) {
	m.seen.mu.Lock()
	first, ok := m.seen.keys[m.slot]
	if !ok {
		if m.seen.keys == nil {
			m.seen.keys = make(map[string]string)
		}
		m.seen.keys[m.slot], first = line, line
	}
	m.seen.mu.Unlock()
	if m.plan || first != line {
		return first, nil
	}
	kept, _, err := m.store.Create(ctx, m.slot, []byte(line))
	return string(kept), err
}

// Forget says how the key is forgotten.
func (m *memory) Forget() string {
	return "have the key that it showed first forgotten: delete hostkeys/" + m.slot + " in the site's state folder"
}
