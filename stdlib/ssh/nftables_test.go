package ssh_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/lab/real/hosts"
	"git.vanillacore.net/govstack/gsrun/internal/lab/real/hosts/hoststest"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

// Packets say whether a ruleset is in force: at once, after somebody flushed
// it, after Debian's own rules were loaded again, and after a reboot.
func TestNftablesPackets(t *testing.T) {
	l := hoststest.Open(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all, err := l.Boot(ctx,
		hosts.Spec{Name: "gw", Systemd: true, Legs: []hosts.Leg{{Network: "public", Address: "203.0.113.2/24"}, {Network: "private", Address: "10.77.0.1/16"}}},
		hosts.Spec{Name: "seed", Legs: []hosts.Leg{{Network: "private", Address: "10.77.0.5/16"}}, Gateway: "10.77.0.1"},
		hosts.Spec{Name: "out", Legs: []hosts.Leg{{Network: "public", Address: "203.0.113.9/24"}}})
	if err != nil {
		t.Fatal(err)
	}
	gw, seed, out := all[0], all[1], all[2]
	opts := realOptions(t, l, gw, seed)
	step := func(lines ...string) {
		t.Helper()
		globals := startest.Load(t, "step.star", connectText+"    gw = connect()\n    "+strings.Join(lines, "\n    ")+"\n", opts)
		if _, err := startest.Call(t, globals["test_it"].(starlark.Callable), opts); err != nil {
			t.Fatal(startest.Explain(err))
		}
	}
	run := func(h *hosts.Host, script string) {
		t.Helper()
		if said, err := h.Run(ctx, script); err != nil {
			t.Fatal(err, said)
		}
	}
	answers := func(h *hosts.Host, at string) bool {
		said, err := h.Run(ctx, "timeout 1 bash -c 'exec 3<>/dev/tcp/"+at+"; head -c 4 <&3' 2>&1 || :")
		if err != nil {
			t.Fatal(err)
		}
		return strings.HasPrefix(said, "SSH-")
	}
	inForce := func(when string, want bool) {
		t.Helper()
		if got := answers(out, "203.0.113.2/2222"); got != want {
			t.Errorf("%s: something answers behind the gateway: %t", when, got)
		}
		if got := answers(seed, "203.0.113.9/22"); got != want {
			t.Errorf("%s: outside answers what is behind the gateway: %t", when, got)
		}
		if got := answers(out, "203.0.113.2/22"); got == want {
			t.Errorf("%s: the dropped port answers: %t", when, got)
		}
	}
	ensure := `gw.nftables.ensure("gsrun", rules = """
table ip gsrun {
	chain pre {
		type nat hook prerouting priority dstnat;
		iifname eth0 tcp dport 2222 dnat to 10.77.0.5:22
	}
	chain post {
		type nat hook postrouting priority srcnat;
		oifname eth0 masquerade
	}
	chain input {
		type filter hook input priority filter;
		ip saddr 203.0.113.9 tcp dport 22 drop
	}
}
""")`
	inForce("before", false)
	step(`gw.sysctl.ensure("net.ipv4.ip_forward", 1)`, `gw.service.ensure("nftables")`, ensure)
	inForce("at once", true)
	run(gw, "nft flush ruleset")
	inForce("flushed", false)
	step(ensure)
	inForce("repaired", true)
	const loaded = "; until nft list table ip gsrun >/dev/null 2>&1; do sleep 0.05; done"
	run(gw, "systemctl reload nftables"+loaded)
	inForce("Debian's rules reloaded", true)
	run(gw, "systemctl restart nftables"+loaded)
	inForce("Debian's rules restarted", true)
	if err := errors.Join(gw.Kill(), gw.Start(ctx)); err != nil {
		t.Fatal(err)
	}
	run(gw, "true"+loaded)
	inForce("booted", true)
	step(`assert.true(gw.nftables.get("gsrun").in_force)`, `gw.nftables.delete("gsrun")`)
	inForce("deleted", false)
}
