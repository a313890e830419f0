package openstack

import (
	"slices"
	"strings"
)

// serverAction runs the one action that the body names.
func (c *Cloud) serverAction(r *request) (answer, error) {
	v, err := r.value()
	if err != nil {
		return answer{}, err
	}
	in, _ := v.(doc)
	if len(in) != 1 {
		return answer{}, refuse(400, "Malformed request body")
	}
	name := sortedKeys(in)[0]
	r.action = name
	if form := actionSchema(name, r.version); form != nil {
		if err := form.check("", in); err != nil {
			return answer{}, err
		}
	}
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	body := object(in, name)
	if s.locked && !r.token.admin && name != "lock" && name != "unlock" && name != "os-getConsoleOutput" {
		return answer{}, refuse(409, "Instance %s is locked", s.id)
	}
	switch name {
	case "os-start":
		err = c.powerOn(s)
	case "os-stop":
		err = c.powerOff(s)
	case "reboot":
		err = c.reboot(s, body)
	case "pause":
		err = c.flip(s, name, "active", "paused")
	case "unpause":
		err = c.flip(s, name, "paused", "active")
	case "suspend":
		err = c.flip(s, name, "active", "suspended")
	case "resume":
		err = c.flip(s, name, "suspended", "active")
	case "lock", "unlock":
		s.locked = name == "lock"
	case "resize":
		err = c.resize(r, s, body)
	case "confirmResize":
		if err = c.confirmResize(s); err == nil {
			c.noteEvent(r, s, name)
			return noContent()
		}
	case "revertResize":
		err = c.revertResize(s)
	case "rebuild":
		a, err := c.rebuild(r, s, body)
		if err == nil {
			c.noteEvent(r, s, name)
		}
		return a, err
	case "os-getConsoleOutput":
		return c.consoleOutput(s, body)
	case "addSecurityGroup", "removeSecurityGroup":
		err = c.changeGroup(r, s, body, name == "addSecurityGroup")
	case "os-resetState":
		if err = r.needAdmin("os_compute_api:os-admin-actions:reset_state"); err == nil {
			s.turn++
			c.settleServer(s, strings.ToLower(str(body, "state")))
		}
	case "forceDelete":
		_, err = c.serverDelete(r)
	default:
		return answer{}, refuse(400, "There is no such action: %s", name)
	}
	if err != nil {
		return answer{}, err
	}
	if !slices.Contains(noEvents, name) {
		c.noteEvent(r, s, name)
	}
	return answer{status: 202}, nil
}

// needState refuses an action that the server's state doesn't allow.
func needState(s *server, action string, idle bool, allowed ...string) error {
	if !slices.Contains(allowed, s.vmState) {
		return refuse(409, "Cannot '%s' instance %s while it is in vm_state %s", action, s.id, s.vmState)
	}
	if idle && s.taskState != "" {
		return refuse(409, "Cannot '%s' instance %s while it is in task_state %s", action, s.id, s.taskState)
	}
	return nil
}

// during sets a task and finishes it after a third of the boot delay.
func (c *Cloud) during(s *server, task string, end func()) {
	s.taskState, s.updated = task, c.now()
	c.later(s, c.cfg.BootDelay/3, end)
}

func (c *Cloud) powerOff(s *server) error {
	if err := needState(s, "stop", true, "active", "error"); err != nil {
		return err
	}
	c.during(s, "powering-off", func() {
		c.settleServer(s, "stopped")
		c.tellServer(ServerStopped, s)
	})
	return nil
}

func (c *Cloud) powerOn(s *server) error {
	if err := needState(s, "start", true, "stopped"); err != nil {
		return err
	}
	c.during(s, "powering-on", func() {
		c.settleServer(s, "active")
		c.tellServer(ServerStarted, s)
	})
	return nil
}

func (c *Cloud) reboot(s *server, body doc) error {
	kind := strings.ToUpper(str(body, "type"))
	task := "rebooting"
	allowed := []string{"active"}
	if kind == "HARD" {
		task = "rebooting_hard"
		allowed = []string{"active", "stopped", "paused", "suspended", "error"}
	}
	if err := needState(s, "reboot", kind == "SOFT", allowed...); err != nil {
		return err
	}
	if s.taskState != "" && s.taskState != "rebooting" {
		return refuse(409, "Cannot 'reboot' instance %s while it is in task_state %s", s.id, s.taskState)
	}
	s.turn++
	c.during(s, task, func() {
		c.settleServer(s, "active")
		c.tellServer(ServerRebooted, s)
	})
	return nil
}

// flip is for the states that a guest is frozen in.
func (c *Cloud) flip(s *server, action, from, to string) error {
	if err := needState(s, action, true, from); err != nil {
		return err
	}
	c.during(s, action, func() {
		c.settleServer(s, to)
		if to == "active" {
			c.tellServer(ServerStarted, s)
		} else {
			c.tellServer(ServerStopped, s)
		}
	})
	return nil
}

func (c *Cloud) resize(r *request, s *server, body doc) error {
	if err := needState(s, "resize", true, "active", "stopped"); err != nil {
		return err
	}
	f := c.compute.flavors[refID(body["flavorRef"])]
	switch {
	case f == nil:
		return refuse(400, "Flavor %s could not be found.", refID(body["flavorRef"]))
	case f.id == s.flavor.id:
		return refuse(400, "When resizing, instances must change flavor!")
	case f.disk < s.flavor.disk && f.disk == 0:
		return refuse(400, "Resize to zero disk flavor is not allowed.")
	}
	more := &flavor{vcpus: max(f.vcpus-s.flavor.vcpus, 0), ram: max(f.ram-s.flavor.ram, 0)}
	if err := c.checkComputeQuota(s.project, 0, more); err != nil {
		return err
	}
	s.resizeWasActive = s.vmState == "active"
	before := s.vmState
	c.during(s, "resize_prep", func() {
		target, _ := c.pickHost(s, f, s.host)
		if target == nil { // it runs on as it was, and only the list of its actions tells
			c.settleServer(s, before)
			s.events[len(s.events)-1].message = "Error"
			return
		}
		c.during(s, "resize_finish", func() {
			s.oldFlavor, s.flavor = s.flavor, f.frozen()
			s.oldHost = s.host
			c.moveTo(s, target)
			c.settleServer(s, "resized")
			if s.resizeWasActive {
				c.tellServer(ServerRebooted, s)
			}
		})
	})
	return nil
}

// moveTo puts a server and its ports on another host.
func (c *Cloud) moveTo(s *server, h *host) {
	s.host = h
	for _, n := range s.nics {
		if p := c.thing("port", n.port); p != nil {
			p.doc["device_owner"] = "compute:" + h.zone
			bindPort(p, h.name)
		}
	}
}

func (s *server) afterResize() string {
	if s.resizeWasActive {
		return "active"
	}
	return "stopped"
}

func (c *Cloud) confirmResize(s *server) error {
	if s.oldFlavor == nil && s.vmState != "resized" {
		return refuse(409, "Cannot 'confirmResize' instance %s while it is in vm_state %s", s.id, s.vmState)
	}
	if err := needState(s, "confirmResize", true, "resized"); err != nil {
		return err
	}
	c.settleServer(s, s.afterResize())
	s.oldFlavor = nil
	return nil
}

func (c *Cloud) revertResize(s *server) error {
	if err := needState(s, "revertResize", true, "resized"); err != nil {
		return err
	}
	c.during(s, "resize_reverting", func() {
		s.flavor, s.oldFlavor = s.oldFlavor, nil
		c.moveTo(s, s.oldHost)
		c.settleServer(s, s.afterResize())
		if s.resizeWasActive {
			c.tellServer(ServerRebooted, s)
		}
	})
	return nil
}

func (c *Cloud) rebuild(r *request, s *server, body doc) (answer, error) {
	if err := needState(s, "rebuild", true, "active", "stopped", "error"); err != nil {
		return answer{}, err
	}
	id := refID(body["imageRef"])
	if i := c.image.all[id]; i == nil || !i.visibleTo(r.token) {
		return answer{}, refuse(400, "Cannot find image for rebuild")
	}
	var root *disk
	volume := c.rootVolume(s)
	if volume != nil {
		root = &disk{size: volume.size}
	}
	if volume != nil && volume.imageMeta["image_id"] != id && r.version < 93 {
		return answer{}, refuse(400, "Image %s is unacceptable: Unable to rebuild with a different image for a volume-backed server.", id)
	}
	img, err := c.bootImage(r, id, s, root)
	if err != nil {
		return answer{}, err
	}
	if key := str(body, "key_name"); key != "" && c.compute.keypairs[s.user][key] == nil {
		return answer{}, refuse(400, "Invalid key_name provided.")
	}
	if has(body, "description") {
		s.description = body["description"]
	}
	if name := str(body, "name"); name != "" {
		s.name = name
	}
	if m, valid := stringMap(body["metadata"]); valid && m != nil {
		s.metadata = m
	}
	if data, given := body["user_data"]; given && r.version >= 57 {
		s.userData, _ = data.(string)
	}
	if key, given := body["key_name"]; given && r.version >= 54 {
		s.keyName, s.publicKey = "", ""
		if k := c.compute.keypairs[s.user][text(key)]; k != nil {
			s.keyName, s.publicKey = k.name, k.publicKey
		}
	}
	s.imageName, s.fault = img.name(), nil
	switch {
	case volume == nil:
		s.image = id
	case r.version >= 93:
		volume.takeImage(img)
	}
	stopped := s.vmState == "stopped"
	c.during(s, "rebuilding", func() {
		if s.metadata["lab_fail"] == "spawn" {
			c.failServer(s, "Failed to deploy instance: lab_fail=spawn was asked for")
			return
		}
		state := "active"
		if stopped {
			state = "stopped"
		}
		c.settleServer(s, state)
		s.launched = c.now()
		c.tellServer(ServerRebuilt, s)
		if stopped {
			c.tellServer(ServerStopped, s)
		}
	})
	d := c.changedDoc(r, s)
	if r.version >= 57 {
		d["user_data"] = orNil(s.userData)
	}
	d["adminPass"] = newSecret()[:12]
	return accepted(doc{"server": d})
}

func (c *Cloud) changeGroup(r *request, s *server, body doc, add bool) error {
	name, named := body["name"].(string)
	switch {
	case !named:
		return refuse(400, "Security group not specified")
	case strings.TrimSpace(name) == "":
		return refuse(400, "Security group name cannot be empty")
	}
	var group *thing
	count := 0
	c.each("security_group", func(t *thing) {
		if t.project == s.project && (str(t.doc, "name") == name || t.id == name) {
			group = t
			count++
		}
	})
	if count > 1 {
		return refuse(409, "Multiple security_group matches found for name '%s', use an ID to be more specific.", name)
	}
	if group == nil {
		return refuse(404, "Security group %s is not found for project %s", name, s.project)
	}
	changed := false
	for _, n := range s.nics {
		p := c.thing("port", n.port)
		if p == nil || p.doc["port_security_enabled"] != true {
			continue
		}
		groups := list(p.doc, "security_groups")
		at := slices.Index(groups, any(group.id))
		switch {
		case add && at >= 0: // Nova appends, and Neutron refuses
			return refuse(400, "Invalid input for security_groups. Reason: Duplicate items in the list: '%s'.\nNeutron server returns request_ids: ['%s']", group.id, r.id)
		case add:
			p.doc["security_groups"] = append(slices.Clone(groups), any(group.id))
			changed = true
		case !add && at >= 0:
			p.doc["security_groups"] = slices.Delete(slices.Clone(groups), at, at+1)
			changed = true
		}
	}
	if !changed {
		if add {
			return nil
		}
		return refuse(404, "Security group %s not associated with the instance %s", name, s.id)
	}
	return nil
}
