package openstack

import (
	"sort"
	"strings"
)

// attribute is one field of a noun: who may send it when, its default and its check.
type attribute struct {
	name      string
	post, put bool
	required  bool
	fallback  any                    // when a create doesn't send it; attributes without post or fallback are set by create
	lazy      bool                   // no fallback: left out unless sent, for create to decide
	admin     bool                   // only an admin may send it
	adminPut  bool                   // only an admin may change it
	adminView bool                   // only an admin sees it
	strict    bool                   // who isn't an admin may not even send the default
	hidden    bool                   // nobody sees it
	unfound   bool                   // lists don't filter by it
	check     func(any) (any, error) // converts; an error's text is Neutron's reason, a refusal is sent as it is
}

func (n *noun) attribute(name string) *attribute {
	for i := range n.attributes {
		if n.attributes[i].name == name {
			return &n.attributes[i]
		}
	}
	return nil
}

var readOnly = map[string]bool{"id": true, "created_at": true, "updated_at": true, "revision_number": true, "tags": true, "status": true}

// accept checks a create's body and completes it with defaults.
func (n *noun) accept(r *request, in doc) (doc, error) {
	out := doc{}
	for i := range n.attributes {
		a := &n.attributes[i]
		v, sent := in[a.name]
		switch {
		case sent && !a.post:
			return nil, refuseAs(400, "HTTPBadRequest", "Attribute '"+a.name+"' not allowed in POST")
		case !sent && a.required:
			return nil, refuseAs(400, "HTTPBadRequest", "Failed to parse request. Required attribute '"+a.name+"' not specified")
		case !sent && a.lazy:
		case !sent:
			out[a.name] = a.fallback
		default:
			if a.admin && !r.token.admin && (a.strict || !sameJSON(v, a.fallback)) {
				return nil, forbiddenField("create_"+n.name, a.name)
			}
			checked, err := a.accept(v)
			if err != nil {
				return nil, err
			}
			out[a.name] = checked
		}
	}
	return out, n.unknown(in, "POST")
}

// acceptUpdate checks an update's body.
func (n *noun) acceptUpdate(r *request, in doc) (doc, error) {
	if err := n.unknown(in, "PUT"); err != nil {
		return nil, err
	}
	out := doc{}
	for k, v := range in {
		a := n.attribute(k)
		if k == "project_id" || k == "tenant_id" {
			if _, err := ownerOf(r, in); err != nil {
				return nil, err
			}
			return nil, refuseAs(400, "HTTPBadRequest", "Cannot update read-only attribute "+k)
		}
		if a == nil || !a.put {
			return nil, refuseAs(400, "HTTPBadRequest", "Cannot update read-only attribute "+k)
		}
		if (a.admin || a.adminPut) && !r.token.admin {
			return nil, forbiddenField("update_"+n.name, a.name)
		}
		checked, err := a.accept(v)
		if err != nil {
			return nil, err
		}
		out[k] = checked
	}
	return out, nil
}

func (n *noun) unknown(in doc, method string) error {
	var names []string
	for k := range in {
		if readOnly[k] && n.attribute(k) == nil {
			if method == "POST" {
				return refuseAs(400, "HTTPBadRequest", "Attribute '"+k+"' not allowed in POST")
			}
			return refuseAs(400, "HTTPBadRequest", "Cannot update read-only attribute "+k)
		}
		if n.attribute(k) == nil && k != "tenant_id" && k != "project_id" {
			names = append(names, k)
		}
	}
	if names != nil {
		sort.Strings(names)
		return refuseAs(400, "HTTPBadRequest", "Unrecognized attribute(s) '"+strings.Join(names, ", ")+"'")
	}
	return nil
}

func (a *attribute) accept(v any) (any, error) {
	if a.check == nil {
		return v, nil
	}
	checked, err := a.check(v)
	if _, whole := err.(*refusal); whole {
		return nil, err
	}
	if err != nil {
		return nil, refuseAs(400, "HTTPBadRequest", "Invalid input for "+a.name+". Reason: "+err.Error()+".")
	}
	return checked, nil
}

func nameAttributes() []attribute {
	return []attribute{
		{name: "name", post: true, put: true, fallback: "", check: checkName},
		{name: "description", post: true, put: true, fallback: "", check: checkName},
	}
}
