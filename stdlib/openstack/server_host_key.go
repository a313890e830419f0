package openstack

import (
	"context"
	"fmt"
	"strings"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type hostKeyArgs struct {
	Timeout time.Duration `star:"timeout,positional" doc:"How long to wait until the server has written its host keys to the console."`
}

func hostKeyMethod() builtin.Func {
	return builtin.Of(builtin.Spec[*Server, hostKeyArgs]{
		Name: "host_key",
		Doc: "Return the server's public SSH host keys as its first boot wrote them to the console, which only the cloud can have passed on: one per line, as in known_hosts without the host. " +
			"They are kept by the server's id, since console logs rotate.",
		Returns: "str",
		Example: "net = cloud.network.ensure(\"mgmt\")\n" +
			"cloud.subnet.ensure(\"mgmt\", network = net, cidr = \"10.20.0.0/24\")\n" +
			"vm = cloud.server.ensure(\"gw\", image = \"lab-tiny\", flavor = \"m1.small\", networks = [net])\n" +
			`key = vm.host_key(timeout = "5m")`,
		Effect:   builtin.Waits,
		Errors:   []fault.Kind{fault.Timeout, fault.Denied},
		Defaults: hostKeyArgs{Timeout: 5 * time.Minute},
		Run:      func(ctx context.Context, s *Server, a hostKeyArgs) (any, error) { return s.hostKey(ctx, a.Timeout) },
	})
}

// hostKeySlot is the name that a server's host keys are kept under.
func hostKeySlot(id string) string { return "hostkeys/" + id }

func (s *Server) hostKey(ctx context.Context, timeout time.Duration) (any, error) {
	id, ok := s.attrs["id"].(string)
	if !ok {
		return effect.Unknown{Of: "the host key of server " + s.String()}, nil
	}
	store, slot := s.cloud.config.HostKeys, hostKeySlot(id)
	if store != nil {
		kept, found, err := store.Get(ctx, slot)
		if err != nil {
			return nil, fault.Wrap("reading the kept host key of", s.String(), err)
		}
		if found {
			return string(kept), nil
		}
	}
	w := effect.Wait{
		Query:    effect.Query{Target: s.cloud.target("server", s.String())},
		For:      "the host keys of server " + s.String() + " on its console",
		Timeout:  timeout,
		Interval: s.cloud.config.Interval,
	}
	v, err := effect.Await(ctx, w, func(ctx context.Context) (effect.Poll, error) {
		cl, err := s.cloud.client(ctx)
		if err != nil {
			return effect.Poll{}, err
		}
		text, err := consoleLog(ctx, cl, id, 0)
		if err != nil {
			return effect.Poll{}, err
		}
		if keys := client.HostKeys(text); len(keys) > 0 {
			return effect.Poll{Done: true, Value: strings.Join(keys, "\n")}, nil
		}
		return effect.Poll{Seen: fmt.Sprintf("no host keys among %d lines", strings.Count(text, "\n"))}, nil
	})
	if fault.KindOf(err) == fault.Timeout && fault.FromContext(ctx) == nil {
		return nil, &fault.Error{Kind: fault.Timeout, Err: err,
			Hint: "the image's cloud-init must write host keys to the console; a server that booted long ago may have rotated them out: give the key by hand, or replace the server"}
	}
	keys, known := v.(string)
	if err != nil || !known || store == nil || effect.From(ctx).Door.Mode == effect.Plan {
		return v, err
	}
	if err := store.Put(ctx, slot, []byte(keys)); err != nil {
		return nil, fault.Wrap("keeping the host key of", s.String(), err)
	}
	return v, nil
}
