package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestKilledAndRunAgain kills the main job at bad moments, each time in the
// run that goes on from the last. In the end all is there, once.
func TestKilledAndRunAgain(t *testing.T) {
	l := startLab(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "gsrun")
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	for _, moment := range []struct {
		line  string
		after time.Duration
	}{
		{"gateway/image: started", 0},
		{"gateway/network: created .*/router/", 0},
		{"gateway/server: .*server lab-gateway .*BUILD", 0},
		{"gateway/nat: updated .*/file/etc/nftables.conf", 0}, // changed, and not reloaded yet
		{"seed/kubernetes: created .*/package/", 0},
		{"seed/control_plane: started", 700 * time.Millisecond}, // within kubeadm init
		{"seed/pod_network: created .*CustomResourceDefinition", 0},
		{"capo/cert_manager: created .*Deployment", 0},
		{"capo/core: created .*Deployment", 0},
		{"spoke/identity: created", 0},
		{"spoke/provisioned: started", 0},
	} {
		killAt(t, link, regexp.MustCompile(moment.line), moment.after)
	}
	code, out, errs := gsrun(t, "recipes/bootstrap.star", "--lab")
	if code != 0 {
		t.Fatalf("the last run: exit code %d\n%s\n%s", code, out, errs)
	}
	if code, out, _ := gsrun(t, "recipes/bootstrap.star", "--lab"); code != 0 || !strings.Contains(out, "Changes: 0 changed, ") {
		t.Errorf("once more: exit code %d\n%s", code, out)
	}
	for kind, things := range l.Cloud.State(false) {
		seen := make(map[string]bool)
		for _, x := range things {
			name, _ := x["name"].(string)
			if name == "" {
				name = fmt.Sprint(x["description"]) // floating IPs have no name, but a mark
			}
			if kind == "security_group_rule" { // parts of one group bear its mark
				name += fmt.Sprint(x["direction"], x["ethertype"], x["protocol"], x["port_range_min"], x["remote_ip_prefix"])
			}
			if !strings.Contains(name, "lab-") && !strings.Contains(name, "gsrun:") {
				continue
			}
			if seen[name] {
				t.Errorf("two of %s %s", kind, name)
			}
			seen[name] = true
		}
	}
	if n := len(l.Git.Pushes(0)); n != 1 {
		t.Errorf("%d pushes", n)
	}
	for _, h := range l.Hosts.Hosts() {
		if h.Info().Name == "lab-gateway" && !h.NATs("10.20.0.0/24") {
			t.Error("the gateway's rules were changed and never loaded")
		}
	}
}

// killAt runs the main job and kills it some time after it printed the line.
// A run that never prints it must end well.
func killAt(t *testing.T, program string, line *regexp.Regexp, after time.Duration) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "run", "recipes/bootstrap.star", "--lab", "--output", "plain")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = io.Discard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	var said strings.Builder
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if !killed && line.MatchString(lines.Text()) {
			killed = true
			if after > 0 {
				time.Sleep(after) // a moment within one command of the other process
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil && !killed {
		t.Fatalf("the run that was to be killed at %q failed by itself: %v\n%s", line, err, said.String())
	}
	if !killed {
		t.Errorf("no run printed %q\n%s", line, said.String())
	}
}
