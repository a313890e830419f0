package openstack

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func (k *partKind) attribute(name string) *lbAttribute {
	for i := range k.attributes {
		if k.attributes[i].name == name {
			return &k.attributes[i]
		}
	}
	return nil
}

// lbValue returns what the body has under key; argument is what Octavia calls the body.
func (r *request) lbValue(key, argument string) (any, error) {
	if len(r.body) == 0 {
		return nil, refuse(400, "Missing argument: %q", argument)
	}
	whole, err := r.json()
	if err != nil {
		if r.body[0] == '[' {
			return nil, notAnObject([]any{})
		}
		return nil, refuse(400, "Request is not in valid JSON format")
	}
	v, sent := whole[key]
	if !sent {
		return nil, refuse(500, "'UnsetType' object has no attribute 'project_id'")
	}
	return v, nil
}

// lbBody returns the object under key in the request's body.
func (r *request) lbBody(key, argument string) (doc, error) {
	v, err := r.lbValue(key, argument)
	if err != nil {
		return nil, err
	}
	d, isObject := v.(doc)
	if !isObject {
		return nil, notAnObject(v)
	}
	return d, nil
}

func notAnObject(v any) error {
	kind := "str"
	if _, isList := v.([]any); isList {
		kind = "list"
	}
	return refuse(500, "'%s' object has no attribute 'keys'", kind)
}

// accept checks a create's attributes and completes them with defaults; in a tree some belong elsewhere.
func (k *partKind) accept(r *request, in doc, nested bool) (doc, error) {
	if err := k.unknown(in, true, nested); err != nil {
		return nil, err
	}
	out := doc{}
	for i := range k.attributes {
		a := &k.attributes[i]
		v, sent := in[a.name]
		switch {
		case !a.post || nested && a.parental():
		case !sent && a.required:
			return nil, refuse(400, "Invalid input for field/attribute %s. Value: 'None'. Mandatory field missing.", a.name)
		case !sent || v == nil:
			out[a.name] = a.fallback
		default:
			checked, err := a.accept(r, k, v)
			if err != nil {
				return nil, err
			}
			out[a.name] = checked
		}
	}
	return out, nil
}

// parental tells whether the attribute says what the part belongs to, which the tree says otherwise.
func (a *lbAttribute) parental() bool {
	return slices.Contains([]string{"loadbalancer_id", "listener_id", "pool_id", "project_id", "tenant_id"}, a.name)
}

// acceptUpdate checks an update's attributes.
func (k *partKind) acceptUpdate(r *request, in doc) (doc, error) {
	if err := k.unknown(in, false, false); err != nil {
		return nil, err
	}
	out := doc{}
	for name, v := range in {
		a := k.attribute(name)
		if v == nil {
			if name != "tags" { // which stay
				out[name] = a.reset
			}
			continue
		}
		checked, err := a.accept(r, k, v)
		if err != nil {
			return nil, err
		}
		out[name] = checked
	}
	return out, nil
}

func (k *partKind) unknown(in doc, post, nested bool) error {
	var names []string
	for name := range in {
		if a := k.attribute(name); a == nil || post && !a.post || !post && !a.put || nested && a.parental() {
			names = append(names, name)
		}
	}
	if names == nil {
		return nil
	}
	slices.Sort(names)
	return refuse(400, "Unknown attribute for argument %s.%s: %s", k.argument, k.name, strings.Join(names, ", "))
}

func (a *lbAttribute) accept(r *request, k *partKind, v any) (any, error) {
	checked, err := a.check(v)
	switch err := err.(type) {
	case nil:
		return checked, nil
	case *refusal:
		return nil, err
	case badBody:
		whole, jsonErr := r.json()
		if jsonErr != nil {
			return nil, jsonErr
		}
		return nil, refuse(400, "Invalid input for field/attribute %s. Value: '%s'. %s", k.argument, python(whole), err.Error())
	}
	shown := python(v)
	if s, isText := v.(string); isText {
		shown = s
	}
	return nil, refuse(400, "Invalid input for field/attribute %s. Value: '%s'. %s", a.name, shown, err.Error())
}

// python writes a value as Python does in messages.
func python(v any) string {
	switch x := v.(type) {
	case nil:
		return "None"
	case bool:
		if x {
			return "True"
		}
		return "False"
	case string:
		return "'" + x + "'"
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	case []any:
		parts := make([]string, len(x))
		for i, y := range x {
			parts[i] = python(y)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case doc:
		var parts []string
		for _, k := range sortedKeys(x) {
			parts = append(parts, python(k)+": "+python(x[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v)
}
