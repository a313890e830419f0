package openstack

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// balancing is Octavia's data.
type balancing struct {
	parts  map[string]map[string]*part // by kind and id
	quotas map[string]map[string]int   // project to resource to limit, where it isn't unlimited
}

// part is a load balancer, or a part of one; doc has its attributes but those that all have.
type part struct {
	kind             *partKind
	id, project      string
	balancer         string // id of the load balancer, its own for one
	pool             string // id of a member's or monitor's pool
	doc              doc
	tags             []string
	created, updated time.Time
	provisioning     string
	operating        string
	ownPort          bool // Octavia has made the VIP's port
}

// partKind is what the generic code needs to know of a kind of part.
type partKind struct {
	name, plural string // key of a body and of a list: "healthmonitor", "healthmonitors"
	label        string // in messages: "Health Monitor"
	argument     string // what Octavia calls the body in messages
	quota        string
	attributes   []lbAttribute
	filters      []string // attributes to filter by that have another name in the query, or aren't among attributes
}

// The states of a part.
const (
	lbActive        = "ACTIVE"
	lbError         = "ERROR"
	lbPendingCreate = "PENDING_CREATE"
	lbPendingUpdate = "PENDING_UPDATE"
	lbPendingDelete = "PENDING_DELETE"
)

var (
	balancerKind = &partKind{name: "loadbalancer", plural: "loadbalancers", label: "Load Balancer", argument: "load_balancer", quota: "load_balancer",
		attributes: balancerAttributes, filters: []string{"provider", "availability_zone"}}
	listenerKind = &partKind{name: "listener", plural: "listeners", label: "Listener", argument: "listener_", quota: "listener",
		attributes: listenerAttributes, filters: []string{"loadbalancer_id", "load_balancer_id"}}
	poolKind = &partKind{name: "pool", plural: "pools", label: "Pool", argument: "pool_", quota: "pool",
		attributes: poolAttributes, filters: []string{"loadbalancer_id", "load_balancer_id"}}
	memberKind  = &partKind{name: "member", plural: "members", label: "Member", argument: "member_", quota: "member", attributes: memberAttributes}
	monitorKind = &partKind{name: "healthmonitor", plural: "healthmonitors", label: "Health Monitor", argument: "health_monitor_", quota: "health_monitor",
		attributes: monitorAttributes, filters: []string{"pool_id"}}
	partKinds = []*partKind{balancerKind, listenerKind, poolKind, memberKind, monitorKind}
)

func newBalancing() balancing {
	b := balancing{parts: map[string]map[string]*part{}, quotas: map[string]map[string]int{}}
	for _, k := range partKinds {
		b.parts[k.name] = map[string]*part{}
	}
	return b
}

func balancingRoutes() []route {
	routes := []route{{method: "GET", pattern: "/", handle: (*Cloud).balancingVersions, open: true}}
	for _, v := range []string{"/v2", "/v2.0"} {
		at := func(method, path string, handle func(*Cloud, *request) (answer, error)) {
			routes = append(routes, route{method: method, pattern: v + path, handle: handle})
		}
		at("GET", "", (*Cloud).balancingRoot)
		at("GET", "/lbaas", (*Cloud).balancingRoot)
		at("GET", "/lbaas/providers", (*Cloud).providerList)
		at("GET", "/lbaas/flavors", emptyList("flavors"))
		at("GET", "/lbaas/availabilityzones", emptyList("availability_zones"))
		at("GET", "/lbaas/quotas", (*Cloud).lbQuotaList)
		at("GET", "/lbaas/quotas/{project}", (*Cloud).lbQuotaShow)
		at("GET", "/lbaas/quotas/{project}/default", (*Cloud).lbQuotaDefault)
		at("PUT", "/lbaas/quotas/{project}", (*Cloud).lbQuotaUpdate)
		at("DELETE", "/lbaas/quotas/{project}", (*Cloud).lbQuotaReset)
		for _, k := range []*partKind{balancerKind, listenerKind, poolKind, monitorKind} {
			at("GET", "/lbaas/"+k.plural, partList(k))
			at("GET", "/lbaas/"+k.plural+"/{id}", partShow(k))
		}
		at("POST", "/lbaas/loadbalancers", (*Cloud).balancerCreate)
		at("PUT", "/lbaas/loadbalancers/{id}", (*Cloud).balancerUpdate)
		at("DELETE", "/lbaas/loadbalancers/{id}", (*Cloud).balancerDelete)
		at("GET", "/lbaas/loadbalancers/{id}/status", (*Cloud).balancerStatus)
		at("GET", "/lbaas/loadbalancers/{id}/statuses", (*Cloud).balancerStatus)
		at("GET", "/lbaas/loadbalancers/{id}/stats", partStats(balancerKind))
		at("PUT", "/lbaas/loadbalancers/{id}/failover", (*Cloud).balancerFailover)
		at("POST", "/lbaas/listeners", (*Cloud).listenerCreate)
		at("PUT", "/lbaas/listeners/{id}", partUpdate(listenerKind))
		at("DELETE", "/lbaas/listeners/{id}", partDelete(listenerKind))
		at("GET", "/lbaas/listeners/{id}/stats", partStats(listenerKind))
		at("POST", "/lbaas/pools", (*Cloud).poolCreate)
		at("PUT", "/lbaas/pools/{id}", partUpdate(poolKind))
		at("DELETE", "/lbaas/pools/{id}", partDelete(poolKind))
		at("GET", "/lbaas/pools/{pool}/members", partList(memberKind))
		at("POST", "/lbaas/pools/{pool}/members", (*Cloud).memberCreate)
		at("PUT", "/lbaas/pools/{pool}/members", (*Cloud).memberBatch)
		at("GET", "/lbaas/pools/{pool}/members/{id}", partShow(memberKind))
		at("PUT", "/lbaas/pools/{pool}/members/{id}", partUpdate(memberKind))
		at("DELETE", "/lbaas/pools/{pool}/members/{id}", partDelete(memberKind))
		at("POST", "/lbaas/healthmonitors", (*Cloud).monitorCreate)
		at("PUT", "/lbaas/healthmonitors/{id}", partUpdate(monitorKind))
		at("DELETE", "/lbaas/healthmonitors/{id}", partDelete(monitorKind))
	}
	return routes
}

// octaviaReleases are the dates of the API's versions 2.0 to 2.26, which differ in what they know only.
var octaviaReleases = strings.Fields("2016-12-11T00 2018-04-20T00 2018-07-31T00 2018-12-18T00 2018-12-19T00 2019-01-21T00 2019-01-25T00 2018-01-25T12 2019-02-12T00 " +
	"2019-03-04T00 2019-03-05T00 2019-06-24T00 2019-09-11T00 2019-09-13T00 2019-11-10T00 2020-03-10T00 2020-03-15T00 2020-04-29T00 2020-04-29T01 2020-05-12T00 " +
	"2020-08-02T00 2020-09-03T00 2020-09-04T00 2020-09-07T00 2020-10-15T00 2021-10-02T00 2022-08-29T00")

func (c *Cloud) balancingVersions(r *request) (answer, error) {
	var all []any
	for i, date := range octaviaReleases {
		status := "SUPPORTED"
		if i == len(octaviaReleases)-1 {
			status = "CURRENT"
		}
		all = append(all, doc{"id": "v2." + strconv.Itoa(i), "status": status, "updated": date + ":00:00Z",
			"links": []any{doc{"rel": "self", "href": r.base + "/load-balancer/v2"}}})
	}
	return ok(doc{"versions": all})
}

func (c *Cloud) balancingRoot(*request) (answer, error) { return ok("v2") }

func (c *Cloud) providerList(*request) (answer, error) {
	return ok(doc{"providers": []any{doc{"name": "amphora", "description": "Octavia Amphora driver (noop backend)"}, doc{"name": "noop_driver", "description": "Noop provider"}}})
}

func emptyList(name string) func(*Cloud, *request) (answer, error) {
	return func(*Cloud, *request) (answer, error) { return ok(doc{name: []any{}, name + "_links": []any{}}) }
}

func (k *partKind) notFound(id string) error { return refuse(404, "%s %s not found.", k.label, id) }

var lbForbidden = refuse(403, "Policy does not allow this request to be performed.")

// findPart gives the part that a path or body names, if the caller may have it.
func (c *Cloud) findPart(r *request, k *partKind, id string) (*part, error) {
	p := c.balancing.parts[k.name][id]
	if p == nil {
		return nil, k.notFound(id)
	}
	if !r.token.admin && p.project != r.token.project.id {
		return nil, lbForbidden
	}
	return p, nil
}

// eachPart calls f for the parts of a kind, the oldest first.
func (c *Cloud) eachPart(k *partKind, f func(*part)) {
	all := make([]*part, 0, len(c.balancing.parts[k.name]))
	for _, p := range c.balancing.parts[k.name] {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *part) int {
		return cmp.Or(a.created.Truncate(time.Second).Compare(b.created.Truncate(time.Second)), cmp.Compare(a.id, b.id))
	})
	for _, p := range all {
		f(p)
	}
}

// partsOf lists the parts of a kind that fit.
func (c *Cloud) partsOf(k *partKind, fits func(*part) bool) []*part {
	var out []*part
	c.eachPart(k, func(p *part) {
		if fits(p) {
			out = append(out, p)
		}
	})
	return out
}

func (c *Cloud) listenersOfPool(pool string) []*part {
	return c.partsOf(listenerKind, func(p *part) bool { return p.doc["default_pool_id"] == pool })
}

func (c *Cloud) membersOf(pool string) []*part {
	return c.partsOf(memberKind, func(p *part) bool { return p.pool == pool })
}

// monitorOf is the health monitor of a pool, nil without one.
func (c *Cloud) monitorOf(pool string) *part {
	for _, p := range c.balancing.parts[monitorKind.name] {
		if p.pool == pool {
			return p
		}
	}
	return nil
}

func idsOf(parts []*part) []any {
	out := []any{}
	for _, p := range parts {
		out = append(out, doc{"id": p.id})
	}
	return out
}

const stampOctavia = "2006-01-02T15:04:05" // without a zone

// partDoc is the part as it is shown; full has the parts of it in place of their ids.
func (c *Cloud) partDoc(p *part, full bool) doc {
	d := make(doc, len(p.doc)+12)
	for k, v := range p.doc {
		d[k] = v
	}
	d["id"], d["project_id"], d["tenant_id"] = p.id, p.project, p.project
	d["provisioning_status"], d["operating_status"] = p.provisioning, p.operating
	d["tags"], d["created_at"], d["updated_at"] = anyOf(p.tags), p.created.UTC().Format(stampOctavia), nil
	if !p.updated.IsZero() {
		d["updated_at"] = p.updated.UTC().Format(stampOctavia)
	}
	all := func(parts []*part) []any {
		if !full {
			return idsOf(parts)
		}
		out := []any{}
		for _, x := range parts {
			out = append(out, c.partDoc(x, true))
		}
		return out
	}
	balancer := []any{doc{"id": p.balancer}}
	switch p.kind {
	case balancerKind:
		d["listeners"] = all(c.partsOf(listenerKind, func(x *part) bool { return x.balancer == p.id }))
		d["pools"] = all(c.partsOf(poolKind, func(x *part) bool { return x.balancer == p.id }))
	case listenerKind:
		d["l7policies"] = []any{}
		if !full {
			d["loadbalancers"] = balancer
		}
	case poolKind:
		d["listeners"], d["members"] = idsOf(c.listenersOfPool(p.id)), all(c.membersOf(p.id))
		if !full {
			d["loadbalancers"] = balancer
		}
		if full {
			d["healthmonitor"] = nil // even if it has one
		} else if m := c.monitorOf(p.id); m != nil {
			d["healthmonitor_id"] = m.id
		}
	case monitorKind:
		if !full {
			d["pools"] = []any{doc{"id": p.pool}}
		}
	}
	return d
}

func partShow(k *partKind) func(*Cloud, *request) (answer, error) {
	return func(c *Cloud, r *request) (answer, error) {
		p, err := c.findPart(r, k, r.arg("id"))
		if err == nil && k == memberKind && p.pool != r.arg("pool") {
			err = k.notFound(p.id)
		}
		if err != nil {
			return answer{}, err
		}
		return ok(doc{k.name: only(c.partDoc(p, false), r.query["fields"])})
	}
}

func partStats(k *partKind) func(*Cloud, *request) (answer, error) {
	return func(c *Cloud, r *request) (answer, error) {
		if _, err := c.findPart(r, k, r.arg("id")); err != nil {
			return answer{}, err
		}
		return ok(doc{"stats": doc{"active_connections": 0, "bytes_in": 0, "bytes_out": 0, "request_errors": 0, "total_connections": 0}})
	}
}

func (c *Cloud) balancerStatus(r *request) (answer, error) {
	lb, err := c.findPart(r, balancerKind, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	state := func(p *part) doc {
		return doc{"id": p.id, "name": p.doc["name"], "provisioning_status": p.provisioning, "operating_status": p.operating}
	}
	listeners := []any{}
	for _, l := range c.partsOf(listenerKind, func(x *part) bool { return x.balancer == lb.id }) {
		pools := []any{}
		if pool := c.balancing.parts[poolKind.name][text(l.doc["default_pool_id"])]; pool != nil {
			d := state(pool)
			members := []any{}
			for _, m := range c.membersOf(pool.id) {
				x := state(m)
				x["address"], x["protocol_port"] = m.doc["address"], m.doc["protocol_port"]
				members = append(members, x)
			}
			d["members"] = members
			if m := c.monitorOf(pool.id); m != nil {
				x := state(m)
				x["type"] = m.doc["type"]
				d["health_monitor"] = x
			}
			pools = append(pools, d)
		}
		d := state(l)
		d["pools"] = pools
		listeners = append(listeners, d)
	}
	d := state(lb)
	d["listeners"] = listeners
	return ok(doc{"statuses": doc{"loadbalancer": d}})
}

// octaviaError is how Octavia writes an error; what its router refuses is a text.
func octaviaError(e *refusal) any {
	title := http.StatusText(e.status)
	switch e.kind {
	case "HTTPBadRequest": // as its router calls all that it refuses before a handler is found
		title = http.StatusText(http.StatusBadRequest)
		fallthrough
	case "HTTPNotFound", "HTTPMethodNotAllowed":
		return []byte(strconv.Itoa(e.status) + " " + title + "\n\n" + e.message + "\n")
	}
	who := "Client"
	if e.status >= 500 {
		who = "Server"
	}
	return doc{"debuginfo": nil, "faultcode": who, "faultstring": e.message}
}
