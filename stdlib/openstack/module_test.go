package openstack_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/openstack"
)

// run runs source as a step would, with the module and `cloud`.
func (w *world) run(ctx context.Context, m *builtin.Module, door *effect.Door, source string) error {
	return w.runAs(ctx, effect.Owner{Site: "test", Recipe: "test"}, m, door, source)
}

func (w *world) runAs(ctx context.Context, owner effect.Owner, m *builtin.Module, door *effect.Door, source string) error {
	scope := effect.NewScope(door, owner, "step", nil)
	ctx = effect.With(ctx, scope)
	thread := &starlark.Thread{Name: "step"}
	builtin.SetContext(thread, ctx)
	globals := w.globals()
	globals["openstack"] = m.Value()
	globals["artifact"] = &starlarkstruct.Module{Name: "artifact", Members: starlark.StringDict{
		"fetch": starlark.NewBuiltin("artifact.fetch", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
			return globals["file1"], nil
		}),
	}}
	if !strings.Contains(source, "openstack.connect(") {
		source = "cloud = openstack.connect(\"lab\")\n" + source
	}
	globals["struct"] = starlark.NewBuiltin("struct", starlarkstruct.Make)
	_, err := starlark.ExecFileOptions(&syntax.FileOptions{TopLevelControl: true, GlobalReassign: true}, thread, "step.star", source, globals)
	return err
}

// TestExamples runs every example, in a cloud of its own.
func TestExamples(t *testing.T) {
	ran := 0
	openstack.Module(openstack.Config{}).Functions(func(name string, f builtin.Func) {
		ran++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, lab.Config{})
			example := strings.ReplaceAll(f.Example, `connect("openstack")`, `connect("lab")`)
			if err := w.run(context.Background(), w.module, startest.NewDoor(effect.Apply), example); err != nil {
				t.Errorf("%s\n%s", startest.Explain(err), f.Example)
			}
		})
	})
	if ran < 40 {
		t.Errorf("%d functions", ran)
	}
}

// TestConnectErrors has what is wrong with the site's clouds.yaml.
func TestConnectErrors(t *testing.T) {
	w := newWorld(t, lab.Config{})
	list := func(config openstack.Config, cloud string) error {
		m := openstack.Module(config)
		return w.run(context.Background(), m, startest.NewDoor(effect.Apply), "openstack.connect(\""+cloud+"\").network.list()")
	}
	file := filepath.Join(w.dir, "clouds.yaml")
	for name, c := range map[string]struct {
		config           openstack.Config
		cloud, text, tip string
	}{
		"no file named":  {openstack.Config{}, "lab", "the site names no clouds.yaml", "name clouds: in site.yaml"},
		"no file there":  {openstack.Config{CloudsFile: "/nowhere/clouds.yaml"}, "lab", "/nowhere/clouds.yaml", ""},
		"no cloud named": {openstack.Config{CloudsFile: file}, "", "name is empty", ""},
		"unknown cloud":  {openstack.Config{CloudsFile: file}, "lap", file + `: there is no cloud "lap"`, "did you mean lab? the file has: admin, lab"},
	} {
		err := list(c.config, c.cloud)
		if c.cloud == "lab" && c.config.CloudsFile == "" && err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.text) || !strings.Contains(fault.HintOf(err), c.tip) {
			t.Errorf("%s: got %v (%s), hint %q", name, err, fault.KindOf(err), fault.HintOf(err))
		}
	}
}

// TestPasswordsAreRedacted looks for the password in what the run shows.
func TestPasswordsAreRedacted(t *testing.T) {
	w := newWorld(t, lab.Config{Users: []lab.User{{Name: "demo", Password: "hunter22-hunter22", Projects: []string{"demo"}, Roles: []string{"member"}}}})
	file := filepath.Join(w.dir, "clouds.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "password: secret", "password: hunter22-hunter22", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.cloud.Inject(lab.Fault{Service: "network", Path: "/networks", Status: 400, Count: -1, Body: `{"NeutronError": {"message": "I know that it is hunter22-hunter22"}}`}); err != nil {
		t.Fatal(err)
	}
	var seen []string
	door := startest.NewDoor(effect.Apply)
	door.Emit = func(e effect.Event) {
		if e.Err != nil {
			seen = append(seen, e.Err.Error())
		}
	}
	if err := w.run(context.Background(), w.newModule(), door, `cloud.network.ensure("x")`); fault.KindOf(err) != fault.Invalid {
		t.Fatalf("got %v", err)
	}
	if len(seen) != 1 || strings.Contains(seen[0], "hunter22") || !strings.Contains(seen[0], effect.Mask) {
		t.Errorf("events say %q", seen)
	}
}

// TestStepsShareTheConnection runs the same from many steps at once: one
// login, and each thing is made once.
func TestStepsShareTheConnection(t *testing.T) {
	w := newWorld(t, lab.Config{})
	door := startest.NewDoor(effect.Apply)
	var group sync.WaitGroup
	errs := make([]error, 12)
	for i := range errs {
		group.Go(func() {
			errs[i] = w.run(context.Background(), w.module, door, `
net = cloud.network.ensure("shared")
cloud.subnet.ensure("shared", network = net, cidr = "10.20.0.0/24")`)
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if writes := w.writes(0); len(writes) != 2 {
		t.Errorf("wrote %q", writes)
	}
	logins := 0
	for _, r := range w.cloud.Requests(0) {
		if r.Service == "identity" {
			logins++
		}
	}
	if logins != 1 {
		t.Errorf("%d logins", logins)
	}
}

// TestNextRunFindsWhatTheLastOneMade kills a run at its first wait: the next
// one goes on with the same server.
func TestNextRunFindsWhatTheLastOneMade(t *testing.T) {
	w := newWorld(t, lab.Config{BootDelay: 200 * time.Millisecond})
	const source = `
net = cloud.network.ensure("n")
cloud.subnet.ensure("n", network = net, cidr = "10.20.0.0/24")
cloud.server.ensure("s", image = "lab-tiny", flavor = "m1.nano", networks = [net])`
	ctx, cancel := context.WithCancelCause(context.Background())
	door := startest.NewDoor(effect.Apply)
	door.Emit = func(e effect.Event) {
		if e.Kind == effect.Waiting && strings.Contains(e.Message, "being ACTIVE: it is BUILD") {
			cancel(fault.New(fault.Cancelled, "killed"))
		}
	}
	start := time.Now()
	err := w.run(ctx, w.newModule(), door, source)
	if fault.KindOf(err) != fault.Cancelled || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("got %v", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("a cancelled run took %s", took)
	}
	plan := startest.NewDoor(effect.Plan)
	if err := w.run(context.Background(), w.newModule(), plan, source); err != nil {
		t.Fatal(err)
	}
	if p := plan.Planned(); len(p) > 1 {
		t.Errorf("planned %v", p)
	}
	since := len(w.cloud.Requests(0))
	if err := w.run(context.Background(), w.newModule(), startest.NewDoor(effect.Apply), source); err != nil {
		t.Fatal(err)
	}
	if writes := w.writes(since); len(writes) > 0 {
		t.Errorf("the next run wrote %q", writes)
	}
}

// TestAdministratorSeesOwnProjectOnly ensures as an administrator what another
// project has under the same name.
func TestAdministratorSeesOwnProjectOnly(t *testing.T) {
	w := newWorld(t, lab.Config{})
	for _, cloud := range []string{"lab", "admin", "admin"} {
		if err := w.run(context.Background(), w.module, startest.NewDoor(effect.Apply), `
c = openstack.connect("`+cloud+`")
net = c.network.ensure("same")
c.subnet.ensure("same", network = net, cidr = "10.20.0.0/24")
c.security_group.ensure("same", rules = [])
c.server.ensure("same", image = "lab-tiny", flavor = "m1.nano", networks = [net])
c.image.ensure("same", file = file1, disk_format = "raw")`); err != nil {
			t.Fatal(startest.Explain(err))
		}
	}
	if writes := w.writes(0); len(writes) != 12 {
		t.Errorf("%d writes, want 6 for each project: %q", len(writes), writes)
	}
}

// TestManyAreListed lists more than a page has.
func TestManyAreListed(t *testing.T) {
	w := newWorld(t, lab.Config{Quota: map[string]int{"network": -1}})
	c, err := w.client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 260 {
		if _, err := w.newImage(c, map[string]any{"name": "many"}); err != nil {
			t.Fatal(err)
		}
	}
	err = w.run(context.Background(), w.module, startest.NewDoor(effect.Apply), `
n = len(cloud.image.list("many"))
if n != 260:
    fail(n)`)
	if err != nil {
		t.Error(err)
	}
}

// TestPlannedNetworks has what a plan says of a server's networks: what it has afterwards.
func TestPlannedNetworks(t *testing.T) {
	w := newWorld(t, lab.Config{})
	vm := func(net, more string) string {
		return `
nets = {n: cloud.network.ensure(n) for n in ["a", "b"]}
[cloud.subnet.ensure(n, network = nets[n], cidr = "10.20.%d.0/24" % i) for i, n in enumerate(nets)]
cloud.server.ensure("vm", image = "lab-tiny", flavor = "m1.small", networks = [nets["` + net + `"]]` + more + ")"
	}
	if err := w.run(context.Background(), w.newModule(), startest.NewDoor(effect.Apply), vm("a", "")); err != nil {
		t.Fatal(startest.Explain(err))
	}
	for more, want := range map[string]int{"": 2, ", exact = True": 1} {
		door := startest.NewDoor(effect.Plan)
		if err := w.run(context.Background(), w.newModule(), door, vm("b", more)); err != nil {
			t.Fatal(startest.Explain(err))
		}
		got := -1
		for _, p := range door.Planned() {
			for _, f := range p.Change.Fields {
				if nets, ok := f.New.([]any); ok && f.Path == "networks" {
					got = len(nets)
				}
			}
		}
		if got != want {
			t.Errorf("networks = [b]%s: %d networks are planned, want %d", more, got, want)
		}
	}
}

// TestSavedPlanHasDetachedFloatingIPs keeps to a saved plan in which a port gets
// another address: its floating IP leads to it again afterwards.
func TestSavedPlanHasDetachedFloatingIPs(t *testing.T) {
	w := newWorld(t, lab.Config{})
	at := func(address string) string {
		return `
net = cloud.network.ensure("n")
sub = cloud.subnet.ensure("n", network = net, cidr = "10.20.0.0/24")
cloud.router.ensure("n", external = "public", subnets = [sub])
port = cloud.port.ensure("p", network = net, fixed_ips = ["` + address + `"])
fip = cloud.floating_ip.ensure("f", network = "public", port = port)
if not planning and fip.fixed_ip != port.address:
    fail(fip.fixed_ip)`
	}
	run := func(door *effect.Door, planning, source string) {
		if err := w.run(context.Background(), w.newModule(), door, "planning = "+planning+"\ncloud = openstack.connect(\"lab\")\n"+source); err != nil {
			t.Fatal(startest.Explain(err))
		}
	}
	run(startest.NewDoor(effect.Apply), "False", at("10.20.0.50"))
	plan := startest.NewDoor(effect.Plan)
	run(plan, "True", at("10.20.0.51"))
	saver := effect.NewSaver([]byte("key"), nil)
	var saved []effect.SavedChange
	for _, p := range plan.Planned() {
		c, err := saver.Save(p.Step, p.Target, p.Change, p.Pos)
		if err != nil {
			t.Fatal(err)
		}
		saved = append(saved, c)
	}
	door := startest.NewDoor(effect.Apply)
	door.Contract = effect.NewContract(saver, saved, nil, nil)
	run(door, "False", at("10.20.0.51"))
}
