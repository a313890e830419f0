package hosts

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// Listen makes the host reachable at a loopback address, as a floating IP
// does, whenever it is up. It fails with Conflict if the address can't be
// listened on, and with NotFound if the host was deleted.
func (h *Host) Listen(addr string) error {
	if err := h.listenAt(addr); err != nil {
		kind := fault.Conflict
		if errors.Is(err, errDeleted) {
			kind = fault.NotFound
		}
		return &fault.Error{Op: "listening on " + addr, Target: h.target(), Kind: kind, Err: err}
	}
	return nil
}

func (h *Host) listenAt(addr string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return errDeleted
	}
	if _, ok := h.listeners[addr]; ok {
		return nil
	}
	if !h.up || h.sick.Refuse {
		// Whether the address is free is told now rather than at boot.
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		h.listeners[addr] = nil
		return l.Close()
	}
	return h.open(addr)
}

// Unlisten ends Listen. Connections that stand go on, as they do when a
// floating IP moves.
func (h *Host) Unlisten(addr string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.listeners[addr]
	delete(h.listeners, addr)
	if l == nil {
		return nil
	}
	return fault.Wrap("closing "+addr, h.target(), l.Close())
}

// listen opens every address of the host; h.mu is held.
func (h *Host) listen() {
	for addr, l := range h.listeners {
		if l != nil {
			continue
		}
		if err := h.open(addr); err != nil {
			h.console.print("sshd: " + err.Error())
		}
	}
}

func (h *Host) open(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	h.listeners[addr] = l
	h.work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if !h.begin(conn, h.sshd) {
				conn.Close()
			}
		}
	})
	return nil
}

// begin runs a service on a connection. It returns false if the host is down.
func (h *Host) begin(conn net.Conn, serve func(net.Conn)) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.up {
		return false
	}
	gate := &gate{Conn: conn, host: h}
	h.conns[gate] = struct{}{}
	h.work.Go(func() {
		defer func() {
			gate.Close()
			h.mu.Lock()
			delete(h.conns, gate)
			h.mu.Unlock()
		}()
		serve(gate)
	})
	return true
}

// Serve answers connections to a port of the host, from itself and from its
// networks. fn is called in a goroutine of its own and the connection is closed
// when it returns; it is closed earlier when the host stops.
func (h *Host) Serve(port int, fn func(net.Conn)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.services[port] = fn
}

// Forward serves a port of the host by connecting on to an address on the
// machine's loopback.
func (h *Host) Forward(port int, target string) {
	h.Serve(port, func(conn net.Conn) {
		out, err := net.Dial("tcp", target)
		if err != nil {
			return
		}
		defer out.Close()
		join(conn, out)
	})
}

// Unserve ends Serve and Forward. Connections that stand go on.
func (h *Host) Unserve(port int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.services, port)
}

// dial connects from the host to an address: its own, or one on a network that
// it is on. It fails with ECONNREFUSED, EHOSTUNREACH or ENETUNREACH.
func (h *Host) dial(ctx context.Context, address string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}
	}
	name, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(service)
	if err != nil {
		return nil, err
	}
	ip, err := h.resolve(name)
	if err != nil {
		return nil, err
	}
	target, reason := h.find(ip)
	if target == nil {
		return fail(reason)
	}
	target.mu.Lock()
	serve := target.services[port]
	if port == 22 && serve == nil {
		serve = target.sshd
	}
	refused := serve == nil || port == 22 && target.sick.Refuse
	up := target.up
	target.mu.Unlock()
	switch {
	case !up:
		return fail(syscall.EHOSTUNREACH)
	case refused:
		return fail(syscall.ECONNREFUSED)
	}
	if err := target.awake(ctx); err != nil {
		return fail(syscall.ETIMEDOUT)
	}
	near, far, err := pair()
	if err != nil {
		return nil, err
	}
	if !target.begin(far, serve) {
		near.Close()
		far.Close()
		return fail(syscall.EHOSTUNREACH)
	}
	return near, nil
}

// find returns the host that has an address as seen from h.
func (h *Host) find(ip netip.Addr) (*Host, error) {
	if ip.IsLoopback() && (ip == netip.MustParseAddr("127.0.0.1") || ip == netip.MustParseAddr("127.0.1.1") || ip.Is6()) {
		return h, nil
	}
	h.fleet.mu.Lock()
	defer h.fleet.mu.Unlock()
	reason := error(syscall.ENETUNREACH)
	for _, a := range h.spec.Addresses {
		if a.IP == ip {
			return h, nil
		}
		if target := h.fleet.routes[route{a.Network, ip}]; target != nil {
			return target, nil
		}
		if netip.PrefixFrom(a.IP, a.Prefix).Masked().Contains(ip) {
			reason = syscall.EHOSTUNREACH
		}
	}
	return nil, reason
}

var errNoName = errors.New("Temporary failure in name resolution")

// resolve looks a name up in /etc/hosts.
func (h *Host) resolve(name string) (netip.Addr, error) {
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip, nil
	}
	for line := range strings.SplitSeq("127.0.0.1 localhost\n"+h.sys.Text("/etc/hosts"), "\n") {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		for _, alias := range f[min(1, len(f)):] {
			if alias == name {
				if ip, err := netip.ParseAddr(f[0]); err == nil {
					return ip, nil
				}
			}
		}
	}
	return netip.Addr{}, errNoName
}

// pair returns the two ends of a connection that the kernel buffers.
func pair() (net.Conn, net.Conn, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "lab")
		conn, cerr := net.FileConn(file)
		file.Close()
		if cerr != nil {
			err = cerr
			continue
		}
		ends[i] = conn
	}
	if err != nil {
		for _, c := range ends {
			if c != nil {
				c.Close()
			}
		}
		return nil, nil, err
	}
	return ends[0], ends[1], nil
}

// A gate is a connection that stands still while its host is frozen.
type gate struct {
	net.Conn
	host *Host
}

func (g *gate) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	if err == nil {
		if perr := g.host.pass(); perr != nil {
			return 0, perr
		}
	}
	return n, err
}

func (g *gate) Write(b []byte) (int, error) {
	if err := g.host.pass(); err != nil {
		return 0, err
	}
	return g.Conn.Write(b)
}

// pass waits while the host is frozen, and for as long as it is told to be slow.
func (h *Host) pass() error {
	h.mu.Lock()
	for h.frozen && h.up {
		h.changed.Wait()
	}
	delay, power, up := h.sick.Delay, h.power, h.up
	h.mu.Unlock()
	if !up {
		return net.ErrClosed
	}
	if delay > 0 {
		select {
		case <-h.fleet.cfg.Clock.After(delay):
		case <-power.Done():
			return net.ErrClosed
		}
	}
	return nil
}

// awake waits until the host isn't frozen.
func (h *Host) awake(ctx context.Context) error {
	return h.wait(ctx, func() bool { return !h.frozen || !h.up })
}
