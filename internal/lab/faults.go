package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/apiproxy"
	"git.vanillacore.net/govstack/gsrun/internal/lab/control"
	"git.vanillacore.net/govstack/gsrun/internal/lab/gitserver"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
	"git.vanillacore.net/govstack/gsrun/internal/lab/mirror"
	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

// An Injector makes a lab go wrong: one in this process (Lab), or one that
// runs as a process of its own (Remote).
type Injector interface {
	// Inject adds a fault to a part of the lab and returns its id. The spec is
	// a JSON object with the part's fields. Errors are of kind Invalid.
	Inject(part string, spec []byte) (id string, err error)
	// Faults lists the faults, those that are used up included.
	Faults() ([]Injected, error)
	// ClearFaults removes the faults of that id, or all for an empty one, and
	// returns how many there were.
	ClearFaults(id string) (int, error)
}

// Injected is a fault that a part of a lab has.
type Injected struct {
	Part string         `json:"part"`
	ID   string         `json:"id"`
	Hits int            `json:"hits"` // how often it acted
	Spec map[string]any `json:"spec"` // its other fields
	// Uncounted says that it lasts, and that how often it was felt isn't known.
	Uncounted bool `json:"uncounted,omitempty"`
}

// A Part of a lab can be told to go wrong.
type Part struct {
	Name string
	Doc  string

	fault any // the zero value of its faults
	set   func(*Lab) set
}

// A set of faults of one part.
type set struct {
	inject func(raw []byte) (string, error)
	list   func() any // a slice
	clear  func(id string) int
	seed   func(uint64)
}

// Parts lists the parts of a lab that faults can be added to.
func Parts() []Part {
	return []Part{
		{"openstack", "Requests to the OpenStack APIs.", openstack.Fault{}, func(l *Lab) set {
			return set{decoded(l.Cloud.Inject), func() any { return l.Cloud.Faults() }, l.Cloud.ClearFaults, l.Cloud.SeedFaults}
		}},
		{"host", "Commands by SSH, and hosts as a whole.", hosts.Fault{}, func(l *Lab) set {
			return set{decoded(l.Hosts.Inject), func() any { return l.Hosts.Faults() }, l.Hosts.ClearFaults, l.Hosts.SeedFaults}
		}},
		{"kubernetes", "Requests to the Kubernetes APIs.", apiproxy.Fault{}, func(l *Lab) set {
			k := l.world.kubernetes
			return set{decoded(l.world.injectKubernetes), func() any { return k.List() }, k.Clear, k.Seed}
		}},
		{"controllers", "What the controllers in the clusters do.", control.Rule{}, func(l *Lab) set {
			c := l.world.played
			return set{decoded(c.Inject), func() any { return c.List() }, c.Clear, c.Seed}
		}},
		{"git", "Fetches from and pushes to the Git server.", gitserver.Fault{}, func(l *Lab) set {
			return set{decoded(l.Git.Inject), func() any { return l.Git.Faults() }, l.Git.ClearFaults, l.Git.SeedFaults}
		}},
		{"mirror", "Downloads from the mirror of upstream files.", mirror.Fault{}, func(l *Lab) set {
			return set{decoded(l.Mirror.Inject), func() any { return l.Mirror.Faults() }, l.Mirror.ClearFaults, l.Mirror.SeedFaults}
		}},
	}
}

// PartNames lists the names of the parts.
func PartNames() []string {
	var names []string
	for _, p := range Parts() {
		names = append(names, p.Name)
	}
	return names
}

// FindPart returns the part of that name. The error is of kind Invalid.
func FindPart(name string) (Part, error) {
	for _, p := range Parts() {
		if p.Name == name {
			return p, nil
		}
	}
	return Part{}, fault.Hinted(fault.Invalid, "it has "+strings.Join(PartNames(), ", "), "the lab has no part %q that faults can be added to", name)
}

// A Field is one of a fault's.
type Field struct {
	Name string // as in JSON
	Type string // text, whole number, true or false, texts by name
	Doc  string
}

// Fields lists what can be said of a part's fault.
func (p Part) Fields() []Field {
	var out []Field
	t := reflect.TypeOf(p.fault)
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		doc := f.Tag.Get("doc")
		if doc == "" { // what only the lab says
			continue
		}
		out = append(out, Field{name, typeName(f.Type), doc})
	}
	return out
}

// typeName says what a field of that type takes.
func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int:
		return "whole number"
	case reflect.Bool:
		return "true or false"
	case reflect.Map:
		return "texts by name"
	}
	return "text"
}

// withArticle puts "a" before what is one thing.
func withArticle(kind string) string {
	if kind == "text" || kind == "whole number" {
		return "a " + kind
	}
	return kind
}

// jsonName names a JSON value as json.UnmarshalTypeError does, for people.
func jsonName(value string) string {
	kind, literal, _ := strings.Cut(value, " ")
	switch {
	case kind == "bool":
		return "true or false"
	case kind == "string":
		return "a text"
	case kind == "array":
		return "a list"
	case kind == "object":
		return "an object"
	case literal != "":
		return literal
	}
	return "a number"
}

// check returns an error of kind Invalid for a field that the part's faults
// don't have, or that holds what it doesn't take.
func (p Part) check(raw []byte) error {
	var spec map[string]json.RawMessage
	var mistyped *json.UnmarshalTypeError
	if err := json.Unmarshal(raw, &spec); errors.As(err, &mistyped) {
		return fault.Hinted(fault.Invalid, `write it as in {"count": 2}`, "a fault is a JSON object, not %s", jsonName(mistyped.Value))
	} else if err != nil {
		return fault.Hinted(fault.Invalid, `write it as in {"count": 2}`, "a fault is a JSON object: %v", err)
	}
	var known []string
	for _, f := range p.Fields() {
		known = append(known, f.Name)
	}
	for name := range spec {
		if !slices.Contains(known, name) {
			return fault.Hinted(fault.Invalid, "it has "+strings.Join(known, ", "), "a fault of %s has no field %q", p.Name, name)
		}
	}
	if err := json.Unmarshal(raw, reflect.New(reflect.TypeOf(p.fault)).Interface()); errors.As(err, &mistyped) {
		return fault.Hinted(fault.Invalid, "see gsrun lab fault add "+p.Name+" --help",
			"the field %q takes %s, not %s", mistyped.Field, withArticle(typeName(mistyped.Type)), jsonName(mistyped.Value))
	}
	return nil
}

// decoded returns inject as a function of JSON.
func decoded[F any](inject func(F) (string, error)) func([]byte) (string, error) {
	return func(raw []byte) (string, error) {
		var f F
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		err := d.Decode(&f)
		if err == nil {
			if _, more := d.Token(); !errors.Is(more, io.EOF) {
				err = errors.New("there is more after the object")
			}
		}
		if err != nil {
			return "", fault.New(fault.Invalid, "reading the fault: %v", err)
		}
		id, err := inject(f)
		if err != nil {
			return "", &fault.Error{Op: "adding a fault", Kind: fault.Invalid, Hint: fault.HintOf(err), Err: err}
		}
		return id, nil
	}
}

// Inject adds a fault to a part of the lab.
func (l *Lab) Inject(part string, spec []byte) (string, error) {
	p, err := FindPart(part)
	if err != nil {
		return "", err
	}
	if err := p.check(spec); err != nil {
		return "", err
	}
	return p.set(l).inject(spec)
}

// Faults lists the faults of all parts.
func (l *Lab) Faults() ([]Injected, error) {
	out := []Injected{}
	for _, p := range Parts() {
		raw, err := json.Marshal(p.set(l).list())
		if err != nil {
			return nil, fault.Wrap("listing the faults of", p.Name, err)
		}
		var specs []map[string]any
		if err := json.Unmarshal(raw, &specs); err != nil {
			return nil, fault.Wrap("listing the faults of", p.Name, err)
		}
		for _, s := range specs {
			i := Injected{Part: p.Name, Spec: s}
			i.ID, _ = s["id"].(string)
			hits, _ := s["hits"].(float64)
			i.Hits = int(hits)
			i.Uncounted, _ = s["uncounted"].(bool)
			delete(s, "id")
			delete(s, "hits")
			delete(s, "uncounted")
			out = append(out, i)
		}
	}
	return out, nil
}

// ClearFaults removes faults of any part.
func (l *Lab) ClearFaults(id string) (int, error) {
	n := 0
	for _, p := range Parts() {
		n += p.set(l).clear(id)
	}
	if id != "" && n == 0 {
		return 0, fault.Hinted(fault.NotFound, "gsrun lab fault list shows those that there are", "the lab has no fault %q", id)
	}
	return n, nil
}

// SeedFaults makes the chances of the faults of all parts repeatable.
func (l *Lab) SeedFaults(seed uint64) {
	for _, p := range Parts() {
		p.set(l).seed(seed)
	}
}

// injectKubernetes adds a fault of the API servers. Connections that were made
// while there was none break: on them there can't be any.
func (w *world) injectKubernetes(f apiproxy.Fault) (string, error) {
	id, err := apiproxy.Inject(w.kubernetes, f)
	if err != nil {
		return "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.clusters {
		c.proxy.Break()
	}
	return id, nil
}
