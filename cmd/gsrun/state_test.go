package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"git.vanillacore.net/govstack/gsrun/internal/skip"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
)

// waits is a recipe that makes a secret, waits until the site has the secret
// `go`, and makes another.
const waits = `
def first():
    """Make a secret."""
    secret.generate("first")

def gate(ctx, first):
    """Wait until it may go on."""
    ctx.log("ready")
    wait("the sign", until = lambda: attempt(lambda: secret("go")).ok, timeout = "10m", interval = "10ms")

def second(gate):
    """Make another."""
    secret.generate("second")

main = recipe(steps = [first, gate, second])
`

// many is a recipe that makes many changes.
const many = `
def make():
    """Make secrets."""
    for i in range(60):
        secret.generate("s%d" % i)

main = recipe(steps = [step(make, retries = 3)])
`

// keeper makes a site that can keep secrets and has the two recipes. Its state
// lies in state/; the secrets lie in secrets/, whatever happens to the state.
func keeper(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"age.txt":            identity.String() + "\n",
		"site.yaml":          "name: oslab\nstate: state\nsecrets:\n  recipients: [" + identity.Recipient().String() + "]\n  identity: age.txt\n  sources:\n    go: {file: go}\n",
		"recipes/waits.star": waits,
		"recipes/many.star":  many,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"state", "secrets"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("NO_COLOR", "1")
	return dir
}

// files lists the files below a folder of the site: the secrets that it keeps.
func files(t *testing.T, dir, state string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dir, state), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return names
}

// starts runs the recipe waits in another process and returns when it waits.
func starts(t *testing.T, dir string) (cmd *exec.Cmd, said func() string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "gsrun")
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(t.Context(), link, "run", "waits", "--site", dir) // killed when the test ends
	cmd.Stdout = io.Discard
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	var text strings.Builder
	said = func() string {
		for lines.Scan() {
			text.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), "log: ready") {
				break
			}
		}
		return text.String()
	}
	if got := said(); !strings.Contains(got, "log: ready") {
		t.Fatalf("it didn't start:\n%s", got)
	}
	return cmd, said
}

func matches(t *testing.T, what, got, want string) {
	t.Helper()
	if !regexp.MustCompile(want).MatchString(got) {
		t.Errorf("%s: want %s, got:\n%s", what, want, got)
	}
}

func TestOneRunAtATime(t *testing.T) {
	dir := keeper(t)
	first, _ := starts(t, dir)
	// The second one is told who is first, and touches nothing; a plan may look.
	code, out, errs := gsrun(t, "waits", "--site", dir)
	if code != 6 || out != "" {
		t.Errorf("the second run: exit code %d\n%s", code, out)
	}
	matches(t, "the second run", errs, fmt.Sprintf(`gsrun: error: recipe waits of site oslab is being run by \S+@\S+ pid %d \(run \S+, since \S+, last heartbeat \d+s ago\)\ngsrun: hint: wait until it ends\n`, first.Process.Pid))
	if code, _, errs := gsrun(t, "plan", "waits", "--site", dir); code != 0 {
		t.Errorf("a plan: exit code %d\n%s", code, errs)
	}
	if code, _, errs := gsrun(t, "destroy", "waits", "--site", dir, "--confirm", "oslab"); code != 6 {
		t.Errorf("a destroy: exit code %d\n%s", code, errs)
	}
	if code, _, errs := gsrun(t, "resume", "--site", dir); code != 6 {
		t.Errorf("resuming it: exit code %d\n%s", code, errs)
	}
	// One that is killed is in nobody's way.
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // it was killed
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte("go on, please\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := gsrun(t, "waits", "--site", dir); code != 0 {
		t.Errorf("after it was killed: exit code %d\n%s", code, errs)
	}
	if got := files(t, dir, "state/secrets"); len(got) != 2 {
		t.Errorf("there are %q", got)
	}
}

// A run that is paused, taken over and woken makes no change any more.
func TestPausedRunIsTakenOver(t *testing.T) {
	dir := keeper(t)
	first, said := starts(t, dir)
	if err := first.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for stat := ""; !strings.Contains(stat, ") T "); { // until it has stopped
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", first.Process.Pid))
		skip.Unless(t, err == nil, "a run that is paused", "there is no /proc")
		stat = string(data)
	}
	record := filepath.Join(dir, "state", "locks", "oslab%2Fwaits.json")
	long := time.Now().Add(-journal.TTL - time.Second)
	if err := os.Chtimes(record, long, long); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte("go on, please\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := gsrun(t, "waits", "--site", dir); code != 0 {
		t.Fatalf("the second run: exit code %d\n%s", code, errs)
	}
	// What the second one made is gone: the first one would make it.
	for _, name := range files(t, dir, "state/secrets") {
		if strings.Contains(filepath.Base(name), "second") {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := files(t, dir, "state")
	if err := first.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	text := said()
	_ = first.Wait() // the exit code says it
	if code := first.ProcessState.ExitCode(); code != 6 {
		t.Errorf("the first run: exit code %d", code)
	}
	matches(t, "the first run", text, `gsrun: error: step (gate|second): .*the lock of recipe waits of site oslab was taken over by \S+ pid \d+ \(run \S+\), which has ended\n(.*\n)*gsrun: hint: run again\n`)
	if strings.Count(text, "which has ended") > 2 { // the step and the run
		t.Errorf("it says so too often:\n%s", text)
	}
	if after := files(t, dir, "state"); len(after) != len(before) {
		t.Errorf("there were %q, and now %q", before, after)
	}
	code, out, _ := gsrun(t, "runs", "list", "--site", dir)
	if code != 0 || strings.Count(out, " ok ") != 1 || strings.Count(out, " unfinished ") != 1 {
		t.Errorf("the runs, exit code %d:\n%s", code, out)
	}
}

// disk puts the site's state on a file system of its own, of 64 KiB, and
// returns a function that makes it read-only.
func disk(t *testing.T, dir string) (readOnly func()) {
	t.Helper()
	state := filepath.Join(dir, "state")
	err := syscall.Mount("tmpfs", state, "tmpfs", 0, "size=64k")
	skip.Unless(t, err == nil, "a full or read-only disk", fmt.Sprintf("mounting one failed: %v", err))
	t.Cleanup(func() {
		if err := syscall.Unmount(state, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.Symlink(filepath.Join(dir, "secrets"), filepath.Join(state, "secrets")); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Mount("", state, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDiskFillsUpInARun(t *testing.T) {
	dir := keeper(t)
	disk(t, dir)
	fill := filepath.Join(dir, "state", "fill")
	if err := os.WriteFile(fill, make([]byte, 40<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := gsrun(t, "many", "--site", dir)
	if code != 1 { // things were changed
		t.Errorf("exit code %d", code)
	}
	matches(t, "the run", errs, `gsrun: error: step make: .*writing the journal \S+\.jsonl: write \S+: no space left on device\n(.*\n)*gsrun: hint: free space in the state folder and run again: no change was begun after this\n`)
	if strings.Contains(errs, "again in") || strings.Count(errs, "no space left") > 3 {
		t.Errorf("it was tried again:\n%s", errs)
	}
	made := len(files(t, dir, "secrets"))
	if made < 3 || made > 50 {
		t.Errorf("%d changes were made", made)
	}
	matches(t, "the summary", out, fmt.Sprintf(`Changes: %d changed`, made))
	// What was recorded can be read with the disk still full.
	_, list, _ := gsrun(t, "runs", "list", "--site", dir)
	run := regexp.MustCompile(`(?m)^\S+-\S+-\S+`).FindString(list)
	code, show, errs := gsrun(t, "runs", "show", run, "--site", dir)
	if will, did := strings.Count(show, " will create "), strings.Count(show, " did  create "); code != 0 || will < made || will > made+1 || did < made-1 || did > made {
		t.Errorf("%d changes, the journal has %d intents and %d results: exit code %d %s\n%s", made, will, did, code, errs, show)
	}
	// A full disk is no reason to touch anything.
	if f, err := os.OpenFile(fill, os.O_WRONLY|os.O_APPEND, 0); err == nil {
		for err == nil {
			_, err = f.Write(make([]byte, 512))
		}
		f.Close()
	}
	code, _, errs = gsrun(t, "many", "--site", dir)
	if code != 3 || len(files(t, dir, "secrets")) != made {
		t.Errorf("on a full disk: exit code %d", code)
	}
	matches(t, "on a full disk", errs, `gsrun: error: .*no space left on device\ngsrun: hint: free space in the state folder`)
	// With space again, the rest is made.
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	code, out, errs = gsrun(t, "many", "--site", dir)
	if code != 0 || len(files(t, dir, "secrets")) != 60 {
		t.Errorf("with space again: exit code %d, %d secrets\n%s", code, len(files(t, dir, "secrets")), errs)
	}
	matches(t, "with space again", out, fmt.Sprintf(`Changes: %d changed .*, %d unchanged`, 60-made, made))
}

func TestReadOnlyState(t *testing.T) {
	dir := keeper(t)
	readOnly := disk(t, dir)
	if code, _, errs := gsrun(t, "many", "--site", dir); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	readOnly()
	before := len(files(t, dir, "secrets"))
	for _, verb := range [][]string{{"many"}, {"destroy", "many", "--confirm", "oslab", "--max-deletes", "100"}} {
		code, out, errs := gsrun(t, append(verb, "--site", dir)...)
		if code != 3 || out != "" {
			t.Errorf("%s: exit code %d\n%s", verb[0], code, out)
		}
		matches(t, verb[0], errs, `^gsrun: error: taking lock \S+: .*read-only file system\ngsrun: hint: let state: in site.yaml name a folder that can be written\n$`)
	}
	if got := len(files(t, dir, "secrets")); got != before {
		t.Errorf("%d secrets, were %d", got, before)
	}
	for _, verb := range [][]string{{"plan", "many"}, {"runs", "list"}} {
		if code, _, errs := gsrun(t, append(verb, "--site", dir)...); code != 0 {
			t.Errorf("%s: exit code %d\n%s", verb[0], code, errs)
		}
	}
}
