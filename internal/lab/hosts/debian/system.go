// Package debian is the operating system of a simulated host: a Debian 12
// cloud image as far as the scripts that configure hosts can see it. Its
// kernel, services, packages and Kubernetes tools keep their state from one
// command to the next, and over a reboot what a real host would keep.
package debian

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/coreutils"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// An Address is one of a host's addresses.
type Address struct {
	Device string
	Prefix netip.Prefix // the address with the length of its network
}

// A Config says what the host is, and how it reaches the world around it.
// Hooks that are nil fail as they would on a host that is cut off.
type Config struct {
	ID        string
	Hostname  string
	User      string   // of the image, with passwordless sudo
	Keys      []string // authorized_keys of that user
	UserData  []byte
	Addresses []Address
	MemoryMB  int
	CPUs      int
	// HostKeys are the public keys of the SSH server, one line each.
	HostKeys []string

	Clock machine.Clock

	// Egress tells whether the host gets out to the internet now.
	Egress func() bool
	// Dial connects to an address of the lab.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Fetch answers an HTTP request for a URL outside of the lab.
	Fetch func(ctx context.Context, method, url string) (status int, body []byte, err error)
	// KubeadmInit starts a control plane. It calls written with the admin
	// kubeconfig once there is one, which is before the control plane serves.
	KubeadmInit func(ctx context.Context, config []byte, written func(admin []byte) error) error
	// KubeadmReset ends what KubeadmInit started, whether it got through or not.
	KubeadmReset func(ctx context.Context) error
	// Kubectl answers a kubectl command line that got past the flags known here.
	Kubectl func(ctx context.Context, kubeconfig []byte, args []string) (stdout string, err error)
	// RefuseSudo tells whether sudo is broken now; it is asked by each that
	// would run.
	RefuseSudo func() bool
	// Reboot is called when the host is told to reboot or, with halt, to power off.
	Reboot func(halt bool)
	// Console gets what the system prints on its console.
	Console func(line string)
}

// A System is one installed operating system.
type System struct {
	*machine.Machine
	Config Config

	kernel   *kernel
	services *services
	packages *packages
	init     *cloudInit

	accounts sync.Mutex // held while passwd, group or shadow is rewritten

	mu       sync.Mutex
	hostname string
}

// New installs a system. It doesn't run before Boot.
func New(cfg Config) (*System, error) {
	s := &System{Config: cfg, hostname: cfg.Hostname}
	fsys := tree.New(cfg.Clock.Now)
	programs := coreutils.Programs()
	for name, prog := range s.programs() {
		programs[name] = prog
	}
	s.Machine = machine.New(fsys, cfg.Clock, programs)
	s.kernel = newKernel(s)
	s.services = newServices(s)
	s.packages = newPackages(s)
	s.init = newCloudInit(s)
	if err := s.install(); err != nil {
		return nil, fmt.Errorf("installing %s: %w", cfg.Hostname, err)
	}
	return s, nil
}

// Boot starts the kernel, the enabled services and, on the first boot,
// cloud-init, which goes on in the background. Booted is called when the host
// can be logged into.
func (s *System) Boot(ctx context.Context) {
	s.kernel.boot()
	// It is how programs tell that systemd runs.
	if err := s.FS.MkdirAll(tree.Root(), "/run/systemd/system", 0o755); err != nil {
		s.console("systemd: making /run/systemd/system: %v", err)
	}
	s.services.boot(ctx)
}

// FirstBoot does what cloud-init does on a new host: keys, users, files,
// packages, commands.
func (s *System) FirstBoot(ctx context.Context) { s.init.run(ctx) }

// Shutdown ends all processes; what lay in memory is gone. Nothing may be
// booting meanwhile.
func (s *System) Shutdown() error {
	s.services.down()
	s.Halt()
	var errs []error
	for _, dir := range []string{"/run", "/tmp"} {
		kids, err := s.FS.ReadDir(tree.Root(), dir)
		errs = append(errs, err)
		for _, kid := range kids {
			errs = append(errs, s.FS.RemoveAll(tree.Root(), dir+"/"+kid.Name()))
		}
	}
	return errors.Join(errs...)
}

// Hostname is the host's name now.
func (s *System) Hostname() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hostname
}

func (s *System) setHostname(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hostname = name
}

func (s *System) egress() bool { return s.Config.Egress != nil && s.Config.Egress() }

func (s *System) console(format string, args ...any) {
	if s.Config.Console != nil {
		s.Config.Console(fmt.Sprintf(format, args...))
	}
}
