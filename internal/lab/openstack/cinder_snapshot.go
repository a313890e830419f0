package openstack

import (
	"time"
)

// snapshot is a frozen copy of a volume.
type snapshot struct {
	id, project, user, volume string
	name, description         any // nil or a string
	size                      int
	status                    string
	metadata                  map[string]string
	created, updated          time.Time
}

func (c *Cloud) snapshotsOf(volume string) []*snapshot {
	var out []*snapshot
	for _, id := range sortedKeys(c.block.snapshots) {
		if s := c.block.snapshots[id]; s.volume == volume {
			out = append(out, s)
		}
	}
	return out
}

func snapshotDoc(r *request, s *snapshot) doc {
	d := doc{"id": s.id, "created_at": stampV(s.created.Truncate(time.Second)), "updated_at": nil, "name": s.name, "description": s.description,
		"volume_id": s.volume, "status": s.status, "size": s.size, "metadata": s.metadata}
	if !s.updated.IsZero() {
		d["updated_at"] = stampV(s.updated.Truncate(time.Second))
	}
	if r.version >= 14 {
		d["group_snapshot_id"] = nil
	}
	if r.version >= 41 {
		d["user_id"] = s.user
	}
	if r.version >= 65 {
		d["consumes_quota"] = true
	}
	return d
}

// snapshotFullDoc adds what reads show, and answers to writes don't.
func snapshotFullDoc(r *request, s *snapshot) doc {
	d := snapshotDoc(r, s)
	progress := "0%"
	if s.status == "available" {
		progress = "100%"
	}
	d["os-extended-snapshot-attributes:project_id"], d["os-extended-snapshot-attributes:progress"] = s.project, progress
	return d
}

func (c *Cloud) findSnapshot(r *request, id string) (*snapshot, error) {
	s := c.block.snapshots[id]
	if s == nil || s.project != r.token.project.id && !r.token.admin {
		return nil, refuse(404, "Snapshot %s could not be found.", id)
	}
	return s, nil
}

func (c *Cloud) snapshotList(r *request) (answer, error) { return c.listSnapshots(r, snapshotDoc) }
func (c *Cloud) snapshotDetail(r *request) (answer, error) {
	return c.listSnapshots(r, snapshotFullDoc)
}

func (c *Cloud) listSnapshots(r *request, show func(*request, *snapshot) doc) (answer, error) {
	if err := r.knowsFilters(snapshotFilters); err != nil {
		return answer{}, err
	}
	var found []doc
	for _, s := range c.block.snapshots {
		if r.listsProject(s.project) && c.shown(s.id) {
			if d := show(r, s); r.volumeMatches(d, snapshotFilters) {
				found = append(found, d)
			}
		}
	}
	return r.volumeAnswer("snapshots", "Snapshot", found, func(d doc) doc { return d })
}

func (c *Cloud) snapshotShow(r *request) (answer, error) {
	s, err := c.findSnapshot(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"snapshot": snapshotFullDoc(r, s)})
}

func (c *Cloud) snapshotCreate(r *request) (answer, error) {
	in, err := r.cinderBody(snapshotSchema(), "snapshot")
	if err != nil {
		return answer{}, err
	}
	v, err := c.findVolume(r, text(in["volume_id"]))
	if err != nil {
		return answer{}, err
	}
	force, _ := parseBool(in["force"])
	if v.status != "available" && (v.status != "in-use" || !force && r.version < 66) {
		return answer{}, refuse(400, "Invalid volume: Volume %s status must be available, but current status is: %s.", v.id, v.status)
	}
	if err := c.checkSnapshotQuota(v); err != nil {
		return answer{}, err
	}
	s := &snapshot{id: c.ids.uuid(), project: v.project, user: r.token.user.id, volume: v.id, size: v.size, status: "creating", metadata: map[string]string{}, created: c.now()}
	s.name, s.description = trimmed(in, "name", "display_name"), trimmed(in, "description")
	if m, given := stringMap(in["metadata"]); given && m != nil {
		s.metadata = m
	}
	c.block.snapshots[s.id] = s
	c.conceal(r, "volume_snapshot", s.id)
	fails := r.fault != nil && r.fault.Outcome != "" || s.metadata["lab_fail"] == "create"
	c.after(c.cfg.BootDelay/3, func() {
		if s.status == "creating" {
			s.status, s.updated = "available", c.now()
			if fails {
				s.status = "error"
			}
		}
	})
	return accepted(doc{"snapshot": snapshotDoc(r, s)})
}

func (c *Cloud) snapshotUpdate(r *request) (answer, error) {
	in, err := r.cinderBody(snapshotUpdateSchema(), "snapshot")
	if err != nil {
		return answer{}, err
	}
	s, err := c.findSnapshot(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	if has(in, "name") || has(in, "display_name") {
		s.name = trimmed(in, "name", "display_name")
	}
	if has(in, "description") || has(in, "display_description") {
		s.description = trimmed(in, "description", "display_description")
	}
	s.updated = c.now()
	return ok(doc{"snapshot": snapshotDoc(r, s)})
}

func (c *Cloud) snapshotDelete(r *request) (answer, error) {
	s, err := c.findSnapshot(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	if s.status != "available" && s.status != "error" {
		return answer{}, refuse(400, "Invalid snapshot: Snapshot status must be available or error, but current status is: %s.", s.status)
	}
	s.status = "deleting"
	c.after(c.cfg.BootDelay/3, func() { delete(c.block.snapshots, s.id) })
	return answer{status: 202}, nil
}

func (c *Cloud) snapshotMetadataAdd(r *request) (answer, error) {
	return c.changeSnapshotMetadata(r, true)
}
func (c *Cloud) snapshotMetadataReplace(r *request) (answer, error) {
	return c.changeSnapshotMetadata(r, false)
}

func (c *Cloud) changeSnapshotMetadata(r *request, merge bool) (answer, error) {
	in, err := r.volumeMetadataBody()
	if err != nil {
		return answer{}, err
	}
	s, err := c.findSnapshot(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	if !merge {
		s.metadata = map[string]string{}
	}
	for k, v := range in {
		s.metadata[k] = v
	}
	return ok(doc{"metadata": s.metadata})
}
