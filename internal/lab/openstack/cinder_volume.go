package openstack

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// volume is a block device.
type volume struct {
	id, project, user string
	name, description any // nil or a string
	size              int // GiB
	status            string
	kind              *volumeKind
	zone              string
	snapshot, source  string // id of what it was made from
	metadata          map[string]string
	image             *image            // that it is being made from
	imageMeta         map[string]string // of the image that it was made from
	bootable          bool
	created, updated  time.Time
	attachments       []*attachment
	request           string // that created it
	turn              int    // changes whenever what was scheduled for the volume is void
}

// attachment is a server's use of a volume. Nova knows it before Cinder shows it.
type attachment struct {
	id, server, device, bdm string
	volume                  *volume
	tag                     any // nil or a string
	withServer              bool
	at                      time.Time // zero until the server has the volume
}

func (v *volume) set(c *Cloud, status string) { v.status, v.updated = status, c.now() }

// soon runs step after a third of the boot delay, unless something else has become of the volume by then.
func (c *Cloud) soon(v *volume, step func()) {
	turn := v.turn
	c.after(c.cfg.BootDelay/3, func() {
		if v.turn == turn && c.block.volumes[v.id] == v {
			step()
		}
	})
}

// volumeDoc is the volume as the request's microversion shows it.
func (c *Cloud) volumeDoc(r *request, v *volume) doc {
	attachments := []any{}
	for _, a := range v.attachments {
		if !a.at.IsZero() {
			attachments = append(attachments, doc{"id": v.id, "attachment_id": a.id, "volume_id": v.id, "server_id": a.server, "host_name": nil,
				"device": a.device, "attached_at": stampV(a.at.Truncate(time.Second))})
		}
	}
	d := doc{"id": v.id, "status": v.status, "size": v.size, "availability_zone": v.zone, "created_at": stampV(v.created.Truncate(time.Second)),
		"updated_at": nil, "name": v.name, "description": v.description, "volume_type": v.kind.name, "snapshot_id": orNil(v.snapshot),
		"source_volid": orNil(v.source), "metadata": v.metadata, "links": r.volumeLinks("volumes", v.id), "user_id": v.user,
		"bootable": strconv.FormatBool(v.bootable), "encrypted": false, "replication_status": nil, "consistencygroup_id": nil,
		"multiattach": v.kind.multiattach(), "attachments": attachments, "os-vol-tenant-attr:tenant_id": v.project}
	if !v.updated.IsZero() {
		d["updated_at"] = stampV(v.updated.Truncate(time.Second))
	}
	if v.imageMeta != nil {
		d["volume_image_metadata"] = v.imageMeta
	}
	if r.version >= 13 {
		d["group_id"] = nil
	}
	if r.version >= 48 {
		d["shared_targets"], d["service_uuid"] = false, c.block.service
	}
	if r.version >= 63 {
		d["volume_type_id"] = v.kind.id
	}
	if r.version >= 65 {
		d["consumes_quota"] = true
	}
	if r.token.admin {
		d["migration_status"], d["os-vol-mig-status-attr:migstat"], d["os-vol-mig-status-attr:name_id"] = nil, nil, nil
		d["os-vol-host-attr:host"] = "lab@fake#fake"
		if r.version >= 61 {
			d["cluster_name"] = nil
		}
	}
	return d
}

func (c *Cloud) findVolume(r *request, id string) (*volume, error) {
	v := c.block.volumes[id]
	if v == nil || v.project != r.token.project.id && !r.token.admin {
		return nil, refuse(404, "Volume %s could not be found.", id)
	}
	return v, nil
}

func (c *Cloud) volumeShow(r *request) (answer, error) {
	v, err := c.findVolume(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"volume": c.volumeDoc(r, v)})
}

func (c *Cloud) volumeCreate(r *request) (answer, error) {
	in, err := r.cinderBody(volumeSchema(r.version), "volume")
	if err != nil {
		return answer{}, err
	}
	if err := checkTitles(in); err != nil {
		return answer{}, err
	}
	v := &volume{project: r.token.project.id, user: r.token.user.id, status: "creating", zone: volumeZone, metadata: map[string]string{}, request: r.id}
	v.name, v.description = trimmed(in, "name", "display_name"), trimmed(in, "description", "display_description")
	if m, given := stringMap(in["metadata"]); given && m != nil {
		v.metadata = m
	}
	wantKind := text(in["volume_type"])
	v.kind = c.block.kinds[0]
	if wantKind != "" {
		if v.kind = c.kindNamed(wantKind); v.kind == nil {
			return answer{}, noKind(wantKind)
		}
	}
	least, err := c.volumeOrigin(r, in, v, wantKind == "")
	if err != nil {
		return answer{}, err
	}
	if on, _ := parseBool(in["multiattach"]); on {
		return answer{}, refuse(400, "multiattach parameter has been removed. The default behavior is to use multiattach enabled volume types. "+
			"Contact your administrator to create a multiattach enabled volume type and use it to create multiattach volumes.")
	}
	v.size = least
	if in["size"] != nil {
		v.size, _ = integer(in["size"])
	}
	if zone := text(in["availability_zone"]); zone != "" && zone != volumeZone {
		return answer{}, refuse(400, "Availability zone '%s' is invalid.", zone)
	}
	switch {
	case v.size == 0:
		return answer{}, errMalformed
	case v.size < least && v.snapshot != "":
		return answer{}, tooSmallForSnapshot(v.size, least)
	case v.size < least && v.source != "":
		return answer{}, refuse(400, "Invalid input received: Volume size '%d'GB cannot be smaller than original volume size  %dGB. They must be >= original volume size.", v.size, least)
	}
	if err := c.checkVolumeQuota(v.project, 1, v.size, v.size); err != nil {
		return answer{}, err
	}
	c.addVolume(v, r.fault != nil && r.fault.Outcome != "")
	c.conceal(r, "volume", v.id)
	d := c.volumeDoc(r, v)
	delete(d, "os-vol-tenant-attr:tenant_id") // in an answer to a read only
	return accepted(doc{"volume": d})
}

func noKind(ref string) error {
	if uuidForm.MatchString(ref) {
		return refuse(404, "Volume type %s could not be found.", ref)
	}
	return refuse(404, "Volume type with name %s could not be found.", ref)
}

// trimmed is a name or description without the white space around it; nil without one.
func trimmed(in doc, keys ...string) any {
	for _, k := range keys {
		if s, isText := in[k].(string); isText {
			return strings.TrimSpace(s)
		}
	}
	return nil
}

// volumeOrigin finds what a volume is to be made from, and the size that this needs at least.
func (c *Cloud) volumeOrigin(r *request, in doc, v *volume, takeKind bool) (least int, err error) {
	if id := text(in["snapshot_id"]); id != "" {
		s, err := c.findSnapshot(r, id)
		if err != nil {
			return 0, err
		}
		if err := c.fromSnapshot(v, s, takeKind); err != nil {
			return 0, err
		}
		least = s.size
	}
	if id := text(in["source_volid"]); id != "" {
		s, err := c.findVolume(r, id)
		if err != nil {
			return 0, err
		}
		if s.status != "available" && s.status != "in-use" {
			return 0, refuse(400, "Invalid volume: Originating source volume status must be one of 'available', 'in-use' values")
		}
		v.source, least = id, s.size
		v.copyOf(s, takeKind)
	}
	ref := text(in["imageRef"])
	if ref == "" {
		ref = text(in["image_id"])
	}
	if ref == "" {
		return least, nil
	}
	m := c.image.all[refID(ref)]
	if m == nil || !m.visibleTo(r.token) {
		return 0, errNoImage
	}
	size, given := integer(in["size"])
	if !given {
		size = math.MaxInt32
	}
	if err := m.fitsVolume(size); err != nil {
		return 0, err
	}
	v.image = m
	return least, nil
}

var errNoImage = refuse(400, "Invalid image identifier or unable to access requested image.")

// fitsVolume checks an image that a volume of that many GiB is to be made from.
func (m *image) fitsVolume(size int) error {
	switch {
	case m.status != "active":
		return refuse(400, "Invalid input received: Image %s is not active.", m.id)
	case size < m.minDisk:
		return refuse(400, "Invalid input received: Volume size %dGB cannot be smaller than the image minDisk size %dGB.", size, m.minDisk)
	case int64(len(m.data)) > int64(size)<<30:
		return refuse(400, "Invalid input received: Size of specified image %dGB is larger than volume size %dGB.", (len(m.data)+1<<30-1)>>30, size)
	}
	return nil
}

// copyOf makes a new volume what another is.
func (v *volume) copyOf(from *volume, takeKind bool) {
	v.bootable, v.imageMeta = from.bootable, maps.Clone(from.imageMeta)
	if takeKind {
		v.kind = from.kind
	}
}

// fromSnapshot makes a snapshot what a volume is made from, and gives it the type of the snapshot's volume.
func (c *Cloud) fromSnapshot(v *volume, s *snapshot, takeKind bool) error {
	if s.status != "available" {
		return refuse(400, "Invalid snapshot: Originating snapshot status must be one of 'available' values")
	}
	v.snapshot = s.id
	if from := c.block.volumes[s.volume]; from != nil {
		v.copyOf(from, takeKind)
	}
	return nil
}

func tooSmallForSnapshot(size, least int) error {
	return refuse(400, "Invalid input received: Volume size '%d'GB cannot be smaller than the snapshot size %dGB. They must be >= original snapshot size.", size, least)
}

// takeImage makes a volume a copy of an image.
func (v *volume) takeImage(m *image) {
	v.bootable = true
	v.imageMeta = map[string]string{"signature_verified": "False", "image_id": m.id, "image_name": m.name(), "checksum": m.md5, "container_format": text(m.containerFormat),
		"disk_format": text(m.diskFormat), "min_disk": strconv.Itoa(m.minDisk), "min_ram": strconv.Itoa(m.minRAM), "size": strconv.Itoa(len(m.data))}
	for k, p := range m.props {
		v.imageMeta[k] = p
	}
}

// addVolume begins the making of a volume. Metadata lab_fail=create makes it fail.
func (c *Cloud) addVolume(v *volume, fails bool) {
	v.id, v.created = c.ids.uuid(), c.now()
	c.block.volumes[v.id] = v
	c.soon(v, func() {
		if fails || v.metadata["lab_fail"] == "create" {
			v.set(c, "error")
			c.tellUser(v.project, v.id, v.request, "VOLUME_VOLUME_001_003", "schedule allocate volume:Could not find any available weighted backend.")
			c.tellUser(v.project, v.id, v.request, "VOLUME_VOLUME_008_012", "create volume from backend storage:Driver failed to create the volume.")
			return
		}
		if v.image == nil {
			v.set(c, "available")
			return
		}
		v.set(c, "downloading")
		c.soon(v, func() {
			v.takeImage(v.image)
			v.set(c, "available")
		})
	})
}

func (c *Cloud) volumeUpdate(r *request) (answer, error) {
	in, err := r.cinderBody(volumeUpdateSchema(r.version), "volume")
	if err != nil {
		return answer{}, err
	}
	if err := checkTitles(in); err != nil {
		return answer{}, err
	}
	v, err := c.findVolume(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	for _, k := range []string{"name", "display_name"} {
		if has(in, k) {
			v.name = trimmed(in, k)
		}
	}
	for _, k := range []string{"description", "display_description"} {
		if has(in, k) {
			v.description = trimmed(in, k)
		}
	}
	if m, given := stringMap(in["metadata"]); given && m != nil {
		v.metadata = m
	}
	v.updated = c.now()
	d := c.volumeDoc(r, v)
	delete(d, "os-vol-tenant-attr:tenant_id")
	return ok(doc{"volume": d})
}

// undeletable is what Cinder says of a volume that it won't delete.
const undeletable = "Invalid volume: Volume status must be available or error or error_restoring or error_extending or error_managing and must not be migrating, " +
	"attached, belong to a group, have snapshots, awaiting a transfer, or be disassociated from snapshots after volume transfer."

func (c *Cloud) volumeDelete(r *request) (answer, error) {
	v, err := c.findVolume(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	force, cascade := r.flag("force"), r.flag("cascade")
	if force {
		if err := r.needAdmin("volume:force_delete"); err != nil {
			return answer{}, err
		}
	}
	snapshots := c.snapshotsOf(v.id)
	deletable := slices.Contains([]string{"available", "error", "error_restoring", "error_extending", "error_managing"}, v.status)
	if !deletable && !force || len(v.attachments) > 0 || len(snapshots) > 0 && !cascade {
		return answer{}, refuse(400, undeletable)
	}
	for _, s := range snapshots {
		s.status = "deleting"
	}
	c.removeVolume(v)
	return answer{status: 202}, nil
}

// removeVolume deletes a volume, with its snapshots.
func (c *Cloud) removeVolume(v *volume) {
	v.turn++
	v.set(c, "deleting")
	c.soon(v, func() {
		for _, s := range c.snapshotsOf(v.id) {
			delete(c.block.snapshots, s.id)
		}
		delete(c.block.volumes, v.id)
	})
}
