package openstack_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/availabilityzones"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

func TestKeypairs(t *testing.T) {
	l := newLab(t, func(cfg *openstack.Config) { cfg.Quota = map[string]int{"key_pairs": 2} })
	k := must[*keypairs.KeyPair](t, "import")(keypairs.Create(l.ctx, l.compute, keypairs.CreateOpts{Name: "k", PublicKey: labKey}).Extract())
	if k.PublicKey != labKey || k.PrivateKey != "" || len(k.Fingerprint) != 47 {
		t.Errorf("imported: %+v", k)
	}
	_, err := keypairs.Create(l.ctx, l.compute, keypairs.CreateOpts{Name: "k", PublicKey: labKey}).Extract()
	wantStatus(t, err, 409, "Key pair 'k' already exists.")
	_, err = keypairs.Create(l.ctx, l.compute, keypairs.CreateOpts{Name: "x", PublicKey: "nonsense"}).Extract()
	wantStatus(t, err, 400, "Keypair data is invalid")
	_, err = keypairs.Create(l.ctx, at(l.compute, "2.92"), keypairs.CreateOpts{Name: "x", Type: "ssh"}).Extract()
	wantStatus(t, err, 400, "'public_key' is a required property")
	g := must[*keypairs.KeyPair](t, "generate")(keypairs.Create(l.ctx, at(l.compute, "2.2"), keypairs.CreateOpts{Name: "g", Type: "ssh"}).Extract())
	signer, err := ssh.ParsePrivateKey([]byte(g.PrivateKey))
	if err != nil || !strings.HasPrefix(g.PublicKey, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))) {
		t.Errorf("generated key: %v, %s", err, g.PublicKey)
	}
	_, err = keypairs.Create(l.ctx, l.compute, keypairs.CreateOpts{Name: "third", PublicKey: labKey}).Extract()
	wantStatus(t, err, 403, "Quota exceeded, too many key pairs.")
	var page struct {
		Keypairs []struct{ Keypair keypairs.KeyPair }
		Links    []struct{ Href string } `json:"keypairs_links"`
	}
	if _, err := at(l.compute, "2.35").Get(l.ctx, l.compute.ServiceURL("os-keypairs")+"?limit=1", &page, nil); err != nil {
		t.Fatal(err)
	}
	if len(page.Keypairs) != 1 || page.Keypairs[0].Keypair.Name != "g" || len(page.Links) != 1 || !strings.Contains(page.Links[0].Href, "marker=g") {
		t.Errorf("first page: %+v", page)
	}
	if err := keypairs.Delete(l.ctx, l.compute, "k", nil).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	_, err = keypairs.Get(l.ctx, l.compute, "k", nil).Extract()
	wantStatus(t, err, 404, "Keypair k not found for user")
}

func TestServerGroups(t *testing.T) {
	l := newLab(t, nil)
	n, _ := l.newNetwork("n", "10.77.0.0/24")
	g := must[*servergroups.ServerGroup](t, "group")(servergroups.Create(l.ctx, at(l.compute, "2.64"), servergroups.CreateOpts{Name: "g", Policy: "anti-affinity"}).Extract())
	var got []string
	var s *servers.Server
	for i := range 3 {
		s = l.boot(servers.CreateOpts{Name: fmt.Sprint("vm", i), Networks: []servers.Network{{UUID: n.ID}}}, servers.SchedulerHintOpts{Group: g.ID})
		got = append(got, string(s.Status))
	}
	if strings.Join(got, " ") != "ACTIVE ACTIVE ERROR" || s.Fault.Message != "No valid host was found. There are not enough hosts available." {
		t.Errorf("three servers on two hosts: %v, %+v", got, s.Fault)
	}
	if g = must[*servergroups.ServerGroup](t, "get")(servergroups.Get(l.ctx, l.compute, g.ID).Extract()); len(g.Members) != 3 || g.Policies[0] != "anti-affinity" {
		t.Errorf("group: %+v", g)
	}
	_, err := l.create(servers.CreateOpts{Name: "x", Networks: []servers.Network{{UUID: n.ID}}}, servers.SchedulerHintOpts{Group: "00000000-0000-4000-8000-000000000000"})
	wantStatus(t, err, 400, "Instance group 00000000-0000-4000-8000-000000000000 could not be found.")
}

func TestFlavorsLimitsZones(t *testing.T) {
	l := newLab(t, nil)
	d := 1
	_, err := flavors.Create(l.ctx, l.compute, flavors.CreateOpts{Name: "f", RAM: 128, VCPUs: 1, Disk: &d}).Extract()
	wantStatus(t, err, 403, "Policy doesn't allow os_compute_api:os-flavor-manage:create to be performed.")
	f := must[*flavors.Flavor](t, "create")(flavors.Create(l.ctx, l.computeAdmin, flavors.CreateOpts{Name: "f", RAM: 128, VCPUs: 1, Disk: &d}).Extract())
	_, err = flavors.Create(l.ctx, l.computeAdmin, flavors.CreateOpts{Name: "f", RAM: 128, VCPUs: 1, Disk: &d}).Extract()
	wantStatus(t, err, 409, "Flavor with name f already exists.")
	must[map[string]string](t, "specs")(flavors.CreateExtraSpecs(l.ctx, l.computeAdmin, f.ID, flavors.ExtraSpecsOpts{"hw:cpu_policy": "shared"}).Extract())
	if specs := must[map[string]string](t, "specs")(flavors.ListExtraSpecs(l.ctx, l.compute, f.ID).Extract()); specs["hw:cpu_policy"] != "shared" {
		t.Errorf("specs: %v", specs)
	}
	pages, err := flavors.ListDetail(l.compute, flavors.ListOpts{Limit: 2, MinRAM: 128}).AllPages(l.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if all := must[[]flavors.Flavor](t, "list")(flavors.ExtractFlavors(pages)); len(all) != 5 {
		t.Errorf("%d flavors with 128 MiB and more", len(all))
	}
	if err := flavors.Delete(l.ctx, l.computeAdmin, f.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	_, err = flavors.Get(l.ctx, l.compute, f.ID).Extract()
	wantStatus(t, err, 404, "Flavor "+f.ID+" could not be found.")
	n, _ := l.newNetwork("n", "10.77.0.0/24")
	l.boot(servers.CreateOpts{Name: "vm", FlavorRef: l.flavor("m1.medium"), Networks: []servers.Network{{UUID: n.ID}}}, nil)
	lim := must[*limits.Limits](t, "limits")(limits.Get(l.ctx, l.compute, nil).Extract())
	if a := lim.Absolute; a.TotalInstancesUsed != 1 || a.TotalCoresUsed != 2 || a.TotalRAMUsed != 2048 || a.MaxTotalInstances != 10 {
		t.Errorf("limits: %+v", a)
	}
	pages, err = availabilityzones.List(l.compute).AllPages(l.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if z := must[[]availabilityzones.AvailabilityZone](t, "zones")(availabilityzones.ExtractAvailabilityZones(pages)); len(z) != 2 || !z[0].ZoneState.Available {
		t.Errorf("zones: %+v", z)
	}
}
