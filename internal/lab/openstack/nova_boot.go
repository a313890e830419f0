package openstack

import (
	"slices"
	"strconv"
	"time"
)

// later runs step after d unless something else has become of the server by then.
func (c *Cloud) later(s *server, d time.Duration, step func()) {
	turn := s.turn
	c.after(d, func() {
		if s.turn == turn && c.compute.servers[s.id] == s {
			step()
		}
	})
}

// boot takes a new server through scheduling, networking and spawning, a third of the delay each; volumes that
// it is created with come before the spawning.
// Metadata lab_delay=SECONDS makes the spawning last longer, lab_fail=spawn makes it fail, and lab_fail=volume the
// making of a volume.
func (c *Cloud) boot(s *server) {
	third := c.cfg.BootDelay / 3
	c.later(s, third, func() {
		var reason string
		if s.host, reason = c.pickHost(s, s.flavor, nil); s.host == nil {
			c.failServer(s, "No valid host was found. "+reason)
			return
		}
		s.taskState = "networking"
		s.updated = c.now()
		c.later(s, third, func() {
			if err := c.plug(s); err != nil {
				c.abortBuild(s, "Failed to allocate the network(s), not rescheduling.")
				return
			}
			c.giveDisks(s, func() {
				s.taskState = "spawning"
				s.updated = c.now()
				spawn := c.cfg.BootDelay - 2*third
				if extra, err := strconv.ParseFloat(s.metadata["lab_delay"], 64); err == nil {
					spawn += time.Duration(extra * float64(time.Second))
				}
				c.later(s, spawn, func() { c.spawned(s) })
			})
		})
	})
}

func (c *Cloud) spawned(s *server) {
	if s.shouldFail || s.metadata["lab_fail"] == "spawn" {
		c.unplug(s)
		c.giveBackDisks(s)
		s.host = nil
		c.failServer(s, "Exceeded maximum number of retries. Exhausted all hosts available for retrying build failures for instance "+s.id+".")
		return
	}
	c.settleServer(s, "active")
	s.launched, s.everActive = c.now(), true
	c.tellServer(ServerActive, s)
	c.tellAddresses(s)
}

// tellAddresses reports floating IPs that were associated with a port before the server had it.
func (c *Cloud) tellAddresses(s *server) {
	c.each("floatingip", func(f *thing) {
		if slices.ContainsFunc(s.nics, func(n nic) bool { return f.doc["port_id"] == n.port }) {
			c.tellFloatingIP(FloatingIPAssociated, c.floatingInfo(f))
		}
	})
}

func (c *Cloud) settleServer(s *server, vmState string) {
	s.vmState, s.taskState, s.updated = vmState, "", c.now()
}

func (c *Cloud) failServer(s *server, message string) {
	c.settleServer(s, "error")
	s.fault = &serverFault{code: 500, message: message, details: message, created: c.now()}
}

// pickHost finds the emptiest host that has room, is in the zone and obeys the server group. Without one, the
// reason is what Nova says: nothing when Placement has no candidate, a sentence when a filter refused all. A
// resize avoids the host that the server is on.
func (c *Cloud) pickHost(s *server, f *flavor, avoid *host) (best *host, reason string) {
	bestFree := -1
	for _, h := range c.compute.hosts {
		vcpus, ram, disk := c.load(h)
		if s.zone != "" && s.zone != h.zone || f.vcpus > h.vcpus || vcpus+f.vcpus > 4*h.vcpus || ram+f.ram > h.ram || disk+s.hostDisk(f) > h.disk {
			continue
		}
		if h == avoid || !c.groupAllows(s, h) {
			reason = "There are not enough hosts available."
			continue
		}
		if free := h.ram - ram; free > bestFree {
			best, bestFree = h, free
		}
	}
	return best, reason
}

// hostDisk is how much of a host's disk a server takes with a flavor.
func (s *server) hostDisk(f *flavor) int {
	if s.onVolume {
		return 0
	}
	return f.disk
}

// load sums up what runs on a host.
func (c *Cloud) load(h *host) (vcpus, ram, disk int) {
	for _, s := range c.compute.servers {
		if s.host == h {
			vcpus, ram, disk = vcpus+s.flavor.vcpus, ram+s.flavor.ram, disk+s.hostDisk(s.flavor)
		}
	}
	return vcpus, ram, disk
}

// plug makes or takes the ports and binds them to the host.
func (c *Cloud) plug(s *server) error {
	for _, n := range s.requested {
		if _, err := c.plugOne(s, n); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cloud) plugOne(s *server, n networkRequest) (*thing, error) {
	port := c.thing("port", n.port)
	switch {
	case n.port != "" && (port == nil || str(port.doc, "device_id") != ""):
		return nil, refuse(400, "Port %s is still in use.", n.port)
	case n.port == "":
		if c.thing("network", n.network) == nil {
			return nil, refuse(400, "Network %s could not be found.", n.network)
		}
		d := plainPort(n.network, "", "")
		delete(d, "port_security_enabled")
		if n.fixedIP != "" {
			d["fixed_ips"] = []any{doc{"ip_address": n.fixedIP}}
		}
		secure := c.thing("network", n.network).doc["port_security_enabled"] == true
		if len(s.groupIDs) > 0 && secure {
			groups := []any{}
			for _, id := range s.groupIDs {
				groups = append(groups, id)
			}
			d["security_groups"] = groups
		}
		if err := c.checkQuota(s.project, "port", 1); err != nil {
			return nil, err
		}
		var err error
		if port, err = c.addThing(nil, c.network.nouns["ports"], s.project, d); err != nil {
			return nil, err
		}
	}
	port.doc["device_id"], port.doc["device_owner"] = s.id, "compute:"+s.host.zone
	bindPort(port, s.host.name)
	c.touch(port)
	s.nics = append(s.nics, nic{port.id, n.port == ""})
	return port, nil
}

// unplug deletes the ports that Nova has made and frees the others.
func (c *Cloud) unplug(s *server) {
	for _, n := range s.nics {
		c.unplugOne(n)
	}
	s.nics = nil
}

func (c *Cloud) unplugOne(n nic) {
	port := c.thing("port", n.port)
	if port == nil {
		return
	}
	if n.made {
		c.dropPort(port)
		return
	}
	c.each("floatingip", func(f *thing) { // it stays with the port, but leads to no server
		if f.doc["port_id"] == port.id {
			c.tellFloatingIP(FloatingIPDisassociated, c.floatingInfo(f))
		}
	})
	port.doc["device_id"], port.doc["device_owner"] = "", ""
	unbindPort(port)
	c.touch(port)
}

func (c *Cloud) serverDelete(r *request) (answer, error) {
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	if s.locked && !r.token.admin {
		return answer{}, refuse(409, "Instance %s is locked", s.id)
	}
	if s.taskState == "deleting" {
		return noContent()
	}
	s.turn++
	s.taskState, s.updated = "deleting", c.now()
	c.later(s, c.cfg.BootDelay/3, func() {
		// The hook gets the addresses that the server had.
		gone := *s
		info := c.serverInfo(&gone)
		c.unplug(s)
		c.releaseAll(s)
		delete(c.compute.servers, s.id)
		if c.cfg.OnServer != nil && s.everActive {
			c.notices.add(func() { c.cfg.OnServer(ServerDeleted, info) })
		}
	})
	return noContent()
}
