package hosts

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/debian"
)

// A Host is one simulated server. Its disk outlives a Stop; Close ends it.
type Host struct {
	fleet *Fleet
	spec  Spec
	sys   *debian.System

	console console

	turn sync.Mutex // held while the host is switched on or off

	mu        sync.Mutex
	changed   *sync.Cond // up, frozen, halted
	power     context.Context
	off       context.CancelFunc
	up        bool
	closed    bool
	frozen    bool
	booted    bool // once, so cloud-init is through with its first run
	keys      []ssh.Signer
	faults    Faults                  // what SetFaults said
	sick      Faults                  // all that is wrong
	listeners map[string]net.Listener // nil while the host is down
	services  map[int]func(net.Conn)
	conns     map[net.Conn]struct{}

	work sync.WaitGroup // all goroutines of the host
}

func newHost(f *Fleet, spec Spec) (*Host, error) {
	h := &Host{
		fleet: f, spec: spec,
		listeners: map[string]net.Listener{}, services: map[int]func(net.Conn){}, conns: map[net.Conn]struct{}{},
	}
	h.changed = sync.NewCond(&h.mu)
	keys, err := newHostKeys()
	if err != nil {
		return nil, err
	}
	h.keys = keys
	h.console.clock = f.cfg.Clock
	cfg := debian.Config{
		ID: spec.ID, Hostname: spec.Hostname, User: spec.User, Keys: spec.AuthorizedKeys, UserData: spec.UserData,
		MemoryMB: spec.MemoryMB, CPUs: spec.CPUs, Clock: f.cfg.Clock, HostKeys: authorized(keys, spec.Hostname),
		Egress:     func() bool { return f.cfg.Egress != nil && f.cfg.Egress(spec.ID) },
		Dial:       h.dial,
		RefuseSudo: h.refuseSudo,
		Reboot:     h.rebootItself,
		Console:    h.console.print,
	}
	for i, a := range spec.Addresses {
		cfg.Addresses = append(cfg.Addresses, debian.Address{Device: fmt.Sprintf("ens%d", i+3), Prefix: netip.PrefixFrom(a.IP, a.Prefix)})
	}
	if f.cfg.Fetch != nil {
		cfg.Fetch = func(ctx context.Context, method, url string) (int, []byte, error) {
			return f.cfg.Fetch(ctx, h.Info(), method, url)
		}
	}
	if f.cfg.KubeadmInit != nil {
		cfg.KubeadmInit = func(ctx context.Context, config []byte, written func([]byte) error) error {
			return f.cfg.KubeadmInit(ctx, h.Info(), config, written)
		}
	}
	if f.cfg.KubeadmReset != nil {
		cfg.KubeadmReset = func(ctx context.Context) error { return f.cfg.KubeadmReset(ctx, h.Info()) }
	}
	if f.cfg.Kubectl != nil {
		cfg.Kubectl = func(ctx context.Context, kubeconfig []byte, args []string) (string, error) {
			return f.cfg.Kubectl(ctx, h.Info(), kubeconfig, args)
		}
	}
	if h.sys, err = debian.New(cfg); err != nil {
		return nil, err
	}
	h.sys.Halt()
	return h, nil
}

// newHostKeys makes the keys of an SSH server.
func newHostKeys() ([]ssh.Signer, error) {
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	var out []ssh.Signer
	for _, key := range []crypto.Signer{curve, edwards} {
		signer, err := ssh.NewSignerFromSigner(key)
		if err != nil {
			return nil, err
		}
		out = append(out, signer)
	}
	return out, nil
}

func authorized(keys []ssh.Signer, host string) []string {
	var out []string
	for _, k := range keys {
		out = append(out, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.PublicKey())))+" root@"+host)
	}
	return out
}

// Info describes the host.
func (h *Host) Info() Info {
	return Info{ID: h.spec.ID, Name: h.spec.Name, Hostname: h.sys.Hostname(), Addresses: slices.Clone(h.spec.Addresses)}
}

// System is the host's operating system, to look into from tests.
func (h *Host) System() *debian.System { return h.sys }

// HostKeys are the SSH server's public keys, as in known_hosts without the name.
func (h *Host) HostKeys() []ssh.PublicKey {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []ssh.PublicKey
	for _, k := range h.keys {
		out = append(out, k.PublicKey())
	}
	return out
}

// ConsoleLog is all that the host printed on its console.
func (h *Host) ConsoleLog() string { return h.console.text() }

// Writes counts the changes made to the host's files, ever.
func (h *Host) Writes() int64 { return h.sys.FS.Writes() }

// NATs reports whether the host now forwards packets from the network cidr
// and hides them behind its own address.
func (h *Host) NATs(cidr string) bool {
	h.mu.Lock()
	up := h.up && !h.frozen
	h.mu.Unlock()
	return up && h.sys.NATs(cidr)
}

// Up reports whether the host's SSH server runs.
func (h *Host) Up() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.up
}

func (h *Host) target() string { return "hosts/" + h.spec.ID }

var errDeleted = errors.New("the host was deleted")

// WaitUp waits until the host's SSH server runs. It fails with Timeout or
// Cancelled when ctx ends, and with NotFound if the host is deleted.
func (h *Host) WaitUp(ctx context.Context) error {
	return h.wait(ctx, func() bool { return h.up })
}

// WaitInit waits until cloud-init has ended its first run.
func (h *Host) WaitInit(ctx context.Context) error {
	return h.wait(ctx, func() bool { return h.booted })
}

func (h *Host) wait(ctx context.Context, done func() bool) error {
	stop := context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.changed.Broadcast()
	})
	defer stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for !done() {
		if err := fault.FromContext(ctx); err != nil {
			return fault.Wrap("waiting for host", h.target(), err)
		}
		if h.closed {
			return &fault.Error{Op: "waiting for host", Target: h.target(), Kind: fault.NotFound, Err: errDeleted}
		}
		h.changed.Wait()
	}
	return nil
}

// Start powers the host on; it does nothing if the host is on.
func (h *Host) Start() {
	h.turn.Lock()
	defer h.turn.Unlock()
	h.start()
}

func (h *Host) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.power != nil || h.closed {
		return
	}
	h.power, h.off = context.WithCancel(context.Background())
	ctx := h.power
	h.sys.Machine.Start()
	h.work.Go(func() { h.run(ctx) })
}

// run brings the host up.
func (h *Host) run(ctx context.Context) {
	h.console.boot(h.spec)
	select {
	case <-h.fleet.cfg.Clock.After(h.fleet.cfg.BootDelay):
	case <-ctx.Done():
		return
	}
	h.sys.Boot(ctx)
	h.mu.Lock()
	firstBoot := !h.booted
	h.mu.Unlock()
	h.console.cloudInit(h.spec, h.HostKeys(), firstBoot)
	h.mu.Lock()
	if ctx.Err() != nil {
		h.mu.Unlock()
		return
	}
	h.up = true
	h.listen()
	h.changed.Broadcast()
	h.mu.Unlock()
	if h.fleet.cfg.Power != nil {
		h.fleet.cfg.Power(h.spec.ID, true)
	}
	if !firstBoot {
		return
	}
	h.sys.FirstBoot(ctx)
	h.mu.Lock()
	if ctx.Err() == nil {
		h.booted = true
	}
	h.changed.Broadcast()
	h.mu.Unlock()
}

// Stop powers the host off at once: what runs is killed, connections break.
// The disk keeps what it has. A hook of the Config must not call it.
func (h *Host) Stop() error {
	h.turn.Lock()
	defer h.turn.Unlock()
	return h.stop()
}

func (h *Host) stop() error {
	h.mu.Lock()
	if h.power == nil {
		h.mu.Unlock()
		return nil
	}
	h.off()
	h.up, h.frozen = false, false
	for addr, l := range h.listeners {
		if l != nil {
			l.Close()
			h.listeners[addr] = nil
		}
	}
	for conn := range h.conns {
		conn.Close()
	}
	h.changed.Broadcast()
	h.mu.Unlock()
	// First all that runs ends, the boot and its jobs too; then what lay in
	// memory can go.
	h.sys.Halt()
	h.work.Wait()
	err := h.sys.Shutdown()
	h.mu.Lock()
	h.power = nil
	h.mu.Unlock()
	return fault.Wrap("stopping host", h.target(), err)
}

// Reboot is Stop and Start.
func (h *Host) Reboot() error {
	h.turn.Lock()
	defer h.turn.Unlock()
	if err := h.stop(); err != nil {
		return err
	}
	h.start()
	return nil
}

// rebootItself is what the command reboot does. It returns before it is done.
func (h *Host) rebootItself(halt bool) {
	h.mu.Lock()
	closed := h.closed
	h.mu.Unlock()
	if closed {
		return
	}
	h.fleet.mu.Lock()
	defer h.fleet.mu.Unlock()
	if h.fleet.hosts[h.spec.ID] != h {
		return
	}
	h.fleet.turns.Go(func() {
		if h.fleet.cfg.Power != nil {
			h.fleet.cfg.Power(h.spec.ID, false)
		}
		h.turn.Lock()
		defer h.turn.Unlock()
		if err := h.stop(); err != nil {
			h.console.print(fmt.Sprintf("reboot: %v", err))
		}
		if !halt {
			h.start()
		}
	})
}

// Freeze makes the host hang: it keeps its connections and answers nothing.
func (h *Host) Freeze() { h.setFrozen(true) }

// Thaw ends Freeze.
func (h *Host) Thaw() { h.setFrozen(false) }

func (h *Host) setFrozen(frozen bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.frozen = frozen
	h.changed.Broadcast()
}

// Close powers the host off and deletes it with its disk.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.fleet.forget(h)
	err := h.Stop()
	h.mu.Lock()
	h.listeners = map[string]net.Listener{}
	h.changed.Broadcast()
	h.mu.Unlock()
	return err
}
