package ssh_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.starlark.net/starlark"
	xssh "golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/ssh"
)

// lab is a simulated gateway that can be dialled, and a seed behind it.
type lab struct {
	fleet   *hosts.Fleet
	gateway *hosts.Host
	seed    *hosts.Host
	addr    string
	egress  atomic.Bool
	key     sshtest.Key
	module  *builtin.Module
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{key: sshtest.NewKey(t, sshtest.Ed25519, "")}
	l.egress.Store(true)
	l.fleet = hosts.New(hosts.Config{Egress: func(string) bool { return l.egress.Load() }})
	t.Cleanup(func() {
		if err := l.fleet.Close(); err != nil {
			t.Error(err)
		}
	})
	boot := func(id, ip string) *hosts.Host {
		h, err := l.fleet.Boot(hosts.Spec{ID: id, Name: id, AuthorizedKeys: []string{l.key.Public}, MemoryMB: 4096, CPUs: 2,
			Addresses: []hosts.Address{{IP: netip.MustParseAddr(ip), Prefix: 24, Network: "mgmt", Subnet: "mgmt"}}})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	l.gateway, l.seed = boot("gw", "10.20.0.5"), boot("seed", "10.20.0.10")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, h := range []*hosts.Host{l.gateway, l.seed} {
		if err := errors.Join(h.WaitUp(ctx), h.WaitInit(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.addr = free.Addr().String()
	free.Close()
	if err := l.gateway.Listen(l.addr); err != nil {
		t.Fatal(err)
	}
	l.module = ssh.Module(ssh.Config{Grace: 300 * time.Millisecond})
	t.Cleanup(func() {
		if err := l.module.Recv.(*ssh.Pool).Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// keysOf returns a host's public keys as its console shows them.
func keysOf(h *hosts.Host) starlark.Value {
	var keys []starlark.Value
	for _, k := range h.HostKeys() {
		keys = append(keys, starlark.String(strings.TrimSpace(string(xssh.MarshalAuthorizedKey(k)))))
	}
	return starlark.NewList(keys)
}

// options gives tests the hosts `gw` and `seed`, and what they need to look at
// them from outside.
func (l *lab) options(t *testing.T, door *effect.Door) startest.Options {
	t.Helper()
	host, port, err := net.SplitHostPort(l.addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	if door == nil {
		door = startest.NewDoor(effect.Apply)
	}
	key := effect.SecretOf(l.key.Private, "test:key")
	return startest.Options{
		Modules: []*builtin.Module{l.module}, Door: door,
		Globals: starlark.StringDict{
			"real":    starlark.False,
			"gateway": starlark.Tuple{starlark.String(host), starlark.MakeInt(n), keysOf(l.gateway)},
			"behind":  starlark.Tuple{starlark.String("10.20.0.10"), starlark.MakeInt(22), keysOf(l.seed)},
			"key":     key, "unknown": effect.Unknown{Of: "something"}, "hidden": effect.SecretOf("correct horse battery", "test:hidden"),
			"public":  starlark.String(sshtest.NewKey(t, sshtest.Ed25519, "").Public),
			"fetched": fetched(t),
			"writes":  function("writes", func(string) starlark.Value { return starlark.MakeInt64(l.gateway.Writes()) }),
			"changed": function("changed", func(string) starlark.Value { return starlark.MakeInt(door.Counts().Changed()) }),
			"text":    function("text", func(p string) starlark.Value { return starlark.String(l.gateway.System().Machine.Text(p)) }),
		},
	}
}

func TestInTheLab(t *testing.T) {
	files, err := filepath.Glob("testdata/lab/*.star")
	if err != nil || len(files) == 0 {
		t.Fatal("no tests", err)
	}
	for _, f := range files {
		l := newLab(t)
		startest.Run(t, f, l.options(t, nil))
	}
}
