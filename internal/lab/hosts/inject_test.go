package hosts_test

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

func (r *rig) inject(f hosts.Fault) string {
	r.t.Helper()
	id, err := r.fleet.Inject(f)
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// unanswered runs a command whose connection must break.
func unanswered(t *testing.T, c *ssh.Client, command string) {
	t.Helper()
	s, err := c.NewSession()
	if err == nil {
		err = s.Run(command)
	}
	var exit *ssh.ExitError
	if err == nil || errors.As(err, &exit) {
		t.Errorf("%s had an answer: %v", command, err)
	}
}

// TestInjectedDrops breaks commands of the hosts that a pattern names.
func TestInjectedDrops(t *testing.T) {
	r := newRig(t, hosts.Config{})
	r.inject(hosts.Fault{Host: "g*", Command: "^touch", Drop: hosts.AfterEffect, Skip: 1, Count: 2})
	r.inject(hosts.Fault{Host: "seed", Drop: hosts.BeforeEffect})
	c := r.dial()
	ok(t, c, "touch one")
	unanswered(t, c, "touch two")
	unanswered(t, r.dial(), "touch three")
	c = r.dial()
	if got := ok(t, c, "touch four; ls"); got != "four\none\nthree\ntwo\n" {
		t.Errorf("files %q", got)
	}
	all := r.fleet.Faults()
	if len(all) != 2 || all[0].Hits != 2 || all[1].Hits != 0 {
		t.Errorf("%+v", all)
	}
	if n := r.fleet.ClearFaults(""); n != 2 {
		t.Errorf("%d were cleared", n)
	}
}

// TestInjectedDropsInScripts breaks a script, which comes by the standard input,
// at a program that it starts.
func TestInjectedDropsInScripts(t *testing.T) {
	const line = "exec sudo -n sh -s"
	for when, want := range map[hosts.Moment]string{hosts.BeforeEffect: "first\n", hosts.OnOutput: "begun\nfirst\n", hosts.AfterEffect: "begun\nended\nfirst\n"} {
		t.Run(string(when), func(t *testing.T) {
			r := newRig(t, hosts.Config{})
			if got := run(t, r.dial(), "cat > work && chmod +x work && mkdir left", "#!/bin/sh\ntouch left/begun\necho said\ntouch left/ended\n"); got.code != 0 {
				t.Fatalf("%+v", got)
			}
			r.inject(hosts.Fault{Host: "gw", Command: "work now", Drop: when, Skip: 1})
			// Neither a text in the script nor what a shell is given runs as a program.
			if got := run(t, r.dial(), line, "echo work now; sh -c ': work now'; env ./work later\n"); got.code != 0 || r.fleet.Faults()[0].Skip != 1 {
				t.Fatalf("%+v, %+v", got, r.fleet.Faults())
			}
			if got := run(t, r.dial(), line, "env ./work now; ./work now; rm left/*\n"); got.code != 0 { // the one that is let pass
				t.Fatalf("%+v", got)
			}
			s, err := r.dial().NewSession()
			if err != nil {
				t.Fatal(err)
			}
			s.Stdin = strings.NewReader("touch left/first\nsaid=$(./work now) || true\ntouch left/next\n")
			var exit *ssh.ExitError
			if err := s.Run(line); err == nil || errors.As(err, &exit) {
				t.Errorf("it had an answer: %v", err)
			}
			if got := ok(t, r.dial(), "ls left"); got != want {
				t.Errorf("left %q, want %q", got, want)
			}
			if f := r.fleet.Faults()[0]; f.Hits != 1 {
				t.Errorf("%d hits", f.Hits)
			}
			eventually(t, "the log to tell of it", func() bool {
				return slices.ContainsFunc(r.fleet.Commands(0), func(c hosts.Command) bool { return c.Dropped && c.Command == line })
			})
		})
	}
}

// TestHitsOfStates counts how often a state was felt, where that can be told.
func TestHitsOfStates(t *testing.T) {
	r := newRig(t, hosts.Config{})
	c := r.dial()
	r.inject(hosts.Fault{Host: "gw", NoSudo: true})
	r.inject(hosts.Fault{Host: "gw", ReadOnly: true})
	r.inject(hosts.Fault{Host: "nobody", NoSudo: true})
	for range 2 {
		if got := run(t, c, "sudo -n id", ""); got.code != 1 {
			t.Errorf("%+v", got)
		}
	}
	r.inject(hosts.Fault{Host: "gw", Mute: true})
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	eventually(t, "the connection to be counted", func() bool { return r.fleet.Faults()[3].Hits == 1 })
	all := r.fleet.Faults()
	for i, want := range []struct {
		hits      int
		uncounted bool
	}{{2, false}, {0, true}, {0, false}, {1, false}} {
		if all[i].Hits != want.hits || all[i].Uncounted != want.uncounted || all[i].Count != -1 {
			t.Errorf("fault %d: %+v", i, all[i])
		}
	}
}

// TestInjectedReboot reboots a host in the middle of a command.
func TestInjectedReboot(t *testing.T) {
	r := newRig(t, hosts.Config{})
	before := ok(t, r.dial(), "cat /proc/sys/kernel/random/boot_id")
	r.inject(hosts.Fault{Host: "gw", Command: "work", Drop: hosts.OnOutput, Reboot: true})
	unanswered(t, r.dial(), ": work; echo begun; sleep 600")
	var after string
	for after == "" || after == before {
		// The last connection may be one to the host that goes down.
		if err := r.gateway.WaitUp(r.ctx()); err != nil {
			t.Fatal(err)
		}
		c, err := ssh.Dial("tcp", r.addr, r.config(r.gateway, "debian"))
		if err != nil {
			continue
		}
		s, err := c.NewSession()
		if err == nil {
			out, _ := s.Output("cat /proc/sys/kernel/random/boot_id") // nothing if it goes down
			after = string(out)
		}
		c.Close()
	}
}

// TestInjectedStates makes hosts ill, those that come later too, until that is cleared.
func TestInjectedStates(t *testing.T) {
	r := newRig(t, hosts.Config{})
	c := r.dial()
	disk := r.inject(hosts.Fault{FullDisk: true})
	r.inject(hosts.Fault{Host: "gw", Refuse: true})
	if got := run(t, c, "cp /etc/passwd f", ""); !strings.Contains(got.err, "No space left on device") {
		t.Errorf("%+v", got)
	}
	if _, err := net.Dial("tcp", r.addr); err == nil {
		t.Error("it listens")
	}
	late, err := r.fleet.Boot(hosts.Spec{ID: "late", Name: "late"})
	if err != nil {
		t.Fatal(err)
	}
	if err := late.WaitUp(r.ctx()); err != nil {
		t.Fatal(err)
	}
	if err := late.System().FS.WriteFile(tree.Root(), "/root/f", []byte("x"), 0o600); err == nil {
		t.Error("a host that was booted later can write")
	}
	if n := r.fleet.ClearFaults(disk); n != 1 {
		t.Errorf("%d were cleared", n)
	}
	ok(t, c, "cp /etc/passwd f")
	r.gateway.SetFaults(hosts.Faults{NoSudo: true})
	r.fleet.ClearFaults("")
	if got := run(t, r.dial(), "sudo -n id", ""); got.code != 1 {
		t.Errorf("what SetFaults said was cleared: %+v", got)
	}
}

func TestBadFaults(t *testing.T) {
	r := newRig(t, hosts.Config{})
	for _, f := range []hosts.Fault{{}, {Command: "("}, {Host: "[", Refuse: true}, {Drop: "never"}, {Drop: hosts.OnOutput, Mute: true},
		{Mute: true, Count: 2}, {NoSudo: true, Command: "sudo"}} {
		if _, err := r.fleet.Inject(f); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", f, err)
		}
	}
}
