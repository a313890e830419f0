package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
)

var torture = flag.Bool("torture", false, "walk all crash points of the main job, not only some of each kind")

// TestCrashes kills the main job at bad moments, each time in the run that goes
// on from the last one, until a run gets through. What is there then is what
// an undisturbed run leaves, and one more run changes nothing.
//
// By default one point of each class is died at. With -torture all are, in a
// lab for each moment.
func TestCrashes(t *testing.T) {
	skip.Slow(t, "it starts labs")
	var want lab.Snapshot
	ok := t.Run("undisturbed", func(t *testing.T) {
		v := newVictim(t)
		if code, out, errs := gsrun(t, "recipes/bootstrap.star", "--lab"); code != 0 {
			t.Fatalf("exit code %d\n%s\n%s", code, out, errs)
		}
		want = v.settled()
		for name, part := range map[string]string{
			"openstack/server/lab-gateway": "gsrun:lab/gateway", "host/lab-gateway/file/etc/nftables.conf": "masquerade", "host/lab-gateway/command/nft list ruleset": "masquerade",
			"host/lab-seed/command/apt-mark showhold": "kubeadm", "kubernetes/lab-seed/Deployment.apps/cert-manager/cert-manager": "image", "git": "Declare the spoke",
			"git/gitops/spokes/spoke-1/capi/cluster.yaml": "kind: Cluster", "site/.gsrun/secrets/crypto/ssh_keypair/operator.age": "",
		} {
			if have, is := want[name]; !is || !strings.Contains(have, part) {
				t.Errorf("%s isn't there, or lacks %q: %q", name, part, have)
			}
		}
	})
	if !ok {
		return
	}
	points, bad := 0, 0
	chain := func(name string, run func(v *victim)) {
		t.Run(name, func(t *testing.T) {
			v := newVictim(t)
			start := time.Now()
			run(v)
			v.compare(want)
			points, bad = points+v.points, bad+v.bad
			if t.Failed() && v.bad == 0 {
				bad++
			}
			t.Logf("%s: %d points in %s", name, v.points, time.Since(start).Round(time.Second))
		})
	}
	all := strings.Join([]string{beforeIt, halfIt, sentIt, doneIt}, ",")
	if !*torture {
		chain("some of each", func(v *victim) { v.walk(all, 1) })
		if points < 60 {
			t.Errorf("only %d points", points)
		}
		return
	}
	for moment := range strings.SplitSeq(all, ",") {
		chain(moment, func(v *victim) { v.walk(moment, 0) })
	}
	for seed := range uint64(4) {
		chain(fmt.Sprintf("at random %d", seed), func(v *victim) { v.walkAtRandom(seed) })
	}
	fmt.Printf("%d of %d crash points survived\n", points-bad, points)
}

// A victim is a lab and the gsrun that dies on it again and again.
type victim struct {
	t       *testing.T
	lab     *lab.Lab
	program string
	deaths  string // file
	points  int
	bad     int // points after which something was wrong
}

func newVictim(t *testing.T) *victim {
	v := &victim{t: t, lab: startLab(t), deaths: filepath.Join(t.TempDir(), "deaths")}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	v.program = filepath.Join(t.TempDir(), "gsrun")
	if err := os.Symlink(program, v.program); err != nil {
		t.Fatal(err)
	}
	return v
}

// run runs the main job once, and reports whether it was killed.
func (v *victim) run(ctx context.Context, env ...string) (killed bool, said string, err error) {
	cmd := exec.CommandContext(ctx, v.program, "run", "recipes/bootstrap.star", "--lab", "--output", "plain")
	cmd.Env = append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if cmd.ProcessState == nil {
		v.t.Fatal(err)
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL, out.String(), err
}

// walk runs the main job until a run gets through. Each dies at the first point
// of those moments at which none has died yet; each limits how many points of a
// class count.
func (v *victim) walk(moments string, each int) {
	v.t.Helper()
	last := "the beginning"
	for {
		killed, said, err := v.run(v.t.Context(), deathsVariable+"="+v.deaths, momentsVariable+"="+moments, eachVariable+"="+strconv.Itoa(each))
		if err != nil && !killed {
			if v.wrong(last, fmt.Sprintf("the next run failed: %v\n%s", err, said)) {
				return
			}
			continue
		}
		if !killed {
			return
		}
		all, err := readDeaths(v.deaths)
		if err != nil || len(all) != v.points+1 {
			v.t.Fatalf("%d deaths are recorded, want %d (%v)", len(all), v.points+1, err)
		}
		last = all[v.points]
		v.died(last)
	}
}

// walkAtRandom kills runs after some time each.
func (v *victim) walkAtRandom(seed uint64) {
	v.t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	last := "the beginning"
	for {
		// Longer and longer: on a slow machine, too, one gets through.
		after := time.Duration(random.Int64N(int64(time.Second) + int64(v.points)*int64(50*time.Millisecond)))
		ctx, cancel := context.WithTimeout(v.t.Context(), after)
		killed, said, err := v.run(ctx)
		cancel()
		if err != nil && !killed {
			if v.wrong(last, fmt.Sprintf("the next run failed: %v\n%s", err, said)) {
				return
			}
			continue
		}
		if !killed {
			return
		}
		last = "after " + after.String()
		v.died(last)
	}
}

// died looks at the world after a death.
func (v *victim) died(at string) {
	v.t.Helper()
	v.points++
	if v.points%50 == 0 {
		v.t.Logf("%d points", v.points)
	}
	if found := twins(v.lab); found != "" {
		v.wrong(at, found)
	}
	if n := len(v.lab.Git.Pushes(0)); n > 1 {
		v.wrong(at, fmt.Sprintf("%d pushes", n))
	}
}

// wrong reports what went wrong after a death, and whether that was once too
// often.
func (v *victim) wrong(at, what string) bool {
	v.t.Helper()
	v.t.Errorf("killed at %q: %s", at, what)
	v.bad++
	return v.bad >= 10
}

// compare compares what is there with what an undisturbed run left, after one
// more run, which changes nothing.
func (v *victim) compare(want lab.Snapshot) {
	v.t.Helper()
	code, out, errs := gsrun(v.t, "recipes/bootstrap.star", "--lab")
	if code != 0 || !strings.Contains(out, "Changes: 0 changed, ") {
		v.t.Errorf("once more: exit code %d\n%s\n%s", code, out, errs)
	}
	// Controllers may be at work still.
	deadline := time.Now().Add(30 * time.Second)
	for {
		diff := differences(want, v.look())
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			v.t.Errorf("it isn't what an undisturbed run leaves:\n%s", diff)
			return
		}
	}
}

// settled returns what is there once nothing changes any more.
func (v *victim) settled() lab.Snapshot {
	v.t.Helper()
	last := v.look()
	for {
		now := v.look()
		if differences(last, now) == "" {
			return now
		}
		last = now
	}
}
