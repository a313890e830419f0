package openstack_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/attachinterfaces"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	cquotas "github.com/gophercloud/gophercloud/v2/openstack/compute/v2/quotasets"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

const labKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFEprDqY8tc7vJ3kGk0o2q8Xn3b8b2v1Xq0b0Yw3q0bq lab"

func (l *lab) create(o servers.CreateOpts, hints servers.SchedulerHintOptsBuilder) (*servers.Server, error) {
	if o.FlavorRef == "" {
		o.FlavorRef = l.flavor("m1.nano")
	}
	if o.ImageRef == "" {
		o.ImageRef = l.imageID("lab-tiny")
	}
	return servers.Create(l.ctx, l.compute, o, hints).Extract()
}

// boot creates a server and lets its time pass.
func (l *lab) boot(o servers.CreateOpts, hints servers.SchedulerHintOptsBuilder) *servers.Server {
	l.t.Helper()
	s := must[*servers.Server](l.t, "create")(l.create(o, hints))
	l.clock.Advance(time.Second)
	return l.server(s.ID)
}

func (l *lab) server(id string) *servers.Server {
	l.t.Helper()
	return must[*servers.Server](l.t, "server")(servers.Get(l.ctx, l.compute, id).Extract())
}

func TestServerRefusals(t *testing.T) {
	l := newLab(t, nil)
	n, _ := l.newNetwork("n", "10.77.0.0/24")
	empty := must[string](t, "empty network")(newBareNetwork(l, "bare"))
	taken := l.newPort(ports.CreateOpts{NetworkID: n.ID, DeviceID: "someone"})
	zero := "00000000-0000-0000-0000-000000000000"
	on := []servers.Network{{UUID: n.ID}}
	for name, c := range map[string]struct {
		opts    servers.CreateOpts
		version string
		status  int
		text    string
	}{
		"image":         {servers.CreateOpts{Name: "x", ImageRef: zero, Networks: on}, "", 400, "Can not find requested image"},
		"flavor":        {servers.CreateOpts{Name: "x", FlavorRef: zero, Networks: on}, "", 400, "Flavor " + zero + " could not be found."},
		"zone":          {servers.CreateOpts{Name: "x", AvailabilityZone: "nope", Networks: on}, "", 400, "The requested availability zone is not available"},
		"network":       {servers.CreateOpts{Name: "x", Networks: []servers.Network{{UUID: zero}}}, "", 400, "Network " + zero + " could not be found."},
		"no subnet":     {servers.CreateOpts{Name: "x", Networks: []servers.Network{{UUID: empty}}}, "", 400, "requires a subnet in order to boot instances on"},
		"external":      {servers.CreateOpts{Name: "x", Networks: []servers.Network{{UUID: l.external()}}}, "", 403, "It is not allowed to create an interface on external network"},
		"port":          {servers.CreateOpts{Name: "x", Networks: []servers.Network{{Port: zero}}}, "", 400, "Port id " + zero + " could not be found."},
		"port in use":   {servers.CreateOpts{Name: "x", Networks: []servers.Network{{Port: taken.ID}}}, "", 409, `{"conflictingRequest":{"code":409,"message":"Port ` + taken.ID + ` is still in use."}}`},
		"group":         {servers.CreateOpts{Name: "x", SecurityGroups: []string{"nope"}, Networks: on}, "", 400, "Unable to find security_group with name or id 'nope'"},
		"ambiguous":     {servers.CreateOpts{Name: "x"}, "", 409, "Multiple possible networks found"},
		"networks":      {servers.CreateOpts{Name: "x"}, "2.37", 400, "'networks' is a required property"},
		"none at 2.1":   {servers.CreateOpts{Name: "x", Networks: "none"}, "", 400, "is not of type 'array'"},
		"tags too soon": {servers.CreateOpts{Name: "x", Networks: on, Tags: []string{"a"}}, "2.51", 400, "'tags' was unexpected"},
		"volume": {servers.CreateOpts{Name: "x", Networks: on, BlockDevice: []servers.BlockDevice{{SourceType: servers.SourceVolume, DestinationType: servers.DestinationVolume, UUID: zero}}},
			"", 400, "Volume " + zero + " could not be found."},
		"cores": {servers.CreateOpts{Name: "x", FlavorRef: l.flavor("m1.huge"), Networks: on}, "", 403,
			`{"forbidden":{"code":403,"message":"Quota exceeded for cores, ram: Requested 2000, 900000, but already used 0, 0 of 20, 51200 cores, ram"}}`},
		"version": {servers.CreateOpts{Name: "x", Networks: on}, "2.96", 406, "Version 2.96 is not supported by the API. Minimum is 2.1 and maximum is 2.93."},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.opts
			if o.FlavorRef == "" {
				o.FlavorRef = l.flavor("m1.nano")
			}
			if o.ImageRef == "" {
				o.ImageRef = l.imageID("lab-tiny")
			}
			_, err := servers.Create(l.ctx, at(l.compute, c.version), o, nil).Extract()
			wantStatus(t, err, c.status, c.text)
		})
	}
	_, err := servers.Create(l.ctx, l.compute, keypairs.CreateOptsExt{KeyName: "nope", CreateOptsBuilder: servers.CreateOpts{Name: "x", FlavorRef: l.flavor("m1.nano"), ImageRef: l.imageID("lab-tiny"), Networks: on}}, nil).Extract()
	wantStatus(t, err, 400, "Invalid key_name provided.")
}

func newBareNetwork(l *lab, name string) (string, error) {
	var out struct{ Network struct{ ID string } }
	_, err := l.network.Post(l.ctx, l.network.ServiceURL("networks"), map[string]any{"network": map[string]any{"name": name}}, &out, nil)
	return out.Network.ID, err
}

func TestServerEndsInError(t *testing.T) {
	l := newLab(t, nil)
	n, _ := l.newNetwork("n", "10.77.0.0/24")
	on := []servers.Network{{UUID: n.ID}}
	s := l.boot(servers.CreateOpts{Name: "bad", Networks: on, Metadata: map[string]string{"lab_fail": "spawn"}}, nil)
	if s.Status != "ERROR" || s.Fault.Code != 500 || !strings.Contains(s.Fault.Message, "Exhausted all hosts") || len(s.Addresses) != 0 {
		t.Errorf("spawn: %s %+v %v", s.Status, s.Fault, s.Addresses)
	}
	if _, err := l.cloud.Inject(openstack.Fault{Service: "compute", Method: "POST", Path: "/servers$", Outcome: "error"}); err != nil {
		t.Fatal(err)
	}
	if s := l.boot(servers.CreateOpts{Name: "bad2", Networks: on}, nil); s.Status != "ERROR" {
		t.Errorf("injected: %s", s.Status)
	}
	project := s.TenantID
	unlimited := -1
	must[*cquotas.QuotaSet](t, "quota")(cquotas.Update(l.ctx, l.computeAdmin, project, cquotas.UpdateOpts{Cores: &unlimited, RAM: &unlimited}).Extract())
	huge := l.boot(servers.CreateOpts{Name: "huge", FlavorRef: l.flavor("m1.huge"), Networks: on}, nil)
	if huge.Status != "ERROR" || huge.Fault.Message != "No valid host was found. " {
		t.Errorf("huge: %s %+v", huge.Status, huge.Fault)
	}
	three := 3
	must[*cquotas.QuotaSet](t, "quota")(cquotas.Update(l.ctx, l.computeAdmin, project, cquotas.UpdateOpts{Instances: &three}).Extract())
	_, err := l.create(servers.CreateOpts{Name: "fourth", Networks: on}, nil)
	wantStatus(t, err, 403, "Quota exceeded for instances: Requested 1, but already used 3 of 3 instances")
	if err := cquotas.Delete(l.ctx, l.computeAdmin, project).Err; err != nil {
		t.Fatal(err)
	}
	servers.Delete(l.ctx, l.compute, huge.ID)
	l.clock.Advance(time.Second)
	slow := l.boot(servers.CreateOpts{Name: "slow", Networks: on, Metadata: map[string]string{"lab_delay": "4"}}, nil)
	if slow.Status != "BUILD" {
		t.Errorf("slow after a second: %s", slow.Status)
	}
	l.clock.Advance(4 * time.Second)
	if got := l.server(slow.ID); got.Status != "ACTIVE" {
		t.Errorf("slow after five seconds: %s", got.Status)
	}
}

func TestServerWithOwnPort(t *testing.T) {
	l := newLab(t, nil)
	n, s := l.newNetwork("n", "10.77.0.0/24")
	port := l.newPort(ports.CreateOpts{NetworkID: n.ID, FixedIPs: []ports.IP{{SubnetID: s.ID, IPAddress: "10.77.0.50"}}})
	vm := l.boot(servers.CreateOpts{Name: "vm", Networks: []servers.Network{{Port: port.ID}, {UUID: n.ID}}, AvailabilityZone: "az2"}, nil)
	got := must[*ports.Port](t, "port")(ports.Get(l.ctx, l.network, port.ID).Extract())
	if got.Status != "ACTIVE" || got.DeviceID != vm.ID || got.DeviceOwner != "compute:az2" {
		t.Errorf("bound port: %+v", got)
	}
	page, err := attachinterfaces.List(l.compute, vm.ID).AllPages(l.ctx)
	if err != nil {
		t.Fatal(err)
	}
	nics := must[[]attachinterfaces.Interface](t, "interfaces")(attachinterfaces.ExtractInterfaces(page))
	if len(nics) != 2 || nics[0].PortID != port.ID || nics[0].FixedIPs[0].IPAddress != "10.77.0.50" {
		t.Errorf("interfaces: %+v", nics)
	}
	if err := servers.Delete(l.ctx, l.compute, vm.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	l.clock.Advance(time.Second)
	got = must[*ports.Port](t, "own port")(ports.Get(l.ctx, l.network, port.ID).Extract())
	if got.Status != "DOWN" || got.DeviceID != "" {
		t.Errorf("freed port: %+v", got)
	}
	_, err = ports.Get(l.ctx, l.network, nics[1].PortID).Extract()
	wantStatus(t, err, 404, "PortNotFound")
}

func TestMicroversions(t *testing.T) {
	l := newLab(t, nil)
	n, _ := l.newNetwork("n", "10.77.0.0/24")
	vm := l.boot(servers.CreateOpts{Name: "vm", Networks: []servers.Network{{UUID: n.ID}}, UserData: []byte("x")}, nil)
	show := func(c *gophercloud.ServiceClient, version string) (map[string]any, http.Header) {
		var out map[string]map[string]any
		resp, err := at(c, version).Get(l.ctx, c.ServiceURL("servers", vm.ID), &out, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out["server"], resp.Header
	}
	for version, c := range map[string]struct{ has, lacks string }{
		"":     {"tenant_id", "locked description tags"},
		"2.9":  {"locked", "description"},
		"2.19": {"description", "tags"},
		"2.26": {"tags", "trusted_image_certificates"},
		"2.71": {"server_groups", "locked_reason"},
		"2.93": {"locked_reason OS-EXT-SRV-ATTR:hostname", "OS-EXT-SRV-ATTR:host"},
	} {
		d, header := show(l.compute, version)
		for _, k := range strings.Fields(c.has) {
			if _, found := d[k]; !found {
				t.Errorf("%q: no %s", version, k)
			}
		}
		for _, k := range strings.Fields(c.lacks) {
			if _, found := d[k]; found {
				t.Errorf("%q: has %s", version, k)
			}
		}
		want := version
		if want == "" {
			want = "2.1"
		}
		if got := header.Get("OpenStack-API-Version"); got != "compute "+want || header.Get("X-OpenStack-Nova-API-Version") != want {
			t.Errorf("%q: answered version %q", version, got)
		}
	}
	old, _ := show(l.compute, "2.46")
	embedded, _ := show(l.compute, "2.47")
	if old["flavor"].(map[string]any)["id"] == nil || embedded["flavor"].(map[string]any)["id"] != nil || embedded["flavor"].(map[string]any)["original_name"] != "m1.nano" {
		t.Errorf("flavors: %v and %v", old["flavor"], embedded["flavor"])
	}
	admin, _ := show(l.computeAdmin, "2.90")
	if admin["OS-EXT-SRV-ATTR:user_data"] != "eA==" || admin["OS-EXT-SRV-ATTR:host"] == nil {
		t.Errorf("what an admin sees: %v", admin)
	}
	tagged := must[*servers.Server](t, "tags")(servers.Create(l.ctx, at(l.compute, "2.52"), servers.CreateOpts{Name: "t", FlavorRef: l.flavor("m1.nano"), ImageRef: l.imageID("lab-tiny"), Networks: "none", Tags: []string{"mark"}}, nil).Extract())
	pages, err := servers.List(at(l.compute, "2.52"), servers.ListOpts{Tags: "mark"}).AllPages(l.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if found := must[[]servers.Server](t, "list")(servers.ExtractServers(pages)); len(found) != 1 || found[0].ID != tagged.ID {
		t.Errorf("by tag: %+v", found)
	}
}

func TestServerActions(t *testing.T) {
	l := newLab(t, nil)
	n, _ := l.newNetwork("n", "10.77.0.0/24")
	vm := l.boot(servers.CreateOpts{Name: "vm", FlavorRef: l.flavor("m1.small"), Networks: []servers.Network{{UUID: n.ID}}}, nil)
	do := func(name string, err error, during, after string) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := l.server(vm.ID); string(got.Status) != during {
			t.Errorf("during %s: %s, want %s", name, got.Status, during)
		}
		l.clock.Advance(time.Second)
		if got := l.server(vm.ID); string(got.Status) != after || got.TaskState != "" {
			t.Errorf("after %s: %s %s, want %s", name, got.Status, got.TaskState, after)
		}
	}
	wantStatus(t, servers.Start(l.ctx, l.compute, vm.ID).ExtractErr(), 409, "Cannot 'start' instance "+vm.ID+" while it is in vm_state active")
	do("stop", servers.Stop(l.ctx, l.compute, vm.ID).ExtractErr(), "ACTIVE", "SHUTOFF")
	wantStatus(t, servers.Reboot(l.ctx, l.compute, vm.ID, servers.RebootOpts{Type: servers.SoftReboot}).ExtractErr(), 409, "vm_state stopped")
	do("start", servers.Start(l.ctx, l.compute, vm.ID).ExtractErr(), "SHUTOFF", "ACTIVE")
	do("soft reboot", servers.Reboot(l.ctx, l.compute, vm.ID, servers.RebootOpts{Type: servers.SoftReboot}).ExtractErr(), "REBOOT", "ACTIVE")
	do("hard reboot", servers.Reboot(l.ctx, l.compute, vm.ID, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr(), "HARD_REBOOT", "ACTIVE")
	wantStatus(t, servers.ConfirmResize(l.ctx, l.compute, vm.ID).ExtractErr(), 409, "vm_state active")
	do("resize", servers.Resize(l.ctx, l.compute, vm.ID, servers.ResizeOpts{FlavorRef: l.flavor("m1.medium")}).ExtractErr(), "RESIZE", "VERIFY_RESIZE")
	do("confirm", servers.ConfirmResize(l.ctx, l.compute, vm.ID).ExtractErr(), "ACTIVE", "ACTIVE")
	do("resize back", servers.Resize(l.ctx, l.compute, vm.ID, servers.ResizeOpts{FlavorRef: l.flavor("m1.small")}).ExtractErr(), "RESIZE", "VERIFY_RESIZE")
	do("revert", servers.RevertResize(l.ctx, l.compute, vm.ID).ExtractErr(), "REVERT_RESIZE", "ACTIVE")
	if got := l.server(vm.ID); got.Flavor["id"] != l.flavor("m1.medium") {
		t.Errorf("flavor after a reverted resize: %v", got.Flavor)
	}
	_, err := servers.Rebuild(l.ctx, l.compute, vm.ID, servers.RebuildOpts{ImageRef: l.imageID("lab-tiny"), Name: "again"}).Extract()
	do("rebuild", err, "REBUILD", "ACTIVE")
	if got := l.server(vm.ID); got.Name != "again" {
		t.Errorf("name after rebuild: %s", got.Name)
	}
	meta := must[map[string]string](t, "metadata")(servers.UpdateMetadata(l.ctx, l.compute, vm.ID, servers.MetadataOpts{"a": "1"}).Extract())
	if meta["a"] != "1" {
		t.Errorf("metadata: %v", meta)
	}
	must[*servers.Server](t, "rename")(servers.Update(l.ctx, l.compute, vm.ID, servers.UpdateOpts{Name: "renamed"}).Extract())
	if got := l.server(vm.ID); got.Name != "renamed" || got.Metadata["a"] != "1" {
		t.Errorf("after updates: %s %v", got.Name, got.Metadata)
	}
}

func TestConsoleLog(t *testing.T) {
	l := newLab(t, func(cfg *openstack.Config) {
		cfg.ConsoleLog = func(id string) string {
			return "boot\n-----BEGIN SSH HOST KEY KEYS-----\nssh-ed25519 AAAA " + id + "\n-----END SSH HOST KEY KEYS-----\nlogin: "
		}
	})
	n, _ := l.newNetwork("n", "10.77.0.0/24")
	vm := must[*servers.Server](t, "create")(l.create(servers.CreateOpts{Name: "vm", Networks: []servers.Network{{UUID: n.ID}}}, nil))
	_, err := servers.ShowConsoleOutput(l.ctx, l.compute, vm.ID, servers.ShowConsoleOutputOpts{}).Extract()
	wantStatus(t, err, 409, "is not ready")
	l.clock.Advance(time.Second)
	all := must[string](t, "console")(servers.ShowConsoleOutput(l.ctx, l.compute, vm.ID, servers.ShowConsoleOutputOpts{}).Extract())
	if !strings.Contains(all, "ssh-ed25519 AAAA "+vm.ID+"\n") {
		t.Errorf("console: %q", all)
	}
	log := l.cloud.Requests(0)
	if q := log[len(log)-1]; q.Action != "os-getConsoleOutput" || q.Write() {
		t.Errorf("the log takes reading a console for a write: %+v", q)
	}
	if last := must[string](t, "last lines")(servers.ShowConsoleOutput(l.ctx, l.compute, vm.ID, servers.ShowConsoleOutputOpts{Length: 2}).Extract()); last != "-----END SSH HOST KEY KEYS-----\nlogin: " {
		t.Errorf("last lines: %q", last)
	}
}

func TestServerFilters(t *testing.T) {
	l := newLab(t, nil)
	n, _ := l.newNetwork("n", "10.77.0.0/24")
	for _, name := range []string{"gw", "gw-2", "seed"} {
		l.boot(servers.CreateOpts{Name: name, Networks: []servers.Network{{UUID: n.ID}}}, nil)
	}
	l.boot(servers.CreateOpts{Name: "bad", Networks: []servers.Network{{UUID: n.ID}}, Metadata: map[string]string{"lab_fail": "spawn"}}, nil)
	for _, c := range []struct {
		opts servers.ListOpts
		want string
	}{{servers.ListOpts{}, "bad seed gw-2 gw"}, {servers.ListOpts{Name: "gw"}, "gw-2 gw"}, {servers.ListOpts{Name: "^gw$"}, "gw"}, {servers.ListOpts{Status: "ERROR"}, "bad"},
		{servers.ListOpts{IP: "10.77.0.3$"}, "gw-2"}, {servers.ListOpts{Flavor: "none"}, ""}} {
		pages, err := servers.List(l.compute, c.opts).AllPages(l.ctx)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range must[[]servers.Server](t, "list")(servers.ExtractServers(pages)) {
			names = append(names, s.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%+v: %q, want %q", c.opts, got, c.want)
		}
	}
	_, err := servers.List(l.compute, servers.ListOpts{AllTenants: true}).AllPages(l.ctx)
	wantStatus(t, err, 403, "Policy doesn't allow")
	_, err = servers.List(l.compute, servers.ListOpts{Marker: "nope"}).AllPages(l.ctx)
	wantStatus(t, err, 400, "marker [nope] not found")
}
