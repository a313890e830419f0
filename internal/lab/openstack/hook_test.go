package openstack_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

func itoa(n int) string { return strconv.Itoa(n) }

// witness records what hooks are told.
type witness struct {
	mu     sync.Mutex
	events []string
	last   openstack.ServerInfo
}

func (w *witness) server(e openstack.ServerEvent, s openstack.ServerInfo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, fmt.Sprintf("%s %s", e, s.Name))
	w.last = s
}

func (w *witness) floating(e openstack.FloatingIPEvent, f openstack.FloatingIPInfo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, fmt.Sprintf("%s %s %s server=%t", e, f.Address, f.Fixed, f.ServerID != ""))
}

// take returns the events since the last call.
func (w *witness) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.events
	w.events = nil
	return e
}

func TestHooks(t *testing.T) {
	w := &witness{}
	l := newLab(t, func(cfg *openstack.Config) { cfg.OnServer, cfg.OnFloatingIP = w.server, w.floating })
	n, s := l.newNetwork("mgmt", "10.20.0.0/24")
	l.newRouter("r", true, s.ID)
	port := l.newPort(ports.CreateOpts{NetworkID: n.ID})
	fip := must[*floatingips.FloatingIP](t, "floating ip")(floatingips.Create(l.ctx, l.network, floatingips.CreateOpts{FloatingNetworkID: l.external(), PortID: port.ID}).Extract())
	must[*keypairs.KeyPair](t, "key")(keypairs.Create(l.ctx, l.compute, keypairs.CreateOpts{Name: "k", PublicKey: labKey}).Extract())
	check := func(what string, want ...string) {
		t.Helper()
		if err := l.cloud.Settle(l.ctx); err != nil {
			t.Fatal(err)
		}
		if got := w.take(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	check("port associated", "associated 127.77.0.11 10.20.0.2 server=false")
	vm := must[*servers.Server](t, "create")(servers.Create(l.ctx, l.compute, keypairs.CreateOptsExt{KeyName: "k", CreateOptsBuilder: servers.CreateOpts{Name: "gw", FlavorRef: l.flavor("m1.small"), ImageRef: l.imageID("lab-tiny"),
		UserData: []byte("#cloud-config\n"), Networks: []servers.Network{{Port: port.ID}}, Metadata: map[string]string{"role": "gateway"}}}, nil).Extract())
	check("building")
	l.clock.Advance(time.Second)
	check("active", "active gw", "associated 127.77.0.11 10.20.0.2 server=true")
	want := openstack.ServerInfo{ID: vm.ID, Name: "gw", ProjectID: l.server(vm.ID).TenantID, UserData: []byte("#cloud-config\n"), KeyName: "k", PublicKey: labKey, Image: "lab-tiny", Flavor: "m1.small",
		Metadata: map[string]string{"role": "gateway"}, Addresses: []openstack.Address{{Network: "mgmt", NetworkID: n.ID, SubnetID: s.ID, PortID: port.ID, MAC: port.MACAddress,
			Fixed: "10.20.0.2", PrefixBits: 24, Gateway: "10.20.0.1", Floating: "127.77.0.11"}}}
	if !reflect.DeepEqual(w.last, want) {
		t.Errorf("server info:\n got %+v\nwant %+v", w.last, want)
	}
	if now, found := l.cloud.Server(vm.ID); !found || !reflect.DeepEqual(now, want) {
		t.Errorf("asked for: %+v", now)
	}
	if _, found := l.cloud.Server("none"); found {
		t.Error("a server that isn't there was described")
	}
	servers.Stop(l.ctx, l.compute, vm.ID)
	l.clock.Advance(time.Second)
	servers.Start(l.ctx, l.compute, vm.ID)
	l.clock.Advance(time.Second)
	servers.Reboot(l.ctx, l.compute, vm.ID, servers.RebootOpts{Type: servers.HardReboot})
	l.clock.Advance(time.Second)
	servers.Rebuild(l.ctx, l.compute, vm.ID, servers.RebuildOpts{ImageRef: l.imageID("lab-tiny")})
	l.clock.Advance(time.Second)
	check("power", "stopped gw", "started gw", "rebooted gw", "rebuilt gw")
	must[*floatingips.FloatingIP](t, "dissociate")(floatingips.Update(l.ctx, l.network, fip.ID, floatingips.UpdateOpts{PortID: new(string)}).Extract())
	if got := w.take(); !reflect.DeepEqual(got, []string{"disassociated 127.77.0.11 10.20.0.2 server=true"}) {
		t.Errorf("when the answer is there, the hook has returned: %q", got)
	}
	must[*floatingips.FloatingIP](t, "associate")(floatingips.Update(l.ctx, l.network, fip.ID, floatingips.UpdateOpts{PortID: &port.ID}).Extract())
	check("associated again", "associated 127.77.0.11 10.20.0.2 server=true")
	servers.Delete(l.ctx, l.compute, vm.ID)
	l.clock.Advance(time.Second)
	check("deleted", "disassociated 127.77.0.11 10.20.0.2 server=true", "deleted gw")
}

func TestHookMayAskTheCloud(t *testing.T) {
	var cloud *openstack.Cloud
	asked := make(chan bool, 1)
	l := newLab(t, func(cfg *openstack.Config) {
		cfg.OnServer = func(_ openstack.ServerEvent, s openstack.ServerInfo) { asked <- cloud.ReachesExternal(s.ID) }
		cfg.ConsoleLog = func(string) string { return fmt.Sprint(len(cloud.Topology().Subnets)) }
	})
	cloud = l.cloud
	n, s := l.newNetwork("n", "10.20.0.0/24")
	l.newRouter("r", true, s.ID)
	vm := l.boot(servers.CreateOpts{Name: "vm", Networks: []servers.Network{{UUID: n.ID}}}, nil)
	if !<-asked {
		t.Error("the server doesn't reach out")
	}
	if out := must[string](t, "console")(servers.ShowConsoleOutput(l.ctx, l.compute, vm.ID, servers.ShowConsoleOutputOpts{}).Extract()); out != "2" {
		t.Errorf("console: %q", out)
	}
}

func TestTopology(t *testing.T) {
	l := newLab(t, nil)
	a, sa := l.newNetwork("a", "10.1.0.0/24")
	_, sb := l.newNetwork("b", "10.2.0.0/24")
	c, sc := l.newNetwork("c", "10.3.0.0/24")
	r := l.newRouter("r", true, sa.ID, sb.ID)
	topo := l.cloud.Topology()
	if len(topo.Subnets) != 4 || len(topo.Routers) != 1 {
		t.Fatalf("topology: %+v", topo)
	}
	if got := topo.Routers[0]; got.ID != r.ID || len(got.SubnetIDs) != 2 || got.ExternalNetworkID != l.external() || !got.SNAT || got.ExternalAddresses[0] != "127.77.0.10" {
		t.Errorf("router: %+v", got)
	}
	var served openstack.Topology
	if l.adminCall("GET", "/topology", nil, &served); !reflect.DeepEqual(served, topo) {
		t.Errorf("topology over HTTP: %+v", served)
	}
	if !l.cloud.Joined(sa.ID, sb.ID) || l.cloud.Joined(sa.ID, sc.ID) || !l.cloud.Joined(sc.ID, sc.ID) || l.cloud.Joined(sa.ID, "none") {
		t.Error("joined subnets are told wrongly")
	}
	sg := must[*groups.SecGroup](t, "group")(groups.Create(l.ctx, l.network, groups.CreateOpts{Name: "ssh"}).Extract())
	must[*rules.SecGroupRule](t, "rule")(rules.Create(l.ctx, l.network, rules.CreateOpts{SecGroupID: sg.ID, Direction: rules.DirIngress, EtherType: rules.EtherType4, Protocol: rules.ProtocolTCP, PortRangeMin: 22, PortRangeMax: 22, RemoteIPPrefix: "127.0.0.0/8"}).Extract())
	vm := l.boot(servers.CreateOpts{Name: "vm", Networks: []servers.Network{{UUID: a.ID}}, SecurityGroups: []string{"ssh"}}, nil)
	lone := l.boot(servers.CreateOpts{Name: "lone", Networks: []servers.Network{{UUID: c.ID}}}, nil)
	if !l.cloud.ReachesExternal(vm.ID) || l.cloud.ReachesExternal(lone.ID) || l.cloud.ReachesExternal("none") {
		t.Error("reach is told wrongly")
	}
	for _, x := range []struct {
		id, fixed, source, protocol string
		port                        int
		want                        bool
	}{{vm.ID, "10.1.0.2", "127.0.0.1", "tcp", 22, true}, {vm.ID, "10.1.0.2", "127.0.0.1", "tcp", 23, false}, {vm.ID, "10.1.0.2", "10.9.9.9", "tcp", 22, false},
		{vm.ID, "10.1.0.2", "127.0.0.1", "udp", 22, false}, {vm.ID, "10.1.0.9", "127.0.0.1", "tcp", 22, false}, {lone.ID, "10.3.0.2", "127.0.0.1", "tcp", 22, false},
		{lone.ID, "10.3.0.2", "10.3.0.2", "tcp", 80, true}, {"none", "10.3.0.2", "10.3.0.2", "tcp", 80, false}} {
		if got := l.cloud.Permits(x.id, x.fixed, netip.MustParseAddr(x.source), x.protocol, x.port); got != x.want {
			t.Errorf("%+v: %t", x, got)
		}
	}
}

// TestEqualRunsEndInEqualStates makes the same things twice, on clouds with other ids and in another order.
func TestEqualRunsEndInEqualStates(t *testing.T) {
	run := func(seed uint64, pause time.Duration) string {
		l := newLab(t, func(cfg *openstack.Config) { cfg.Seed = seed })
		l.clock.Advance(pause)
		n, s := l.newNetwork("mgmt", "10.20.0.0/24")
		l.newRouter("r", true, s.ID)
		l.boot(servers.CreateOpts{Name: "vm", Networks: []servers.Network{{UUID: n.ID}}, Metadata: map[string]string{"owner": "x"}}, nil)
		l.newImage("im")
		out, err := json.MarshalIndent(l.cloud.State(true), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	a, b := run(1, 0), run(2, time.Hour)
	if a != b {
		la, lb := strings.Split(a, "\n"), strings.Split(b, "\n")
		for i := range min(len(la), len(lb)) {
			if la[i] != lb[i] {
				t.Fatalf("states differ:\n%s\n%s", strings.Join(la[max(i-5, 0):i+1], "\n"), lb[i])
			}
		}
		t.Fatal("states differ in length")
	}
	for _, word := range []string{`"name": "vm"`, `"network_id": "network:mgmt"`, `"owner": "x"`} {
		if !strings.Contains(a, word) {
			t.Errorf("the state lacks %s", word)
		}
	}
	for _, secret := range []string{demoPassword, "app-secret-canary"} {
		if strings.Contains(a, secret) {
			t.Errorf("the state has the secret %s", secret)
		}
	}
}

func TestSeedMakesIDsRepeatable(t *testing.T) {
	id := func(seed uint64) string {
		l := newLab(t, func(cfg *openstack.Config) { cfg.Seed = seed })
		n, _ := l.newNetwork("n", "10.20.0.0/24")
		return n.ID
	}
	if a, b, c := id(5), id(5), id(6); a != b || a == c {
		t.Errorf("ids %s %s %s", a, b, c)
	}
}
