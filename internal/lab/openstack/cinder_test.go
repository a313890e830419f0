package openstack_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/snapshots"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/volumeattach"

	gopenstack "github.com/gophercloud/gophercloud/v2/openstack"

	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

// cinder is a client of the simulated Cinder.
func (l *lab) cinder(p *gophercloud.ProviderClient) *gophercloud.ServiceClient {
	l.t.Helper()
	return must[*gophercloud.ServiceClient](l.t, "block storage")(gopenstack.NewBlockStorageV3(p, gophercloud.EndpointOpts{Region: "RegionOne"}))
}

func (l *lab) newVolume(c *gophercloud.ServiceClient, o volumes.CreateOpts) *volumes.Volume {
	l.t.Helper()
	v := must[*volumes.Volume](l.t, "volume")(volumes.Create(l.ctx, c, o, nil).Extract())
	if v.Status != "creating" {
		l.t.Errorf("a new volume is %s", v.Status)
	}
	l.clock.Advance(time.Second)
	return l.volume(c, v.ID)
}

func (l *lab) volume(c *gophercloud.ServiceClient, id string) *volumes.Volume {
	l.t.Helper()
	return must[*volumes.Volume](l.t, "volume")(volumes.Get(l.ctx, c, id).Extract())
}

// TestVolumeLife walks a volume's life in the order in which it was walked on a real Cinder (Zed).
func TestVolumeLife(t *testing.T) {
	l := newLab(t, nil)
	c := l.cinder(l.demo)
	v := l.newVolume(c, volumes.CreateOpts{Size: 1, Name: " data ", Description: "gsrun:lab/data", Metadata: map[string]string{"k": "v"}})
	if v.Status != "available" || v.Name != "data" || v.VolumeType != "fake" || v.AvailabilityZone != "nova" || v.Bootable != "false" {
		t.Errorf("new: %+v", v)
	}
	if err := volumes.ExtendSize(l.ctx, c, v.ID, volumes.ExtendSizeOpts{NewSize: 3}).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	if v = l.volume(c, v.ID); v.Status != "extending" || v.Size != 1 {
		t.Errorf("being extended: %s, %d GiB", v.Status, v.Size)
	}
	l.clock.Advance(time.Second)
	if v = l.volume(c, v.ID); v.Status != "available" || v.Size != 3 {
		t.Errorf("extended: %s, %d GiB", v.Status, v.Size)
	}
	vm := l.boot(servers.CreateOpts{Name: "vm"}, nil)
	a := must[*volumeattach.VolumeAttachment](t, "attach")(volumeattach.Create(l.ctx, l.compute, vm.ID, volumeattach.CreateOpts{VolumeID: v.ID}).Extract())
	if a.Device != "/dev/sdb" {
		t.Errorf("attached as %s", a.Device)
	}
	if v = l.volume(c, v.ID); v.Status != "reserved" || len(v.Attachments) != 0 {
		t.Errorf("being attached: %+v", v)
	}
	l.clock.Advance(time.Second)
	if v = l.volume(c, v.ID); v.Status != "in-use" || len(v.Attachments) != 1 || v.Attachments[0].ServerID != vm.ID {
		t.Errorf("attached: %+v", v)
	}
	if got := l.server(vm.ID).AttachedVolumes; len(got) != 1 || got[0].ID != v.ID {
		t.Errorf("the server has %+v", got)
	}
	wantStatus(t, volumes.Delete(l.ctx, c, v.ID, nil).ExtractErr(), 400, "Volume status must be available or error")
	wantStatus(t, volumes.ExtendSize(l.ctx, c, v.ID, volumes.ExtendSizeOpts{NewSize: 4}).ExtractErr(), 400, "status must be '{'status': 'available'}' to extend, currently in-use")
	if err := volumes.ExtendSize(l.ctx, at(c, "3.42"), v.ID, volumes.ExtendSizeOpts{NewSize: 4}).ExtractErr(); err != nil {
		t.Error(err)
	}
	l.clock.Advance(time.Second)
	if err := volumeattach.Delete(l.ctx, l.compute, vm.ID, v.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	if v = l.volume(c, v.ID); v.Status != "detaching" || v.Size != 4 {
		t.Errorf("being detached: %s, %d GiB", v.Status, v.Size)
	}
	l.clock.Advance(time.Second)
	s := must[*snapshots.Snapshot](t, "snapshot")(snapshots.Create(l.ctx, c, snapshots.CreateOpts{VolumeID: v.ID, Name: "s"}).Extract())
	l.clock.Advance(time.Second)
	copied := l.newVolume(c, volumes.CreateOpts{SnapshotID: s.ID})
	if copied.Size != 4 || copied.Status != "available" || copied.SnapshotID != s.ID {
		t.Errorf("made from a snapshot: %+v", copied)
	}
	wantStatus(t, volumes.Delete(l.ctx, c, v.ID, nil).ExtractErr(), 400, "have snapshots")
	for _, id := range []string{v.ID, copied.ID} {
		if err := volumes.Delete(l.ctx, c, id, volumes.DeleteOpts{Cascade: true}).ExtractErr(); err != nil {
			t.Error(err)
		}
	}
	l.clock.Advance(time.Second)
	if left := l.cloud.State(false); len(left["volume"])+len(left["volume_snapshot"])+len(left["volume_attachment"]) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestVolumesOfADeletedServer keeps volumes but for those that go with their server.
func TestVolumesOfADeletedServer(t *testing.T) {
	l := newLab(t, nil)
	c := l.cinder(l.demo)
	vm := l.boot(servers.CreateOpts{Name: "vm"}, nil)
	kept, gone := l.newVolume(c, volumes.CreateOpts{Size: 1, Name: "kept"}), l.newVolume(c, volumes.CreateOpts{Size: 1, Name: "gone"})
	must[*volumeattach.VolumeAttachment](t, "attach")(volumeattach.Create(l.ctx, l.compute, vm.ID, volumeattach.CreateOpts{VolumeID: kept.ID}).Extract())
	must[*volumeattach.VolumeAttachment](t, "attach")(volumeattach.Create(l.ctx, at(l.compute, "2.79"), vm.ID, volumeattach.CreateOpts{VolumeID: gone.ID, DeleteOnTermination: true}).Extract())
	l.clock.Advance(time.Second)
	if err := servers.Delete(l.ctx, l.compute, vm.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	l.clock.Advance(time.Second)
	if got := l.volume(c, kept.ID); got.Status != "available" || len(got.Attachments) != 0 {
		t.Errorf("kept: %+v", got)
	}
	_, err := volumes.Get(l.ctx, c, gone.ID).Extract()
	wantStatus(t, err, 404, "could not be found")
}

// TestVolumeThatFails says why in a message, and may be deleted.
func TestVolumeThatFails(t *testing.T) {
	l := newLab(t, nil)
	c := l.cinder(l.demo)
	v := l.newVolume(c, volumes.CreateOpts{Size: 1, Metadata: map[string]string{"lab_fail": "create"}})
	l.inject(openstack.Fault{Service: "volume", Method: "POST", Outcome: "error"})
	w := l.newVolume(c, volumes.CreateOpts{Size: 1})
	if v.Status != "error" || w.Status != "error" {
		t.Errorf("they are %s and %s", v.Status, w.Status)
	}
	l.run([]call{{l.demo, "GET /volume/v3/messages?resource_uuid=" + v.ID + " 3.5", "", 200, "Driver failed to create the volume. | " + v.ID}})
	if err := volumes.Delete(l.ctx, c, v.ID, nil).ExtractErr(); err != nil {
		t.Error(err)
	}
}

func TestMultiattach(t *testing.T) {
	l := newLab(t, func(cfg *openstack.Config) {
		cfg.VolumeTypes = []openstack.VolumeType{{Name: "plain"}, {Name: "many", ExtraSpecs: map[string]string{"multiattach": "<is> True"}}}
	})
	c := l.cinder(l.demo)
	v := l.newVolume(c, volumes.CreateOpts{Size: 1, VolumeType: "many"})
	for _, name := range []string{"a", "b"} {
		vm := l.boot(servers.CreateOpts{Name: name}, nil)
		must[*volumeattach.VolumeAttachment](t, "attach")(volumeattach.Create(l.ctx, at(l.compute, "2.60"), vm.ID, volumeattach.CreateOpts{VolumeID: v.ID}).Extract())
		l.clock.Advance(time.Second)
	}
	if v = l.volume(c, v.ID); !v.Multiattach || len(v.Attachments) != 2 {
		t.Errorf("%+v", v)
	}
}

// TestVolumePages lists more volumes than a page holds.
func TestVolumePages(t *testing.T) {
	l := newLab(t, func(cfg *openstack.Config) { cfg.Quota = map[string]int{"volumes": -1, "gigabytes": -1} })
	c := l.cinder(l.demo)
	const all = 1100
	for range all {
		must[*volumes.Volume](t, "volume")(volumes.Create(l.ctx, c, volumes.CreateOpts{Size: 1}, nil).Extract())
	}
	pages, err := volumes.List(c, volumes.ListOpts{}).AllPages(l.ctx)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, v := range must[[]volumes.Volume](t, "list")(volumes.ExtractVolumes(pages)) {
		seen[v.ID] = true
	}
	asked := slices.DeleteFunc(l.cloud.Requests(0), func(r openstack.Request) bool { return !strings.Contains(r.Path, "/volumes/detail") })
	if len(seen) != all || len(asked) < 2 {
		t.Errorf("%d volumes by %d requests", len(seen), len(asked))
	}
}

// TestVolumeCalls sends what a real Cinder (Zed) was sent, and expects its answers.
func TestVolumeCalls(t *testing.T) {
	l := newLab(t, func(cfg *openstack.Config) { cfg.Quota = map[string]int{"volumes": 4, "gigabytes": 20} })
	c := l.cinder(l.demo)
	v := l.newVolume(c, volumes.CreateOpts{Size: 2, Name: "v", Metadata: map[string]string{"a": "1"}})
	l.newVolume(c, volumes.CreateOpts{Size: 1, Name: "w"})
	s := must[*snapshots.Snapshot](t, "snapshot")(snapshots.Create(l.ctx, c, snapshots.CreateOpts{VolumeID: v.ID, Name: "s"}).Extract())
	l.clock.Advance(time.Second)
	d, nobody := l.demo, "00000000-0000-0000-0000-000000000001"
	base := "/volume/v3/" + v.TenantID
	one, act := base+"/volumes/"+v.ID, "POST "+base+"/volumes/"+v.ID+"/action"
	create := func(fields string, status int, piece string) call {
		return call{d, "POST " + base + "/volumes", `{"volume":{` + fields + `}}`, status, piece}
	}
	l.run([]call{
		{nil, "GET /volume/", "", 300, `"version":"3.70" | "min_version":"3.0"`},
		{nil, "GET /volume/v3", "", 200, `"id":"v3.0"`},
		{nil, "GET " + base + "/volumes", "", 401, "requires authentication"},
		{d, "GET /volume/v3/ffff/volumes", "", 400, "Malformed request url"},
		{d, "GET /volume/v3/volumes/detail", "", 200, v.ID},
		{d, "GET " + base + "/bogus", "", 404, "404 Not Found\n\nThe resource could not be found."},
		{d, "GET " + one + " 3.99", "", 406, `"computeFault" | Version 3.99 is not supported by the API. Minimum is 3.0 and maximum is 3.70.`},
		{d, "GET " + one + " x", "", 400, "API Version String x is of invalid format."},
		{d, "GET " + one + " latest", "", 200, `"volume_type_id" | "consumes_quota":true | "shared_targets":false`},

		create(``, 400, "malformed or otherwise incorrect"),
		create(`"size":0`, 400, "0 is less than the minimum of 1"),
		create(`"size":"1x"`, 400, "'1x' does not match '^[0-9]+$'"),
		create(`"size":1.5`, 400, "1.5 is not of type 'integer', 'string', 'null'"),
		create(`"size":1,"name":"`+strings.Repeat("x", 256)+`"`, 400, "name has 256 characters, more than 255."),
		create(`"size":1,"name":5`, 400, "5 is not of type 'string', 'null'"),
		create(`"size":1,"volume_type":"nope"`, 404, "Volume type with name nope could not be found."),
		create(`"size":1,"snapshot_id":"nope"`, 400, "'nope' is not valid under any of the given schemas"),
		create(`"size":1,"snapshot_id":"`+nobody+`"`, 404, "Snapshot "+nobody+" could not be found."),
		create(`"size":1,"source_volid":"`+nobody+`"`, 404, "Volume "+nobody+" could not be found."),
		create(`"size":1,"source_volid":"`+v.ID+`"`, 400, "Volume size '1'GB cannot be smaller than original volume size  2GB."),
		create(`"size":1,"snapshot_id":"`+s.ID+`"`, 400, "cannot be smaller than the snapshot size 2GB."),
		create(`"size":1,"imageRef":"`+nobody+`"`, 400, "Invalid image identifier or unable to access requested image."),
		create(`"size":1,"availability_zone":"nowhere"`, 400, "Availability zone 'nowhere' is invalid."),
		create(`"size":1,"metadata":{"k":1}`, 400, "1 is not of type 'string'"),
		create(`"size":1,"metadata":{"`+strings.Repeat("k", 256)+`":"v"}`, 400, "does not match any of the regexes: '^[a-zA-Z0-9-_:. /]{1,255}$'"),
		create(`"size":1,"multiattach":true`, 400, "multiattach parameter has been removed."),
		create(`"size":50`, 413, `Requested 50G, quota is 20G and 5G has been consumed. | "retryAfter":"0"`),
		{d, "POST " + base + "/volumes", `{bad`, 400, "Malformed request body"},
		{d, "POST " + base + "/volumes", `{}`, 400, "'volume' is a required property"},
		{d, "POST " + base + "/volumes", `{"volume":5}`, 400, "5 is not of type 'object'"},
		{d, "POST " + base + "/volumes 3.53", `{"volume":{"size":1,"bogus":1}}`, 400, "Additional properties are not allowed ('bogus' was unexpected)"},

		{d, "PUT " + one, `{"volume":{"size":4}}`, 400, "Additional properties are not allowed ('size' was unexpected)"},
		{d, "PUT " + one + " 3.53", `{"volume":{}}`, 400, "{} is not valid under any of the given schemas"},
		{d, "PUT " + base + "/volumes/nope", `{"volume":{"name":"x"}}`, 404, "Volume nope could not be found."},
		{d, "PUT " + one, `{"volume":{"name":" n ","description":"d","metadata":{"b":"2"}}}`, 200, `"name":"n" | "description":"d" | "metadata":{"b":"2"}`},
		{d, "POST " + one + "/metadata", `{"metadata":{"c":"3"}}`, 200, `{"b":"2","c":"3"}`},
		{d, "PUT " + one + "/metadata", `{"metadata":{"z":"9"}}`, 200, `{"metadata":{"z":"9"}}`},
		{d, "GET " + one + "/metadata", ``, 200, `{"metadata":{"z":"9"}}`},
		{d, "PUT " + one + "/metadata/z", `{"meta":{"z":"1"}}`, 200, `{"meta":{"z":"1"}}`},
		{d, "PUT " + one + "/metadata/z", `{"meta":{"y":"1"}}`, 400, "Request body and URI mismatch"},
		{d, "GET " + one + "/metadata/z", ``, 200, `{"meta":{"z":"1"}}`},
		{d, "DELETE " + one + "/metadata/z", ``, 200, ""},
		{d, "DELETE " + one + "/metadata/z", ``, 404, "has no metadata with key z."},

		{d, act, `{"bogus":{}}`, 400, "There is no such action: bogus."},
		{d, act, `{}`, 400, "Malformed request body"},
		{d, act, `{"os-extend":{}}`, 400, "'new_size' is a required property"},
		{d, act, `{"os-extend":{"new_size":2}}`, 400, "New size for extend must be greater than current size. (current: 2, extended: 2)."},
		{d, act, `{"os-extend":{"new_size":90}}`, 413, "Requested 88G, quota is 20G"},
		{d, act, `{"os-set_bootable":{"bootable":"maybe"}}`, 400, "'maybe' is not one of [True, 'True', 'TRUE',"},
		{d, act, `{"os-set_bootable":{"bootable":true}}`, 200, ""},
		{d, act, `{"os-update_readonly_flag":{"readonly":true}}`, 202, ""},
		{d, act, `{"os-retype":{"new_type":"nope"}}`, 404, "Volume type with name nope could not be found."},
		{d, act, `{"os-retype":{"new_type":"fake"}}`, 400, "requested type has to be different"},
		{d, act, `{"os-retype":{"new_type":"__DEFAULT__","migration_policy":"maybe"}}`, 400, "'maybe' is not one of ['on-demand', 'never']"},
		{d, act, `{"os-reset_status":{"status":"error"}}`, 403, "Policy doesn't allow volume_extension:volume_admin_actions:reset_status to be performed."},
		{d, "GET " + one, ``, 200, `"bootable":"true" | "readonly":"True"`},
		{d, act, `{"os-retype":{"new_type":"__DEFAULT__"}}`, 202, ""},
		{d, "GET " + one, ``, 200, `"status":"retyping" | "volume_type":"fake"`},

		{d, "GET " + base + "/volumes?limit=1&sort=name:asc", "", 200, `"volumes_links" | "name":"n" | marker=` + v.ID},
		{d, "GET " + base + "/volumes?limit=1&sort=name:asc&marker=" + v.ID, "", 200, `"name":"w"`},
		{d, "GET " + base + "/volumes?limit=x", "", 400, "limit param must be an integer"},
		{d, "GET " + base + "/volumes?limit=-1", "", 400, "limit param must be positive"},
		{d, "GET " + base + "/volumes?marker=nope", "", 404, "Volume nope could not be found."},
		{d, "GET " + base + "/volumes?sort=bogus", "", 400, "Invalid sort key"},
		{d, "GET " + base + "/volumes?sort=name:up", "", 400, "Unknown sort direction"},
		{d, "GET " + base + "/volumes?status=error", "", 200, `{"volumes":[]}`},
		{d, "GET " + base + "/volumes?metadata=%7B'z':'9'%7D", "", 200, `{"volumes":[]}`},
		{d, "GET " + base + "/volumes?description=none", "", 200, v.ID},
		{d, "GET " + base + "/volumes?description=none 3.31", "", 400, "Invalid filters description are found in query options."},
		{d, "GET " + base + "/volumes?with_count=1&limit=1 3.45", "", 200, `"count":2`},
		{d, "GET " + base + "/volumes/summary 3.12", "", 200, `"total_count":2`},
		{l.admin, "GET /volume/v3/volumes", "", 200, `{"volumes":[]}`},
		{l.admin, "GET /volume/v3/volumes?all_tenants=1", "", 200, v.ID},

		{d, "GET " + base + "/snapshots/detail", "", 200, `"os-extended-snapshot-attributes:progress":"100%" | ` + v.ID},
		{d, "PUT " + base + "/snapshots/" + s.ID, `{"snapshot":{}}`, 400, "{} is not valid under any of the given schemas"},
		{d, "PUT " + base + "/snapshots/" + s.ID, `{"snapshot":{"name":"t"}}`, 200, `"name":"t"`},
		{d, "POST " + base + "/snapshots/" + s.ID + "/metadata", `{"metadata":{"x":"y"}}`, 200, `{"metadata":{"x":"y"}}`},
		{d, "POST " + base + "/snapshots", `{"snapshot":{}}`, 400, "'volume_id' is a required property"},
		{d, "GET " + base + "/snapshots/nope", "", 404, "Snapshot nope could not be found."},
		{d, "DELETE " + base + "/snapshots/" + s.ID, "", 202, ""},
		{d, "GET " + base + "/snapshots/" + s.ID, "", 200, `"status":"deleting"`},

		{d, "GET " + base + "/types/default", "", 200, `"name":"fake"`},
		{d, "GET " + base + "/types/fake", "", 404, "Volume type fake could not be found."},
		{d, "GET " + base + "/types?limit=1", "", 200, `"volume_type_links"`},
		{d, "GET " + base + "/os-availability-zone", "", 200, `"zoneName":"nova"`},
		{d, "GET " + base + "/messages", "", 404, "The resource could not be found."},
		{d, "GET " + base + "/limits", "", 200, `"maxTotalVolumes":4 | "totalVolumesUsed":2 | "totalGigabytesUsed":5`},
		{d, "GET " + base + "/os-quota-sets/" + v.TenantID + "?usage=True", "", 200, `"volumes":{"in_use":2,"limit":4,"reserved":0}`},
		{d, "GET " + base + "/os-quota-sets/x", "", 403, "Policy doesn't allow volume_extension:quotas:show to be performed."},
		{d, "PUT " + base + "/os-quota-sets/" + v.TenantID, `{"quota_set":{"volumes":9}}`, 403, "volume_extension:quotas:update"},
		{l.admin, "PUT /volume/v3/os-quota-sets/" + v.TenantID, `{"quota_set":{"volumes":2}}`, 200, `"volumes":2`},
		create(`"size":1`, 413, "VolumeLimitExceeded: Maximum number of volumes allowed (2) exceeded for quota 'volumes'."),
		{l.admin, "DELETE /volume/v3/os-quota-sets/" + v.TenantID, ``, 200, ""},
		{d, "GET " + base + "/os-quota-sets/" + v.TenantID, "", 200, `"volumes":4`},
	})
}
