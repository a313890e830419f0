package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/lab/real"
)

// A cloud is an OpenStack that is measured.
type cloud struct {
	name   string // of the figures: "simulator"
	clouds string // clouds.yaml with the entry bench
	sets   int    // how many networks are made, each with a subnet and a port
	rounds int    // how often what is quick is measured
	// calls returns how many were made so far; nil if nobody counts.
	calls func() int
	// fresh makes the project empty again; nil if what was made has to be
	// deleted by the one that made it.
	fresh func() error
}

const entries = `clouds:
  bench:
    auth: {auth_url: %q, username: %s, password: %s, project_name: %s, user_domain_name: Default, project_domain_name: Default}
    region_name: RegionOne
`

// simulated measures the module openstack on a simulator in this process.
func simulated(ctx context.Context, program string) ([]figure, error) {
	program, err := filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "gsrun-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var now *openstack.Cloud
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { now.ServeHTTP(w, r) }))
	defer server.Close()
	c := cloud{name: "simulator", sets: 100, rounds: 41, clouds: filepath.Join(dir, "clouds.yaml"), calls: func() int { return len(now.Requests(0)) }}
	c.fresh = func() error {
		if now != nil {
			now.Close()
		}
		now = openstack.New(openstack.Config{Quota: map[string]int{"network": -1, "subnet": -1, "port": -1}})
		return nil
	}
	if err := c.fresh(); err != nil {
		return nil, err
	}
	defer func() { now.Close() }()
	if err := os.WriteFile(c.clouds, fmt.Appendf(nil, entries, server.URL+"/identity/v3", "demo", "secret", "demo"), 0o600); err != nil {
		return nil, err
	}
	return c.measure(ctx, program, dir)
}

// onReal measures the module openstack on a real cloud: the entry of the file
// that is named, else one that it starts. It says why if there is none.
func onReal(file, entry string) func(context.Context, string) ([]figure, error) {
	return func(ctx context.Context, program string) ([]figure, error) {
		program, err := filepath.Abs(program)
		if err != nil {
			return nil, err
		}
		return measureReal(ctx, program, file, entry)
	}
}

func measureReal(ctx context.Context, program, file, entry string) (figures []figure, err error) {
	dir, err := os.MkdirTemp("", "gsrun-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	c := cloud{name: "real", sets: 10, rounds: 9, clouds: filepath.Join(dir, "clouds.yaml")} // a call takes a hundred times as long
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		text = []byte(strings.Replace(string(text), "\n  "+entry+":", "\n  bench:", 1))
		if err := os.WriteFile(c.clouds, text, 0o600); err != nil {
			return nil, err
		}
		return c.measure(ctx, program, dir)
	}
	if why := real.Missing(); why != "" {
		skipped("a real cloud", why)
		return nil, nil
	}
	cfg := real.Config{Progress: func(line string) { fmt.Fprintln(os.Stderr, line) }}
	if err := real.Install(ctx, cfg); err != nil {
		return nil, err
	}
	l, err := real.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	t, err := l.NewTenant(ctx, "bench")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Delete(ctx)) }()
	if err := t.SetQuota(ctx, "network", map[string]int{"network": -1, "subnet": -1, "port": -1}); err != nil {
		return nil, err
	}
	c.fresh = func() error { return t.Empty(ctx) }
	if err := os.WriteFile(c.clouds, []byte(t.Clouds("bench", "")), 0o600); err != nil {
		return nil, err
	}
	return c.measure(ctx, program, dir)
}

// skipped says on standard error what isn't measured.
func skipped(what, why string) {
	fmt.Fprintf(os.Stderr, "bench: %s isn't measured: %s\n", what, why)
}

// A result is what making so many things, and finding them made, took.
type result struct {
	made, again           time.Duration // for each thing
	callsMade, callsAgain float64       // for each thing; 0 if nobody counted
}

// measure measures everything on one cloud.
func (c cloud) measure(ctx context.Context, program, dir string) ([]figure, error) {
	figures, err := c.converged(ctx)
	if err != nil {
		return figures, err
	}
	name := func(what string) string { return "openstack/" + c.name + "/" + what }
	for _, p := range peers() {
		if why := p.missing(); why != "" {
			skipped(p.name, why)
			continue
		}
		if c.fresh == nil && !p.cleans {
			skipped(p.name, "what it makes on a cloud of somebody's wouldn't be deleted")
			continue
		}
		// Beside each peer: what else the machine does meets both.
		ours, err := c.ours(ctx, program, dir)
		if err != nil {
			return figures, err
		}
		theirs, err := c.twice(func() error { return p.run(ctx, c, dir) }, 3*cmp.Or(p.sets, c.sets), p.clean(ctx, c, dir))
		if err != nil {
			skipped(p.name, err.Error())
			continue
		}
		figures = append(figures,
			figure{name("create"), ms(ours.made), "ms/resource", p.name, ms(theirs.made), "-"},
			figure{name("again"), ms(ours.again), "ms/resource", p.name, ms(theirs.again), "-"})
		if c.calls != nil {
			figures = append(figures,
				figure{name("create-calls"), ours.callsMade, "calls/resource", p.name, theirs.callsMade, "-"},
				figure{name("again-calls"), ours.callsAgain, "calls/resource", p.name, theirs.callsAgain, "-"})
		}
	}
	return figures, nil
}

// twice calls run in an empty project and once more.
func (c cloud) twice(run func() error, things int, clean func() error) (r result, err error) {
	if c.fresh != nil {
		clean = c.fresh
	}
	if err := clean(); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, clean()) }()
	for i := range 2 {
		before := 0
		if c.calls != nil {
			before = c.calls()
		}
		begin := time.Now()
		if err := run(); err != nil {
			return r, err
		}
		each, calls := time.Since(begin)/time.Duration(things), 0.0
		if c.calls != nil {
			calls = float64(c.calls()-before) / float64(things)
		}
		if i == 0 {
			r.made, r.callsMade = each, calls
		} else {
			r.again, r.callsAgain = each, calls
		}
	}
	return r, nil
}

const recipe = `def networks(ctx):
    """Make networks, each with a subnet and a port."""
    cloud = openstack.connect("bench")

    def one(i):
        name = "bench-%d" % i
        net = cloud.network.ensure(name)
        sub = cloud.subnet.ensure(name, network = net, cidr = "10.20.0.0/24")
        cloud.port.ensure(name, network = net, fixed_ips = [{"subnet": sub.id}])

    parallel(list(range(SETS)), one, max = 10)

main = recipe(steps = [networks])
`

// ours makes the sets with gsrun, as a process.
func (c cloud) ours(ctx context.Context, program, dir string) (result, error) {
	site, err := os.MkdirTemp(dir, "site-") // with no journals of what was there before
	if err != nil {
		return result{}, err
	}
	file := filepath.Join(dir, "networks.star")
	for path, text := range map[string]string{
		filepath.Join(site, "site.yaml"): "name: bench\nclouds: " + c.clouds + "\n",
		file:                             strings.ReplaceAll(recipe, "SETS", fmt.Sprint(c.sets)),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return result{}, err
		}
	}
	run := func(args ...string) func() error {
		return func() error { return command(ctx, dir, c, program, append(args, "--site", site)...) }
	}
	clean := run("destroy", file, "--confirm", "bench", "--max-deletes", "1000")
	return c.twice(run(file), 3*c.sets, clean)
}

// command runs a program with the cloud in its environment.
func command(ctx context.Context, dir string, c cloud, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "OS_CLIENT_CONFIG_FILE="+c.clouds, "OS_CLOUD=bench")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return nil
}

// mainJobCalls counts the calls of a run of the main job that changes nothing,
// beside the number of different things that it asks for.
func mainJobCalls(ctx context.Context, program string) (figures []figure, err error) {
	dir, err := os.MkdirTemp("", "gsrun-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	home := filepath.Join(dir, "w")
	gsrun := func(args ...string) error {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = append(os.Environ(), "GSRUN_LAB_DIR="+home)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("gsrun %v: %w: %s", args, err, out)
		}
		return nil
	}
	if err := gsrun("lab", "up"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, gsrun("lab", "down")) }()
	var about struct{ OpenStack string }
	text, err := os.ReadFile(filepath.Join(home, "lab.json"))
	if err == nil {
		err = json.Unmarshal(text, &about)
	}
	if err != nil {
		return nil, err
	}
	for _, job := range []string{"gateway", "bootstrap"} {
		file := "recipes/" + job + ".star"
		if err := gsrun(file, "--lab"); err != nil {
			return nil, err
		}
		before, err := requests(about.OpenStack)
		if err != nil {
			return nil, err
		}
		if err := gsrun(file, "--lab"); err != nil {
			return nil, err
		}
		after, err := requests(about.OpenStack)
		if err != nil {
			return nil, err
		}
		var asked []string
		calls := after[len(before):]
		for _, r := range calls {
			path, _, _ := strings.Cut(r.Path, "?")
			asked = append(asked, r.Method+" "+path)
		}
		slices.Sort(asked)
		figures = append(figures, figure{"openstack/" + job + "-again", float64(len(calls)), "calls", "one-per-kind", float64(len(slices.Compact(asked))), "1x"})
	}
	return figures, nil
}

// requests returns the log of the lab's OpenStack.
func requests(base string) ([]openstack.Request, error) {
	resp, err := http.Get(base + "/lab/requests?since=0")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var all struct{ Requests []openstack.Request }
	return all.Requests, json.NewDecoder(resp.Body).Decode(&all)
}
