package openstack_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/hypervisors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/remoteconsoles"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/portsbinding"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

// TestSuite walks the life of a small site in the order in which it was walked on a real OpenStack (Zed) by the
// same client library, and expects what that cloud answered.
func TestSuite(t *testing.T) {
	l := newLab(t, nil)
	data := bytes.Repeat([]byte("tiny image "), 20000)
	im := l.newImage("site")
	if err := imagedata.Upload(l.ctx, l.image, im.ID, bytes.NewReader(data)).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	body := must[io.ReadCloser](t, "download")(imagedata.Download(l.ctx, l.image, im.ID).Extract())
	got, err := io.ReadAll(body)
	body.Close()
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("downloaded %d bytes, %v", len(got), err)
	}
	must[*images.Image](t, "patch")(images.Update(l.ctx, l.image, im.ID, images.UpdateOpts{images.UpdateImageProperty{Op: images.AddOp, Name: "k1", Value: "v1"}}).Extract())

	nw, sn := l.newNetwork("site", "10.77.0.0/24")
	ext := l.external()
	rt := l.newRouter("site", true, sn.ID)
	if rt.Status != "ACTIVE" || len(rt.GatewayInfo.ExternalFixedIPs) != 1 {
		t.Errorf("router: %+v", rt)
	}
	sg := must[*groups.SecGroup](t, "group")(groups.Create(l.ctx, l.network, groups.CreateOpts{Name: "site"}).Extract())
	within := rules.CreateOpts{SecGroupID: sg.ID, Direction: rules.DirIngress, EtherType: rules.EtherType4, RemoteGroupID: sg.ID}
	must[*rules.SecGroupRule](t, "rule")(rules.Create(l.ctx, l.network, within).Extract())
	_, err = rules.Create(l.ctx, l.network, within).Extract()
	wantStatus(t, err, 409, "SecurityGroupRuleExists")
	port := l.newPort(ports.CreateOpts{NetworkID: nw.ID, Name: "site", SecurityGroups: &[]string{sg.ID}, FixedIPs: []ports.IP{{SubnetID: sn.ID, IPAddress: "10.77.0.50"}},
		AllowedAddressPairs: []ports.AddressPair{{IPAddress: "10.77.0.100"}}})
	fip := must[*floatingips.FloatingIP](t, "floating ip")(floatingips.Create(l.ctx, l.network, floatingips.CreateOpts{FloatingNetworkID: ext}).Extract())

	must[*keypairs.KeyPair](t, "key")(keypairs.Create(l.ctx, l.compute, keypairs.CreateOpts{Name: "site", PublicKey: labKey}).Extract())
	group := must[*servergroups.ServerGroup](t, "server group")(servergroups.Create(l.ctx, at(l.compute, "2.64"), servergroups.CreateOpts{Name: "site", Policy: "anti-affinity"}).Extract())
	userData := []byte("#cloud-config\nhostname: lab\n")
	vm := must[*servers.Server](t, "server")(servers.Create(l.ctx, l.compute, keypairs.CreateOptsExt{KeyName: "site", CreateOptsBuilder: servers.CreateOpts{Name: "vm", ImageRef: im.ID, FlavorRef: l.flavor("m1.small"),
		UserData: userData, Networks: []servers.Network{{Port: port.ID}}, Metadata: map[string]string{"role": "lab"}, AvailabilityZone: "az1"}}, servers.SchedulerHintOpts{Group: group.ID}).Extract())
	l.clock.Advance(time.Second)
	if vm = l.server(vm.ID); vm.Status != "ACTIVE" || vm.AvailabilityZone != "az1" || vm.KeyName != "site" || vm.SecurityGroups[0]["name"] != "site" {
		t.Fatalf("server: %+v", vm)
	}
	var bound struct {
		ports.Port
		portsbinding.PortsBindingExt
	}
	if err := ports.Get(l.ctx, l.networkAdmin, port.ID).ExtractInto(&bound); err != nil {
		t.Fatal(err)
	}
	if bound.Status != "ACTIVE" || bound.HostID != "fake1" || bound.VIFType != "ovs" || bound.DeviceID != vm.ID {
		t.Errorf("port after boot: %+v", bound)
	}
	var asAdmin map[string]map[string]any
	if _, err := at(l.computeAdmin, "2.90").Get(l.ctx, l.compute.ServiceURL("servers", vm.ID), &asAdmin, nil); err != nil {
		t.Fatal(err)
	}
	sent, _ := asAdmin["server"]["OS-EXT-SRV-ATTR:user_data"].(string)
	if decoded, err := base64.StdEncoding.DecodeString(sent); err != nil || !bytes.Equal(decoded, userData) {
		t.Errorf("user data: %q, %v", decoded, err)
	}
	must[*floatingips.FloatingIP](t, "attach")(floatingips.Update(l.ctx, l.network, fip.ID, floatingips.UpdateOpts{PortID: &port.ID}).Extract())
	if s := fmt.Sprint(l.server(vm.ID).Addresses); !strings.Contains(s, fip.FloatingIP) || !strings.Contains(s, "10.77.0.50") {
		t.Errorf("addresses: %s", s)
	}
	if out := must[string](t, "console")(servers.ShowConsoleOutput(l.ctx, l.compute, vm.ID, servers.ShowConsoleOutputOpts{Length: 50}).Extract()); !strings.Contains(out, "cloud-init: user-data 28 bytes") {
		t.Errorf("console: %q", out)
	}
	if rc := must[*remoteconsoles.RemoteConsole](t, "remote console")(remoteconsoles.Create(l.ctx, at(l.compute, "2.6"), vm.ID, remoteconsoles.CreateOpts{Protocol: "vnc", Type: "novnc"}).Extract()); !strings.HasPrefix(rc.URL, "http://") {
		t.Errorf("remote console: %+v", rc)
	}
	l.hypervisorsOf()

	if err := servers.Delete(l.ctx, l.compute, vm.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	l.clock.Advance(time.Second)
	_, err = servers.Get(l.ctx, l.compute, vm.ID).Extract()
	wantStatus(t, err, 404, "")
	for _, d := range []struct {
		name string
		err  error
	}{
		{"floating ip", floatingips.Delete(l.ctx, l.network, fip.ID).ExtractErr()},
		{"port", ports.Delete(l.ctx, l.network, port.ID).ExtractErr()},
		{"interface", routers.RemoveInterface(l.ctx, l.network, rt.ID, routers.RemoveInterfaceOpts{SubnetID: sn.ID}).Err},
		{"router", routers.Delete(l.ctx, l.network, rt.ID).ExtractErr()},
		{"network", networks.Delete(l.ctx, l.network, nw.ID).ExtractErr()},
		{"group", groups.Delete(l.ctx, l.network, sg.ID).ExtractErr()},
		{"key", keypairs.Delete(l.ctx, l.compute, "site", nil).ExtractErr()},
		{"server group", servergroups.Delete(l.ctx, l.compute, group.ID).ExtractErr()},
		{"image", images.Delete(l.ctx, l.image, im.ID).ExtractErr()},
	} {
		if d.err != nil {
			t.Errorf("deleting the %s: %v", d.name, d.err)
		}
	}
	l.wantEmpty()
}

// wantEmpty checks that nothing of the project is left but its default security group.
func (l *lab) wantEmpty() {
	l.t.Helper()
	state := l.cloud.State(false)
	for kind, want := range map[string]int{"server": 0, "keypair": 0, "server_group": 0, "network": 1, "subnet": 1, "port": 0, "router": 0, "floatingip": 0, "image": 1} {
		if got := len(state[kind]); got != want {
			l.t.Errorf("left over: %d of kind %s, want %d: %v", got, kind, want, state[kind])
		}
	}
}

// hypervisorsOf looks at the hypervisors at microversions that differ.
func (l *lab) hypervisorsOf() {
	l.t.Helper()
	st := must[*hypervisors.Statistics](l.t, "statistics")(hypervisors.GetStatistics(l.ctx, l.computeAdmin).Extract())
	if st.Count != 2 || st.RunningVMs != 1 || st.VCPUs != 2000 {
		l.t.Errorf("statistics: %+v", st)
	}
	for version, c := range map[string]struct {
		idLength, vcpus int
	}{"": {1, 1000}, "2.53": {36, 1000}, "2.88": {36, 0}} {
		pages, err := hypervisors.List(at(l.computeAdmin, version), nil).AllPages(l.ctx)
		if err != nil {
			l.t.Fatal(err)
		}
		all := must[[]hypervisors.Hypervisor](l.t, "hypervisors")(hypervisors.ExtractHypervisors(pages))
		if len(all) != 2 || len(all[0].ID) != c.idLength || all[0].VCPUs != c.vcpus {
			l.t.Errorf("hypervisors at %q: %+v", version, all)
		}
	}
	_, err := hypervisors.GetStatistics(l.ctx, l.compute).Extract()
	wantStatus(l.t, err, 403, "Policy doesn't allow")
}

func TestBackoffOfTheClient(t *testing.T) {
	l := newLab(t, nil)
	l.inject(openstack.Fault{Service: "network", Method: "GET", Path: "/v2.0/networks", Status: 429, Count: 2, RetryAfter: "1"})
	n := 0
	l.demo.RetryBackoffFunc = func(_ context.Context, e *gophercloud.ErrUnexpectedResponseCode, _ error, _ uint) error {
		if n++; e.ResponseHeader.Get("Retry-After") != "1" {
			return fmt.Errorf("no Retry-After: %v", e.ResponseHeader)
		}
		return nil
	}
	if names := l.networkNames(); n != 2 || len(names) != 1 {
		t.Errorf("%d backoffs, networks %v", n, names)
	}
}
