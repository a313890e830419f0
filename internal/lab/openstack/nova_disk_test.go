package openstack_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/snapshots"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

// bootFrom begins a server without an image of its own.
func (l *lab) bootFrom(c *gophercloud.ServiceClient, name string, metadata map[string]string, devices ...servers.BlockDevice) (*servers.Server, error) {
	return servers.Create(l.ctx, c, servers.CreateOpts{Name: name, FlavorRef: l.flavor("m1.nano"), Metadata: metadata, BlockDevice: devices}, nil).Extract()
}

func root(source servers.SourceType, id string, size int, with bool) servers.BlockDevice {
	return servers.BlockDevice{SourceType: source, UUID: id, DestinationType: servers.DestinationVolume, VolumeSize: size, DeleteOnTermination: with}
}

func TestBootFromVolumes(t *testing.T) {
	l := newLab(t, nil)
	c := l.cinder(l.demo)
	image := l.imageID("lab-tiny")
	boot := l.newVolume(c, volumes.CreateOpts{Size: 1, Name: "boot", ImageID: image})
	snap := must[*snapshots.Snapshot](t, "snapshot")(snapshots.Create(l.ctx, c, snapshots.CreateOpts{VolumeID: boot.ID}).Extract())
	l.clock.Advance(time.Second)
	for _, r := range []struct {
		name   string
		device servers.BlockDevice
		kept   bool
		image  string
	}{
		{"existing", root(servers.SourceVolume, boot.ID, 0, false), true, image},
		{"from image", root(servers.SourceImage, image, 2, true), false, image},
		{"from image, kept", root(servers.SourceImage, image, 2, false), true, image},
		{"from snapshot", root(servers.SourceSnapshot, snap.ID, 0, true), false, image},
		{"blank", root(servers.SourceBlank, "", 1, true), false, ""},
	} {
		t.Run(r.name, func(t *testing.T) {
			s := must[*servers.Server](t, "server")(l.bootFrom(l.compute, r.name, nil, r.device))
			if r.device.SourceType == servers.SourceVolume {
				if v := l.volume(c, boot.ID); v.Status != "reserved" || len(v.Attachments) != 0 {
					t.Errorf("at once it is %s with %+v", v.Status, v.Attachments)
				}
				_, err := l.bootFrom(l.compute, "second", nil, r.device)
				wantStatus(t, err, 400, "Invalid volume: Invalid input received: Invalid volume: Volume "+boot.ID+" status must be available or downloading to reserve, but the current status is reserved. (HTTP 400)")
			} else if got := l.server(s.ID).AttachedVolumes; len(got) != 0 {
				t.Errorf("it has %v before it is on a host", got)
			}
			l.clock.Advance(2 * time.Second)
			s = l.server(s.ID)
			if s.Status != "ACTIVE" || len(s.Image) != 0 || len(s.AttachedVolumes) != 1 {
				t.Fatalf("it is %s, image %v, volumes %v, fault %+v", s.Status, s.Image, s.AttachedVolumes, s.Fault)
			}
			v := l.volume(c, s.AttachedVolumes[0].ID)
			if v.Status != "in-use" || v.Attachments[0].Device != "/dev/sda" || v.VolumeImageMetadata["image_id"] != r.image {
				t.Errorf("its volume: %+v", v)
			}
			l.run([]call{{l.demo, "GET /compute/v2.1/servers/" + s.ID + " 2.3", "", 200, `"delete_on_termination":` + map[bool]string{true: "false", false: "true"}[r.kept]},
				{l.demo, "DELETE /compute/v2.1/servers/" + s.ID + "/os-volume_attachments/" + v.ID, "", 400, "Cannot detach a root device volume"},
				{l.admin, "GET /compute/v2.1/os-hypervisors/1", "", 200, `"local_gb_used":0`},
				{l.admin, "GET /compute/v2.1/os-hypervisors/2", "", 200, `"local_gb_used":0`}})
			if err := servers.Delete(l.ctx, l.compute, s.ID).ExtractErr(); err != nil {
				t.Fatal(err)
			}
			l.clock.Advance(2 * time.Second)
			after, err := volumes.Get(l.ctx, c, v.ID).Extract()
			switch {
			case !r.kept:
				wantStatus(t, err, 404, "could not be found")
			case err != nil || after.Status != "available":
				t.Errorf("after the server it is %+v, %v", after, err)
			}
		})
	}
}

// TestTwinsFromAnImage makes a volume for each of two servers of one create.
func TestTwinsFromAnImage(t *testing.T) {
	l := newLab(t, nil)
	l.run([]call{{l.demo, "POST /compute/v2.1/servers 2.37", `{"server":{"name":"twin","min_count":2,"flavorRef":"` + l.flavor("m1.nano") + `","networks":"none","block_device_mapping_v2":[` +
		`{"boot_index":0,"source_type":"image","destination_type":"volume","uuid":"` + l.imageID("lab-tiny") + `","volume_size":1}]}}`, 202, `"id"`}})
	l.clock.Advance(2 * time.Second)
	users := map[any]bool{}
	for _, a := range l.cloud.State(false)["volume_attachment"] {
		users[a["server"]] = true
	}
	if len(users) != 2 || len(l.cloud.State(false)["volume"]) != 2 {
		t.Errorf("volumes %v are used by %v", l.cloud.State(false)["volume"], users)
	}
}

// TestSeveralDisks has a disk of the host as root, and volumes beside it.
func TestSeveralDisks(t *testing.T) {
	l := newLab(t, nil)
	c := l.cinder(l.demo)
	data := l.newVolume(c, volumes.CreateOpts{Size: 1})
	disk := func(d servers.BlockDevice, index int) servers.BlockDevice { d.BootIndex = index; return d }
	image := servers.BlockDevice{SourceType: servers.SourceImage, UUID: l.imageID("lab-tiny"), DestinationType: servers.DestinationLocal}
	s := l.boot(servers.CreateOpts{Name: "vm", BlockDevice: []servers.BlockDevice{image, disk(root(servers.SourceVolume, data.ID, 0, false), -1), disk(root(servers.SourceBlank, "", 1, true), -1)}}, nil)
	l.clock.Advance(time.Second)
	s = l.server(s.ID)
	if s.Status != "ACTIVE" || s.Image["id"] != l.imageID("lab-tiny") || len(s.AttachedVolumes) != 2 {
		t.Fatalf("%s, image %v, volumes %v", s.Status, s.Image, s.AttachedVolumes)
	}
	var devices []string
	for _, v := range s.AttachedVolumes {
		devices = append(devices, l.volume(c, v.ID).Attachments[0].Device)
	}
	if strings.Join(devices, " ") != "/dev/sdb /dev/sdc" {
		t.Errorf("devices: %v", devices)
	}
	if err := servers.Delete(l.ctx, l.compute, s.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	l.clock.Advance(2 * time.Second)
	if left := l.cloud.State(false)["volume"]; len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

func TestBootVolumeRefusals(t *testing.T) {
	l := newLab(t, func(cfg *openstack.Config) {
		cfg.VolumeTypes = []openstack.VolumeType{{Name: "plain"}, {Name: "many", ExtraSpecs: map[string]string{"multiattach": "<is> True"}}}
	})
	c := l.cinder(l.demo)
	image := l.imageID("lab-tiny")
	blank, boot := l.newVolume(c, volumes.CreateOpts{Size: 1}), l.newVolume(c, volumes.CreateOpts{Size: 1, ImageID: image})
	many := l.newVolume(c, volumes.CreateOpts{Size: 1, ImageID: image, VolumeType: "many"})
	snap := must[*snapshots.Snapshot](t, "snapshot")(snapshots.Create(l.ctx, c, snapshots.CreateOpts{VolumeID: blank.ID}).Extract())
	nobody := "00000000-0000-0000-0000-000000000001"
	try := func(more, devices string, status int, piece string) call {
		return call{l.demo, "POST /compute/v2.1/servers 2.67", `{"server":{"name":"x","flavorRef":"` + l.flavor("m1.nano") + `","networks":"none"` + more + `,"block_device_mapping_v2":[` + devices + `]}}`, status, piece}
	}
	device := func(source, id, more string) string {
		return `{"boot_index":0,"destination_type":"volume","source_type":"` + source + `","uuid":"` + id + `"` + more + `}`
	}
	withImage := `,"imageRef":"` + image + `"`
	l.run([]call{
		try("", "", 400, "Missing imageRef attribute"),
		try("", `{"boot_index":0,"destination_type":"volume","source_type":"volume"}`, 400, "Block Device Mapping is Invalid: Missing device UUID."),
		try("", `{"boot_index":0,"destination_type":"volume","source_type":"blank","uuid":"`+nobody+`","volume_size":1}`, 400, "Invalid device UUID."),
		try("", `{"boot_index":0,"destination_type":"local","source_type":"image","uuid":"`+image+`"}`, 400, "Mapping image to local is not supported."),
		try("", device("volume", boot.ID, `,"volume_type":"plain"`), 400, "Specifying volume type to existing volume is not supported."),
		try("", device("volume", nobody, ""), 400, "Block Device Mapping is Invalid: failed to get volume "+nobody+"."),
		try("", device("volume", blank.ID, ""), 400, "Block Device "+blank.ID+" is not bootable."),
		try("", device("snapshot", nobody, ""), 400, "Snapshot "+nobody+" could not be found."),
		try("", device("snapshot", snap.ID, ""), 400, "Block Device "+blank.ID+" is not bootable."),
		try("", device("image", nobody, `,"volume_size":1`), 400, "Block Device Mapping is Invalid: failed to get image "+nobody+"."),
		try("", device("image", image, ""), 400, "Images with destination_type 'volume' need to have a non-zero size specified"),
		try("", device("image", image, `,"volume_size":1,"volume_type":"nope"`), 400, "Volume type nope could not be found."),
		try("", `{"boot_index":0,"destination_type":"volume","source_type":"blank"}`, 400, "Blank volumes (source: 'blank', dest: 'volume') need to have non-zero size"),
		try("", `{"boot_index":1,"destination_type":"volume","source_type":"volume","uuid":"`+boot.ID+`"}`, 400, "Boot sequence for the instance and image/block device mapping combination is not valid."),
		try(withImage, `{"boot_index":-1,"destination_type":"volume","source_type":"volume","uuid":"`+boot.ID+`"}`, 400, "Boot sequence for the instance"),
		try(withImage, device("volume", boot.ID, `,"device_name":"/dev/vda"`), 400, "The volume cannot be assigned the same device name as the root device vda"),
		try(`,"min_count":2`, device("volume", boot.ID, ""), 400, "Cannot attach one or more volumes to multiple instances"),
		{l.demo, "POST /compute/v2.1/servers 2.37", try("", device("volume", many.ID, ""), 0, "").body, 400, "Multiattach volumes are only supported starting with compute API version 2.60."},
	})
	if v := l.volume(c, boot.ID); v.Status != "available" || len(l.cloud.State(false)["server"]) != 0 {
		t.Errorf("the volume is %s, servers %v", v.Status, l.cloud.State(false)["server"])
	}
	one := device("volume", boot.ID, "")
	l.run([]call{try("", one+`,{"boot_index":1,"destination_type":"volume","source_type":"volume","uuid":"`+boot.ID+`"}`, 400, "but the current status is reserved")})
	if v := l.volume(c, boot.ID); v.Status != "available" {
		t.Errorf("after a create that was refused halfway it is %s", v.Status)
	}
}

// TestBootVolumeFailures ends builds in ERROR, and leaves no volume that goes with its server.
func TestBootVolumeFailures(t *testing.T) {
	l := newLab(t, func(cfg *openstack.Config) { cfg.Quota = map[string]int{"volumes": 2, "gigabytes": 10} })
	c := l.cinder(l.demo)
	image := l.imageID("lab-tiny")
	boot := l.newVolume(c, volumes.CreateOpts{Size: 1, ImageID: image})
	for _, f := range []struct {
		name, fail, text, status string // of boot after that
		devices                  []servers.BlockDevice
	}{
		{"quota", "", "aborted: VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. Requested 20G, quota is 10G and 1G has been consumed.", "available", []servers.BlockDevice{root(servers.SourceImage, image, 20, true)}},
		{"volume", "volume", "did not finish being created even after we waited", "available", []servers.BlockDevice{root(servers.SourceImage, image, 1, true)}},
		{"spawn", "spawn", "Exhausted all hosts", "available", []servers.BlockDevice{root(servers.SourceVolume, boot.ID, 0, false), {BootIndex: -1, SourceType: servers.SourceBlank, DestinationType: servers.DestinationVolume, VolumeSize: 1, DeleteOnTermination: true}}},
	} {
		t.Run(f.name, func(t *testing.T) {
			meta := map[string]string{}
			if f.fail != "" {
				meta["lab_fail"] = f.fail
			}
			s := must[*servers.Server](t, "server")(l.bootFrom(l.compute, f.name, meta, f.devices...))
			l.clock.Advance(3 * time.Second)
			if s = l.server(s.ID); s.Status != "ERROR" || !strings.Contains(s.Fault.Message, f.text) {
				t.Errorf("it is %s: %+v", s.Status, s.Fault)
			}
			if v := l.volume(c, boot.ID); v.Status != f.status {
				t.Errorf("the existing volume is %s", v.Status)
			}
			if err := servers.Delete(l.ctx, l.compute, s.ID).ExtractErr(); err != nil {
				t.Fatal(err)
			}
			l.clock.Advance(2 * time.Second)
			if left := l.cloud.State(false); len(left["volume"]) != 1 || len(left["volume_attachment"]) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
	// One that is deleted while its volume is being made.
	s := must[*servers.Server](t, "server")(l.bootFrom(l.compute, "early", nil, root(servers.SourceImage, image, 1, true)))
	for len(l.cloud.State(false)["volume"]) == 1 {
		l.clock.Advance(10 * time.Millisecond)
	}
	if err := servers.Delete(l.ctx, l.compute, s.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	l.clock.Advance(3 * time.Second)
	if left := l.cloud.State(false)["volume"]; len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

func TestRebuildOnVolume(t *testing.T) {
	l := newLab(t, func(cfg *openstack.Config) {
		cfg.Images = []openstack.Image{{Name: "lab-tiny", Data: []byte("tiny")}, {Name: "other", Data: []byte("other")}}
	})
	image, other := l.imageID("lab-tiny"), l.imageID("other")
	s := must[*servers.Server](t, "server")(l.bootFrom(l.compute, "vm", nil, root(servers.SourceImage, image, 1, true)))
	l.clock.Advance(2 * time.Second)
	act := "POST /compute/v2.1/servers/" + s.ID + "/action"
	l.run([]call{
		{l.demo, act, `{"rebuild":{"imageRef":"` + other + `"}}`, 400, "Unable to rebuild with a different image for a volume-backed server."},
		{l.demo, act, `{"rebuild":{"imageRef":"` + image + `"}}`, 202, `"image":""`},
	})
	l.clock.Advance(time.Second)
	l.run([]call{{l.demo, act + " 2.93", `{"rebuild":{"imageRef":"` + other + `"}}`, 202, `"image":""`}})
	l.clock.Advance(time.Second)
	if v := l.volume(l.cinder(l.demo), l.server(s.ID).AttachedVolumes[0].ID); v.VolumeImageMetadata["image_id"] != other {
		t.Errorf("its image is %v", v.VolumeImageMetadata)
	}
}
