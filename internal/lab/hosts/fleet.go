// Package hosts simulates the servers of an OpenStack project: each is an SSH
// server with a Debian behind it, whose shell, files and services exist only in
// this process. A host is reached at floating addresses on loopback, and by
// other hosts of its networks through their SSH servers' forwarding.
package hosts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/inject"
)

// A Clock tells the time and waits.
type Clock = machine.Clock

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// A Config says how a fleet behaves. Every field may be left out. The hooks are
// called from several goroutines.
type Config struct {
	Clock     Clock
	BootDelay time.Duration // from power on to the SSH server's start
	Log       io.Writer     // gets one JSON line for each command

	// Egress tells whether a host gets out to the internet now.
	Egress func(hostID string) bool
	// Fetch answers an HTTP request that a host makes to an address outside of the fleet.
	Fetch func(ctx context.Context, host Info, method, url string) (status int, body []byte, err error)
	// KubeadmInit starts a control plane for a host. The config is the file
	// given to kubeadm, or what its flags amount to. It calls written with the
	// admin kubeconfig once there is one, which is before the control plane
	// serves. A kubeadm that is killed ends ctx.
	KubeadmInit func(ctx context.Context, host Info, config []byte, written func(admin []byte) error) error
	// KubeadmReset ends what KubeadmInit started, whether it got through or not.
	KubeadmReset func(ctx context.Context, host Info) error
	// Kubectl answers a kubectl command line.
	Kubectl func(ctx context.Context, host Info, kubeconfig []byte, args []string) (stdout string, err error)
	// Power is told when a host goes down, or comes up, by itself.
	Power func(hostID string, up bool)
}

// An Address is one of a host's private addresses.
type Address struct {
	IP      netip.Addr
	Prefix  int // length of the subnet's prefix, e.g. 24
	Network string
	Subnet  string
}

// A Spec describes a host to be.
type Spec struct {
	ID             string
	Name           string
	Hostname       string // "" is Name
	User           string // of the image; "" is debian
	UserData       []byte
	AuthorizedKeys []string
	Addresses      []Address
	Image          string
	MemoryMB       int
	CPUs           int
}

// Info is what hooks get to know of a host.
type Info struct {
	ID        string
	Name      string
	Hostname  string
	Addresses []Address
}

// A Fleet is a set of hosts that can see each other over their networks.
type Fleet struct {
	cfg Config

	mu     sync.Mutex
	hosts  map[string]*Host
	routes map[route]*Host

	log    journal
	faults *inject.Set[Fault]
	turns  sync.WaitGroup // hosts that reboot by themselves
}

type route struct {
	network string
	ip      netip.Addr
}

// New returns an empty fleet.
func New(cfg Config) *Fleet {
	if cfg.Clock == nil {
		cfg.Clock = systemClock{}
	}
	return &Fleet{cfg: cfg, hosts: map[string]*Host{}, routes: map[route]*Host{}, log: journal{w: cfg.Log}, faults: newFaults()}
}

// Boot creates a host and powers it on. It returns at once: the SSH server
// comes up after the boot delay; WaitUp waits for that. It fails with Exists if
// the id or an address is taken, and with Invalid if the spec can't be.
func (f *Fleet) Boot(spec Spec) (*Host, error) {
	fail := func(kind fault.Kind, format string, args ...any) error {
		return &fault.Error{Op: "booting host", Target: "hosts/" + spec.ID, Kind: kind, Err: fmt.Errorf(format, args...)}
	}
	if spec.ID == "" || spec.Name == "" {
		return nil, fail(fault.Invalid, "a host needs an id and a name")
	}
	if spec.Hostname == "" {
		spec.Hostname = strings.ToLower(spec.Name)
	}
	if spec.User == "" {
		spec.User = "debian"
	}
	for i, a := range spec.Addresses {
		if !a.IP.IsValid() || a.Network == "" {
			return nil, fail(fault.Invalid, "address %d has no network or no IP", i)
		}
		if a.Prefix == 0 {
			spec.Addresses[i].Prefix = 24
		}
	}
	h, err := newHost(f, spec)
	if err != nil {
		return nil, fail(fault.Internal, "%w", err)
	}
	f.mu.Lock()
	if f.hosts[spec.ID] != nil {
		f.mu.Unlock()
		return nil, fail(fault.Exists, "there is a host with this id")
	}
	for _, a := range spec.Addresses {
		if other := f.routes[route{a.Network, a.IP}]; other != nil {
			f.mu.Unlock()
			return nil, fail(fault.Exists, "%s is the address of %s", a.IP, other.spec.ID)
		}
	}
	f.hosts[spec.ID] = h
	for _, a := range spec.Addresses {
		f.routes[route{a.Network, a.IP}] = h
	}
	f.mu.Unlock()
	h.mu.Lock()
	h.feel()
	h.mu.Unlock()
	h.Start()
	return h, nil
}

// Host finds a host by id.
func (f *Fleet) Host(id string) (*Host, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, ok := f.hosts[id]
	return h, ok
}

// Hosts lists the hosts by id.
func (f *Fleet) Hosts() []*Host {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]*Host, 0, len(f.hosts))
	for _, h := range f.hosts {
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b *Host) int { return strings.Compare(a.spec.ID, b.spec.ID) })
	return out
}

// Close powers every host off, all at once, and forgets it.
func (f *Fleet) Close() error {
	all := f.Hosts()
	errs := make([]error, len(all))
	var closing sync.WaitGroup
	for i, h := range all {
		closing.Go(func() { errs[i] = h.Close() })
	}
	closing.Wait()
	f.turns.Wait()
	return errors.Join(errs...)
}

func (f *Fleet) forget(h *Host) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.hosts, h.spec.ID)
	for key, other := range f.routes {
		if other == h {
			delete(f.routes, key)
		}
	}
}
