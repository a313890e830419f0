// Command bench measures gsrun and prints a line for each figure:
//
//	bench NAME value=V unit=U peer=P peer_value=V ratio=R goal=G
//
// A peer is what the same machine needs for the same thing at the least, in
// the same run: machines are noisy, ratios hold.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing/fstest"
	"time"

	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
)

// A figure is one measured value beside that of its peer.
type figure struct {
	name  string
	value float64
	unit  string
	peer  string
	than  float64 // the peer's value
	goal  string
}

func (f figure) String() string {
	ratio := "-"
	if f.than > 0 {
		ratio = fmt.Sprintf("%.3g", f.value/f.than)
	}
	return fmt.Sprintf("bench %s value=%.3f unit=%s peer=%s peer_value=%.3f ratio=%s goal=%s", f.name, f.value, f.unit, f.peer, f.than, ratio, f.goal)
}

// A group is a set of figures that are measured together.
type group struct {
	name    string
	measure func(context.Context, string) ([]figure, error)
}

func groups(clouds, cloud string) []group {
	return []group{{"start", start}, {"engine", engine}, {"door", door}, {"dialect", language}, {"plan", plan},
		{"openstack-simulator", simulated}, {"openstack-real", onReal(clouds, cloud)}, {"openstack-calls", mainJobCalls},
		{"ssh-1", onHosts(1)}, {"ssh-10", onHosts(10)}, {"ssh-50", onHosts(50)}}
}

func main() {
	if dir := os.Getenv(floorVariable); dir != "" {
		if err := floor(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	only := flag.String("only", "", "measure this group only, or those whose names begin with it and a dash")
	program := flag.String("gsrun", "bin/gsrun", "the program to measure")
	clouds := flag.String("clouds", "", "clouds.yaml with a real cloud to measure on, in place of one that is started")
	cloud := flag.String("cloud", "", "its entry in that file")
	flag.Parse()
	found, code := false, 0
	for _, g := range groups(*clouds, *cloud) {
		if *only != "" && g.name != *only && !strings.HasPrefix(g.name, *only+"-") {
			continue
		}
		found = true
		figures, err := g.measure(context.Background(), *program)
		for _, f := range figures {
			fmt.Println(f)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench %s: %v\n", g.name, err)
			code = 1
		}
	}
	if !found {
		fmt.Fprintf(os.Stderr, "bench: there is no group %q\n", *only)
		code = 2
	}
	os.Exit(code)
}

// median calls f n times after one that doesn't count, and returns the median
// of the times that it took.
func median(n int, f func() error) (time.Duration, error) {
	var all []time.Duration
	for i := range n + 1 {
		begin := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		if i > 0 {
			all = append(all, time.Since(begin))
		}
	}
	return middle(all), nil
}

func middle(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// start measures whole processes, beside one that does nothing.
func start(ctx context.Context, program string) ([]figure, error) {
	dir, err := os.MkdirTemp("", "gsrun-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "site.yaml"), []byte("name: bench\n"), 0o600); err != nil {
		return nil, err
	}
	recipe := filepath.Join(dir, "empty.star")
	if err := os.WriteFile(recipe, []byte("def nothing():\n    \"\"\"Do nothing.\"\"\"\n\nmain = recipe(steps = [nothing])\n"), 0o600); err != nil {
		return nil, err
	}
	call := func(name string, args ...string) (time.Duration, error) {
		return median(21, func() error {
			cmd := exec.CommandContext(ctx, name, args...)
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
			}
			return nil
		})
	}
	floor, err := call("true")
	if err != nil {
		return nil, err
	}
	version, err := call(program, "version")
	if err != nil {
		return nil, err
	}
	empty, err := call(program, recipe, "--site", dir)
	if err != nil {
		return nil, err
	}
	return []figure{
		{"start/version", ms(version), "ms", "true(1)", ms(floor), "50"},
		{"start/empty-recipe", ms(empty), "ms", "true(1)", ms(floor), "50"},
	}, nil
}

// engine measures what a step costs that does nothing, beside the Starlark
// calls alone.
func engine(ctx context.Context, _ string) ([]figure, error) {
	const n = 10_000
	var src strings.Builder
	names := make([]string, n)
	for i := range n {
		needs := ""
		if i > 0 {
			needs = fmt.Sprintf("s%d", i/2)
		}
		fmt.Fprintf(&src, "def s%d(%s):\n    \"\"\"Count.\"\"\"\n    return %d\n\n", i, needs, i)
		names[i] = fmt.Sprintf("s%d", i)
	}
	list := strings.Join(names, ", ")
	graph := src.String() + "main = recipe(steps = [" + list + "])\n"
	loop := src.String() + "def all():\n    \"\"\"Call them in a loop.\"\"\"\n    for f in [" + list + "][1:]:\n        f(0)\n\nmain = recipe(steps = [all])\n"
	perRun := func(text string) (time.Duration, error) {
		e := runtime.New(runtime.Config{Layers: []runtime.Layer{{Name: "bench", Prefix: "bench", Recipes: fstest.MapFS{"x.star": {Data: []byte(text)}}}}})
		r, err := e.Load("x.star")
		if err != nil {
			return 0, err
		}
		return median(9, func() error {
			_, err := e.Run(ctx, r, runtime.Options{ID: "bench", Door: &effect.Door{Clock: effect.SystemClock{}, Redactor: new(effect.Redactor)}})
			return err
		})
	}
	steps, err := perRun(graph)
	if err != nil {
		return nil, err
	}
	calls, err := perRun(loop)
	if err != nil {
		return nil, err
	}
	return []figure{{"engine/step", us(steps) / n, "us", "starlark-call", us(calls) / n, "20"}}, nil
}

// counter is an op on a number in memory: all that is measured is the door.
type counter struct{ n, want int64 }

func (c *counter) Target() effect.Target {
	return effect.Target{Scope: "bench", Kind: "counter", Name: "n"}
}
func (c *counter) Observe(context.Context) (effect.State, error) {
	return effect.State{Exists: true, Attrs: map[string]any{"n": c.n}}, nil
}
func (c *counter) Diff(s effect.State) (effect.Change, error) {
	fields := effect.Compare(map[string]any{"n": c.want}, s.Attrs)
	if len(fields) == 0 {
		return effect.Unchanged(), nil
	}
	return effect.Change{Kind: effect.Update, Fields: fields, After: map[string]any{"n": c.want}}, nil
}
func (c *counter) Apply(ctx context.Context, _ effect.Change) (effect.State, error) {
	c.n = c.want
	return c.Observe(ctx)
}

// door measures what an op costs that changes something, with the journal
// flushed and not, beside two bare writes that are flushed.
func door(ctx context.Context, _ string) ([]figure, error) {
	dir, err := os.MkdirTemp("", "gsrun-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	store, err := journal.Open(dir)
	if err != nil {
		return nil, err
	}
	lock, err := store.Lock(journal.Holder{Site: "bench", Recipe: "bench", Run: "bench"})
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	const n = 200
	run := 0
	ops := func(noFlush bool) (time.Duration, error) {
		return median(9, func() error {
			run++
			j, err := store.Start(journal.Entry{Run: fmt.Sprintf("bench-%d", run), Recipe: "bench"}, journal.Options{NoFlush: noFlush, Guard: lock.Guard})
			if err != nil {
				return err
			}
			d := &effect.Door{Clock: effect.SystemClock{}, Redactor: new(effect.Redactor), Recorder: j, Guard: lock.Guard}
			c := effect.With(ctx, effect.NewScope(d, effect.Owner{Site: "bench", Recipe: "bench"}, "step", nil))
			op := &counter{}
			for i := range int64(n) {
				op.want = i + 1
				if _, err := effect.Do(c, op); err != nil {
					return err
				}
			}
			return j.End("ok", n, nil)
		})
	}
	flushed, err := ops(false)
	if err != nil {
		return nil, err
	}
	unflushed, err := ops(true)
	if err != nil {
		return nil, err
	}
	floor, err := median(9, func() error { return writeAndSync(dir, 2*n) })
	if err != nil {
		return nil, err
	}
	return []figure{
		{"door/op-flushed", us(flushed) / n, "us", "2xwrite+fsync", us(floor) / n, "1.5x"},
		{"door/op-unflushed", us(unflushed) / n, "us", "2xwrite+fsync", us(floor) / n, "-"},
	}, nil
}

// writeAndSync appends n lines to a file, each flushed.
func writeAndSync(dir string, n int) error {
	f, err := os.CreateTemp(dir, "floor-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	line := []byte(strings.Repeat("x", 200) + "\n")
	for range n {
		if _, err := f.Write(line); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return f.Close()
}
