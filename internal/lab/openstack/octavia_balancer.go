package openstack

import (
	"net/netip"
	"slices"
	"time"
)

// newPart stores a part with the attributes that accept has checked.
func (c *Cloud) newPart(r *request, k *partKind, project, balancer, pool string, d doc) *part {
	p := &part{kind: k, id: c.ids.uuid(), project: project, balancer: balancer, pool: pool, created: c.now(), provisioning: lbPendingCreate, operating: "OFFLINE"}
	p.setTags(d)
	for _, name := range []string{"project_id", "tenant_id", "listener_id", "loadbalancer_id", "pool_id", "members", "healthmonitor", "default_pool", "listeners", "pools", "l7policies"} {
		delete(d, name)
	}
	p.doc = d
	c.balancing.parts[k.name][p.id] = p
	c.conceal(r, k.name, p.id)
	return p
}

// setTags takes the tags out of d.
func (p *part) setTags(d doc) {
	if l, sent := d["tags"].([]any); sent {
		p.tags = nil
		for _, t := range l {
			p.tags = append(p.tags, t.(string))
		}
		slices.Sort(p.tags)
	}
	delete(d, "tags")
}

func twice(tags any) bool {
	l, _ := tags.([]any)
	for i, t := range l {
		if slices.Contains(l[:i], t) {
			return true
		}
	}
	return false
}

// workTime is how long Octavia's worker takes for a change of what exists.
func (c *Cloud) workTime() time.Duration { return c.cfg.BootDelay / 3 }

// settle lets the worker carry out what is pending for the parts.
func (c *Cloud) settle(d time.Duration, parts ...*part) {
	c.after(d, func() {
		for _, p := range parts {
			switch p.provisioning {
			case lbPendingCreate, lbPendingUpdate:
				p.provisioning, p.updated = lbActive, c.now()
				if p.kind == monitorKind {
					p.operating = "ONLINE"
				}
			case lbPendingDelete:
				c.partGone(p)
			}
		}
	})
}

// partGone removes a part with what it holds.
func (c *Cloud) partGone(p *part) {
	delete(c.balancing.parts[p.kind.name], p.id)
	switch p.kind {
	case balancerKind:
		for _, k := range partKinds[1:] {
			for _, x := range c.partsOf(k, func(x *part) bool { return x.balancer == p.id }) {
				c.partGone(x)
			}
		}
		if port := c.thing("port", str(p.doc, "vip_port_id")); port != nil && p.ownPort {
			c.dropPort(port)
		}
	case poolKind:
		for _, l := range c.listenersOfPool(p.id) {
			l.doc["default_pool_id"] = nil
		}
		for _, m := range c.membersOf(p.id) {
			c.partGone(m)
		}
		if m := c.monitorOf(p.id); m != nil {
			c.partGone(m)
		}
	}
}

func (c *Cloud) balancerCreate(r *request) (answer, error) {
	in, err := r.lbBody("loadbalancer", "load_balancer")
	if err != nil {
		return answer{}, err
	}
	d, err := balancerKind.accept(r, in, false)
	if err != nil {
		return answer{}, err
	}
	project := r.token.project.id
	if want := text(d["project_id"]) + text(d["tenant_id"]); want != "" && want != project {
		if !r.token.admin {
			return answer{}, lbForbidden
		}
		project = want
	}
	network, subnet, err := c.vipPlace(r, d)
	if err != nil {
		return answer{}, err
	}
	switch {
	case d["flavor_id"] != nil:
		return answer{}, refuse(400, "Validation failure: Invalid flavor_id.")
	case d["availability_zone"] != nil:
		return answer{}, refuse(400, "Validation failure: Invalid availability zone.")
	case d["provider"] != "amphora" && d["provider"] != "noop_driver":
		return answer{}, refuse(400, "Provider '%s' is not enabled.", d["provider"])
	}
	if err := c.checkLBQuota(balancerKind, project, 1); err != nil {
		return answer{}, err
	}
	if twice(d["tags"]) {
		return answer{}, refuse(409, "Already an entity with that specified id.")
	}
	listeners, pools := list(d, "listeners"), list(d, "pools")
	lb := c.newPart(r, balancerKind, project, "", "", d)
	lb.balancer = lb.id
	if err := c.vipPort(lb, network, subnet); err != nil {
		delete(c.balancing.parts[balancerKind.name], lb.id)
		return answer{}, err
	}
	// The port of a load balancer that ends here stays, as the real one leaves it.
	if err := c.tree(r, lb, listeners, pools); err != nil {
		for _, k := range partKinds {
			for id, p := range c.balancing.parts[k.name] {
				if p.balancer == lb.id {
					delete(c.balancing.parts[k.name], id)
				}
			}
		}
		return answer{}, err
	}
	if r.fault != nil && r.fault.Outcome != "" {
		c.after(c.cfg.BootDelay, func() { lb.provisioning, lb.operating = lbError, lbError })
	} else {
		c.settle(c.cfg.BootDelay, lb)
	}
	return created(doc{"loadbalancer": c.partDoc(lb, true)})
}

// vipPlace finds the network and, if the body says it, the subnet of the virtual address.
func (c *Cloud) vipPlace(r *request, d doc) (network, subnet *thing, err error) {
	see := func(kind, label, id string) (*thing, error) {
		t := c.thing(kind, id)
		if t == nil || !c.sees(r, t) {
			return nil, refuse(400, "%s %s not found.", label, id)
		}
		return t, nil
	}
	if id := text(d["vip_port_id"]); id != "" {
		port, err := see("port", "Port", id)
		if err != nil {
			return nil, nil, err
		}
		if dev := str(port.doc, "device_id"); dev != "" {
			return nil, nil, refuse(400, "Validation failure: Port %s is already used by device %s ", id, dev)
		}
		for _, ip := range fixedIPs(port) {
			if want := text(d["vip_subnet_id"]); want != "" && want != ip.subnet {
				continue
			}
			if want := text(d["vip_address"]); want != "" && want != ip.address {
				continue
			}
			d["vip_address"] = ip.address
			return c.thing("network", str(port.doc, "network_id")), c.thing("subnet", ip.subnet), nil
		}
		return nil, nil, refuse(400, "Validation failure: Specified VIP address not found on the specified VIP port.")
	}
	if id := text(d["vip_network_id"]); id != "" {
		if network, err = see("network", "Network", id); err != nil {
			return nil, nil, err
		}
		subnets := c.subnetsOf(id)
		address, _ := netip.ParseAddr(text(d["vip_address"]))
		for _, s := range subnets {
			prefix, _ := netip.ParsePrefix(str(s.doc, "cidr"))
			fits := d["vip_subnet_id"] == nil || d["vip_subnet_id"] == s.id
			if fits && (!address.IsValid() || prefix.Contains(address)) {
				return network, s, nil
			}
		}
		switch {
		case d["vip_subnet_id"] != nil:
			return nil, nil, refuse(400, "Subnet %s not found.", d["vip_subnet_id"])
		case address.IsValid():
			return nil, nil, refuse(400, "Validation failure: Supplied network does not contain a subnet for VIP address specified.")
		}
		return nil, nil, refuse(400, "Validation failure: Supplied network does not contain a subnet.")
	}
	if id := text(d["vip_subnet_id"]); id != "" {
		if subnet, err = see("subnet", "Subnet", id); err != nil {
			return nil, nil, err
		}
		return c.thing("network", str(subnet.doc, "network_id")), subnet, nil
	}
	return nil, nil, refuse(400, "Validation failure: VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id.")
}

// vipPort makes the port of the virtual address, unless the body names one.
func (c *Cloud) vipPort(lb *part, network, subnet *thing) error {
	d := lb.doc
	d["vip_network_id"], d["vip_subnet_id"] = network.id, subnet.id
	if d["vip_port_id"] != nil {
		return nil
	}
	fixed := doc{"subnet_id": subnet.id}
	if a := text(d["vip_address"]); a != "" {
		fixed["ip_address"] = a
	}
	body := plainPort(network.id, "Octavia", "lb-"+lb.id)
	delete(body, "port_security_enabled")
	body["name"], body["admin_state_up"], body["fixed_ips"] = "octavia-lb-"+lb.id, false, []any{fixed}
	port, err := c.addThing(nil, c.network.nouns["ports"], lb.project, body)
	if err != nil {
		return refuse(500, "Provider '%s' reports error: %s\nNeutron server returns request_ids: ['%s']", d["provider"], err.Error(), newRequestID())
	}
	lb.ownPort = true
	d["vip_port_id"], d["vip_address"] = port.id, fixedIPs(port)[0].address
	return nil
}

// tree makes the parts that came with a load balancer. They stay PENDING_CREATE, as those of the real one do.
func (c *Cloud) tree(r *request, lb *part, listeners, pools []any) error {
	byName := map[string]string{}
	for _, l := range listeners {
		pool, given := l.(doc)["default_pool"].(doc)
		switch {
		case !given:
		case text(pool["name"]) == "":
			return refuse(400, "Validation failure: Pools must be named when creating a fully populated loadbalancer.")
		case len(pool) > 1:
			pools = append(pools, pool)
		default:
			byName[str(pool, "name")] = ""
		}
	}
	seen := map[string]bool{}
	for _, p := range pools {
		name := text(p.(doc)["name"])
		if seen[name] {
			return refuse(400, "Validation failure: Pool names must be unique when creating a fully populated loadbalancer.")
		}
		seen[name] = true
	}
	for name := range byName {
		if !seen[name] {
			return refuse(400, "Validation failure: Pool '%s' was referenced but no full definition was found.", name)
		}
	}
	if err := c.checkLBQuota(poolKind, lb.project, len(pools)); err != nil {
		return err
	}
	for _, p := range pools {
		d, err := poolKind.accept(r, p.(doc), true)
		if err != nil {
			return err
		}
		if err := checkPool(d, ""); err != nil {
			return err
		}
		members, monitor := list(d, "members"), object(d, "healthmonitor")
		pool := c.newPart(r, poolKind, lb.project, lb.id, "", d)
		byName[str(pool.doc, "name")] = pool.id
		if monitor != nil {
			m, err := monitorKind.accept(r, monitor, true)
			if err == nil {
				err = checkMonitor(m, str(pool.doc, "protocol"))
			}
			if err != nil {
				return err
			}
			c.newPart(r, monitorKind, lb.project, lb.id, pool.id, m)
		}
		for _, x := range members {
			m, err := memberKind.accept(r, x.(doc), true)
			if err == nil {
				_, err = c.addMember(r, pool, m)
			}
			if err != nil {
				return err
			}
		}
	}
	if err := c.checkLBQuota(listenerKind, lb.project, len(listeners)); err != nil {
		return err
	}
	for _, l := range listeners {
		d, err := listenerKind.accept(r, l.(doc), true)
		if err != nil {
			return err
		}
		if pool := object(d, "default_pool"); pool != nil {
			d["default_pool_id"] = byName[str(pool, "name")]
		}
		if err := c.checkListener(lb, d); err != nil {
			return err
		}
		c.newPart(r, listenerKind, lb.project, lb.id, "", d).updated = c.now()
	}
	return nil
}

func (c *Cloud) balancerUpdate(r *request) (answer, error) {
	in, err := r.lbBody("loadbalancer", "load_balancer")
	if err != nil {
		return answer{}, err
	}
	d, err := balancerKind.acceptUpdate(r, in)
	if err != nil {
		return answer{}, err
	}
	lb, err := c.findPart(r, balancerKind, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	if lb.provisioning != lbActive {
		return answer{}, refuse(409, "Invalid state %s of loadbalancer resource %s", lb.provisioning, lb.id)
	}
	lb.setTags(d)
	for k, v := range d {
		lb.doc[k] = v
	}
	lb.provisioning = lbPendingUpdate
	c.settle(c.workTime(), lb)
	return ok(doc{"loadbalancer": c.partDoc(lb, false)})
}

func (c *Cloud) balancerDelete(r *request) (answer, error) {
	lb, err := c.findPart(r, balancerKind, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	parts := c.partsOf(listenerKind, func(p *part) bool { return p.balancer == lb.id })
	parts = append(parts, c.partsOf(poolKind, func(p *part) bool { return p.balancer == lb.id })...)
	if len(parts) > 0 && !r.flag("cascade") {
		return answer{}, refuse(400, "Validation failure: Cannot delete Load Balancer %s - it has children", lb.id)
	}
	if lb.provisioning != lbActive && lb.provisioning != lbError {
		return answer{}, refuse(409, "Invalid state %s of loadbalancer resource %s", lb.provisioning, lb.id)
	}
	lb.provisioning = lbPendingDelete
	c.settle(c.workTime(), lb)
	return noContent()
}

func (c *Cloud) balancerFailover(r *request) (answer, error) {
	lb, err := c.findPart(r, balancerKind, r.arg("id"))
	switch {
	case err != nil:
		return answer{}, err
	case !r.token.admin:
		return answer{}, lbForbidden
	case lb.provisioning != lbActive && lb.provisioning != lbError:
		return answer{}, refuse(409, "Invalid state %s of loadbalancer resource %s", lb.provisioning, lb.id)
	}
	lb.provisioning = lbPendingUpdate
	c.settle(c.cfg.BootDelay, lb)
	return answer{status: 202}, nil
}
