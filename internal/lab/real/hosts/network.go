package hosts

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// newNamespace makes a network namespace, which lasts as long as the file is
// open or something is in it.
func newNamespace() (*os.File, error) {
	type result struct {
		f   *os.File
		err error
	}
	c := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			c <- result{nil, fmt.Errorf("making a network namespace: %w", err)}
			return
		}
		f, err := os.Open("/proc/thread-self/ns/net")
		c <- result{f, err}
	}()
	r := <-c
	return r.f, r.err
}

// within calls f in a network namespace.
func within(ns *os.File, f func() error) error {
	c := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			c <- fmt.Errorf("entering a network namespace: %w", err)
			return
		}
		c <- f()
	}()
	return <-c
}

// Network makes a network that hosts can be on. With an address, such as
// "203.0.113.10/24", this process is on it too.
func (l *Lab) Network(name, address string) error {
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName(name)}}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("making the network %s: %w", name, err)
	}
	if address != "" {
		if err := addAddress(bridge, address); err != nil {
			return fmt.Errorf("making the network %s: %w", name, err)
		}
	}
	return netlink.LinkSetUp(bridge)
}

func bridgeName(network string) string { return "br-" + network }

func addAddress(link netlink.Link, address string) error {
	a, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	return netlink.AddrAdd(link, a)
}

// connect gives a host its n-th network interface, eth0 being the first.
func (h *Host) connect(n int, leg Leg) error {
	bridge, err := netlink.LinkByName(bridgeName(leg.Network))
	if err != nil {
		return fmt.Errorf("connecting %s to the network %s: %w", h.Name, leg.Network, err)
	}
	name := fmt.Sprintf("eth%d", n)
	here := h.wire(n)
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: here, MasterIndex: bridge.Attrs().Index}, PeerName: name, PeerNamespace: netlink.NsFd(h.ns.Fd())}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("connecting %s to the network %s: %w", h.Name, leg.Network, err)
	}
	if err := netlink.LinkSetUp(pair); err != nil {
		return err
	}
	return within(h.ns, func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return errors.Join(addAddress(link, leg.Address), netlink.LinkSetUp(link))
	})
}

// wire is the name of this end of a host's n-th connection.
func (h *Host) wire(n int) string { return fmt.Sprintf("v%d-eth%d", h.id, n) }

// route makes the host reach everything else by a gateway.
func (h *Host) route(gateway string) error {
	a, err := netlink.ParseAddr(gateway + "/32")
	if err != nil {
		return fmt.Errorf("the gateway of %s: %w", h.Name, err)
	}
	return within(h.ns, func() error { return netlink.RouteReplace(&netlink.Route{Gw: a.IP}) })
}

// Cut takes the host's n-th interface off its network, or puts it back.
func (h *Host) Cut(n int, off bool) error {
	link, err := netlink.LinkByName(h.wire(n))
	if err != nil {
		return err
	}
	if off {
		return netlink.LinkSetDown(link)
	}
	return netlink.LinkSetUp(link)
}

func loopback() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

// removeBridges removes the networks.
func removeBridges() error {
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	var errs []error
	for _, link := range links {
		if link.Type() == "bridge" {
			errs = append(errs, netlink.LinkDel(link))
		}
	}
	return errors.Join(errs...)
}
