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

// What is done to a lab, one after the other.
var (
	theJob    = []string{"run", "recipes/bootstrap.star", "--lab"}
	theChange = []string{"run", "recipes/gateway.star", "--lab", "--wireguard-cidr", "10.22.0.0/24"} // of a file, and so of what nftables has loaded
	theEnd    = []string{"destroy", "recipes/bootstrap.star", "--lab", "--confirm", "lab", "--max-deletes", "1000", "--abandon-clusters"}
)

// TestCrashes kills the main job at bad moments, each time in the run that goes
// on from the last one, until a run gets through. What is there then is what
// an undisturbed run leaves, and one more run changes nothing. The same is done
// to a change of what is there, and to its destruction.
//
// By default one point of each class is died at; with -torture all are, in a
// lab for each moment.
func TestCrashes(t *testing.T) {
	skip.Slow(t, "it starts labs")
	var made, changed, ended lab.Snapshot
	ok := t.Run("undisturbed", func(t *testing.T) {
		v := newVictim(t)
		v.must(theJob)
		made = v.settled()
		v.must(theChange)
		changed = v.settled()
		v.must(theEnd)
		ended = v.settled()
	})
	if !ok {
		return
	}
	for name, part := range map[string]string{
		"openstack/server/lab-gateway": "gsrun:lab/gateway", "host/lab-gateway/file/etc/nftables.conf": "masquerade", "host/lab-gateway/command/nft list ruleset": "masquerade",
		"host/lab-seed/command/apt-mark showhold": "kubeadm", "kubernetes/lab-seed/Deployment.apps/cert-manager/cert-manager": "image", "git": "Declare the spoke",
		"git/gitops/spokes/spoke-1/capi/cluster.yaml": "kind: Cluster", "site/.gsrun/secrets/crypto/ssh_keypair/operator.age": "",
	} {
		if have, is := made[name]; !is || !strings.Contains(have, part) {
			t.Fatalf("%s isn't there, or lacks %q: %q", name, part, have)
		}
	}
	if loaded := "host/lab-gateway/command/nft list ruleset"; made[loaded] == changed[loaded] {
		t.Fatal("the change has no effect on what is loaded")
	}
	points, bad := 0, 0
	chain := func(name string, run func(v *victim)) {
		t.Run(name, func(t *testing.T) {
			v := newVictim(t)
			start := time.Now()
			defer func() {
				if t.Failed() && v.bad == 0 {
					v.bad++
				}
				points, bad = points+v.points, bad+v.bad
			}()
			run(v)
			t.Logf("%s: %d points in %s", name, v.points, time.Since(start).Round(time.Second))
		})
	}
	all := strings.Join([]string{beforeIt, halfIt, sentIt, doneIt}, ",")
	changeAndEnd := func(v *victim, moments string, each int) {
		v.walk(all, 0, theChange, theChange)
		v.compare(changed, theChange)
		v.walk(moments, each, theEnd, theEnd)
		v.compare(ended, nil)
	}
	if !*torture {
		chain("some of each", func(v *victim) {
			v.walk(all, 1, theJob, theJob)
			v.compare(made, theJob)
			changeAndEnd(v, beforeIt+","+sentIt, 1)
		})
		if points < 60 {
			t.Errorf("only %d points", points)
		}
		return
	}
	for moment := range strings.SplitSeq(all, ",") {
		chain(moment, func(v *victim) {
			v.walk(moment, 0, theJob, theJob)
			v.compare(made, theJob)
		})
	}
	chain("resumed", func(v *victim) {
		v.walk(all, 1, theJob, []string{"resume", "--lab"})
		v.compare(made, theJob)
	})
	chain("changed and ended", func(v *victim) {
		v.must(theJob)
		changeAndEnd(v, all, 0)
	})
	for seed := range uint64(4) {
		chain(fmt.Sprintf("at random %d", seed), func(v *victim) {
			v.walkAtRandom(seed)
			v.compare(made, theJob)
		})
	}
	fmt.Printf("%d of %d crash points survived\n", points-bad, points)
}

// A victim is a lab and the gsrun that dies on it again and again.
type victim struct {
	t       *testing.T
	lab     *lab.Lab
	program string
	points  int
	bad     int // points after which something was wrong
}

func newVictim(t *testing.T) *victim {
	v := &victim{t: t, lab: startLab(t)}
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

// must runs gsrun undisturbed.
func (v *victim) must(args []string) {
	v.t.Helper()
	if code, out, errs := gsrun(v.t, args...); code != 0 {
		v.t.Fatalf("%s: exit code %d\n%s\n%s", args, code, out, errs)
	}
}

// run runs gsrun once, and reports whether it was killed.
func (v *victim) run(ctx context.Context, args []string, env ...string) (killed bool, said string, err error) {
	cmd := exec.CommandContext(ctx, v.program, append(args[:len(args):len(args)], "--output", "plain")...)
	cmd.Env = append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if cmd.ProcessState == nil {
		if ctx.Err() == nil {
			v.t.Fatal(err)
		}
		return true, "", err // it was too early to start
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL, out.String(), err
}

// chain runs gsrun until it gets through. Once runs it once, and says where it
// was killed.
func (v *victim) chain(once func() (killed bool, at, said string, err error)) {
	v.t.Helper()
	last := "the beginning"
	for {
		killed, at, said, err := once()
		switch {
		case killed:
			last = at
			v.died(last)
		case err == nil:
			return
		case v.wrong(last, fmt.Sprintf("the next run failed: %v\n%s", err, said)):
			return
		}
	}
}

// walk runs gsrun with the arguments first, and then again as often as it
// takes. Each dies at the first point of those moments at which none has died
// yet; each limits how many points of a class count.
func (v *victim) walk(moments string, each int, first, again []string) {
	v.t.Helper()
	file := filepath.Join(v.t.TempDir(), "deaths")
	args, died := first, 0
	v.chain(func() (bool, string, string, error) {
		killed, said, err := v.run(v.t.Context(), args, deathsVariable+"="+file, momentsVariable+"="+moments, eachVariable+"="+strconv.Itoa(each))
		args = again
		if !killed {
			return false, "", said, err
		}
		all, err := readDeaths(file)
		if err != nil || len(all) != died+1 {
			v.t.Fatalf("%d deaths are recorded, want %d (%v)", len(all), died+1, err)
		}
		died++
		return true, all[died-1], said, nil
	})
}

// walkAtRandom kills runs of the main job after some time each.
func (v *victim) walkAtRandom(seed uint64) {
	v.t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	v.chain(func() (bool, string, string, error) {
		// Longer and longer: on a slow machine, too, one gets through.
		after := time.Duration(random.Int64N(int64(time.Second) + int64(v.points)*int64(50*time.Millisecond)))
		ctx, cancel := context.WithTimeout(v.t.Context(), after)
		defer cancel()
		killed, said, err := v.run(ctx, theJob)
		return killed, "after " + after.String(), said, err
	})
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
// more run, which changes nothing; nil runs none.
func (v *victim) compare(want lab.Snapshot, again []string) {
	v.t.Helper()
	if again != nil {
		if code, out, errs := gsrun(v.t, again...); code != 0 || !strings.Contains(out, "Changes: 0 changed, ") {
			v.t.Errorf("once more: exit code %d\n%s\n%s", code, out, errs)
		}
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
