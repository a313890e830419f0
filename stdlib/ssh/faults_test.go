package ssh_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

const connectText = `
def connect(**kwargs):
    address, port, keys = gateway
    return ssh.host(address, user = "debian", key = key, host_key = keys, port = port, sudo = True, name = "gw", **kwargs)

def through():
    address, port, keys = behind
    return ssh.host(address, user = "debian", key = key, host_key = keys, jump = connect(), sudo = True, name = "seed", connect_timeout = "300ms")

def test_it():
`

// recipe runs one step in the lab: lines that see `gw` and `seed`.
func (l *lab) recipe(t *testing.T, door *effect.Door, lines ...string) {
	t.Helper()
	src := t.TempDir() + "/step.star"
	text := connectText + "    gw = connect()\n    seed = through()\n    " + strings.Join(lines, "\n    ") + "\n"
	if err := os.WriteFile(src, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	startest.Run(t, src, l.options(t, door))
}

// fails returns the line that checks how a call fails.
func fails(call, text string, kind fault.Kind) string {
	return fmt.Sprintf("assert.fails(lambda: %s, %q, kind = %q)", call, text, kind)
}

func TestSudoIsRefused(t *testing.T) {
	l := newLab(t)
	l.gateway.SetFaults(hosts.Faults{NoSudo: true})
	for _, call := range []string{`gw.run(["true"])`, `gw.file.ensure("/etc/a", content = "")`, `gw.service.ensure("ssh")`, `gw.package.ensure("jq")`,
		`gw.sysctl.ensure("net.ipv4.ip_forward", 1)`, `gw.read("/etc/passwd")`, `gw.user.get("root")`} {
		l.recipe(t, nil, fails(call, "sudo refuses to become root", fault.Denied))
	}
}

func TestWithoutSudo(t *testing.T) {
	l := newLab(t)
	l.recipe(t, nil,
		`address, port, keys = gateway`,
		`plain = ssh.host(address, user = "debian", key = key, host_key = keys, port = port, name = "gw")`,
		`assert.eq(plain.file.ensure("/home/debian/mine", content = "x").owner, "debian")`,
		fails(`plain.file.ensure("/etc/mine", content = "x")`, "ermission denied", fault.Denied),
		fails(`plain.file.delete("/etc/hostname")`, "ermission denied", fault.Denied),
		fails(`plain.directory.ensure("/etc/mine.d")`, "ermission denied", fault.Denied),
		fails(`plain.read("/etc/shadow")`, "ermission denied", fault.Denied),
		`assert.eq(plain.run(["id", "-un"], user = "root").stdout, "root\n")`,
		`assert.eq(plain.run(sh = "id -un; echo $X; pwd", user = "root", env = {"X": "kept"}, dir = "/etc").stdout, "root\nkept\n/etc\n")`,
		fails(`plain.run(["true"], user = "nobody-here")`, "nobody-here", fault.NotFound),
	)
}

func TestDiskFaultsLeaveTheOldFile(t *testing.T) {
	l := newLab(t)
	l.recipe(t, nil, `gw.file.ensure("/etc/kept", content = "old\n")`)
	for name, f := range map[string]hosts.Faults{"full": {FullDisk: true}, "read-only": {ReadOnly: true}} {
		l.gateway.SetFaults(f)
		l.recipe(t, nil, fails(`gw.file.ensure("/etc/kept", content = "new and longer\n")`, "", fault.Failed))
		l.gateway.SetFaults(hosts.Faults{})
		l.recipe(t, nil, `assert.eq(gw.read("/etc/kept"), "old\n")`,
			`assert.eq(gw.run(sh = "ls -A /etc | grep gsrun- || :", readonly = True).stdout, "")`)
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// A change whose answer was lost is found, not made twice.
func TestDroppedConnections(t *testing.T) {
	for _, when := range []hosts.Moment{hosts.BeforeEffect, hosts.OnOutput, hosts.AfterEffect} {
		t.Run(string(when), func(t *testing.T) {
			l := newLab(t)
			door := startest.NewDoor(effect.Apply)
			for n := 1; n <= 3; n++ {
				l.gateway.SetFaults(hosts.Faults{Drops: []hosts.Drop{{When: when, Count: n}}})
				l.recipe(t, door, fmt.Sprintf(`gw.file.ensure("/etc/a%d", content = "x")`, n), fmt.Sprintf(`gw.line.ensure("/etc/a%d", "y")`, n),
					fmt.Sprintf(`assert.eq(gw.read("/etc/a%d"), "x\ny\n")`, n))
			}
		})
	}
}

// A command that may have run isn't run again by itself.
func TestDroppedCommandIsNotRepeated(t *testing.T) {
	l := newLab(t)
	l.recipe(t, nil, `gw.wait()`)
	l.gateway.SetFaults(hosts.Faults{Drops: []hosts.Drop{{When: hosts.AfterEffect}}})
	l.recipe(t, nil, fails(`gw.run(sh = "echo x >>/etc/counter")`, "while the command was running", fault.Failed))
	if got := l.gateway.System().Machine.Text("/etc/counter"); got != "x\n" {
		t.Errorf("it ran to %q", got)
	}
	l.gateway.SetFaults(hosts.Faults{Drops: []hosts.Drop{{When: hosts.AfterEffect}}})
	l.recipe(t, nil, `assert.eq(gw.run(sh = "cat /etc/counter", readonly = True).stdout, "x\n")`)
}

func TestRebootBetweenCommands(t *testing.T) {
	l := newLab(t)
	l.recipe(t, nil, `gw.file.ensure("/etc/a", content = "x")`, `assert.eq(seed.run(["hostname"], readonly = True).stdout, "seed\n")`)
	if err := l.gateway.Reboot(); err != nil {
		t.Fatal(err)
	}
	l.recipe(t, nil, `gw.wait(timeout = "20s", interval = "10ms")`, `assert.eq(gw.read("/etc/a"), "x")`, `assert.eq(seed.run(["hostname"], readonly = True).stdout, "seed\n")`)
}

func TestWaitNamesTheLeg(t *testing.T) {
	l := newLab(t)
	l.seed.SetFaults(hosts.Faults{Refuse: true})
	l.recipe(t, nil, fails(`seed.wait(timeout = "200ms", interval = "10ms")`, "connecting to seed (10.20.0.10:22) through gw (", fault.Timeout))
	l.recipe(t, nil, fails(`seed.run(["true"])`, "can't connect to 10.20.0.10:22", fault.Unreachable))

	l = newLab(t)
	l.gateway.SetFaults(hosts.Faults{Refuse: true})
	l.recipe(t, nil, fails(`seed.wait(timeout = "200ms", interval = "10ms")`, "its jump host is the problem: connecting to gw (", fault.Timeout))
}

func TestPackageFaults(t *testing.T) {
	l := newLab(t)
	l.recipe(t, nil, `gw.package.ensure("jq")`)
	if err := l.gateway.Reboot(); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if err := l.gateway.WaitUp(ctx); err != nil {
		t.Fatal(err)
	}
	l.egress.Store(false)
	l.recipe(t, nil, fails(`gw.package.ensure("curl")`, "curl", fault.Unavailable))
	l.egress.Store(true)
	l.recipe(t, nil, `gw.package.ensure("curl")`)
}

// Ops of steps that run at the same time on one host don't hurt each other.
func TestParallelOps(t *testing.T) {
	l := newLab(t)
	door := startest.NewDoor(effect.Apply)
	door.Retry = effect.Retry{Tries: 30, Base: time.Millisecond, Max: 20 * time.Millisecond}
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			l.recipe(t, door, fmt.Sprintf(`gw.file.ensure("/etc/p%d", content = "x")`, i), fmt.Sprintf(`gw.line.ensure("/etc/shared", "line %d", create = True)`, i),
				`gw.package.ensure(["jq", "curl"])`, `gw.sysctl.ensure("net.ipv4.ip_forward", 1)`, `gw.service.ensure("cron")`)
		})
	}
	all.Wait()
	shared := strings.Split(strings.TrimSpace(l.gateway.System().Machine.Text("/etc/shared")), "\n")
	if len(shared) != 12 {
		t.Errorf("the shared file has %d lines of 12: %q", len(shared), shared)
	}
}

// What became of a command whose connection broke is found and told.
func TestLostCommandIsFound(t *testing.T) {
	s := newSite(t, sshtest.Options{})
	s.server.Set(sshtest.Faults{CutAfter: 100, CutOnce: true})
	script := fmt.Sprintf("trap '' PIPE; yes | head -n 200; until [ -e %s/go ]; do sleep 0.01; done", s.root)
	s.step(t, nil, fails(fmt.Sprintf(`h.run(sh = %q)`, script), "it still runs there, as process ", fault.Failed))
	if err := os.WriteFile(s.root+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// What a script left that was broken off is removed by the next one.
func TestLeftoversAreRemoved(t *testing.T) {
	l := newLab(t)
	l.recipe(t, nil,
		`conf = gw.file.ensure("/etc/x", content = "x")`,
		`for d, name in [("/etc/sysctl.d", "60-gsrun-net_ipv4_ip_forward.conf"), ("/etc/modules-load.d", "gsrun-overlay.conf"), ("/var/lib/gsrun/stamps/service", "ssh"), ("/home/debian/.ssh", "")]:`,
		`    gw.run(sh = "mkdir -p %s; touch %s/%s.gsrun-abc123 %s/other.gsrun-abc1234" % (d, d, name, d))`,
		`gw.sysctl.ensure("net.ipv4.ip_forward", "1")`,
		`gw.kernel_module.ensure("overlay")`,
		`gw.service.ensure("ssh", reload_on = [conf])`,
		`gw.authorized_key.ensure("debian", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGZdk5AzcnC0ZYRWUn7oZH6VSXAbHuEBfppcyEsEGlYz")`,
		`for d in ["/etc/sysctl.d", "/etc/modules-load.d", "/var/lib/gsrun/stamps/service", "/home/debian/.ssh"]:`,
		`    assert.eq(gw.run(sh = "ls -A %s | grep gsrun-a" % d, readonly = True).stdout, "other.gsrun-abc1234\n")`,
	)
}
