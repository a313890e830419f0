package ssh

import (
	"context"
	"net"
	"strconv"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type connectsArgs struct {
	Address string        `star:"address,required" doc:"Name or IP address; the host looks a name up."`
	Port    int           `star:"port,required" doc:"TCP port."`
	Timeout time.Duration `star:"timeout" doc:"Time after which the other side doesn't answer."`
}

func connectsFunc() builtin.Func {
	return builtin.Of(builtin.Spec[*Host, connectsArgs]{
		Name: "connects",
		Doc: "Try whether the host can connect to something by TCP, and say why not. Nothing is sent. " +
			"Its SSH server makes the connection, which needs AllowTcpForwarding there.",
		Returns: "object with ok (bool) and why (str), which is empty if it can",
		Example: `leg = host.connects("keystone.example.org", 5000)
if not leg.ok:
    log.info("no Keystone: " + leg.why)`,
		Effect:   builtin.Reads,
		Errors:   []fault.Kind{fault.Invalid, fault.Denied, fault.Unreachable},
		Defaults: connectsArgs{Timeout: 5 * time.Second},
		Run:      connects,
	})
}

func connects(ctx context.Context, h *Host, a connectsArgs) (any, error) {
	if a.Port < 1 || a.Port > 65535 {
		return nil, fault.New(fault.Invalid, "%s.connects: port %d is not between 1 and 65535", h, a.Port)
	}
	addr := net.JoinHostPort(a.Address, strconv.Itoa(a.Port))
	return effect.Read(ctx, h.query("connects", addr), func(ctx context.Context) (effect.State, error) {
		// That the host itself can't be reached is another matter.
		if _, err := h.look(ctx, "", nil); err != nil {
			return effect.State{}, err
		}
		why := ""
		dial, cancel := context.WithTimeout(ctx, a.Timeout)
		defer cancel()
		conn, err := h.DialContext(dial, "tcp", addr)
		switch {
		case err == nil:
			_ = conn.Close() // nothing was sent
		case ctx.Err() != nil:
			return effect.State{}, fault.FromContext(ctx)
		case dial.Err() != nil:
			why = h.String() + " got no answer from " + addr + " within " + a.Timeout.String()
		case fault.KindOf(err) == fault.Denied:
			return effect.State{}, err
		default:
			why = err.Error()
		}
		return effect.State{Exists: true, Attrs: map[string]any{"ok": why == "", "why": why}}, nil
	})
}
