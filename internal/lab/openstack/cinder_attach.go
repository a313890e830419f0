package openstack

import (
	"slices"
	"strings"
)

// This is what Nova asks of Cinder.

// newVolume begins the making of a volume for a server that is to boot from it: a copy of img, or blank. It
// is refused where a quota is used up.
func (c *Cloud) newVolume(s *server, size int, img *image) (*volume, error) {
	if err := c.checkVolumeQuota(s.project, 1, size, size); err != nil {
		return nil, err
	}
	v := &volume{project: s.project, user: s.user, name: "", description: "", status: "creating", size: size, kind: c.block.kinds[0], zone: volumeZone, metadata: map[string]string{}, image: img}
	c.addVolume(v, false)
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

// attachmentTo returns a server's attachment of a volume, or nil.
func (v *volume) attachmentTo(server string) *attachment {
	i := slices.IndexFunc(v.attachments, func(a *attachment) bool { return a.server == server })
	if i < 0 {
		return nil
	}
	return v.attachments[i]
}

// attach begins to give a server a volume, as that device or the next that is free. Other servers keep a
// volume whose type lets several have it.
func (c *Cloud) attach(s *server, v *volume, device string) (*attachment, error) {
	var others []string
	for _, a := range v.attachments {
		others = append(others, a.server)
	}
	switch {
	case len(others) > 0 && (!v.kind.multiattach() || slices.Contains(others, s.id)):
		return nil, refuse(400, "Invalid volume: volume %s is already attached to instances: %s", v.id, strings.Join(others, ", "))
	case strings.HasPrefix(v.status, "error"):
		return nil, refuse(400, "Invalid input received: Invalid volume: Volume attachments can not be created if the volume is in an error state. The Volume %s currently has a status of: %s  (HTTP 400)", v.id, v.status)
	case v.status != "available" && v.status != "in-use":
		return nil, refuse(400, "Invalid volume: Volume %s status must be available or downloading to reserve, but the current status is %s. (HTTP 400)", v.id, v.status)
	}
	taken := map[string]bool{"a": s.image != ""}
	for _, a := range c.attachmentsOf(s.id) {
		taken[deviceLetters(a.device)] = true
	}
	letters := deviceLetters(device)
	if letters == "" {
		for letters = "a"; taken[letters]; letters = string(letters[0] + 1) {
		}
	} else if taken[letters] {
		return nil, refuse(409, "The supplied device path (%s) is in use.", device)
	}
	a := &attachment{id: c.ids.uuid(), bdm: c.ids.uuid(), server: s.id, volume: v, device: "/dev/sd" + letters}
	v.attachments = append(v.attachments, a)
	if v.status == "available" {
		v.set(c, "reserved")
	}
	c.soon(v, func() {
		if slices.Contains(v.attachments, a) {
			a.at = c.now()
			v.set(c, "in-use")
		}
	})
	return a, nil
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
