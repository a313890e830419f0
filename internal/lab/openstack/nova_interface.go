package openstack

import (
	"slices"
	"strings"
)

func interfaceAttachment(p *thing) doc {
	ips := []any{}
	for _, ip := range fixedIPs(p) {
		ips = append(ips, doc{"subnet_id": ip.subnet, "ip_address": ip.address})
	}
	return doc{"port_state": p.doc["status"], "port_id": p.id, "net_id": p.doc["network_id"], "mac_addr": p.doc["mac_address"], "fixed_ips": ips}
}

func (c *Cloud) interfaceList(r *request) (answer, error) {
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	out := []any{}
	for _, n := range s.nics {
		if p := c.thing("port", n.port); p != nil {
			d := interfaceAttachment(p)
			if r.version >= 70 {
				d["tag"] = nil
			}
			out = append(out, d)
		}
	}
	return ok(doc{"interfaceAttachments": out})
}

func (c *Cloud) interfaceShow(r *request) (answer, error) {
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	p := c.thing("port", r.arg("port"))
	switch {
	case p == nil || !c.sees(r, p):
		return answer{}, refuse(404, "Port id %s could not be found.", r.arg("port"))
	case p.doc["device_id"] != s.id:
		return answer{}, refuse(404, "Instance %s does not have a port with id %s", s.id, p.id)
	}
	return ok(doc{"interfaceAttachment": interfaceAttachment(p)})
}

func (c *Cloud) interfaceAttach(r *request) (answer, error) {
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	if err := needState(s, "attach_interface", true, "active", "paused", "stopped"); err != nil {
		return answer{}, err
	}
	whole, err := r.bodyAs(interfaceSchema(r.version))
	if err != nil {
		return answer{}, err
	}
	in := object(whole, "interfaceAttachment")
	n := networkRequest{network: str(in, "net_id"), port: str(in, "port_id")}
	if n.network != "" && n.port != "" {
		return answer{}, refuse(400, "Must not input both network_id and port_id")
	}
	if ips := list(in, "fixed_ips"); len(ips) > 0 {
		if n.network == "" {
			return answer{}, refuse(400, "Must input network_id when request IP address")
		}
		o, _ := ips[0].(doc)
		n.fixedIP = str(o, "ip_address")
	}
	if n.network == "" && n.port == "" {
		probe := *s
		probe.requested = nil
		if err := c.pickNetwork(r, &probe, true); err != nil {
			if e, isRefusal := err.(*refusal); isRefusal {
				e.status = 400
			}
			return answer{}, err
		}
		n = probe.requested[0]
	}
	if err := c.checkNetwork(r, n, s); err != nil {
		if n.network != "" && c.thing("network", n.network) == nil {
			return answer{}, refuse(500, "Unexpected API Error. Please report this at http://bugs.launchpad.net/nova/ and attach the Nova API log if possible.\n<class 'oslo_messaging.rpc.client.RemoteError'>")
		}
		if strings.HasPrefix(err.Error(), "Fixed IP address") {
			return answer{}, refuse(409, "Fixed IP %s is already in use.", n.fixedIP)
		}
		if e, isRefusal := err.(*refusal); isRefusal && n.port != "" && c.thing("port", n.port) == nil {
			e.status = 404
		}
		return answer{}, err
	}
	port, err := c.plugOne(s, n)
	if err != nil {
		return answer{}, err
	}
	c.noteEvent(r, s, "attach_interface")
	c.tellAddresses(s)
	return ok(doc{"interfaceAttachment": interfaceAttachment(port)})
}

func (c *Cloud) interfaceDetach(r *request) (answer, error) {
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	if err := needState(s, "detach_interface", true, "active", "paused", "stopped"); err != nil {
		return answer{}, err
	}
	at := slices.IndexFunc(s.nics, func(n nic) bool { return n.port == r.arg("port") })
	if at < 0 {
		return answer{}, refuse(404, "Instance %s doesn't have interface for port %s", s.id, r.arg("port"))
	}
	c.noteEvent(r, s, "detach_interface")
	port := r.arg("port")
	c.later(s, c.cfg.BootDelay/3, func() {
		at := slices.IndexFunc(s.nics, func(n nic) bool { return n.port == port })
		if at < 0 {
			return // asked for twice
		}
		c.unplugOne(s.nics[at])
		s.nics = slices.Delete(slices.Clone(s.nics), at, at+1)
	})
	return answer{status: 202}, nil
}
