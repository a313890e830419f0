package openstack

import (
	"fmt"
	"net/netip"
	"regexp"
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
	adminView bool                   // only an admin sees it
	check     func(any) (any, error) // converts; the error's text is Neutron's reason
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
			if a.admin && !r.token.admin && !sameJSON(v, a.fallback) {
				return nil, forbidden(r, "create_"+n.name+":"+a.name)
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
		if a == nil || !a.put {
			return nil, refuseAs(400, "HTTPBadRequest", "Cannot update read-only attribute "+k)
		}
		if a.admin && !r.token.admin {
			return nil, forbidden(r, "update_"+n.name+":"+a.name)
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
		if n.attribute(k) == nil && (method == "PUT" || k != "tenant_id" && k != "project_id") {
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
	if err != nil {
		return nil, refuseAs(400, "HTTPBadRequest", "Invalid input for "+a.name+". Reason: "+err.Error()+".")
	}
	return checked, nil
}

func sameJSON(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

func checkName(v any) (any, error) {
	s, isText := v.(string)
	if !isText {
		return nil, fmt.Errorf("'%v' is not a valid string", v)
	}
	if len(s) > 255 {
		return nil, fmt.Errorf("'%s' exceeds maximum length of 255", s)
	}
	return s, nil
}

func checkBool(v any) (any, error) {
	b, valid := parseBool(v)
	if !valid {
		return nil, fmt.Errorf("'%v' cannot be converted to boolean", v)
	}
	return b, nil
}

var uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$`)

func checkUUID(v any) (any, error) {
	if s, isText := v.(string); isText && uuidForm.MatchString(s) {
		return s, nil
	}
	return nil, fmt.Errorf("'%v' is not a valid UUID", v)
}

func checkUUIDOrNone(v any) (any, error) {
	if v == nil || v == "" {
		return nil, nil
	}
	return checkUUID(v)
}

func checkIP(v any) (any, error) {
	s, _ := v.(string)
	a, err := netip.ParseAddr(s)
	if err != nil {
		return nil, fmt.Errorf("'%v' is not a valid IP address", v)
	}
	return a.String(), nil
}

func checkIPOrNone(v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	return checkIP(v)
}

func checkSubnet(v any) (any, error) {
	s, _ := v.(string)
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return nil, fmt.Errorf("'%v' is not a valid IP subnet", v)
	}
	if p.Masked() != p {
		return nil, fmt.Errorf("'%s' isn't a recognized IP subnet cidr, '%s' is recommended", s, p.Masked())
	}
	return p.String(), nil
}

func checkIPs(v any) (any, error) {
	l, isList := v.([]any)
	if v != nil && !isList {
		return nil, fmt.Errorf("'%v' is not a list", v)
	}
	out := []any{}
	for _, x := range l {
		a, err := checkIP(x)
		if err != nil {
			return nil, err
		}
		for _, y := range out {
			if y == a {
				return nil, refuse(400, "Duplicate items in the list: '%v'", a)
			}
		}
		out = append(out, a)
	}
	return out, nil
}

func checkUUIDs(v any) (any, error) {
	l, isList := v.([]any)
	if v != nil && !isList {
		return nil, fmt.Errorf("'%v' is not a list", v)
	}
	out := []any{}
	for _, x := range l {
		id, err := checkUUID(x)
		if err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, nil
}

// checkObjects wants a list of objects that have the keys named.
func checkObjects(keys ...string) func(any) (any, error) {
	return func(v any) (any, error) {
		l, isList := v.([]any)
		if v != nil && !isList {
			return nil, fmt.Errorf("'%v' is not a list", v)
		}
		out := []any{}
		for _, x := range l {
			o, isObject := x.(doc)
			if !isObject {
				return nil, fmt.Errorf("'%v' is not a dictionary", x)
			}
			for _, k := range keys {
				if str(o, k) == "" {
					return nil, refuse(400, "Validation of dictionary's keys failed. Missing keys: {'%s'}", k)
				}
			}
			out = append(out, o)
		}
		return out, nil
	}
}

func checkInt(low, high int) func(any) (any, error) {
	return func(v any) (any, error) {
		n, valid := integer(v)
		if !valid {
			return nil, fmt.Errorf("'%v' is not an integer", v)
		}
		if n < low || n > high {
			return nil, fmt.Errorf("'%d' is not in the valid range %d to %d", n, low, high)
		}
		return n, nil
	}
}

func checkOneOf(values ...string) func(any) (any, error) {
	return func(v any) (any, error) {
		for _, w := range values {
			if v == w {
				return v, nil
			}
		}
		return nil, fmt.Errorf("'%v' is not in ['%s']", v, strings.Join(values, "', '"))
	}
}

func nameAttributes() []attribute {
	return []attribute{
		{name: "name", post: true, put: true, fallback: "", check: checkName},
		{name: "description", post: true, put: true, fallback: "", check: checkName},
	}
}
