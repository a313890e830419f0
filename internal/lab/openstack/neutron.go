package openstack

import (
	"strings"
	"time"
)

// network is Neutron's data: resources by kind and id, and the addresses in use by subnet.
type network struct {
	nouns  map[string]*noun // by collection name in the path: "networks"
	things map[string]map[string]*thing
	used   map[string]map[string]string // subnet id to address to port id
	quotas map[string]map[string]int    // project to resource to limit, where it isn't the default
	// external and externalSubnet are the provider's network that Config describes.
	external, externalSubnet string
}

// thing is a Neutron resource; doc has its attributes but those that all have.
type thing struct {
	noun             *noun
	id, project      string
	doc              doc
	tags             []string
	created, updated time.Time
	revision         int
}

// noun is what the generic code needs to know of a kind of resource.
type noun struct {
	name, plural string // "security_group", "security_groups"
	missing      string // exception name of its 404
	missingText  string // with %s for the id
	attributes   []attribute
	quota        string // resource name in quotas
	taggable     bool
	revision     int // of a new one
	// create completes t.doc, which has the attributes sent and defaults; update gets the attributes sent
	// only, and applies them to t.doc, or leaves that to the caller; "changed" among them says that it changed
	// something else; remove undoes what create has allocated. visible widens who sees the
	// thing beyond its project; show completes the copy that is sent.
	create  func(*Cloud, *request, *thing) error
	update  func(*Cloud, *request, *thing, doc) error
	remove  func(*Cloud, *request, *thing) error
	visible func(*Cloud, *thing) bool
	show    func(*Cloud, *request, *thing, doc)
	match   func(*Cloud, *thing, string, []string) (matched, known bool) // filters beyond attributes
}

func newNetwork() network {
	n := network{nouns: map[string]*noun{}, things: map[string]map[string]*thing{}, used: map[string]map[string]string{}, quotas: map[string]map[string]int{}}
	for _, x := range []*noun{networkNoun(), subnetNoun(), portNoun(), routerNoun(), floatingIPNoun(), securityGroupNoun(), securityGroupRuleNoun(), subnetPoolNoun()} {
		n.nouns[x.plural] = x
		n.things[x.name] = map[string]*thing{}
	}
	return n
}

// thing finds a resource by kind and id, nil if there is none.
func (c *Cloud) thing(kind, id string) *thing { return c.network.things[kind][id] }

// each calls f for all resources of a kind, sorted by id.
func (c *Cloud) each(kind string, f func(*thing)) {
	all := c.network.things[kind]
	for _, id := range sortedKeys(all) {
		if t := all[id]; t != nil {
			f(t)
		}
	}
}

func networkRoutes() []route {
	return []route{
		{method: "GET", pattern: "/", handle: (*Cloud).networkVersions, open: true},
		{method: "GET", pattern: "/v2.0", handle: (*Cloud).networkVersion, open: true},
		{method: "GET", pattern: "/v2.0/extensions", handle: (*Cloud).extensionList},
		{method: "GET", pattern: "/v2.0/extensions/{alias}", handle: (*Cloud).extensionShow},
		{method: "GET", pattern: "/v2.0/availability_zones", handle: (*Cloud).networkZones},
		{method: "GET", pattern: "/v2.0/quotas/{project}", handle: (*Cloud).networkQuotaShow},
		{method: "GET", pattern: "/v2.0/quotas/{project}/default", handle: (*Cloud).networkQuotaDefault},
		{method: "GET", pattern: "/v2.0/quotas/{project}/{details}", handle: (*Cloud).networkQuotaDetails},
		{method: "PUT", pattern: "/v2.0/quotas/{project}", handle: (*Cloud).networkQuotaUpdate},
		{method: "DELETE", pattern: "/v2.0/quotas/{project}", handle: (*Cloud).networkQuotaReset},
		{method: "PUT", pattern: "/v2.0/routers/{id}/add_router_interface", handle: (*Cloud).routerAttach},
		{method: "PUT", pattern: "/v2.0/routers/{id}/remove_router_interface", handle: (*Cloud).routerDetach},
		{method: "PUT", pattern: "/v2.0/routers/{id}/add_extraroutes", handle: (*Cloud).routesAdd},
		{method: "PUT", pattern: "/v2.0/routers/{id}/remove_extraroutes", handle: (*Cloud).routesRemove},
		{method: "GET", pattern: "/v2.0/security-groups", handle: as("security_groups", (*Cloud).neutronList)},
		{method: "POST", pattern: "/v2.0/security-groups", handle: as("security_groups", (*Cloud).neutronCreate)},
		{method: "GET", pattern: "/v2.0/security-groups/{id}", handle: as("security_groups", (*Cloud).neutronShow)},
		{method: "PUT", pattern: "/v2.0/security-groups/{id}", handle: as("security_groups", (*Cloud).neutronUpdate)},
		{method: "DELETE", pattern: "/v2.0/security-groups/{id}", handle: as("security_groups", (*Cloud).neutronDelete)},
		{method: "GET", pattern: "/v2.0/security-group-rules", handle: as("security_group_rules", (*Cloud).neutronList)},
		{method: "POST", pattern: "/v2.0/security-group-rules", handle: as("security_group_rules", (*Cloud).neutronCreate)},
		{method: "GET", pattern: "/v2.0/security-group-rules/{id}", handle: as("security_group_rules", (*Cloud).neutronShow)},
		{method: "DELETE", pattern: "/v2.0/security-group-rules/{id}", handle: as("security_group_rules", (*Cloud).neutronDelete)},
		{method: "GET", pattern: "/v2.0/{noun}", handle: (*Cloud).neutronList},
		{method: "POST", pattern: "/v2.0/{noun}", handle: (*Cloud).neutronCreate},
		{method: "GET", pattern: "/v2.0/{noun}/{id}", handle: (*Cloud).neutronShow},
		{method: "PUT", pattern: "/v2.0/{noun}/{id}", handle: (*Cloud).neutronUpdate},
		{method: "DELETE", pattern: "/v2.0/{noun}/{id}", handle: (*Cloud).neutronDelete},
		{method: "GET", pattern: "/v2.0/{noun}/{id}/tags", handle: (*Cloud).tagList},
		{method: "PUT", pattern: "/v2.0/{noun}/{id}/tags", handle: (*Cloud).tagReplace},
		{method: "DELETE", pattern: "/v2.0/{noun}/{id}/tags", handle: (*Cloud).tagClear},
		{method: "GET", pattern: "/v2.0/{noun}/{id}/tags/{tag}", handle: (*Cloud).tagCheck},
		{method: "PUT", pattern: "/v2.0/{noun}/{id}/tags/{tag}", handle: (*Cloud).tagAdd},
		{method: "DELETE", pattern: "/v2.0/{noun}/{id}/tags/{tag}", handle: (*Cloud).tagRemove},
	}
}

// as names the noun of a route whose path spells it with dashes.
func as(plural string, handle func(*Cloud, *request) (answer, error)) func(*Cloud, *request) (answer, error) {
	return func(c *Cloud, r *request) (answer, error) {
		r.args["noun"] = plural
		return handle(c, r)
	}
}

func refuseAs(status int, kind, message string) error {
	return &refusal{status: status, kind: kind, message: message}
}

func (n *noun) notFound(id string) error {
	return refuseAs(404, n.missing, strings.Replace(n.missingText, "%s", id, 1))
}

func (c *Cloud) nounOf(r *request) (*noun, error) {
	n := c.network.nouns[strings.ReplaceAll(r.arg("noun"), "-", "_")]
	if n == nil {
		return nil, refuseAs(404, "HTTPNotFound", "The resource could not be found.")
	}
	return n, nil
}

// sees tells whether the caller may read the thing.
func (c *Cloud) sees(r *request, t *thing) bool {
	return c.commands(r, t) || t.noun.visible != nil && t.noun.visible(c, t)
}

// commands tells whether the caller may change the thing: it is of the caller's project, or a port on a network of it.
func (c *Cloud) commands(r *request, t *thing) bool {
	if r.token.admin || t.project == r.token.project.id {
		return true
	}
	net := c.thing("network", str(t.doc, "network_id"))
	return t.noun.name == "port" && net != nil && net.project == r.token.project.id
}

// find gives the thing that a path or body names, if the caller may read it; write asks for the right to change it.
func (c *Cloud) findThing(r *request, n *noun, id string, write bool) (*thing, error) {
	t := c.network.things[n.name][id]
	if t != nil && !c.sees(r, t) && n.name == "security_group_rule" {
		return nil, refuseAs(404, "HTTPNotFound", "The resource could not be found.")
	}
	if t == nil || !c.sees(r, t) {
		return nil, n.notFound(id)
	}
	if write && !c.commands(r, t) {
		action := "update_"
		if r.http.Method == "DELETE" {
			action = "delete_"
		}
		return nil, forbidden(r, action+n.name)
	}
	return t, nil
}

func (c *Cloud) neutronShow(r *request) (answer, error) {
	n, err := c.nounOf(r)
	if err != nil {
		return answer{}, err
	}
	c.ensureDefaultGroup(r)
	t, err := c.findThing(r, n, r.arg("id"), false)
	if err != nil {
		return answer{}, err
	}
	return ok(doc{n.name: only(c.thingDoc(r, t), r.query["fields"])})
}

// thingDoc is the resource as the caller sees it.
func (c *Cloud) thingDoc(r *request, t *thing) doc {
	d := make(doc, len(t.doc)+8)
	for k, v := range t.doc {
		if a := t.noun.attribute(k); a == nil || !a.hidden && (!a.adminView || r.token == nil || r.token.admin) {
			d[k] = v
		}
	}
	d["id"], d["tenant_id"], d["project_id"] = t.id, t.project, t.project
	d["created_at"], d["updated_at"], d["revision_number"] = stamp(t.created), stamp(t.updated), t.revision
	if t.noun.taggable {
		d["tags"] = anyOf(t.tags)
	}
	if t.noun.show != nil {
		t.noun.show(c, r, t, d)
	}
	return d
}

func (c *Cloud) neutronUpdate(r *request) (answer, error) {
	n, err := c.nounOf(r)
	if err != nil {
		return answer{}, err
	}
	t, err := c.findThing(r, n, r.arg("id"), true)
	if err != nil {
		return answer{}, err
	}
	whole, err := r.neutronBody()
	if err != nil {
		return answer{}, err
	}
	in, err := n.inner(whole)
	if err != nil {
		return answer{}, err
	}
	if want, given := strings.CutPrefix(r.http.Header.Get("If-Match"), "revision_number="); given && want != text(t.revision) {
		return answer{}, refuseAs(412, "RevisionNumberConstraintFailed", "Constrained to "+want+", but current revision is "+text(t.revision))
	}
	d, err := n.acceptUpdate(r, in)
	if err != nil {
		return answer{}, err
	}
	if n.update != nil {
		if err := n.update(c, r, t, d); err != nil {
			return answer{}, err
		}
	}
	changed := d["changed"] == true
	delete(d, "changed")
	for k, v := range d {
		changed = changed || !sameJSON(t.doc[k], v)
		t.doc[k] = v
	}
	if changed {
		c.touch(t)
	}
	return ok(doc{n.name: c.thingDoc(r, t)})
}

// neutronBody reads the body, which has to be an object.
func (r *request) neutronBody() (doc, error) {
	whole, err := r.json()
	if err != nil || whole == nil {
		return nil, plainBad("Body contains invalid data")
	}
	return whole, nil
}

// inner returns the resource in a body.
func (n *noun) inner(whole doc) (doc, error) {
	v, found := whole[n.name]
	if !found {
		return nil, plainBad("Unable to find '" + n.name + "' in request body")
	}
	in, isObject := v.(doc)
	if !isObject {
		return nil, plainBad("Object '" + n.name + "' contains invalid data")
	}
	return in, nil
}

func (c *Cloud) touch(t *thing) {
	t.updated = c.now()
	t.revision++
}

func (c *Cloud) neutronDelete(r *request) (answer, error) {
	n, err := c.nounOf(r)
	if err != nil {
		return answer{}, err
	}
	t, err := c.findThing(r, n, r.arg("id"), true)
	if err != nil {
		return answer{}, err
	}
	if err := c.removeThing(r, t); err != nil {
		return answer{}, err
	}
	return noContent()
}

func (c *Cloud) removeThing(r *request, t *thing) error {
	if t.noun.remove != nil {
		if err := t.noun.remove(c, r, t); err != nil {
			return err
		}
	}
	delete(c.network.things[t.noun.name], t.id)
	return nil
}

// only keeps the fields asked for.
func only(d doc, fields []string) doc {
	if len(fields) == 0 {
		return d
	}
	out := doc{}
	for _, f := range fields {
		if v, found := d[f]; found {
			out[f] = v
		}
	}
	return out
}
