package openstack

import (
	"sort"
	"strconv"
)

type flavor struct {
	id, name, description       string
	vcpus, ram, disk, ephemeral int
	public                      bool
	specs                       map[string]string
}

// frozen is what a server keeps of its flavor, whatever becomes of it.
func (f *flavor) frozen() *flavor {
	kept := *f
	return &kept
}

func (c *Cloud) flavorDoc(r *request, f *flavor) doc {
	d := doc{"id": f.id, "name": f.name, "ram": f.ram, "disk": f.disk, "vcpus": f.vcpus, "swap": "", "rxtx_factor": 1.0,
		"OS-FLV-EXT-DATA:ephemeral": f.ephemeral, "OS-FLV-DISABLED:disabled": false, "os-flavor-access:is_public": f.public, "links": r.links("flavors", f.id)}
	if r.version >= 75 {
		d["swap"] = 0
	}
	if r.version >= 55 {
		d["description"] = orNil(f.description)
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
			if !f.public {
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
	if f == nil || !f.public && !r.token.admin {
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
	in, err := r.object("flavor")
	if err != nil {
		return answer{}, err
	}
	f := &flavor{id: str(in, "id"), name: str(in, "name"), description: str(in, "description"), public: true, specs: map[string]string{}}
	if f.id == "" || f.id == "auto" {
		f.id = c.ids.uuid()
	}
	for key, field := range map[string]*int{"ram": &f.ram, "vcpus": &f.vcpus, "disk": &f.disk, "OS-FLV-EXT-DATA:ephemeral": &f.ephemeral} {
		n, valid := integer(in[key])
		if has(in, key) && (!valid || n < 0) || !has(in, key) && key != "OS-FLV-EXT-DATA:ephemeral" || n < 1 && (key == "ram" || key == "vcpus") {
			return answer{}, invalidField(key, in[key], "'"+key+"' is a required number")
		}
		*field = n
	}
	if f.name == "" {
		return answer{}, invalidField("name", in["name"], "'' is too short")
	}
	if v, given := in["os-flavor-access:is_public"].(bool); given {
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
	c.compute.flavors[f.id] = f
	c.conceal(r, "flavor", f.id)
	return ok(doc{"flavor": c.flavorDoc(r, f)})
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
	in, err := r.object("flavor")
	if err != nil {
		return answer{}, err
	}
	f.description = str(in, "description")
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
	in, err := r.object("extra_specs")
	if err != nil {
		return answer{}, err
	}
	specs := map[string]string{}
	for k, v := range in {
		specs[k] = text(v)
	}
	f.setSpecs(specs, "")
	return ok(doc{"extra_specs": specs})
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
	in, err := r.json()
	if err != nil {
		return answer{}, err
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
