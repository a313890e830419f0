package conformance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"git.vanillacore.net/govstack/gsrun/internal/skip"
)

// The OpenStack part of the main job: what needs a host that answers is left
// out, since neither cloud has machines.
var openstackPart = map[string]string{
	"gateway.star": `load("@base//gateway.star", base = "main")

def image(ctx):
    """Upload a small file in place of the Debian image."""
    file = artifact.fetch("https://images.example.org/tiny.qcow2")
    return openstack.connect(ctx.inputs.cloud).image.ensure(ctx.name("debian"), file = file).id

main = base.extend(replace = [image], remove = ["reachable", "nat", "wireguard"], outputs = lambda server, network, image, key: {
    "address": server.address,
    "host_key": server.host_key,
    "network": network.mgmt,
    "subnet": network.mgmt_subnet,
    "image": image,
    "key_name": key.name,
})
`,
	"seed.star": `load("@base//seed.star", base = "main")

main = base.extend(
    remove = ["reachable", "container_runtime", "kubernetes", "control_plane", "pod_network"],
    outputs = lambda server: {"address": server.address},
)
`,
	"job.star": `"""The OpenStack part of the main job."""

load("gateway.star", gateway = "main")
load("seed.star", seed = "main")

main = recipe(
    steps = [
        use("gateway", gateway, inputs = lambda ctx: {"cloud": "lab"}),
        use("seed", seed, inputs = lambda ctx, gateway: {"cloud": "lab", "gateway": {
            "address": gateway.address,
            "host_key": gateway.host_key,
            "network": gateway.network,
            "subnet": gateway.subnet,
            "image": gateway.image,
            "key_name": gateway.key_name,
        }}),
    ],
    outputs = lambda seed: {"seed": seed.address},
)
`,
}

const tiny = "not much of an image\n"

// A victim is a site whose gsrun is killed again and again.
type victim struct {
	*scenario
	program, site string

	mu    sync.Mutex
	child *exec.Cmd
}

var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "gsrun-conformance-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "gsrun")
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, "git.vanillacore.net/govstack/gsrun/cmd/gsrun")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building gsrun: %w\n%s", err, out)
	}
	return path, nil
})

var built atomic.Bool

func newVictim(t *testing.T, target target) *victim {
	built.Store(true)
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	v := &victim{scenario: newScenario(t, target), program: path, site: t.TempDir()}
	mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, tiny) }))
	t.Cleanup(mirror.Close)
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(tiny))
	files := map[string]string{
		"site.yaml": fmt.Sprintf("name: conf\nclouds: %s\nartifacts: {mirror: %s, cache: cache}\nsecrets: {recipients: [%s], identity: key}\nlimits: {interval: %s, patience: %s}\n",
			v.clouds, mirror.URL, key.Recipient(), max(target.interval, 100*time.Millisecond), target.patience),
		"key":        key.String() + "\n",
		"gsrun.lock": fmt.Sprintf("{\"gsrun.lock\":1}\n{\"kind\":\"file\",\"source\":\"https://images.example.org/tiny.qcow2\",\"sha256\":%q,\"size\":%d}\n", hex.EncodeToString(sum[:]), len(tiny)),
	}
	for name, text := range openstackPart {
		files["recipes/"+name] = text
	}
	for name, text := range files {
		path := filepath.Join(v.site, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

// gsrun runs gsrun once, and reports whether it was killed.
func (v *victim) gsrun(args ...string) (killed bool, said string, err error) {
	v.t.Helper()
	cmd := exec.CommandContext(v.t.Context(), v.program, append(args, "--site", v.site, "--output", "plain")...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	v.mu.Lock()
	err = cmd.Start()
	v.child = cmd
	v.mu.Unlock()
	if err != nil {
		v.t.Fatal(err)
	}
	err = cmd.Wait()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL, out.String(), err
}

func (v *victim) must(args ...string) string {
	v.t.Helper()
	_, said, err := v.gsrun(args...)
	if err != nil {
		v.t.Fatalf("%s: %v\n%s", args, err, said)
	}
	return said
}

// kill kills the gsrun that runs, and breaks the connection that it is served.
func (v *victim) kill() {
	v.mu.Lock()
	defer v.mu.Unlock()
	_ = v.child.Process.Kill() // it may be dead already, by another request
	panic(http.ErrAbortHandler)
}

// walk runs gsrun until it gets through, and returns how often it died. Each
// run dies at a write: after its first has taken effect and before that is
// answered, or before its second takes effect.
func (v *victim) walk(after bool, args ...string) int {
	v.t.Helper()
	var writes atomic.Int64
	watch := watcher(func(_ http.ResponseWriter, _ *http.Request, _ []byte, done bool) bool {
		if done == after && (after || writes.Add(1) > 1) {
			v.kill()
		}
		return false
	})
	v.watch.Store(&watch)
	defer v.watch.Store(nil)
	for deaths := range 300 {
		writes.Store(0)
		killed, said, err := v.gsrun(args...)
		switch {
		case killed:
		case err != nil:
			v.t.Fatalf("after %d deaths: %v\n%s", deaths, err, said)
		default:
			return deaths
		}
	}
	v.t.Fatal("it never gets through")
	return 0
}

// TestCrashes kills the OpenStack part of the main job, and its destruction, at
// each write, in the run that goes on from the one before. What is there then
// is what an undisturbed run leaves: nothing is missing, leaked or there twice.
func TestCrashes(t *testing.T) {
	skip.Slow(t, "it runs the main job some hundred times")
	t.Parallel()
	job := []string{"run", "job.star"}
	end := []string{"destroy", "job.star", "--confirm", "conf", "--max-deletes", "100"}
	for _, target := range targets() {
		t.Run(target.name, func(t *testing.T) {
			target.need(t)
			var before, made inventory
			if !t.Run("undisturbed", func(t *testing.T) {
				quiet := newVictim(t, target)
				before = quiet.inventory()
				quiet.must(job...)
				made = quiet.inventory()
				if len(made)-len(before) < 15 {
					t.Errorf("only %d things were made: %q", len(made)-len(before), slices.Sorted(maps.Keys(made)))
				}
				quiet.must(end...)
				if diff := differences(before, quiet.inventory()); diff != "" {
					t.Errorf("destroy leaves:\n%s", diff)
				}
			}) {
				return
			}
			for _, after := range []bool{false, true} {
				t.Run(map[bool]string{false: "before", true: "after"}[after], func(t *testing.T) {
					t.Parallel()
					v := newVictim(t, target)
					start := time.Now()
					n := v.walk(after, job...)
					if diff := differences(made, v.inventory()); diff != "" {
						t.Errorf("%d deaths on, it isn't what an undisturbed run leaves:\n%s", n, diff)
					}
					if said := v.must(job...); !strings.Contains(said, "Changes: 0 changed, ") {
						t.Errorf("once more:\n%s", said)
					}
					deleted := v.walk(after, end...)
					if diff := differences(before, v.inventory()); diff != "" {
						t.Errorf("destroy, %d deaths on, leaves:\n%s", deleted, diff)
					}
					t.Logf("%d deaths while it was made, %d while it was destroyed, %s", n, deleted, time.Since(start).Round(time.Second))
					if n < 12 || deleted < 8 {
						t.Errorf("only %d and %d deaths", n, deleted)
					}
				})
			}
		})
	}
}
