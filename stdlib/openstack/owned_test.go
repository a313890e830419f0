package openstack_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/openstack"
)

const everyKind = `
def build():
    cloud = openstack.connect("lab")
    net = cloud.network.ensure("n")
    sub = cloud.subnet.ensure("n", network = net, cidr = "10.1.0.0/24")
    cloud.router.ensure("n", external = "public", subnets = [sub])
    group = cloud.security_group.ensure("g", rules = [{"protocol": "tcp", "port": 22}])
    port = cloud.port.ensure("p", network = net, security_groups = [group])
    image = cloud.image.ensure("i", file = file1, disk_format = "raw", min_disk = 1)
    cloud.keypair.ensure("k", public_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFEprDqY8tc7vJ3kGk0o2q8Xn3b8b2v1Xq0b0Yw3q0bq one")
    cloud.server.ensure("s", image = image.id, flavor = "m1.small", ports = [port], key_name = "k")
    cloud.floating_ip.ensure("f", network = "public", port = port)

    # A rule in a group that isn't ours, and what bears other marks.
    cloud.security_group.ensure("default", rules = [{"protocol": "udp", "port": 53}], adopt = True)
    raw_network("n", "gsrun:test/testing/n")
    raw_network("n", "not a mark")
    raw_network("n", "gsrun:other/test/n")

def intrude():
    cloud = openstack.connect("lab")
    cloud.port.ensure("db", network = cloud.network.list(mark = "gsrun:test/test/")[0])
`

// call calls a function of everyKind as a step of a recipe of that name.
func (w *world) call(name, recipe string) {
	w.t.Helper()
	opts := w.options()
	opts.Owner = effect.Owner{Site: "test", Recipe: recipe}
	fn := startest.Load(w.t, "every.star", everyKind, opts)[name].(starlark.Callable)
	if _, err := startest.Call(w.t, fn, opts); err != nil {
		w.t.Fatal(startest.Explain(err))
	}
}

func kindsOf(all []effect.Owned) []string {
	out := make([]string, len(all))
	for i, o := range all {
		out[i] = o.Target.Kind
	}
	return out
}

// What bears the marks of an owner is found, and nothing else; it can be
// deleted in the order in which it is listed, but not while somebody else uses
// it, who is named.
func TestOwned(t *testing.T) {
	w := newWorld(t, lab.Config{})
	w.call("build", "test")
	w.call("intrude", "other")
	keeper := w.module.Recv.(*openstack.Clouds)
	owner := effect.Owner{Site: "test", Recipe: "test"}
	ctx := effect.With(t.Context(), effect.NewScope(startest.NewDoor(effect.Apply), owner, "owned", nil))
	list := func() []effect.Owned {
		t.Helper()
		all, err := keeper.ListOwned(ctx, "openstack/lab", []string{owner.Prefix()})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	all := list()
	want := []string{"floating_ip", "server", "port", "router", "subnet", "network", "security_group", "security_group_rule", "image", "keypair"}
	if got := kindsOf(all); !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for _, o := range all {
		if o.Credential != (o.Target.Kind == "keypair") || o.ID == "" || !strings.HasPrefix(o.Mark, owner.Prefix()) {
			t.Errorf("%+v", o)
		}
	}
	if by := all[7].Maker(); by.String() != "openstack/lab/security_group/default" {
		t.Errorf("the rule is made by %s", by)
	}
	if got := all[1].Addresses; len(got) != 2 || !slices.Contains(got, all[0].Addresses[0]) {
		t.Errorf("the server answers at %v, its floating IP is %v", got, all[0].Addresses)
	}

	others, err := keeper.Others(ctx, "openstack/lab", all)
	if err != nil || len(others) != 1 || !strings.HasPrefix(others[0].Text, "port db (") || others[0].Of.String() != "openstack/lab/network/n" || others[0].Orphan {
		t.Fatalf("others: %+v %v", others, err)
	}
	if _, err := effect.Do(ctx, all[5].Delete); fault.KindOf(err) != fault.Conflict || !strings.Contains(fault.HintOf(err), "port db") {
		t.Errorf("deleting a network that is used: %v", err)
	}

	theirs, err := keeper.ListOwned(ctx, "openstack/lab", []string{"gsrun:test/other/"})
	if err != nil || len(theirs) != 1 {
		t.Fatalf("the port of somebody else: %+v %v", theirs, err)
	}
	for _, o := range append(theirs, all...) {
		for range 2 { // the second time it is gone, which is no error
			if _, err := effect.Do(ctx, o.Delete); err != nil {
				t.Fatalf("%s: %v", o.Target, err)
			}
		}
	}
	if left := list(); len(left) > 0 {
		t.Errorf("left: %v", kindsOf(left))
	}
	names := 0
	for _, n := range w.cloud.State(false)["network"] {
		if n["name"] == "n" {
			names++
		}
	}
	if names != 3 {
		t.Errorf("%d networks of others are left, want 3", names)
	}
}

// What no longer bears the mark when its turn comes isn't deleted.
func TestOwnedChangesHands(t *testing.T) {
	w := newWorld(t, lab.Config{})
	w.call("build", "test")
	ctx := effect.With(context.Background(), effect.NewScope(startest.NewDoor(effect.Apply), effect.Owner{}, "owned", nil))
	all, err := w.module.Recv.(*openstack.Clouds).ListOwned(ctx, "openstack/lab", []string{"gsrun:test/test/"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := w.describe(c, all[5].ID, "gsrun:other/test/n"); err != nil {
		t.Fatal(err)
	}
	if _, err := effect.Do(ctx, all[5].Delete); fault.KindOf(err) != fault.Exists || !strings.Contains(err.Error(), "no longer bears the owner mark gsrun:test/test/n") {
		t.Errorf("got %v", err)
	}
	if _, err := w.module.Recv.(*openstack.Clouds).ListOwned(ctx, "openstack/nowhere", []string{"gsrun:"}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a cloud that isn't there: %v", err)
	}
}
