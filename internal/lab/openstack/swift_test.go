package openstack_test

import (
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	gopenstack "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/objectstorage/v1/containers"
	"github.com/gophercloud/gophercloud/v2/openstack/objectstorage/v1/objects"
)

func TestContainersAndObjects(t *testing.T) {
	l := newLab(t, nil)
	store := must[*gophercloud.ServiceClient](t, "object-store")(gopenstack.NewObjectStorageV1(l.demo, gophercloud.EndpointOpts{Region: "RegionOne"}))
	for _, name := range []string{"b", "a"} {
		if err := containers.Create(l.ctx, store, name, containers.CreateOpts{Metadata: map[string]string{"purpose": name, "quota-count": "2"}}).Err; err != nil {
			t.Fatal(err)
		}
	}
	pages := must[interface{ IsEmpty() (bool, error) }](t, "list")(containers.List(store, containers.ListOpts{Limit: 1}).AllPages(l.ctx))
	if names, err := containers.ExtractNames(pages.(containers.ContainerPage)); err != nil || strings.Join(names, " ") != "a b" {
		t.Fatalf("containers %v, %v", names, err)
	}
	put := func(name, text string) error {
		return objects.Create(l.ctx, store, "a", name, objects.CreateOpts{Content: strings.NewReader(text), ContentType: "text/plain"}).Err
	}
	if err := put("dir/one", "first"); err != nil {
		t.Fatal(err)
	}
	got := objects.Download(l.ctx, store, "a", "dir/one", nil)
	if text, err := got.ExtractContent(); err != nil || string(text) != "first" || got.Header.Get("Etag") != "8b04d5e3775d298e78455efc5ca404d5" {
		t.Fatalf("%q, %v, %v", text, got.Header, err)
	}
	_, err := containers.Delete(l.ctx, store, "a").Extract()
	wantStatus(t, err, 409, "<h1>Conflict</h1>")
	if err := put("two", "second"); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, put("three", "third"), 413, "Upload exceeds quota.")
	head := must[*containers.GetHeader](t, "head")(containers.Get(l.ctx, store, "a", nil).Extract())
	if head.ObjectCount != 2 || head.BytesUsed != 11 {
		t.Fatalf("%+v", head)
	}
	for _, name := range []string{"dir/one", "two"} {
		if err := objects.Delete(l.ctx, store, "a", name, nil).Err; err != nil {
			t.Fatal(err)
		}
	}
	if err := containers.Delete(l.ctx, store, "a").Err; err != nil {
		t.Fatal(err)
	}
	_, err = containers.Get(l.ctx, store, "a", nil).Extract()
	wantStatus(t, err, 404, "")
}
