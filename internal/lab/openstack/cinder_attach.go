package openstack

import (
	"slices"
	"strings"
)

// This is what Nova asks of Cinder.

// newVolume begins the making of a volume for a server that is created with it. The refusal is what Nova makes
// of Cinder's.
func (c *Cloud) newVolume(s *server, d *disk) (*volume, error) {
	v := &volume{project: s.project, user: s.user, name: "", description: "", status: "creating", size: d.size, kind: c.block.kinds[0], zone: volumeZone, metadata: map[string]string{}}
	invalid := func(err error) error {
		return refuse(400, "Invalid input received: %s (HTTP 400)", err.(*refusal).message)
	}
	switch d.source {
	case "blank":
		v.name = s.id + "-blank-vol"
	case "image":
		v.image = c.image.all[d.id]
		if v.image == nil {
			return nil, invalid(errNoImage)
		}
		if err := v.image.fitsVolume(d.size); err != nil {
			return nil, invalid(err)
		}
	case "snapshot":
		snap := c.block.snapshots[d.id]
		if snap == nil {
			return nil, refuse(400, "Snapshot %s could not be found.", d.id)
		}
		if err := c.fromSnapshot(v, snap, true); err != nil {
			return nil, invalid(err)
		}
		if d.size < snap.size {
			return nil, invalid(tooSmallForSnapshot(d.size, snap.size))
		}
	}
	if d.kind != "" {
		v.kind = c.kindNamed(d.kind)
	}
	if err := c.checkVolumeQuota(s.project, 1, d.size, d.size); err != nil {
		return nil, err
	}
	c.addVolume(v, s.metadata["lab_fail"] == "volume")
	return v, nil
}

// rootDevice is the device of every server's first disk.
const rootDevice = "/dev/sda"

// attachmentsOf lists what a server uses, by device.
func (c *Cloud) attachmentsOf(server string) []*attachment {
	var out []*attachment
	for _, v := range c.block.volumes {
		for _, a := range v.attachments {
			if a.server == server {
				out = append(out, a)
			}
		}
	}
	slices.SortFunc(out, func(a, b *attachment) int { return strings.Compare(a.device, b.device) })
	return out
}

// attach begins to give a running server a volume, as that device or the next that is free. Other servers keep a
// volume whose type lets several have it.
func (c *Cloud) attach(s *server, v *volume, device string) (*attachment, error) {
	var others []string
	for _, a := range v.attachments {
		others = append(others, a.server)
	}
	switch {
	case len(others) > 0 && !v.kind.multiattach():
		return nil, refuse(400, "Invalid volume: volume %s is already attached to instances: %s", v.id, strings.Join(others, " "))
	case slices.Contains(others, s.id):
		return nil, refuse(400, "Invalid volume: volume %s already attached", v.id)
	}
	taken := map[string]bool{"a": !s.onVolume}
	for _, a := range c.attachmentsOf(s.id) {
		taken[deviceLetters(a.device)] = true
	}
	letters := deviceLetters(device)
	if letters == "" {
		letters = freeLetter(taken)
	} else if taken[letters] {
		return nil, refuse(409, "The supplied device path (%s) is in use.", device)
	}
	a, err := c.reserve(s, v, "/dev/sd"+letters)
	if err != nil {
		return nil, err
	}
	c.soon(v, func() { c.holdVolume(a) })
	return a, nil
}

// reserve keeps a volume for a server. The refusal is what Nova makes of Cinder's.
func (c *Cloud) reserve(s *server, v *volume, device string) (*attachment, error) {
	several, statuses := v.kind.multiattach(), "available or downloading"
	if several {
		statuses = "available, in-use or downloading"
	}
	switch {
	case strings.HasPrefix(v.status, "error"):
		return nil, refuse(400, "Invalid input received: Invalid volume: Volume attachments can not be created if the volume is in an error state. The Volume %s currently has a status of: %s  (HTTP 400)", v.id, v.status)
	case v.status != "available" && v.status != "downloading" && !(several && v.status == "in-use"):
		return nil, refuse(400, "Invalid input received: Invalid volume: Volume %s status must be %s to reserve, but the current status is %s. (HTTP 400)", v.id, statuses, v.status)
	}
	a := &attachment{id: c.ids.uuid(), bdm: c.ids.uuid(), server: s.id, volume: v, device: device}
	v.attachments = append(v.attachments, a)
	v.set(c, "reserved")
	return a, nil
}

// holdVolume completes an attachment, unless it was given up meanwhile.
func (c *Cloud) holdVolume(a *attachment) {
	if a.at.IsZero() && slices.Contains(a.volume.attachments, a) {
		a.at = c.now()
		a.volume.set(c, "in-use")
	}
}

// freeLetter is the first letter of a disk that isn't taken.
func freeLetter(taken map[string]bool) string {
	letter := byte('a')
	for taken[string(letter)] {
		letter++
	}
	return string(letter)
}

// deviceLetters is what tells a server's disks apart in names like /dev/vdb and /dev/sdb.
func deviceLetters(device string) string {
	name := strings.TrimRight(strings.TrimPrefix(device, "/dev/"), "0123456789")
	for _, prefix := range []string{"xvd", "vd", "sd", "hd"} {
		if letters, found := strings.CutPrefix(name, prefix); found {
			return letters
		}
	}
	return name
}

// detach begins to take a volume from its server.
func (c *Cloud) detach(a *attachment) {
	v := a.volume
	v.set(c, "detaching")
	c.soon(v, func() { c.giveBack(a) })
}

// giveBack ends an attachment.
func (c *Cloud) giveBack(a *attachment) {
	v := a.volume
	v.attachments = slices.DeleteFunc(v.attachments, func(x *attachment) bool { return x == a })
	status := "available"
	if len(v.attachments) > 0 {
		status = "in-use"
	}
	v.set(c, status)
}

// releaseAll ends what a server uses when it goes, and deletes the volumes that go with it.
func (c *Cloud) releaseAll(s *server) {
	for _, a := range c.attachmentsOf(s.id) {
		c.giveBack(a)
		if a.withServer && len(a.volume.attachments) == 0 {
			c.removeVolume(a.volume)
		}
	}
	for _, d := range s.disks {
		if v := d.volume; v != nil && d.withServer && c.block.volumes[v.id] == v && len(v.attachments) == 0 && v.status != "deleting" {
			c.removeVolume(v)
		}
	}
	s.disks = nil
}

func (c *Cloud) attachmentList(r *request) (answer, error) {
	if r.version < 27 {
		return answer{}, tooOld()
	}
	out := []any{}
	for _, id := range sortedKeys(c.block.volumes) {
		v := c.block.volumes[id]
		for _, a := range v.attachments {
			if want := r.query.Get("volume_id"); r.listsProject(v.project) && (want == "" || want == id) {
				status := "attached"
				if a.at.IsZero() {
					status = "reserved"
				}
				out = append(out, doc{"id": a.id, "status": status, "instance": a.server, "volume_id": id})
			}
		}
	}
	return ok(doc{"attachments": out})
}
