package ssh_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/internal/lab/real/hosts"
	"git.vanillacore.net/govstack/gsrun/internal/lab/real/hosts/hoststest"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/ssh"
)

func TestMain(m *testing.M) { os.Exit(hoststest.Main(m)) }

// What holds on simulated hosts holds on real ones, or the simulation is wrong.
func TestOnRealHosts(t *testing.T) {
	files, err := filepath.Glob("testdata/lab/*.star")
	if err != nil || len(files) == 0 {
		t.Fatal("no tests", err)
	}
	l := hoststest.Open(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all, err := l.Boot(ctx,
		hosts.Spec{Name: "gw", Systemd: true, Legs: []hosts.Leg{{Network: "public", Address: "203.0.113.2/24"}, {Network: "private", Address: "10.20.0.5/24"}}},
		hosts.Spec{Name: "seed", Legs: []hosts.Leg{{Network: "private", Address: "10.20.0.10/24"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		startest.Run(t, f, realOptions(t, l, all[0], all[1]))
	}
}

// realOptions are what the tests of simulated hosts see of real ones.
func realOptions(t *testing.T, l *hosts.Lab, gateway, seed *hosts.Host) startest.Options {
	t.Helper()
	module := ssh.Module(ssh.Config{Grace: 300 * time.Millisecond})
	t.Cleanup(func() {
		if err := module.Recv.(*ssh.Pool).Close(); err != nil {
			t.Error(err)
		}
	})
	door := startest.NewDoor(effect.Apply)
	known := func(h *hosts.Host) starlark.Tuple {
		return starlark.Tuple{starlark.String(h.Address()), starlark.MakeInt(22), starlark.String(h.HostKey)}
	}
	return startest.Options{
		Modules: []*builtin.Module{module}, Door: door,
		Globals: starlark.StringDict{
			"real": starlark.True, "gateway": known(gateway), "behind": known(seed),
			"key": effect.SecretOf(l.User.Private, "test:key"), "unknown": effect.Unknown{Of: "something"},
			"hidden":  effect.SecretOf("correct horse battery", "test:hidden"),
			"public":  starlark.String(sshtest.NewKey(t, sshtest.Ed25519, "").Public),
			"fetched": fetched(t),
			"writes":  function("writes", func(string) starlark.Value { return starlark.MakeUint64(fingerprint(t, gateway)) }),
			"changed": function("changed", func(string) starlark.Value { return starlark.MakeInt(door.Counts().Changed()) }),
			"text": function("text", func(p string) starlark.Value {
				out, err := gateway.Run(t.Context(), fmt.Sprintf("cat '%s'", strings.ReplaceAll(p, "'", `'\''`)))
				if err != nil {
					t.Error(err)
				}
				return starlark.String(out)
			}),
		},
	}
}

// fingerprint is another number after anything was written to the host, but
// for what it notes of itself.
func fingerprint(t *testing.T, h *hosts.Host) uint64 {
	t.Helper()
	sum := fnv.New64a()
	layer := h.Layer()
	err := filepath.WalkDir(layer, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(p, layer+"/")
		switch name {
		case "var/log", "var/lib/systemd", "var/lib/sudo", "tmp", "run":
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(sum, name, info.Mode(), info.Size(), info.ModTime())
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return sum.Sum64()
}
