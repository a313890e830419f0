package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/lab"
	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
)

// checkDestroy destroys what the main job made: not before somebody has a say
// about the spoke, and to the end though it is killed on the way.
func checkDestroy(t *testing.T, l *lab.Lab) {
	t.Helper()
	before := writes(t, l)
	code, out, errs := gsrun(t, "destroy", "recipes/bootstrap.star", "--lab")
	for _, want := range []string{"\n  - openstack/openstack/server/lab-seed (", "kube/seed (", "on openstack/openstack/server/lab-seed)", "/branch/main: what was committed stays",
		"cluster spoke-spoke-1/spoke-1, managed by kube/seed: without openstack/openstack/server/lab-seed nobody could delete its machines\n    hint: take it out of Git, then delete the Cluster spoke-1 in the namespace spoke-spoke-1 of kube/seed", "--confirm lab --max-deletes 19 --abandon-clusters",
		"crypto/ssh_keypair/operator: recipe revoke, retire, invalid uses it, too"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("the list lacks %q: exit code %d\n%s\n%s", want, code, out, errs)
		}
	}
	code, _, errs = gsrun(t, "destroy", "recipes/bootstrap.star", "--lab", "--confirm", "lab", "--max-deletes", "20")
	if code != 1 || !strings.Contains(errs, "in the way: cluster spoke-spoke-1/spoke-1, managed by kube/seed") || !strings.Contains(errs, "--abandon-clusters") {
		t.Errorf("with a spoke: exit code %d\n%s", code, errs)
	}
	// Nobody may work at a part of it meanwhile.
	store, err := journal.Open(filepath.Join(l.Info.Site, ".gsrun"))
	if err != nil {
		t.Fatal(err)
	}
	lock, err := store.Lock(journal.Holder{Site: "lab", Recipe: "capo", Run: "r", Who: "a@b"})
	if err != nil {
		t.Fatal(err)
	}
	code, _, errs = gsrun(t, "destroy", "recipes/bootstrap.star", "--lab", "--confirm", "lab", "--max-deletes", "20")
	lock.Release()
	if code != 6 || !strings.Contains(errs, "recipe capo of site lab") {
		t.Errorf("while capo is run: exit code %d\n%s", code, errs)
	}
	// What is the gateway's can't go while the seed's port is on its network;
	// the seed's can, but for the key that the gateway made.
	code, _, errs = gsrun(t, "destroy", "recipes/gateway.star", "--lab", "--confirm", "lab", "--max-deletes", "20")
	if code != 1 || !strings.Contains(errs, "is in the way: port lab-seed") {
		t.Errorf("the gateway alone: exit code %d\n%s", code, errs)
	}
	code, out, errs = gsrun(t, "destroy", "recipes/seed.star", "--lab", "--output", "json")
	if code != 0 || !strings.Contains(out, `"planned":4,`) || strings.Contains(out, "crypto/ssh_keypair/operator\",\"credential") {
		t.Errorf("the seed alone: exit code %d\n%s\n%s", code, out, errs)
	}
	if now := writes(t, l); now["cloud"] != before["cloud"] || now["hosts"] != before["hosts"] || now["kubernetes"] != before["kubernetes"] {
		t.Errorf("listing wrote: %v, before %v", now, before)
	}

	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "gsrun")
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	// Each deletion takes so long that the signal comes before the next.
	if _, err := l.Cloud.Inject(openstack.Fault{Service: "network", Method: http.MethodDelete, DelayMS: 500, Count: -1}); err != nil {
		t.Fatal(err)
	}
	// Once it has begun, whether there are spokes was decided.
	endDestroy(t, link, os.Kill, "server: waiting for", "--abandon-clusters")
	endDestroy(t, link, os.Interrupt, "port: deleted")
	endDestroy(t, link, os.Kill, "subnet: deleted")
	if _, out, _ := gsrun(t, "runs", "list", "--lab"); !regexp.MustCompile(`destroy +bootstrap .* unfinished .*\n.* destroy +bootstrap .* stopped .*\n.* destroy +bootstrap .* unfinished `).MatchString(out) {
		t.Errorf("the runs:\n%s", out)
	}
	code, out, errs = gsrun(t, "destroy", "recipes/bootstrap.star", "--lab", "--confirm", "lab", "--max-deletes", "20")
	if left := regexp.MustCompile(`(?s) to delete, (\d+) left\..*\nLeft: +(\d+)\n`).FindStringSubmatch(out); code != 0 || left == nil || left[1] != left[2] {
		t.Fatalf("the last destroy: exit code %d\n%s\n%s", code, out, errs)
	}
	for kind, things := range l.Cloud.State(false) {
		for _, x := range things {
			if text := jsonText(x); strings.Contains(text, "gsrun:lab/") {
				t.Errorf("left: %s %s", kind, text)
			}
		}
	}
	code, out, _ = gsrun(t, "destroy", "recipes/bootstrap.star", "--lab", "--confirm", "lab")
	if code != 0 || !strings.HasSuffix(out, "Nothing to destroy.\n") {
		t.Errorf("once more: exit code %d\n%s", code, out)
	}
	if now := writes(t, l); now["pushes"] != before["pushes"] {
		t.Errorf("destroy pushed to Git")
	}
}

// endDestroy destroys what the main job made, and ends that by a signal once it
// told the line.
func endDestroy(t *testing.T, program string, by os.Signal, line string, more ...string) {
	t.Helper()
	args := append([]string{"destroy", "recipes/bootstrap.star", "--lab", "--confirm", "lab", "--max-deletes", "20", "--output", "plain"}, more...)
	cmd := exec.CommandContext(t.Context(), program, args...)
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
		if !killed && regexp.MustCompile(line).MatchString(lines.Text()) {
			killed = true
			if err := cmd.Process.Signal(by); err != nil {
				t.Fatal(err)
			}
		}
	}
	err = cmd.Wait()
	if err == nil || !killed {
		t.Fatalf("the destroy wasn't ended at %q: %v\n%s", line, err, said.String())
	}
	if code := cmd.ProcessState.ExitCode(); by == os.Interrupt && code != 130 {
		t.Errorf("interrupted at %q: exit code %d\n%s", line, code, said.String())
	}
}
