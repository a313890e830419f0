package openstack

import (
	"encoding/json"
	"slices"
	"sort"
	"strconv"
)

type flavor struct {
	id, name                          string
	description                       any // nil or a string
	vcpus, ram, disk, ephemeral, swap int
	rxtx                              float64
	public                            bool
	specs                             map[string]string
	access                            []string // projects that may use it though it isn't public
	number                            int      // by which the database knows it
}

// usableBy tells whether a project may see a flavor and boot servers of it.
func (f *flavor) usableBy(t *token) bool {
	return f.public || t.admin || t.project != nil && slices.Contains(f.access, t.project.id)
}

// frozen is what a server keeps of its flavor, whatever becomes of it.
func (f *flavor) frozen() *flavor {
	kept := *f
	return &kept
}

func (c *Cloud) flavorDoc(r *request, f *flavor) doc {
	d := doc{"id": f.id, "name": f.name, "ram": f.ram, "disk": f.disk, "vcpus": f.vcpus, "swap": "", "rxtx_factor": decimal(f.rxtx),
		"OS-FLV-EXT-DATA:ephemeral": f.ephemeral, "OS-FLV-DISABLED:disabled": false, "os-flavor-access:is_public": f.public, "links": r.links("flavors", f.id)}
	if r.version >= 75 || f.swap > 0 {
		d["swap"] = f.swap
	}
	if r.version >= 55 {
		d["description"] = f.description
	}
	if r.version >= 61 {
		d["extra_specs"] = f.specs
	}
	return d
}

func (c *Cloud) flavorList(r *request) (answer, error)   { return c.listFlavors(r, false) }
func (c *Cloud) flavorDetail(r *request) (answer, error) { return c.listFlavors(r, true) }

func (c *Cloud) listFlavors(r *request, detail bool) (answer, error) {
	floor := map[string]int{}
	for _, key := range []string{"minRam", "minDisk"} {
		if s := r.query.Get(key); s != "" {
			n, err := strconv.Atoi(s)
			if err != nil {
				return answer{}, refuse(400, "Invalid %s filter [%s]", key, s)
			}
			floor[key] = n
		}
	}
	var found []*flavor
	for _, f := range c.compute.flavors {
		if !c.shown(f.id) || f.ram < floor["minRam"] || f.disk < floor["minDisk"] {
			continue
		}
		switch v := r.query.Get("is_public"); {
		case !r.token.admin, v == "":
			if !f.public && !slices.Contains(f.access, r.token.project.id) {
				continue
			}
		case v != "None":
			if want, valid := parseBool(v); !valid {
				return answer{}, refuse(400, "Invalid is_public filter [%s]", v)
			} else if want != f.public {
				continue
			}
		}
		found = append(found, f)
	}
	sort.Slice(found, func(i, j int) bool { return found[i].id < found[j].id })
	ids := make([]string, len(found))
	for i, f := range found {
		ids[i] = f.id
	}
	from, to, next, err := r.page("flavors", ids, true)
	if err != nil {
		return answer{}, err
	}
	out := []any{}
	for _, f := range found[from:to] {
		if detail {
			out = append(out, c.flavorDoc(r, f))
		} else {
			out = append(out, doc{"id": f.id, "name": f.name, "links": r.links("flavors", f.id)})
		}
	}
	d := doc{"flavors": out}
	if next != nil {
		d["flavors_links"] = next
	}
	return ok(d)
}

func (c *Cloud) findFlavor(r *request) (*flavor, error) {
	f := c.compute.flavors[r.arg("id")]
	if f == nil || !f.usableBy(r.token) {
		return nil, refuse(404, "Flavor %s could not be found.", r.arg("id"))
	}
	return f, nil
}

func (c *Cloud) flavorShow(r *request) (answer, error) {
	f, err := c.findFlavor(r)
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"flavor": c.flavorDoc(r, f)})
}

func (c *Cloud) flavorCreate(r *request) (answer, error) {
	if err := r.needAdmin("os_compute_api:os-flavor-manage:create"); err != nil {
		return answer{}, err
	}
	whole, err := r.bodyAs(flavorSchema(r.version))
	if err != nil {
		return answer{}, err
	}
	in := object(whole, "flavor")
	f := &flavor{id: text(in["id"]), name: str(in, "name"), description: in["description"], public: true, rxtx: 1, specs: map[string]string{}}
	if f.id == "" || f.id == "auto" {
		f.id = c.ids.uuid()
	}
	for key, field := range map[string]*int{"ram": &f.ram, "vcpus": &f.vcpus, "disk": &f.disk, "OS-FLV-EXT-DATA:ephemeral": &f.ephemeral, "swap": &f.swap} {
		*field, _ = integer(in[key])
	}
	if v, err := strconv.ParseFloat(text(in["rxtx_factor"]), 64); err == nil {
		f.rxtx = v
	}
	if v, given := parseBool(in["os-flavor-access:is_public"]); given {
		f.public = v
	}
	for _, o := range c.compute.flavors {
		if o.name == f.name {
			return answer{}, refuse(409, "Flavor with name %s already exists.", f.name)
		}
		if o.id == f.id {
			return answer{}, refuse(409, "Flavor with ID %s already exists.", f.id)
		}
	}
	c.addFlavor(f)
	c.conceal(r, "flavor", f.id)
	return ok(doc{"flavor": c.flavorDoc(r, f)})
}

func (c *Cloud) addFlavor(f *flavor) {
	for _, o := range c.compute.flavors {
		f.number = max(f.number, o.number)
	}
	f.number++
	c.compute.flavors[f.id] = f
}

func (c *Cloud) adminFlavor(r *request, action string) (*flavor, error) {
	if err := r.needAdmin("os_compute_api:" + action); err != nil {
		return nil, err
	}
	return c.findFlavor(r)
}

func (c *Cloud) flavorUpdate(r *request) (answer, error) {
	if r.version < 55 {
		return answer{}, tooOld()
	}
	f, err := c.adminFlavor(r, "os-flavor-manage:update")
	if err != nil {
		return answer{}, err
	}
	whole, err := r.bodyAs(wrapped("flavor", object0([]string{"description"}, prop{"description", schema{types: []string{"string", "null"}, maxLen: 65535}})))
	if err != nil {
		return answer{}, err
	}
	f.description = object(whole, "flavor")["description"]
	return ok(doc{"flavor": c.flavorDoc(r, f)})
}

func (c *Cloud) flavorDelete(r *request) (answer, error) {
	f, err := c.adminFlavor(r, "os-flavor-manage:delete")
	if err != nil {
		return answer{}, err
	}
	delete(c.compute.flavors, f.id)
	return answer{status: 202}, nil
}

func (c *Cloud) extraSpecs(r *request) (answer, error) {
	f, err := c.findFlavor(r)
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"extra_specs": f.specs})
}

// setSpecs merges into a new map, since servers share the old one.
func (f *flavor) setSpecs(more map[string]string, without string) {
	specs := map[string]string{}
	for k, v := range f.specs {
		if k != without {
			specs[k] = v
		}
	}
	for k, v := range more {
		specs[k] = v
	}
	f.specs = specs
}

func (c *Cloud) extraSpecsAdd(r *request) (answer, error) {
	f, err := c.adminFlavor(r, "os-flavor-extra-specs:create")
	if err != nil {
		return answer{}, err
	}
	whole, err := r.bodyAs(wrapped("extra_specs", specsSchema()))
	if err != nil {
		return answer{}, err
	}
	in := object(whole, "extra_specs")
	specs := map[string]string{}
	for k, v := range in {
		specs[k] = text(v)
	}
	f.setSpecs(specs, "")
	return ok(doc{"extra_specs": in})
}

func (c *Cloud) extraSpecShow(r *request) (answer, error) {
	f, err := c.findFlavor(r)
	if err != nil {
		return answer{}, err
	}
	v, found := f.specs[r.arg("key")]
	if !found {
		return answer{}, refuse(404, "Flavor %s has no extra specs with key %s.", f.id, r.arg("key"))
	}
	return ok(doc{r.arg("key"): v})
}

func (c *Cloud) extraSpecSet(r *request) (answer, error) {
	f, err := c.adminFlavor(r, "os-flavor-extra-specs:update")
	if err != nil {
		return answer{}, err
	}
	form := specsSchema()
	in, err := r.bodyAs(&form)
	if err != nil {
		return answer{}, err
	}
	if len(in) > 1 {
		return answer{}, refuse(400, "%s has too many properties", pythonRepr(in))
	}
	v, named := in[r.arg("key")]
	if !named || len(in) != 1 {
		return answer{}, refuse(400, "Request body and URI mismatch")
	}
	f.setSpecs(map[string]string{r.arg("key"): text(v)}, "")
	return ok(in)
}

func (c *Cloud) extraSpecDelete(r *request) (answer, error) {
	f, err := c.adminFlavor(r, "os-flavor-extra-specs:delete")
	if err != nil {
		return answer{}, err
	}
	if _, found := f.specs[r.arg("key")]; !found {
		return answer{}, refuse(404, "Flavor %s has no extra specs with key %s.", f.id, r.arg("key"))
	}
	f.setSpecs(nil, r.arg("key"))
	return answer{status: 200}, nil
}

// decimal is a number that JSON shows with a fraction, as Python does.
func decimal(x float64) any {
	if x == float64(int64(x)) {
		return json.RawMessage(strconv.FormatFloat(x, 'f', 1, 64))
	}
	return x
}

func (f *flavor) accessDoc() doc {
	out := []any{}
	for _, p := range f.access {
		out = append(out, doc{"flavor_id": f.id, "tenant_id": p})
	}
	return doc{"flavor_access": out}
}

func (c *Cloud) flavorAccessList(r *request) (answer, error) {
	f, err := c.findFlavor(r)
	if err != nil {
		return answer{}, err
	}
	if err := r.needAdmin("os_compute_api:os-flavor-access"); err != nil {
		return answer{}, err
	}
	if f.public {
		return answer{}, refuse(404, "Access list not available for public flavors.")
	}
	return ok(f.accessDoc())
}

// flavorAccessChange lets a project use a flavor, or no longer.
func (c *Cloud) flavorAccessChange(r *request) (answer, error) {
	v, err := r.value()
	if err != nil {
		return answer{}, err
	}
	in, _ := v.(doc)
	if len(in) != 1 {
		return answer{}, refuse(400, "Malformed request body")
	}
	name := sortedKeys(in)[0]
	rule := map[string]string{"addTenantAccess": "add_tenant_access", "removeTenantAccess": "remove_tenant_access"}[name]
	if rule == "" {
		return answer{}, refuse(400, "There is no such action: %s", name)
	}
	if err := wrapped(name, flavorAccess).check("", v); err != nil {
		return answer{}, err
	}
	if err := r.needAdmin("os_compute_api:os-flavor-access:" + rule); err != nil {
		return answer{}, err
	}
	project := str(object(in, name), "tenant")
	if c.identity.projects[project] == nil {
		return answer{}, refuse(400, "Project ID %s is not a valid project.", project)
	}
	f, err := c.findFlavor(r)
	if err != nil {
		return answer{}, err
	}
	at := slices.Index(f.access, project)
	switch {
	case name == "addTenantAccess" && at >= 0:
		return answer{}, refuse(409, "Flavor access already exists for flavor %d and project %s combination.", f.number, project)
	case name == "addTenantAccess":
		f.access = append(slices.Clone(f.access), project)
	case at < 0:
		return answer{}, refuse(404, "Flavor access not found for %d / %s combination.", f.number, project)
	default:
		f.access = slices.Delete(slices.Clone(f.access), at, at+1)
	}
	return ok(f.accessDoc())
}
