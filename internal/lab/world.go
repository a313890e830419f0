package lab

import (
	"net"
	"net/netip"
	"strconv"
	"sync"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/apiproxy"
	"git.vanillacore.net/govstack/gsrun/internal/lab/control"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
	"git.vanillacore.net/govstack/gsrun/internal/lab/inject"
	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

// defaultSSHPort is the port of the servers' SSH on their floating addresses:
// 22 may be taken by the machine's own, or need privileges. A second lab on
// the machine takes another.
const defaultSSHPort = 2222

// reservePort returns a listener that keeps the port of the servers' SSH for
// this lab, on an address of the external network that no server gets.
func reservePort() (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(routerAddress, strconv.Itoa(defaultSSHPort)))
	if err != nil {
		l, err = net.Listen("tcp", routerAddress+":0")
	}
	if err != nil {
		return nil, fault.Hinted(fault.Unavailable, "the lab needs the loopback range 127.0.0.0/8, as Linux has it", "listening on %s: %v", routerAddress, err)
	}
	return l, nil
}

// routerAddress is the provider's router on the external network.
const routerAddress = "127.77.0.1"

// A world joins the cloud with the hosts that its servers are: what happens to
// a server happens to its host, and where packets go is decided by both.
type world struct {
	cloud   *openstack.Cloud
	fleet   *hosts.Fleet
	sshPort int
	api     string                       // address of the cloud's APIs
	fail    func(part string, err error) // a defect of a part of the lab: it is written to its log

	mu       sync.Mutex
	servers  map[string]openstack.ServerInfo
	clusters map[string]*cluster // by the id of the host
	turns    map[string]chan struct{}

	kubernetes *inject.Set[apiproxy.Fault]
	played     *control.Faults
}

// server follows what happens to a server.
func (w *world) server(event openstack.ServerEvent, s openstack.ServerInfo) {
	w.mu.Lock()
	w.servers[s.ID] = s
	w.mu.Unlock()
	h, exists := w.fleet.Host(s.ID)
	switch event {
	case openstack.ServerActive, openstack.ServerRebuilt:
		if exists {
			w.check("host "+s.Name, h.Close())
			w.stopCluster(s.ID)
		}
		w.boot(s)
	case openstack.ServerStopped:
		if exists {
			w.check("host "+s.Name, h.Stop())
		}
	case openstack.ServerStarted:
		if exists {
			h.Start()
		}
	case openstack.ServerRebooted:
		if exists {
			w.check("host "+s.Name, h.Reboot())
		}
	case openstack.ServerDeleted:
		// The host ends first: it breaks off a kubeadm that still runs.
		if exists {
			w.check("host "+s.Name, h.Close())
		}
		w.stopCluster(s.ID)
		w.mu.Lock()
		delete(w.servers, s.ID)
		delete(w.turns, s.ID)
		w.mu.Unlock()
	}
}

func (w *world) boot(s openstack.ServerInfo) {
	spec := hosts.Spec{ID: s.ID, Name: s.Name, UserData: s.UserData, Image: s.Image, MemoryMB: 4096, CPUs: 2}
	if s.PublicKey != "" {
		spec.AuthorizedKeys = []string{s.PublicKey}
	}
	for _, a := range s.Addresses {
		ip, err := netip.ParseAddr(a.Fixed)
		if err != nil {
			w.fail("host "+s.Name, fault.Wrap("reading address of", s.Name, err))
			continue
		}
		spec.Addresses = append(spec.Addresses, hosts.Address{IP: ip, Prefix: a.PrefixBits, Network: a.NetworkID, Subnet: a.SubnetID})
	}
	h, err := w.fleet.Boot(spec)
	if err != nil {
		w.fail("host "+s.Name, err)
		return
	}
	// The APIs are on loopback, which is a host's own: so each host has them.
	if _, port, err := net.SplitHostPort(w.api); err == nil {
		if n, err := strconv.Atoi(port); err == nil {
			h.Forward(n, w.api)
		}
	}
	for _, a := range s.Addresses {
		if a.Floating != "" {
			w.check("host "+s.Name, h.Listen(w.public(a.Floating)))
		}
	}
}

// floatingIP follows where a floating address leads.
func (w *world) floatingIP(event openstack.FloatingIPEvent, f openstack.FloatingIPInfo) {
	h, ok := w.fleet.Host(f.ServerID)
	if !ok {
		return
	}
	if event == openstack.FloatingIPAssociated {
		w.check("floating IP "+f.Address, h.Listen(w.public(f.Address)))
		return
	}
	w.check("floating IP "+f.Address, h.Unlisten(w.public(f.Address)))
}

func (w *world) public(address string) string {
	return net.JoinHostPort(address, strconv.Itoa(w.sshPort))
}

func (w *world) check(part string, err error) {
	if err != nil {
		w.fail(part, err)
	}
}

// console returns what a server printed while it booted.
func (w *world) console(server string) string {
	if h, ok := w.fleet.Host(server); ok {
		return h.ConsoleLog()
	}
	return ""
}

// egress reports whether a host gets out: through a router of the cloud, or
// through the host that is its subnet's gateway, if that one forwards.
func (w *world) egress(id string) bool {
	if w.cloud.ReachesExternal(id) {
		return true
	}
	w.mu.Lock()
	addresses := w.servers[id].Addresses
	w.mu.Unlock()
	for _, a := range addresses {
		gateway, err := netip.ParseAddr(a.Gateway)
		if err != nil {
			continue
		}
		ip, err := netip.ParseAddr(a.Fixed)
		if err != nil {
			continue
		}
		cidr := netip.PrefixFrom(ip, a.PrefixBits).Masked().String()
		if g := w.hostAt(a.NetworkID, gateway); g != nil && g.Info().ID != id && g.NATs(cidr) && w.cloud.ReachesExternal(g.Info().ID) {
			return true
		}
	}
	return false
}

func (w *world) hostAt(network string, ip netip.Addr) *hosts.Host {
	for _, h := range w.fleet.Hosts() {
		for _, a := range h.Info().Addresses {
			if a.Network == network && a.IP == ip {
				return h
			}
		}
	}
	return nil
}

// close stops everything. Hosts end together with their control planes; a
// control plane that came up meanwhile ends after its host.
func (w *world) close() {
	var closing sync.WaitGroup
	closing.Go(w.stopClusters)
	closing.Go(func() { w.check("hosts", w.fleet.Close()) })
	closing.Wait()
	w.stopClusters()
	w.cloud.Close()
}
