package openstack

import "strconv"

// multiattachVersion is the microversion from which on servers may have a volume of a type that lets several have
// it.
const multiattachVersion = 60

const noMultiattach = "Multiattach volumes are only supported starting with compute API version 2.60."

// attachmentDoc is a server's volume as the request's microversion shows it.
func attachmentDoc(r *request, a *attachment) doc {
	d := doc{"volumeId": a.volume.id, "serverId": a.server, "device": a.device}
	if r.version < 89 {
		d["id"] = a.volume.id
	}
	if r.version >= 70 {
		d["tag"] = a.tag
	}
	if r.version >= 79 {
		d["delete_on_termination"] = a.withServer
	}
	if r.version >= 89 {
		d["attachment_id"], d["bdm_uuid"] = a.id, a.bdm
	}
	return d
}

func (c *Cloud) volumeAttachments(r *request) (answer, error) {
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	all := c.attachmentsOf(s.id)
	if !s.onVolume {
		all = append([]*attachment{nil}, all...) // the limit counts the disk of the image too
	}
	from, _ := strconv.Atoi(r.query.Get("offset"))
	to := len(all)
	if n, err := strconv.Atoi(r.query.Get("limit")); err == nil {
		to = min(to, from+n)
	}
	out := []any{}
	for _, a := range all[min(max(from, 0), to):max(to, 0)] {
		if a != nil {
			out = append(out, attachmentDoc(r, a))
		}
	}
	return ok(doc{"volumeAttachments": out})
}

func attachmentSchema(version int) *schema {
	s := object0([]string{"volumeId"}, prop{"volumeId", novaUUID},
		prop{"device", schema{types: []string{"string", "null"}, pattern: "(^/dev/x{0,1}[a-z]{0,1}d{0,1})([a-z]+)[0-9]*$"}})
	if version >= 49 {
		s = s.with(prop{"tag", novaTag})
	}
	if version >= 79 {
		s = s.with(prop{"delete_on_termination", novaBool})
	}
	return wrapped("volumeAttachment", s)
}

func attachmentUpdateSchema(version int) *schema {
	s := object0([]string{"volumeId"}, prop{"volumeId", novaUUID})
	if version >= 85 {
		s = s.with(prop{"device", novaText}, prop{"tag", novaTag}, prop{"delete_on_termination", novaBool}, prop{"id", novaUUID}, prop{"serverId", novaUUID})
	}
	return wrapped("volumeAttachment", s)
}

func (c *Cloud) volumeAttach(r *request) (answer, error) {
	in, err := r.cinderBody(attachmentSchema(r.version), "volumeAttachment")
	if err != nil {
		return answer{}, err
	}
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	v := c.block.volumes[str(in, "volumeId")]
	if v == nil || v.project != r.token.project.id && !r.token.admin {
		return answer{}, refuse(404, "Volume %s could not be found.", str(in, "volumeId"))
	}
	if err := needState(s, "attach_volume", false, "active", "paused", "suspended", "stopped", "resized", "soft-delete"); err != nil {
		return answer{}, err
	}
	if v.kind.multiattach() && r.version < multiattachVersion {
		return answer{}, refuse(400, noMultiattach)
	}
	a, err := c.attach(s, v, str(in, "device"))
	if err != nil {
		return answer{}, err
	}
	a.tag = in["tag"]
	a.withServer, _ = parseBool(in["delete_on_termination"])
	return ok(doc{"volumeAttachment": attachmentDoc(r, a)})
}

// attached finds the attachment that a path names.
func (c *Cloud) attached(r *request) (*attachment, error) {
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return nil, err
	}
	for _, a := range c.attachmentsOf(s.id) {
		if a.volume.id == r.arg("volume") {
			return a, nil
		}
	}
	return nil, refuse(404, "Instance %s is not attached to volume %s", s.id, r.arg("volume"))
}

func (c *Cloud) volumeAttachment(r *request) (answer, error) {
	a, err := c.attached(r)
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"volumeAttachment": attachmentDoc(r, a)})
}

// volumeAttachmentUpdate changes whether the volume goes with the server. Changing the volume itself is for
// administrators, and not simulated.
func (c *Cloud) volumeAttachmentUpdate(r *request) (answer, error) {
	in, err := r.cinderBody(attachmentUpdateSchema(r.version), "volumeAttachment")
	if err != nil {
		return answer{}, err
	}
	if str(in, "volumeId") != r.arg("volume") {
		return answer{}, forbidden(r, "os_compute_api:os-volumes-attachments:swap")
	}
	a, err := c.attached(r)
	if err != nil {
		return answer{}, err
	}
	for _, k := range []string{"device", "tag"} {
		if now := attachmentDoc(r, a)[k]; has(in, k) && in[k] != now {
			return answer{}, refuse(400, "The %s property is not mutable", k)
		}
	}
	if has(in, "delete_on_termination") {
		a.withServer, _ = parseBool(in["delete_on_termination"])
	}
	return answer{status: 202}, nil
}

func (c *Cloud) volumeDetach(r *request) (answer, error) {
	if _, err := c.findServer(r, r.arg("id")); err != nil {
		return answer{}, err
	}
	if v := c.block.volumes[r.arg("volume")]; v == nil {
		return answer{}, refuse(404, "Volume %s could not be found.", r.arg("volume"))
	}
	a, err := c.attached(r)
	switch {
	case err != nil:
		return answer{}, err
	case a.device == rootDevice:
		return answer{}, refuse(400, "Cannot detach a root device volume")
	}
	if err := needState(c.compute.servers[a.server], "detach_volume", false, "active", "suspended", "stopped", "resized", "soft-delete"); err != nil {
		return answer{}, err
	}
	if a.at.IsZero() || a.volume.status != "in-use" {
		return answer{}, refuse(400, "Invalid volume: Invalid input received: Invalid volume: Unable to detach volume. Volume status must be 'in-use' and attach_status must be 'attached' to detach. (HTTP 400)")
	}
	c.detach(a)
	return answer{status: 202}, nil
}
