package ssh_test

import (
	"strings"
	"testing"
	"time"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

// configure makes one of each noun, as a gateway does.
func configure() []string {
	return []string{
		`gw.package.ensure(["nftables", "wireguard-tools"])`,
		`gw.package_repository.ensure("lab", "file:/srv/repo", suites = ["./"], trusted = True)`,
		`gw.package.ensure("lab-demo", latest = True, hold = True)`,
		`gw.directory.ensure("/srv/a/b", mode = "0750", owner = "debian")`,
		`gw.kernel_module.ensure("br_netfilter")`,
		`gw.sysctl.ensure("net.ipv4.ip_forward", 1)`,
		`conf = gw.file.ensure("/etc/nftables.conf", content = "flush ruleset\ntable inet gsrun {\n}\n", validate = "nft -c -f %s")`,
		`gw.service.ensure("nftables", reload_on = [conf])`,
		`gw.directory.ensure("/srv/a", mode = "0750", owner = "debian", recursive = True)`,
		`gw.replacement.ensure("/etc/passwd", "^never", "x")`,
		`gw.systemd_unit.ensure("nftables.service", content = "[Service]\nNice=1\n", override = "nice")`,
		`gw.nftables.ensure("own", rules = "table inet own {\n}\n")`,
		`gw.archive.ensure("/opt/tools", source = fetched("tools.tar.gz"))`,
		`gw.line.ensure("/etc/shared", "a line", create = True)`,
		`gw.block.ensure("/etc/shared", "a block", create = True)`,
		`gw.link.ensure("/srv/shared", "/etc/shared")`,
		`gw.group.ensure("media", gid = 2000)`,
		`gw.hosts_entry.ensure("10.20.0.10", ["seed"])`,
		`gw.hostname.ensure("gw1")`,
		`gw.timezone.ensure("Europe/Berlin")`,
		`gw.cron.ensure("backup", "30 4 * * *", "true")`,
		`gw.user.ensure("deploy", groups = ["adm"], shell = "/bin/sh")`,
		`gw.authorized_key.ensure("deploy", "` + publicKey + ` ops")`,
		`gw.wireguard.ensure("wg0", address = "10.99.0.1/24", listen_port = 51820, peers = [])`,
		`gw.run(["touch", "/srv/done"], creates = "/srv/done")`,
		`assert.eq(gw.read("/etc/shared"), "a line\n# BEGIN gsrun\na block\n# END gsrun\n")`,
	}
}

const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFEprDqY8tc7vJ3kGk0o2q8Xn3b8b2v1Xq0b0Yw3q0bq"

// TestEachCommandDropped breaks the connection of each command that configures
// a host, at each moment, with and without a reboot. What can be looked at is
// done in the same run; a command of the recipe's own, which can't, may fail
// it, and is told so. In the end all is there, and another run changes nothing.
func TestEachCommandDropped(t *testing.T) {
	skip.Slow(t, "it configures some hundred hosts")
	for name, f := range map[string]hosts.Fault{
		"before": {Drop: hosts.BeforeEffect}, "output": {Drop: hosts.OnOutput}, "after": {Drop: hosts.AfterEffect}, "reboot": {Drop: hosts.OnOutput, Reboot: true},
	} {
		t.Run(name, func(t *testing.T) {
			for i := 0; ; i++ {
				l := newLab(t)
				f.Host, f.Skip = "gw", i
				if _, err := l.fleet.Inject(f); err != nil {
					t.Fatal(err)
				}
				door := patientDoor()
				err := l.try(t, door, configure()...)
				if err != nil && (fault.KindOf(err) != fault.Failed || !strings.Contains(err.Error(), "while the command was running")) {
					t.Errorf("command %d: %s", i, startest.Explain(err))
				}
				hit := l.fleet.Faults()[0].Hits > 0
				if err != nil {
					l.recipe(t, patientDoor(), configure()...)
				}
				// What a reboot undoes, such as a kernel setting, is done again by another run.
				if f.Reboot {
					if err := l.gateway.WaitUp(t.Context()); err != nil {
						t.Fatal(err)
					}
					l.recipe(t, patientDoor(), configure()...)
				}
				again := patientDoor()
				l.recipe(t, again, configure()...)
				if n := again.Counts().Changed(); n > 0 {
					t.Errorf("command %d: another run changed %d things", i, n)
				}
				if !l.gateway.System().Machine.Exists("/srv/done") {
					t.Errorf("command %d: not done", i)
				}
				if t.Failed() {
					t.FailNow()
				}
				if !hit {
					t.Logf("%d commands", i)
					if i < 15 {
						t.Errorf("only %d commands were sent", i)
					}
					return
				}
			}
		})
	}
}

// patientDoor tries as often as a host needs to boot.
func patientDoor() *effect.Door {
	door := startest.NewDoor(effect.Apply)
	door.Retry = effect.Retry{Tries: 60, Base: time.Millisecond, Max: 20 * time.Millisecond}
	return door
}

// try runs one step in the lab, which may fail.
func (l *lab) try(t *testing.T, door *effect.Door, lines ...string) error {
	t.Helper()
	opts := l.options(t, door)
	globals := startest.Load(t, "step.star", connectText+"    gw = connect()\n    "+strings.Join(lines, "\n    ")+"\n", opts)
	_, err := startest.Call(t, globals["test_it"].(starlark.Callable), opts)
	return err
}

// TestProgramDropped breaks the connection of a script at a program that it
// starts, which the command line doesn't name.
func TestProgramDropped(t *testing.T) {
	l := newLab(t)
	if _, err := l.fleet.Inject(hosts.Fault{Host: "gw", Command: "^uname -r", Drop: hosts.OnOutput}); err != nil {
		t.Fatal(err)
	}
	err := l.try(t, nil, `gw.run(sh = "touch /srv/first; uname -r; touch /srv/second")`)
	if fault.KindOf(err) != fault.Failed || !strings.Contains(err.Error(), "while the command was running") {
		t.Errorf("got %v (%s)", err, fault.KindOf(err))
	}
	if hits := l.fleet.Faults()[0].Hits; hits != 1 {
		t.Errorf("%d hits", hits)
	}
	m := l.gateway.System().Machine
	if !m.Exists("/srv/first") || m.Exists("/srv/second") {
		t.Error("it wasn't broken in its middle")
	}
}

// TestRefusedForGood has every connection break: it is tried as often as the
// door says, and told.
func TestRefusedForGood(t *testing.T) {
	l := newLab(t)
	if _, err := l.fleet.Inject(hosts.Fault{Drop: hosts.BeforeEffect, Count: -1}); err != nil {
		t.Fatal(err)
	}
	err := l.try(t, nil, `gw.file.ensure("/etc/a", content = "x")`)
	if fault.KindOf(err) != fault.Unreachable {
		t.Errorf("got %v (%s)", err, fault.KindOf(err))
	}
	if hits := l.fleet.Faults()[0].Hits; hits != 4 {
		t.Errorf("%d tries", hits)
	}
}
