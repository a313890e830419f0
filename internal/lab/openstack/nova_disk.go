package openstack

import (
	"slices"
	"strings"
	"time"
)

// A disk is a volume that a server was created with and doesn't have yet, or that a failed build gave back.
type disk struct {
	source, id string // volume, image, snapshot or blank; which
	size       int
	kind       string // volume type asked for
	boot       int    // place in the boot sequence; -1 if it isn't booted from
	withServer bool
	device     string
	tag        any
	volume     *volume // nil until there is one
}

// A deviceList is what a create says of disks.
type deviceList struct {
	given bool
	boots []int
	disks []*disk // that are volumes
}

func (l deviceList) root() *disk {
	if i := slices.IndexFunc(l.disks, func(d *disk) bool { return d.boot == 0 }); i >= 0 {
		return l.disks[i]
	}
	return nil
}

func badDevice(format string, args ...any) error {
	return refuse(400, "Block Device Mapping is Invalid: "+format, args...)
}

// readDevices reads a create's block devices, and refuses those that make no sense by themselves.
func readDevices(in doc) (deviceList, error) {
	l := deviceList{given: len(list(in, "block_device_mapping_v2")) > 0}
	for _, x := range list(in, "block_device_mapping_v2") {
		b, _ := x.(doc)
		if off, _ := parseBool(b["no_device"]); off {
			continue
		}
		d := &disk{source: str(b, "source_type"), id: str(b, "uuid"), kind: str(b, "volume_type"), device: str(b, "device_name"), tag: b["tag"], boot: -1}
		d.size, _ = integer(b["volume_size"])
		d.withServer, _ = parseBool(b["delete_on_termination"])
		if n, given := integer(b["boot_index"]); given && n >= 0 {
			d.boot = n
			l.boots = append(l.boots, n)
		}
		local := str(b, "destination_type") == "local" || str(b, "destination_type") == "" && (d.source == "image" || d.source == "blank")
		switch {
		case d.source == "":
			return l, badDevice("Some required fields are missing")
		case d.source == "blank" && d.id != "":
			return l, badDevice("Invalid device UUID.")
		case d.source != "blank" && d.id == "":
			return l, badDevice("Missing device UUID.")
		case d.source == "image" && local && (in["imageRef"] == nil || d.boot != 0):
			return l, badDevice("Mapping image to local is not supported.")
		case local && d.kind != "":
			return l, badDevice("Specifying a volume_type with destination_type=local is not supported.")
		case d.source == "volume" && d.kind != "":
			return l, badDevice("Specifying volume type to existing volume is not supported.")
		}
		if !local {
			l.disks = append(l.disks, d)
		}
	}
	slices.Sort(l.boots)
	return l, nil
}

// checkRoot checks what a server without an image boots from, as far as the server depends on it.
func (c *Cloud) checkRoot(r *request, s *server, d *disk) error {
	id := d.id
	switch d.source {
	case "blank":
		return nil
	case "image":
		img := c.image.all[id]
		switch {
		case img == nil || !img.visibleTo(r.token):
			return badDevice("failed to get image %s.", id)
		case img.status != "active":
			return refuse(400, "Image None is not active.") // Nova asks for the server's image, which has none
		}
		s.imageName = img.name()
		return fitsServer(img, s, d)
	case "snapshot":
		snap, err := c.findSnapshot(r, id)
		if err != nil {
			return refuse(400, "Snapshot %s could not be found.", id)
		}
		id = snap.volume
	}
	v, err := c.findVolume(r, id)
	switch {
	case err != nil:
		return badDevice("failed to get volume %s.", id)
	case !v.bootable:
		return refuse(400, "Block Device %s is not bootable.", id)
	}
	s.imageName = v.imageMeta["image_name"]
	if ram, _ := integer(v.imageMeta["min_ram"]); ram > s.flavor.ram {
		return refuse(400, "Flavor's memory is too small for requested image.")
	}
	return nil
}

// checkDevices checks the devices against what there is, and says what each will be called.
func (c *Cloud) checkDevices(r *request, in doc, s *server, l deviceList) error {
	if !l.given {
		return nil
	}
	most := 1
	for _, k := range []string{"min_count", "max_count"} {
		n, _ := integer(in[k])
		most = max(most, n)
	}
	for _, d := range l.disks {
		switch _, err := c.findVolume(r, d.id); {
		case s.image != "" && strings.TrimPrefix(d.device, "/dev/") == "vda":
			return refuse(400, "The volume cannot be assigned the same device name as the root device vda")
		case d.source == "volume" && most > 1:
			return refuse(400, "Cannot attach one or more volumes to multiple instances")
		case d.source == "volume" && err != nil:
			return refuse(400, "Volume %s could not be found.", d.id)
		}
	}
	for i, n := range l.boots {
		if i != n {
			l.boots = nil
			break
		}
	}
	if len(l.boots) == 0 {
		return badDevice("Boot sequence for the instance and image/block device mapping combination is not valid.")
	}
	for _, d := range l.disks {
		if err := c.checkDevice(r, d); err != nil {
			return err
		}
	}
	nameDisks(s, l)
	return nil
}

func (c *Cloud) checkDevice(r *request, d *disk) error {
	if d.kind != "" && c.kindNamed(d.kind) == nil {
		return refuse(400, "Volume type %s could not be found.", d.kind)
	}
	switch d.source {
	case "image":
		if img := c.image.all[d.id]; img == nil || !img.visibleTo(r.token) {
			return badDevice("failed to get image %s.", d.id)
		}
		if d.size < 1 {
			return refuse(400, "Images with destination_type 'volume' need to have a non-zero size specified")
		}
	case "snapshot":
		snap, err := c.findSnapshot(r, d.id)
		if err != nil {
			return badDevice("failed to get snapshot %s.", d.id)
		}
		if d.size == 0 {
			d.size = snap.size
		}
	case "blank":
		if d.size < 1 {
			return refuse(400, "Blank volumes (source: 'blank', dest: 'volume') need to have non-zero size")
		}
	case "volume":
		if c.block.volumes[d.id].kind.multiattach() && r.version < multiattachVersion {
			return refuse(400, noMultiattach)
		}
	}
	return nil
}

// nameDisks gives the disks their devices: the root's, those asked for, and the next that are free.
func nameDisks(s *server, l deviceList) {
	taken := map[string]bool{"a": true}
	for _, d := range l.disks {
		letters := deviceLetters(d.device)
		switch {
		case d.boot == 0:
			letters = "a"
		case letters == "" || taken[letters]:
			letters = freeLetter(taken)
		}
		taken[letters] = true
		d.device = "/dev/sd" + letters
	}
	s.disks = l.disks
}

// reserveDisks reserves the volumes that are there for a server that is being created.
func (c *Cloud) reserveDisks(s *server) error {
	wanted := s.disks
	s.disks = nil
	for _, d := range wanted {
		if d.source != "volume" {
			one := *d // a disk of each server that the create makes
			s.disks = append(s.disks, &one)
			continue
		}
		a, err := c.reserve(s, c.block.volumes[d.id], d.device)
		if err != nil {
			for _, a := range c.attachmentsOf(s.id) {
				c.giveBack(a)
			}
			text := err.(*refusal).message
			return refuse(400, "Invalid volume: %s", text)
		}
		a.withServer, a.tag = d.withServer, d.tag
	}
	return nil
}

// giveDisks gives a new server its volumes, and makes those that aren't there, one after the other.
func (c *Cloud) giveDisks(s *server, then func()) {
	for _, a := range c.attachmentsOf(s.id) {
		c.holdVolume(a)
	}
	if len(s.disks) == 0 {
		then()
		return
	}
	s.taskState, s.updated = "block_device_mapping", c.now()
	d := s.disks[0]
	v, err := c.newVolume(s, d)
	if err != nil {
		c.abortBuild(s, err.(*refusal).message)
		return
	}
	d.volume = v
	c.awaitDisk(s, d, 1, then)
}

// awaitDisk looks at a disk that is being made until it is there.
func (c *Cloud) awaitDisk(s *server, d *disk, attempt int, then func()) {
	c.later(s, c.cfg.BootDelay/3, func() {
		v := d.volume
		switch {
		case c.block.volumes[v.id] != v:
			c.abortBuild(s, "Volume "+v.id+" could not be found.")
		case v.status == "creating" || v.status == "downloading":
			c.awaitDisk(s, d, attempt+1, then)
		case v.status != "available":
			c.abortBuild(s, refuse(400, "Volume %s did not finish being created even after we waited %d seconds or %d attempts. And its status is %s.",
				v.id, int(c.now().Sub(v.created)/time.Second), attempt, v.status).(*refusal).message)
		default:
			a, err := c.reserve(s, v, d.device)
			if err != nil {
				c.abortBuild(s, err.(*refusal).message)
				return
			}
			a.withServer, a.tag = d.withServer, d.tag
			s.disks = s.disks[1:]
			c.giveDisks(s, then)
		}
	})
}

// abortBuild ends a build that isn't tried on another host.
func (c *Cloud) abortBuild(s *server, reason string) {
	c.unplug(s)
	c.releaseAll(s)
	s.host = nil
	c.failServer(s, "Build of instance "+s.id+" aborted: "+reason)
}

// giveBackDisks frees a server's volumes after a build that was tried everywhere. Those that go with it wait
// for its deletion.
func (c *Cloud) giveBackDisks(s *server) {
	for _, a := range c.attachmentsOf(s.id) {
		c.giveBack(a)
		s.disks = append(s.disks, &disk{volume: a.volume, withServer: a.withServer})
	}
}

// rootVolume returns the volume that a server runs on, or nil.
func (c *Cloud) rootVolume(s *server) *volume {
	for _, a := range c.attachmentsOf(s.id) {
		if s.onVolume && a.device == rootDevice {
			return a.volume
		}
	}
	return nil
}
