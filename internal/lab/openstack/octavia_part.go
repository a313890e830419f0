package openstack

import (
	"net/netip"
	"slices"
	"strings"
)

// poolProtocols are the protocols that a listener's pool may speak.
var poolProtocols = map[string][]string{
	"TCP": {"HTTP", "HTTPS", "PROXY", "PROXYV2", "TCP"}, "HTTP": {"HTTP", "PROXY", "PROXYV2"}, "HTTPS": {"HTTPS", "PROXY", "PROXYV2", "TCP"},
	"TERMINATED_HTTPS": {"HTTP", "PROXY", "PROXYV2"}, "UDP": {"UDP"}, "SCTP": {"SCTP"},
}

// datagrams tells whether a protocol has no connections as TCP has them.
func datagrams(protocol string) bool { return protocol == "UDP" || protocol == "SCTP" }

func transport(protocol string) string {
	if datagrams(protocol) {
		return protocol
	}
	return "TCP"
}

func (c *Cloud) balancerOf(id string) *part { return c.balancing.parts[balancerKind.name][id] }

// hold marks the parts as being changed; it refuses if the load balancer is.
func (c *Cloud) hold(lb *part, others ...*part) error {
	all := append([]*part{lb}, others...)
	for _, p := range all {
		if p.kind != poolKind && p.provisioning != lbActive && (p == lb || p.provisioning != lbPendingCreate) {
			return refuse(409, "Load Balancer %s is immutable and cannot be updated.", lb.id)
		}
	}
	for _, p := range all {
		p.provisioning = lbPendingUpdate
	}
	return nil
}

// holdPool is hold for a change within a pool.
func (c *Cloud) holdPool(pool *part) ([]*part, error) {
	lb := c.balancerOf(pool.balancer)
	if pool.provisioning != lbActive {
		return nil, refuse(409, "Pool %s is immutable and cannot be updated.", pool.id)
	}
	touched := append(c.listenersOfPool(pool.id), pool)
	if err := c.hold(lb, touched...); err != nil {
		return nil, err
	}
	return append(touched, lb), nil
}

func (c *Cloud) listenerCreate(r *request) (answer, error) {
	in, err := r.lbBody("listener", "listener_")
	if err != nil {
		return answer{}, err
	}
	d, err := listenerKind.accept(r, in, false)
	if err != nil {
		return answer{}, err
	}
	lb, err := c.findPart(r, balancerKind, str(d, "loadbalancer_id"))
	if err != nil {
		return answer{}, err
	}
	if err := c.checkLBQuota(listenerKind, lb.project, 1); err != nil {
		return answer{}, err
	}
	touched := []*part{lb}
	if id := text(d["default_pool_id"]); id != "" {
		pool := c.balancing.parts[poolKind.name][id]
		if pool == nil || pool.balancer != lb.id {
			return answer{}, poolKind.notFound(id)
		}
		if err := fitting(str(d, "protocol"), str(pool.doc, "protocol")); err != nil {
			return answer{}, err
		}
	}
	if lb.provisioning != lbActive {
		return answer{}, refuse(409, "Load Balancer %s is immutable and cannot be updated.", lb.id)
	}
	if err := c.checkListener(lb, d); err != nil {
		return answer{}, err
	}
	lb.provisioning = lbPendingUpdate
	l := c.newPart(r, listenerKind, lb.project, lb.id, "", d)
	c.settle(c.workTime(), append(touched, l)...)
	return created(doc{"listener": c.partDoc(l, false)})
}

func fitting(listener, pool string) error {
	if !slices.Contains(poolProtocols[listener], pool) {
		return refuse(400, "Validation failure: The pool protocol '%s' is invalid while the listener protocol is '%s'.", pool, listener)
	}
	return nil
}

// checkListener refuses what can't be a listener of lb.
func (c *Cloud) checkListener(lb *part, d doc) error {
	protocol := str(d, "protocol")
	if err := checkHeaders(protocol, object(d, "insert_headers"), true); err != nil {
		return err
	}
	if err := checkTLS(protocol, d, true); err != nil {
		return err
	}
	for _, l := range c.partsOf(listenerKind, func(p *part) bool { return p.balancer == lb.id }) {
		if l.doc["protocol_port"] == d["protocol_port"] && transport(str(l.doc, "protocol")) == transport(protocol) {
			return refuse(409, "Another Listener on this Load Balancer is already using protocol %s and protocol_port %v", l.doc["protocol"], d["protocol_port"])
		}
	}
	return checkCIDRs(lb, d)
}

func checkCIDRs(lb *part, d doc) error {
	vip := text(lb.doc["vip_address"])
	for _, x := range list(d, "allowed_cidrs") {
		if p, err := netip.ParsePrefix(x.(string)); err == nil && ipVersion(p.Addr().String()) != ipVersion(vip) {
			return refuse(400, "Validation failure: CIDR %s IP version incompatible with VIP %s IP version.", x, vip)
		}
	}
	if len(list(d, "allowed_cidrs")) == 0 && has(d, "allowed_cidrs") {
		d["allowed_cidrs"] = nil
	}
	return nil
}

func checkHeaders(protocol string, headers doc, create bool) error {
	if len(headers) == 0 {
		return nil
	}
	if protocol != "HTTP" && protocol != "TERMINATED_HTTPS" {
		return refuse(400, "insert-headers is not a valid option for a %s protocol listener.", protocol)
	}
	names := sortedKeys(headers)
	shown := python(anyOf(names))
	if create {
		shown = "dict_keys(" + shown + ")"
	}
	for _, name := range names {
		if !slices.Contains([]string{"X-Forwarded-For", "X-Forwarded-Port", "X-Forwarded-Proto"}, name) && !strings.HasPrefix(name, "X-SSL-Client-") {
			return refuse(400, "%s is not a valid option for insert_headers", shown)
		}
	}
	return nil
}

// checkTLS refuses references to certificates: there is no key manager to get them from.
func checkTLS(protocol string, d doc, create bool) error {
	refs := append([]any{}, list(d, "sni_container_refs")...)
	if ref := text(d["default_tls_container_ref"]); ref != "" {
		refs = append(refs, ref)
	}
	switch {
	case protocol != "TERMINATED_HTTPS" && protocol != "PROMETHEUS" && len(refs) > 0:
		return refuse(400, "Validation failure: Certificate container references are not allowed on %s protocol listeners.", protocol)
	case protocol == "TERMINATED_HTTPS" && len(refs) == 0 && create:
		return refuse(400, "Validation failure: An SNI or default certificate container reference must be provided for TERMINATED_HTTPS protocol listeners.")
	case len(refs) > 0:
		return refuse(400, "Could not retrieve certificate: %s", python(refs))
	case text(d["client_authentication"]) != "" && d["client_authentication"] != "NONE":
		return refuse(400, "Validation failure: Client authentication setting %s requires a client CA container reference.", d["client_authentication"])
	}
	return nil
}

func (c *Cloud) poolCreate(r *request) (answer, error) {
	in, err := r.lbBody("pool", "pool_")
	if err != nil {
		return answer{}, err
	}
	d, err := poolKind.accept(r, in, false)
	if err != nil {
		return answer{}, err
	}
	var listener, lb *part
	switch {
	case d["loadbalancer_id"] != nil:
		lb, err = c.findPart(r, balancerKind, str(d, "loadbalancer_id"))
	case d["listener_id"] != nil:
		if listener, err = c.findPart(r, listenerKind, str(d, "listener_id")); err == nil {
			lb = c.balancerOf(listener.balancer)
			err = fitting(str(listener.doc, "protocol"), str(d, "protocol"))
		}
	default:
		err = refuse(400, "Validation failure: Must provide at least one of: loadbalancer_id, listener_id")
	}
	if err == nil {
		err = checkPool(d, "")
	}
	if err == nil {
		err = c.checkLBQuota(poolKind, lb.project, 1)
	}
	if err != nil {
		return answer{}, err
	}
	if id := text(d["listener_id"]); id != "" && listener == nil {
		if listener, err = c.findPart(r, listenerKind, id); err != nil {
			return answer{}, err
		}
	}
	touched := []*part{}
	if listener != nil {
		if listener.doc["default_pool_id"] != nil {
			return answer{}, refuse(409, "This listener already has a default pool")
		}
		touched = append(touched, listener)
	}
	if err := c.hold(lb, touched...); err != nil {
		return answer{}, err
	}
	pool := c.newPart(r, poolKind, lb.project, lb.id, "", d)
	if listener != nil {
		listener.doc["default_pool_id"] = pool.id
	}
	c.settle(c.workTime(), append(touched, lb, pool)...)
	return created(doc{"pool": c.partDoc(pool, false)})
}

// checkPool refuses a session persistence that the protocol can't have; protocol is that of a pool that exists.
func checkPool(d doc, protocol string) error {
	names := "UDP"
	if protocol == "" {
		protocol, names = str(d, "protocol"), "UDP and SCTP"
	}
	sp := object(d, "session_persistence")
	if sp == nil {
		return nil
	}
	kind, cookie := text(sp["type"]), text(sp["cookie_name"])
	switch {
	case datagrams(protocol) && cookie != "":
		return refuse(400, "Validation failure: Cookie names are not supported for UDP/SCTP pools.")
	case datagrams(protocol) && strings.HasSuffix(kind, "_COOKIE"):
		return refuse(400, "Validation failure: Session persistence of type %s is not supported for UDP/SCTP protocol pools.", kind)
	case !datagrams(protocol) && (sp["persistence_timeout"] != nil || sp["persistence_granularity"] != nil):
		return refuse(400, "Validation failure: persistence_timeout and persistence_granularity is only for %s protocol pools.", names)
	case cookie != "" && kind != "APP_COOKIE":
		return refuse(400, "Validation failure: Field \"cookie_name\" can only be specified with session persistence of type \"APP_COOKIE\".")
	case kind == "APP_COOKIE" && cookie == "":
		return refuse(400, "Validation failure: Field \"cookie_name\" must be specified when using the \"APP_COOKIE\" session persistence type.")
	}
	return nil
}

func (c *Cloud) monitorCreate(r *request) (answer, error) {
	in, err := r.lbBody("healthmonitor", "health_monitor_")
	if err != nil {
		return answer{}, err
	}
	d, err := monitorKind.accept(r, in, false)
	if err != nil {
		return answer{}, err
	}
	pool, err := c.findPart(r, poolKind, str(d, "pool_id"))
	if err != nil {
		return answer{}, err
	}
	if err := poolMonitor(str(d, "type"), str(pool.doc, "protocol")); err != nil {
		return answer{}, err
	}
	if err := c.checkLBQuota(monitorKind, pool.project, 1); err != nil {
		return answer{}, err
	}
	if pool.provisioning != lbActive || c.balancerOf(pool.balancer).provisioning != lbActive {
		_, err := c.holdPool(pool)
		return answer{}, err
	}
	if err := checkMonitor(d, str(pool.doc, "protocol")); err != nil {
		return answer{}, err
	}
	if c.monitorOf(pool.id) != nil {
		return answer{}, refuse(409, "This pool already has a health monitor")
	}
	touched, err := c.holdPool(pool)
	if err != nil {
		return answer{}, err
	}
	m := c.newPart(r, monitorKind, pool.project, pool.balancer, pool.id, d)
	c.settle(c.workTime(), append(touched, m)...)
	return created(doc{"healthmonitor": c.partDoc(m, false)})
}

// poolMonitor refuses a kind of monitor that a pool's protocol can't have.
func poolMonitor(kind, protocol string) error {
	switch {
	case datagrams(protocol) && !slices.Contains([]string{"UDP-CONNECT", "SCTP", "TCP", "HTTP"}, kind):
		return refuse(400, "Validation failure: The associated pool protocol is %s, so only a UDP-CONNECT/SCTP/TCP/HTTP health monitor is supported.", protocol)
	case !datagrams(protocol) && (kind == "UDP-CONNECT" || kind == "SCTP"):
		return refuse(400, "Validation failure: The %s type is only supported for pools of type UDP/SCTP.", kind)
	}
	return nil
}

// checkMonitor completes a monitor's attributes and refuses those that its kind can't have.
func checkMonitor(d doc, protocol string) error {
	kind := str(d, "type")
	web := kind == "HTTP" || kind == "HTTPS"
	for _, x := range []struct{ name, fallback string }{{"http_method", "GET"}, {"url_path", "/"}, {"expected_codes", "200"}} {
		if !web && d[x.name] != nil {
			return refuse(400, "%s is not a valid option for health monitors of type %s", x.name, kind)
		}
		if web && d[x.name] == nil {
			d[x.name] = x.fallback
		}
	}
	if err := checkDomain(d); err != nil {
		return err
	}
	return poolMonitor(kind, protocol)
}

func checkDomain(d doc) error {
	if text(d["domain_name"]) == "" {
		return nil
	}
	switch v, _ := d["http_version"].(float64); {
	case d["http_version"] == nil:
		return refuse(400, "Validation failure: 'http_version' must be specified when 'domain_name' is provided.")
	case v < 1.1:
		return refuse(400, "http_version 1.0 is not a valid option for health monitors HTTP 1.1 domain name health check")
	}
	return nil
}
