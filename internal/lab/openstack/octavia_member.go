package openstack

import (
	"maps"
	"slices"
)

// poolInPath finds the pool whose members a path is about.
func (c *Cloud) poolInPath(r *request) (*part, error) {
	id := r.arg("pool")
	pool := c.balancing.parts[poolKind.name][id]
	if pool == nil {
		return nil, &refusal{status: 404, kind: "HTTPBadRequest", message: "The server could not comply with the request since it is either malformed or otherwise incorrect.\n\n Pool " + id + " not found."}
	}
	if !r.token.admin && pool.project != r.token.project.id {
		return nil, lbForbidden
	}
	return pool, nil
}

func (c *Cloud) memberCreate(r *request) (answer, error) {
	pool, err := c.poolInPath(r)
	if err != nil {
		return answer{}, err
	}
	in, err := r.lbBody("member", "member_")
	if err != nil {
		return answer{}, err
	}
	d, err := memberKind.accept(r, in, false)
	if err != nil {
		return answer{}, err
	}
	if err := c.checkMember(r, d); err != nil {
		return answer{}, err
	}
	if err := c.checkLBQuota(memberKind, pool.project, 1); err != nil {
		return answer{}, err
	}
	touched, err := c.holdPool(pool)
	if err != nil {
		return answer{}, err
	}
	m, err := c.addMember(r, pool, d)
	if err != nil {
		for _, p := range touched {
			p.provisioning = lbActive
		}
		return answer{}, err
	}
	c.settle(c.workTime(), append(touched, m)...)
	return created(doc{"member": c.partDoc(m, false)})
}

func (c *Cloud) checkMember(r *request, d doc) error {
	if d["address"] == "169.254.169.254" {
		return refuse(400, "169.254.169.254 is not a valid option for member address")
	}
	if id := text(d["subnet_id"]); id != "" {
		if s := c.thing("subnet", id); s == nil || !c.sees(r, s) {
			return refuse(400, "Subnet %s not found.", id)
		}
	}
	return nil
}

func (c *Cloud) addMember(r *request, pool *part, d doc) (*part, error) {
	for _, m := range c.membersOf(pool.id) {
		if m.doc["address"] == d["address"] && m.doc["protocol_port"] == d["protocol_port"] {
			return nil, refuse(409, "Another member on this pool is already using ip %s on protocol_port %v", d["address"], d["protocol_port"])
		}
	}
	m := c.newPart(r, memberKind, pool.project, pool.balancer, pool.id, d)
	if c.monitorOf(pool.id) == nil {
		m.operating = "NO_MONITOR"
	}
	return m, nil
}

// memberBatch makes a pool's members those that the body lists.
func (c *Cloud) memberBatch(r *request) (answer, error) {
	pool, err := c.poolInPath(r)
	if err != nil {
		return answer{}, err
	}
	v, err := r.lbValue("members", "members_")
	if err != nil {
		return answer{}, err
	}
	listed, isList := v.([]any)
	if !isList {
		return answer{}, notAnObject(v)
	}
	many := *memberKind
	many.name, many.argument = "members", "members_"
	var wanted []doc
	for _, x := range listed {
		in, isObject := x.(doc)
		if !isObject {
			return answer{}, notAnObject(x)
		}
		d, err := many.accept(r, in, false)
		if err != nil {
			return answer{}, err
		}
		for k := range d { // what an update doesn't say stays, but for what has a default
			if a := memberKind.attribute(k); !has(in, k) && (a.fallback == nil || k == "name") {
				delete(d, k)
			}
		}
		wanted = append(wanted, d)
	}
	have := c.membersOf(pool.id)
	if len(have) == 0 && len(wanted) == 0 {
		return answer{status: 202}, nil
	}
	same := func(m *part) func(doc) bool {
		return func(d doc) bool {
			return m.doc["address"] == d["address"] && m.doc["protocol_port"] == d["protocol_port"]
		}
	}
	grow := 0
	for _, d := range wanted {
		if !slices.ContainsFunc(have, func(m *part) bool { return same(m)(d) }) {
			if err := c.checkMember(r, d); err != nil {
				return answer{}, err
			}
			grow++
		}
	}
	keep := r.flag("additive_only")
	if !keep {
		grow -= len(have) - (len(wanted) - grow)
	}
	if err := c.checkLBQuota(memberKind, pool.project, grow); err != nil {
		return answer{}, err
	}
	touched, err := c.holdPool(pool)
	if err != nil {
		return answer{}, err
	}
	for _, m := range have {
		i := slices.IndexFunc(wanted, same(m))
		switch {
		case i >= 0:
			m.setTags(wanted[i])
			maps.Copy(m.doc, wanted[i])
			m.provisioning = lbPendingUpdate
			wanted = slices.Delete(wanted, i, i+1)
		case keep:
			continue
		default:
			m.provisioning = lbPendingDelete
		}
		touched = append(touched, m)
	}
	for _, d := range wanted {
		for _, a := range memberKind.attributes {
			if !has(d, a.name) {
				d[a.name] = a.fallback
			}
		}
		m, err := c.addMember(r, pool, d)
		if err != nil {
			return answer{}, err
		}
		touched = append(touched, m)
	}
	c.settle(c.workTime(), touched...)
	return answer{status: 202}, nil
}

// partUpdate changes a listener, pool, member or monitor.
func partUpdate(k *partKind) func(*Cloud, *request) (answer, error) {
	return func(c *Cloud, r *request) (answer, error) {
		in, err := r.lbBody(k.name, k.argument)
		if err != nil {
			return answer{}, err
		}
		d, err := k.acceptUpdate(r, in)
		if err != nil {
			return answer{}, err
		}
		p, err := c.findPart(r, k, r.arg("id"))
		if err != nil {
			return answer{}, err
		}
		lb := c.balancerOf(p.balancer)
		touched := []*part{lb, p}
		switch k {
		case listenerKind:
			err = c.checkListenerUpdate(lb, p, d)
			if err == nil {
				err = c.hold(lb, p)
			}
		case poolKind:
			if err = checkPool(d, str(p.doc, "protocol")); err == nil {
				touched = append(touched, c.listenersOfPool(p.id)...)
				err = c.hold(lb, c.listenersOfPool(p.id)...)
			}
			if sp := object(d, "session_persistence"); sp != nil && sp["type"] == nil {
				delete(d, "session_persistence")
			}
		case memberKind, monitorKind:
			if k == monitorKind {
				err = checkMonitorUpdate(p, d)
			}
			if err == nil {
				var held []*part
				held, err = c.holdPool(c.balancing.parts[poolKind.name][p.pool])
				touched = append(touched, held...)
			}
		}
		if err != nil {
			return answer{}, err
		}
		p.provisioning = lbPendingUpdate
		p.setTags(d)
		maps.Copy(p.doc, d)
		c.settle(c.workTime(), touched...)
		return ok(doc{k.name: c.partDoc(p, false)})
	}
}

func (c *Cloud) checkListenerUpdate(lb, p *part, d doc) error {
	protocol := str(p.doc, "protocol")
	if err := checkTLS(protocol, d, false); err != nil {
		return err
	}
	if err := checkHeaders(protocol, object(d, "insert_headers"), false); err != nil {
		return err
	}
	if err := checkCIDRs(lb, d); err != nil {
		return err
	}
	if id := text(d["default_pool_id"]); id != "" {
		pool := c.balancing.parts[poolKind.name][id]
		if pool == nil || pool.balancer != lb.id {
			return poolKind.notFound(id)
		}
		return fitting(protocol, str(pool.doc, "protocol"))
	}
	return nil
}

func checkMonitorUpdate(p *part, d doc) error {
	kind := str(p.doc, "type")
	if kind != "HTTP" && kind != "HTTPS" {
		for _, name := range []string{"http_method", "url_path", "expected_codes"} {
			if has(d, name) {
				return refuse(400, "%s is not a valid option for health monitors of type %s", name, kind)
			}
		}
	}
	for _, name := range []string{"delay", "max_retries", "timeout"} {
		if has(d, name) && d[name] == nil {
			return refuse(400, "None is not a valid option for %s", name)
		}
	}
	will := maps.Clone(p.doc)
	maps.Copy(will, d)
	return checkDomain(will)
}

// partDelete deletes a listener, pool, member or monitor.
func partDelete(k *partKind) func(*Cloud, *request) (answer, error) {
	return func(c *Cloud, r *request) (answer, error) {
		p, err := c.findPart(r, k, r.arg("id"))
		if err != nil {
			return answer{}, err
		}
		lb := c.balancerOf(p.balancer)
		touched := []*part{lb, p}
		switch k {
		case listenerKind:
			err = c.hold(lb, p)
		case poolKind:
			touched = append(touched, c.listenersOfPool(p.id)...)
			err = c.hold(lb, c.listenersOfPool(p.id)...)
		default:
			var held []*part
			held, err = c.holdPool(c.balancing.parts[poolKind.name][p.pool])
			touched = append(touched, held...)
		}
		if err != nil {
			return answer{}, err
		}
		p.provisioning = lbPendingDelete
		c.settle(c.workTime(), touched...)
		return noContent()
	}
}
