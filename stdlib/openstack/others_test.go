package openstack_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/openstack"
)

// TestServicesPorts has ports that services make: those that go with what is
// deleted aren't in the way, others are.
func TestServicesPorts(t *testing.T) {
	w := newWorld(t, lab.Config{})
	w.must(`net = cloud.network.ensure("n")
sub = cloud.subnet.ensure("n", network = net, cidr = "10.1.0.0/24")
cloud.load_balancer.ensure("lb", subnet = sub, address = "10.1.0.100")`)
	services := effect.Owner{Site: "cloud", Recipe: "services"}
	if err := w.runAs(context.Background(), services, w.newModule(), startest.NewDoor(effect.Apply), `
net = cloud.network.get("n")
cloud.port.ensure("dhcp", network = net, device_owner = "network:dhcp", device_id = "dhcp-1")
cloud.port.ensure("metadata", network = net, device_owner = "network:distributed", device_id = "ovnmeta-1")
cloud.port.ensure("octavia-lb-vrrp-1", network = net, device_owner = "compute:nova", device_id = "a-server-of-octavia", allowed_address_pairs = ["10.1.0.100"])
cloud.port.ensure("octavia-lb-vrrp-2", network = net, device_owner = "Octavia", allowed_address_pairs = ["10.1.0.200"])
cloud.port.ensure("member", network = net, device_owner = "octavia:member")
cloud.port.ensure("ovn-lb-hm-1", network = net, device_owner = "ovn-lb-hm:distributed")
cloud.port.ensure("another", network = net, device_owner = "Octavia", device_id = "lb-another")
cloud.port.ensure("vm", network = net, device_owner = "compute:nova", device_id = "somebody's")
`); err != nil {
		t.Fatal(startest.Explain(err))
	}
	keeper := w.module.Recv.(*openstack.Clouds)
	ctx := effect.With(t.Context(), effect.NewScope(startest.NewDoor(effect.Apply), effect.Owner{Site: "test", Recipe: "test"}, "owned", nil))
	all, err := keeper.ListOwned(ctx, "openstack/lab", []string{"gsrun:test/test/"})
	if err != nil {
		t.Fatal(err)
	}
	inTheWay := func(going []effect.Owned) (names []string) {
		t.Helper()
		others, err := keeper.Others(ctx, "openstack/lab", going)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range others {
			names = append(names, strings.Fields(o.Text)[1])
		}
		slices.Sort(names)
		return names
	}
	if got, want := inTheWay(all), []string{"another", "octavia-lb-vrrp-2", "vm"}; !slices.Equal(got, want) {
		t.Errorf("in the way: %q, want %q", got, want)
	}
	without := slices.DeleteFunc(slices.Clone(all), func(o effect.Owned) bool { return o.Target.Kind == "load_balancer" })
	if got := inTheWay(without); len(got) != 7 {
		t.Errorf("where the load balancer stays: %q", got)
	}
}

// TestNetworkWaitsForItsLoadBalancer deletes the network of a load balancer that
// is being deleted.
func TestNetworkWaitsForItsLoadBalancer(t *testing.T) {
	w := newWorld(t, lab.Config{BootDelay: 150 * time.Millisecond})
	w.must(`net = cloud.network.ensure("n")
sub = cloud.subnet.ensure("n", network = net, cidr = "10.1.0.0/24")
cloud.load_balancer.ensure("lb", subnet = sub)`)
	c, err := w.client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	all, err := c.List(t.Context(), client.Call{Service: client.LoadBalancer, Path: "/lbaas/loadbalancers"}, "loadbalancers")
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	if _, err := c.Do(t.Context(), client.Call{Service: client.LoadBalancer, Method: http.MethodDelete, Path: "/lbaas/loadbalancers/" + all[0]["id"].(string)}); err != nil {
		t.Fatal(err)
	}
	door := startest.NewDoor(effect.Apply)
	door.Retry.Tries = 1
	if err := w.run(t.Context(), w.newModule(), door, `cloud.network.delete("n")`); err != nil {
		t.Error(startest.Explain(err))
	}
}
