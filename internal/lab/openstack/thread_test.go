package openstack_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
)

func asCode(err error, e *gophercloud.ErrUnexpectedResponseCode) bool { return errors.As(err, e) }

func (l *lab) newNetwork(name, cidr string) (*networks.Network, *subnets.Subnet) {
	l.t.Helper()
	n := must[*networks.Network](l.t, "network")(networks.Create(l.ctx, l.network, networks.CreateOpts{Name: name}).Extract())
	s := must[*subnets.Subnet](l.t, "subnet")(subnets.Create(l.ctx, l.network, subnets.CreateOpts{NetworkID: n.ID, CIDR: cidr, IPVersion: 4, Name: name}).Extract())
	return n, s
}

func (l *lab) flavor(name string) string {
	l.t.Helper()
	pages, err := flavors.ListDetail(l.compute, nil).AllPages(l.ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, f := range must[[]flavors.Flavor](l.t, "flavors")(flavors.ExtractFlavors(pages)) {
		if f.Name == name {
			return f.ID
		}
	}
	l.t.Fatalf("no flavor %s", name)
	return ""
}

func (l *lab) imageID(name string) string {
	l.t.Helper()
	pages, err := images.List(l.image, images.ListOpts{Name: name}).AllPages(l.ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	found := must[[]images.Image](l.t, "images")(images.ExtractImages(pages))
	if len(found) != 1 {
		l.t.Fatalf("%d images named %s", len(found), name)
	}
	return found[0].ID
}

func TestServerBoots(t *testing.T) {
	l := newLab(t, nil)
	n, _ := l.newNetwork("mgmt", "10.20.0.0/24")
	s := must[*servers.Server](t, "create")(servers.Create(l.ctx, l.compute, servers.CreateOpts{Name: "gw", FlavorRef: l.flavor("m1.small"), ImageRef: l.imageID("lab-tiny"),
		Networks: []servers.Network{{UUID: n.ID}}, UserData: []byte("#cloud-config\n"), Metadata: map[string]string{"role": "gateway"}}, nil).Extract())
	get := func() *servers.Server {
		return must[*servers.Server](t, "get")(servers.Get(l.ctx, l.compute, s.ID).Extract())
	}
	if got := get(); got.Status != "BUILD" || len(got.Addresses) != 0 {
		t.Fatalf("just created: %s %v", got.Status, got.Addresses)
	}
	l.clock.Advance(299 * time.Millisecond)
	if got := get(); got.Status != "BUILD" || len(got.Addresses) != 1 {
		t.Fatalf("before the boot delay is over: %s %v", got.Status, got.Addresses)
	}
	l.clock.Advance(time.Millisecond)
	if got := get(); got.Status != "ACTIVE" || got.Metadata["role"] != "gateway" {
		t.Fatalf("after the boot delay: %+v", got)
	}
	if err := servers.Delete(l.ctx, l.compute, s.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	if got := get(); got.Status != "ACTIVE" || got.TaskState != "deleting" {
		t.Fatalf("while it is deleted: %s %s", got.Status, got.TaskState)
	}
	l.clock.Advance(time.Second)
	_, err := servers.Get(l.ctx, l.compute, s.ID).Extract()
	wantStatus(t, err, 404, `{"itemNotFound":{"code":404,"message":"Instance `+s.ID+` could not be found."}}`)
}
