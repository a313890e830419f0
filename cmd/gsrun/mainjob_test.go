package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab"
	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
)

// startLab starts a lab in this process that calls of gsrun find.
func startLab(t *testing.T) *lab.Lab {
	t.Helper()
	skip.Slow(t, "it starts a lab")
	// A socket's path is short, and that of a test's own folder may not be.
	dir, err := os.MkdirTemp("", "lab")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	world := filepath.Join(dir, "w")
	if err := lab.Prepare(t.Context(), func(line string) { t.Log(line) }); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	l, err := lab.Start(world, &log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close()
		for line := range strings.SplitSeq(log.String(), "\n") {
			if strings.Contains(line, "defect") {
				t.Errorf("the lab: %s", line)
			}
		}
	})
	t.Setenv(lab.DirVariable, world)
	t.Setenv("NO_COLOR", "1")
	t.Chdir("../..")
	return l
}

// gsrun calls gsrun and returns its exit code and outputs.
func gsrun(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// writes counts what changed the lab's world: requests to the cloud, writes on
// hosts, pushes, and writes to the Kubernetes API.
func writes(t *testing.T, l *lab.Lab) map[string]int {
	t.Helper()
	n := map[string]int{"pushes": len(l.Git.Pushes(0))}
	for _, r := range l.Cloud.Requests(0) {
		if r.Write() && r.Service != "identity" {
			n["cloud"]++
		}
	}
	for _, h := range l.Hosts.Hosts() {
		n["hosts"] += int(h.Writes())
	}
	for _, r := range l.KubernetesRequests() {
		if r.Writes() {
			n["kubernetes"]++
		}
	}
	return n
}

// TestMainJob runs the main job on an empty lab: a plan that writes nothing,
// the job as it was planned, the job again without a change, and a plan without
// one.
func TestMainJob(t *testing.T) {
	l := startLab(t)

	saved := filepath.Join(t.TempDir(), "main.plan")
	code, out, errs := gsrun(t, "plan", "recipes/bootstrap.star", "--lab", "--detailed-exitcode", "--out", saved)
	if code != 2 {
		t.Fatalf("plan: exit code %d\n%s\n%s", code, out, errs)
	}
	for _, want := range []string{"+ openstack/openstack/server/lab-gateway", "+ openstack/openstack/server/lab-seed", "(known after apply)", "gitops/spokes/spoke-1/capi/cluster.yaml"} {
		if !strings.Contains(out, want) {
			t.Errorf("the plan lacks %q:\n%s", want, out)
		}
	}
	if n := writes(t, l); n["cloud"]+n["hosts"]+n["pushes"]+n["kubernetes"] != 0 {
		t.Errorf("the plan wrote: %v", n)
	}

	code, out, errs = gsrun(t, "run", "--plan", saved, "--lab")
	if code != 0 {
		t.Fatalf("the job: exit code %d\n%s\n%s", code, out, errs)
	}
	if !strings.Contains(out, "0 failed") || !regexp.MustCompile(`seed += 10\.20\.0\.10`).MatchString(out) {
		t.Errorf("the job:\n%s", out)
	}
	after := writes(t, l)
	for _, part := range []string{"cloud", "hosts", "pushes", "kubernetes"} {
		if after[part] == 0 {
			t.Errorf("nothing was written to %s: %v", part, after)
		}
	}
	if after["pushes"] != 1 {
		t.Errorf("%d pushes", after["pushes"])
	}

	before := len(l.Cloud.Requests(0))
	code, out, errs = gsrun(t, "recipes/bootstrap.star", "--lab")
	if code != 0 || !strings.Contains(out, "Changes: 0 changed, ") {
		t.Errorf("again: exit code %d\n%s\n%s", code, out, errs)
	}
	checkFewCalls(t, l.Cloud.Requests(before))
	code, out, _ = gsrun(t, "plan", "recipes/bootstrap.star", "--lab", "--detailed-exitcode")
	if code != 0 || !strings.Contains(out, "No changes.") {
		t.Errorf("plan of what is there: exit code %d\n%s", code, out)
	}
	// Each recipe runs by itself, too.
	for _, recipe := range []string{"gateway", "seed", "capo", "argocd", "spoke"} {
		code, out, errs := gsrun(t, "recipes/"+recipe+".star", "--lab")
		if code != 0 || !strings.Contains(out, "Changes: 0 changed, ") {
			t.Errorf("%s alone: exit code %d\n%s\n%s", recipe, code, out, errs)
		}
	}
	if now := writes(t, l); now["cloud"] != after["cloud"] || now["hosts"] != after["hosts"] || now["pushes"] != after["pushes"] || now["kubernetes"] != after["kubernetes"] {
		t.Errorf("runs without a change wrote: %v, before %v", now, after)
	}
	checkRevoke(t)
	checkInvalidObject(t)
	checkDestroy(t, l)
	checkNothingLeaks(t, l)
}

// checkFewCalls sees that a run without a change lists each kind once. The first
// looks of a run are by themselves.
func checkFewCalls(t *testing.T, calls []openstack.Request) {
	t.Helper()
	kinds := make(map[string]bool)
	var all []string
	for _, r := range calls {
		path, _, _ := strings.Cut(r.Path, "?")
		kinds[path] = true
		all = append(all, r.Method+" "+r.Path)
	}
	if more := len(calls) - len(kinds); more > 3 {
		t.Errorf("%d calls more than one of each kind:\n%s", more, strings.Join(all, "\n"))
	}
}

// checkInvalidObject applies an object that the API server refuses.
func checkInvalidObject(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "invalid.star")
	src := `
load("//access.star", "find_seed", "seed_cluster")

def bad(ctx):
    """Apply a cluster with a negative number of machines."""
    seed_cluster(ctx, find_seed(ctx)).apply(objects = [{
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "Not A Name", "namespace": "default"},
    }])

main = recipe(inputs = {
    "cloud": input.string(default = "openstack", doc = "Cloud."),
    "gateway": input.dict(default = {}, doc = "Gateway."),
    "seed": input.dict(default = {}, doc = "Seed."),
    "ssh_port": input.int(default = 2222, doc = "Port."),
}, steps = [bad])
`
	if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := lab.Status(os.Getenv(lab.DirVariable))
	if err != nil {
		t.Fatal(err)
	}
	code, _, errs := gsrun(t, file, "--lab", "--ssh-port", jsonText(info.SSHPort))
	if code != 3 || !strings.Contains(errs, "Not A Name") || !strings.Contains(errs, "invalid.star:6: in bad") || !strings.Contains(errs, "metadata.name") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}

// checkNothingLeaks looks for the lab's secrets in everything that was kept.
func checkNothingLeaks(t *testing.T, l *lab.Lab) {
	t.Helper()
	clouds, err := os.ReadFile(filepath.Join(l.Info.Site, "clouds.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	password := regexp.MustCompile(`password: (\w+)`).FindSubmatch(clouds)[1]
	deploy, err := os.ReadFile(filepath.Join(l.Info.Site, "keys", "git_deploy"))
	if err != nil {
		t.Fatal(err)
	}
	key := bytes.Split(deploy, []byte("\n"))[1]
	looked := 0
	for _, dir := range []string{filepath.Join(l.Info.Site, ".gsrun"), filepath.Join(l.Info.Dir, "log")} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			looked++
			for name, secret := range map[string][]byte{"password": password, "deploy key": key, "private key": []byte("PRIVATE KEY")} {
				if bytes.Contains(data, secret) {
					t.Errorf("%s holds the %s", path, name)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if looked < 8 {
		t.Errorf("only %d files were looked at", looked)
	}
}

// TestInterrupt stops a run with Ctrl-C: it ends at once, says so in the
// journal, and the next run goes on.
func TestInterrupt(t *testing.T) {
	dir := t.TempDir()
	site := filepath.Join(dir, "site")
	for name, text := range map[string]string{
		"site/site.yaml": "name: test\n",
		"recipes/slow.star": `
def quick(ctx):
    """Be done."""
    return "done"

def slow(ctx, quick):
    """Wait for something that never comes."""
    ctx.defer(lambda: ctx.log("cleaned up"))
    ctx.log("has deferred")
    wait("the impossible", until = lambda: False, timeout = "1h", interval = "50ms")

main = recipe(steps = [quick, slow])
`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "gsrun")
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), link, "slow", "--site", site)
	cmd.Dir = dir
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = io.Discard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	lines := bufio.NewScanner(stderr)
	begin := time.Time{}
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "has deferred") && begin.IsZero() {
			begin = time.Now()
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // its exit code is looked at below
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d\n%s", code, said.String())
	}
	if begin.IsZero() || time.Since(begin) > 20*time.Second {
		t.Errorf("it took %s to end", time.Since(begin))
	}
	if !strings.Contains(said.String(), "cleaned up") {
		t.Errorf("what was deferred did not run:\n%s", said.String())
	}
	code, out, errs := gsrun(t, "runs", "list", "--site", site, "--output", "json")
	var runs []struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal([]byte(out), &runs); err != nil || code != 0 || len(runs) != 1 || runs[0].Status != "stopped" {
		t.Errorf("runs: %d %s %s (%v)", code, out, errs, err)
	}
}
