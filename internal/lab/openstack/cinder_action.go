package openstack

import (
	"encoding/json"
	"strings"
)

// volumeActions are what a POST to a volume's action may ask for. What Nova alone asks for isn't there: the
// lab's Nova and Cinder talk to each other directly.
var volumeActions = map[string]func(*Cloud, *request, doc) (answer, error){
	"os-extend": (*Cloud).volumeExtend, "os-retype": (*Cloud).volumeRetype, "os-set_bootable": (*Cloud).volumeSetBootable,
	"os-update_readonly_flag": (*Cloud).volumeSetReadonly, "os-reset_status": (*Cloud).volumeResetStatus, "os-force_delete": (*Cloud).volumeForceDelete,
	"os-detach": (*Cloud).volumeForceDetach,
}

func (c *Cloud) volumeAction(r *request) (answer, error) {
	var in doc
	if json.Unmarshal(r.body, &in) != nil || len(in) != 1 {
		return answer{}, refuse(400, "Malformed request body")
	}
	name := sortedKeys(in)[0]
	do := volumeActions[name]
	if do == nil {
		return answer{}, refuse(400, "There is no such action: %s. Verify the request body and Content-Type header and try again.", name)
	}
	r.action = name
	if form := volumeActionSchema(name); form != nil {
		if err := form.check("", in); err != nil {
			return answer{}, err // before the volume is looked for
		}
	}
	return do(c, r, object(in, name))
}

func (c *Cloud) volumeExtend(r *request, in doc) (answer, error) {
	v, err := c.findVolume(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	size, _ := integer(in["new_size"])
	if size <= v.size {
		return answer{}, refuse(400, "Invalid input received: New size for extend must be greater than current size. (current: %d, extended: %d).", v.size, size)
	}
	before := v.status
	if before != "available" && (before != "in-use" || r.version < 42) {
		need := "available"
		if before == "in-use" && r.version >= 42 {
			need = "in-use"
		}
		return answer{}, refuse(400, "Invalid volume: Volume %s status must be '{'status': '%s'}' to extend, currently %s.", v.id, need, before)
	}
	if err := c.checkVolumeQuota(v.project, 0, size-v.size, size); err != nil {
		return answer{}, err
	}
	fails := r.fault != nil && r.fault.Outcome != "" || v.metadata["lab_fail"] == "extend"
	v.set(c, "extending")
	c.soon(v, func() {
		if fails {
			v.set(c, "error_extending")
			c.tellUser(v.project, v.id, r.id, "VOLUME_VOLUME_006_004", "extend volume:Failed to extend the volume.")
			return
		}
		v.size = size
		v.set(c, before)
	})
	return answer{status: 202}, nil
}

func (c *Cloud) volumeRetype(r *request, in doc) (answer, error) {
	v, err := c.findVolume(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	ref := text(in["new_type"])
	k := c.kindNamed(ref)
	if k == nil {
		return answer{}, noKind(ref)
	}
	before := v.status
	if before != "available" && before != "in-use" || k == v.kind {
		return answer{}, refuse(400, "Invalid volume: Retype needs volume to be in available or in-use state, not be part of an active migration or a consistency group, "+
			"requested type has to be different that the one from the volume, and for in-use volumes front-end qos specs cannot change.")
	}
	v.set(c, "retyping")
	c.soon(v, func() {
		v.kind = k
		v.set(c, before)
	})
	return answer{status: 202}, nil
}

func (c *Cloud) volumeSetBootable(r *request, in doc) (answer, error) {
	v, err := c.findVolume(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	v.bootable, _ = parseBool(in["bootable"])
	v.updated = c.now()
	return answer{status: 200}, nil
}

func (c *Cloud) volumeSetReadonly(r *request, in doc) (answer, error) {
	v, err := c.findVolume(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	if v.status != "available" {
		return answer{}, refuse(400, "Invalid volume: Volume %s status must be available to update readonly flag, but current status is: %s.", v.id, v.status)
	}
	on, _ := parseBool(in["readonly"])
	v.metadata["readonly"] = strings.ToUpper(text(on)[:1]) + text(on)[1:]
	v.updated = c.now()
	return answer{status: 202}, nil
}

func (c *Cloud) volumeResetStatus(r *request, in doc) (answer, error) {
	if err := r.needAdmin("volume_extension:volume_admin_actions:reset_status"); err != nil {
		return answer{}, err
	}
	v, err := c.findVolume(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	if s := str(in, "status"); s != "" {
		v.turn++
		v.set(c, s)
	}
	return answer{status: 202}, nil
}

func (c *Cloud) volumeForceDelete(r *request, _ doc) (answer, error) {
	if err := r.needAdmin("volume_extension:volume_admin_actions:force_delete"); err != nil {
		return answer{}, err
	}
	v, err := c.findVolume(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	c.removeVolume(v)
	return answer{status: 202}, nil
}

// volumeForceDetach is what users mustn't ask for: detaching is Nova's.
func (c *Cloud) volumeForceDetach(r *request, _ doc) (answer, error) {
	v, err := c.findVolume(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	if len(v.attachments) == 0 {
		return answer{}, &refusal{status: 500, message: "The server has either erred or is incapable of performing the requested operation."}
	}
	return answer{}, refuse(409, "Volume has a server attached: detach it through Nova.")
}

func (c *Cloud) volumeMetadata(r *request) (answer, error) {
	v, err := c.findVolume(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"metadata": v.metadata})
}

func (c *Cloud) volumeMetadataAdd(r *request) (answer, error) {
	return c.changeVolumeMetadata(r, func(have, in map[string]string) map[string]string {
		for k, v := range in {
			have[k] = v
		}
		return have
	})
}

func (c *Cloud) volumeMetadataReplace(r *request) (answer, error) {
	return c.changeVolumeMetadata(r, func(_, in map[string]string) map[string]string { return in })
}

func (c *Cloud) changeVolumeMetadata(r *request, change func(have, in map[string]string) map[string]string) (answer, error) {
	in, err := r.volumeMetadataBody()
	if err != nil {
		return answer{}, err
	}
	v, err := c.findVolume(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	v.metadata = change(v.metadata, in)
	return ok(doc{"metadata": v.metadata})
}

// volumeMetadataBody reads a body that is all metadata.
func (r *request) volumeMetadataBody() (map[string]string, error) {
	in, err := r.cinderBody(wrapped("metadata", cinderMetadata), "metadata")
	if err != nil {
		return nil, err
	}
	m, _ := stringMap(in)
	return m, nil
}

func noMetadatum(id, key string) error {
	return refuse(404, "Volume %s has no metadata with key %s.", id, key)
}

func (c *Cloud) volumeMetadatum(r *request) (answer, error) {
	v, err := c.findVolume(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	key := r.arg("key")
	if _, there := v.metadata[key]; !there {
		return answer{}, noMetadatum(v.id, key)
	}
	return ok(doc{"meta": doc{key: v.metadata[key]}})
}

func (c *Cloud) volumeMetadatumSet(r *request) (answer, error) {
	in, err := r.cinderBody(wrapped("meta", cinderMetadata), "meta")
	if err != nil {
		return answer{}, err
	}
	v, err := c.findVolume(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	key := r.arg("key")
	if !has(in, key) {
		return answer{}, refuse(400, "Request body and URI mismatch")
	}
	v.metadata[key] = str(in, key)
	return ok(doc{"meta": in})
}

func (c *Cloud) volumeMetadatumDelete(r *request) (answer, error) {
	v, err := c.findVolume(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	if _, there := v.metadata[r.arg("key")]; !there {
		return answer{}, noMetadatum(v.id, r.arg("key"))
	}
	delete(v.metadata, r.arg("key"))
	return answer{status: 200}, nil
}
