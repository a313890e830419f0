package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab"
)

// hail are faults of all kinds, each at a few of the requests, commands and
// downloads that it could hit.
var hail = []struct{ part, spec string }{
	{"openstack", `{"chance": 2, "count": -1, "method": "write", "status": 409}`},
	{"openstack", `{"chance": 2, "count": -1, "status": 429, "retry_after": "1"}`},
	{"openstack", `{"chance": 2, "count": -1, "status": 503, "retry_after": "1"}`},
	{"openstack", `{"chance": 2, "count": -1, "status": 500}`},
	{"openstack", `{"chance": 2, "count": -1, "method": "write", "status": 500, "effect": true}`},
	{"openstack", `{"chance": 2, "count": -1, "reset": "before"}`},
	{"openstack", `{"chance": 5, "count": -1, "method": "write", "reset": "after"}`},
	{"openstack", `{"chance": 5, "count": -1, "delay_ms": 50}`},
	{"openstack", `{"chance": 5, "count": -1, "expire": true}`},
	{"openstack", `{"chance": 20, "count": -1, "method": "write", "hide_ms": 200}`},
	{"host", `{"chance": 3, "count": -1, "drop": "before"}`},
	{"host", `{"chance": 3, "count": -1, "drop": "output"}`},
	{"host", `{"chance": 2, "count": -1, "drop": "after"}`},
	{"host", `{"chance": 2, "count": 2, "drop": "output", "reboot": true}`},
	{"kubernetes", `{"chance": 2, "count": -1, "method": "PATCH", "status": 409}`},
	{"kubernetes", `{"chance": 1, "count": -1, "status": 429, "retry_after": "1"}`},
	{"kubernetes", `{"chance": 1, "count": -1, "status": 500}`},
	{"kubernetes", `{"chance": 1, "count": -1, "status": 503}`},
	{"kubernetes", `{"chance": 1, "count": -1, "method": "write", "reset": "before"}`},
	{"kubernetes", `{"chance": 1, "count": -1, "method": "write", "reset": "after"}`},
	{"kubernetes", `{"chance": 1, "count": -1, "cut": true}`},
	{"git", `{"count": 2, "race": "late"}`},
	{"git", `{"chance": 30, "count": 2, "reset": "before"}`},
	{"git", `{"count": 1, "service": "push", "reset": "after"}`},
	{"mirror", `{"chance": 30, "count": 3, "status": 503}`},
	{"mirror", `{"chance": 30, "count": 3, "action": "reset"}`},
}

// hailSeed names the environment variable that repeats a hail.
const hailSeed = "GSRUN_HAIL_SEED"

// TestHail runs the main job under a hail of faults: it ends as a run does
// that nothing disturbs, in the same world, with nothing twice.
func TestHail(t *testing.T) {
	var want map[string][]string
	t.Run("undisturbed", func(t *testing.T) {
		l := startLab(t)
		if code, out, errs := gsrun(t, "recipes/bootstrap.star", "--lab"); code != 0 {
			t.Fatalf("exit code %d\n%s\n%s", code, out, errs)
		}
		want = worldOf(t, l)
	})
	t.Run("hail", func(t *testing.T) {
		l := startLab(t)
		seed := uint64(time.Now().UnixNano())
		if s := os.Getenv(hailSeed); s != "" {
			var err error
			if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s=%d", hailSeed, seed)
		l.SeedFaults(seed)
		for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(len(hail)) {
			if _, err := l.Inject(hail[i].part, []byte(hail[i].spec)); err != nil {
				t.Fatal(err)
			}
		}
		endure(t, l)
		if _, err := l.ClearFaults(""); err != nil {
			t.Fatal(err)
		}
		if code, out, errs := gsrun(t, "recipes/bootstrap.star", "--lab"); code != 0 || !strings.Contains(out, "Changes: 0 changed, ") {
			t.Errorf("undisturbed, it still changes something: exit code %d\n%s\n%s", code, out, errs)
		}
		got := worldOf(t, l)
		for kind := range want {
			if !reflect.DeepEqual(got[kind], want[kind]) {
				t.Errorf("%s: got\n%v, want\n%v", kind, got[kind], want[kind])
			}
		}
	})
}

// endure runs the main job until it gets through, which a command whose
// connection broke may keep it from, since nobody knows what became of it.
func endure(t *testing.T, l *lab.Lab) {
	t.Helper()
	for run := 1; ; run++ {
		code, out, errs := gsrun(t, "recipes/bootstrap.star", "--lab", "--output", "plain")
		if code == 0 {
			t.Logf("run %d\n%s", run, out)
			break
		}
		t.Logf("run %d: exit code %d\n%s", run, code, errs)
		if run == 3 {
			t.Fatal("it doesn't get through")
		}
	}
	all, err := l.Faults()
	if err != nil {
		t.Fatal(err)
	}
	hits := make(map[string]int)
	for _, f := range all {
		hits[f.Part] += f.Hits
	}
	t.Logf("disturbed: %v", hits)
	for _, part := range []string{"openstack", "host", "kubernetes", "git", "mirror"} {
		if hits[part] == 0 {
			t.Errorf("nothing of %s was disturbed", part)
		}
	}
}

// worldOf names what is there in a lab.
func worldOf(t *testing.T, l *lab.Lab) map[string][]string {
	t.Helper()
	world := make(map[string][]string)
	port := strconv.Itoa(l.Info.SSHPort) // it may differ between labs
	for kind, things := range l.Cloud.State(true) {
		for _, x := range things {
			world[kind] = append(world[kind], strings.ReplaceAll(fmt.Sprint(x["name"], x["description"], x["status"], x["protocol"], x["port_range_min"]), port, "PORT"))
		}
		slices.Sort(world[kind])
	}
	files, err := l.Git.Files("gitops", "main")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasPrefix(f, "others/") {
			world["files"] = append(world["files"], f)
		}
	}
	for _, h := range l.Hosts.Hosts() {
		world["hosts"] = append(world["hosts"], h.Info().Name)
	}
	slices.Sort(world["hosts"])
	world["pushes"] = nil
	for _, p := range l.Git.Pushes(0) {
		world["pushes"] = append(world["pushes"], p.Who)
	}
	return world
}
