package ssh

import (
	"context"
	"net"
	"net/url"
	"strconv"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type tunnelArgs struct {
	Address string `star:"address,required" doc:"Name or IP address; the host looks a name up."`
	Port    int    `star:"port,required" doc:"TCP port."`
}

func tunnelFunc() builtin.Func {
	return builtin.Of(builtin.Spec[*Host, tunnelArgs]{
		Name: "tunnel",
		Doc: "Open a port here that leads to something that only the host reaches. A connection is tried at once, and says why there is none. " +
			"The port is open on loopback, to every program on this machine, until the run ends; a later run gets another one, so make the tunnel in the step that uses it. " +
			"Needs AllowTcpForwarding on the host. What takes the host itself as `via` needs no tunnel.",
		Returns: "object with host (str, 127.0.0.1), port (int), and address (str, both of them)",
		Example: `inner = host.tunnel("10.20.0.10", 22)
log.info("its SSH server is at " + inner.address)`,
		Effect: builtin.Reads,
		Errors: []fault.Kind{fault.Invalid, fault.Denied, fault.Unreachable},
		Run:    tunnel,
	})
}

func tunnel(ctx context.Context, h *Host, a tunnelArgs) (any, error) {
	if a.Address == "" || a.Port < 1 || a.Port > 65535 {
		return nil, fault.New(fault.Invalid, "%s.tunnel: %q, port %d is no address with a port between 1 and 65535", h, a.Address, a.Port)
	}
	addr := net.JoinHostPort(a.Address, strconv.Itoa(a.Port))
	return effect.Read(ctx, h.query("tunnel", addr), func(ctx context.Context) (effect.State, error) {
		c, err := h.pool.client(h)
		if err != nil {
			return effect.State{}, err
		}
		local, err := c.Forward(ctx, addr)
		if err != nil {
			return effect.State{}, err
		}
		h.leads(local.String(), addr)
		return effect.State{Exists: true, Attrs: map[string]any{"host": local.IP.String(), "port": local.Port, "address": local.String()}}, nil
	})
}

// leads notes where a local port leads.
func (h *Host) leads(local, addr string) {
	far := url.PathEscape(addr) + "@" + h.place()
	s := &h.pool.seen
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tunnels == nil {
		s.tunnels = make(map[string]string)
	}
	s.tunnels[local] = far
}
