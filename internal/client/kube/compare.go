package kube

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// A Difference is a value that two objects don't share.
type Difference struct {
	Path     string // "spec.containers[web].image"
	Old, New any    // nil where there is none
}

// bookkeeping are the parts of an object that the API server keeps for itself.
var bookkeeping = []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"}

// Compare returns what differs between two objects, leaf by leaf in the order
// of the paths, without their status and what the API server keeps for itself.
// Elements of lists are told apart by their name if each has one.
func Compare(old, new *Object) []Difference {
	var c comparison
	c.value("", visible(old), visible(new))
	return c.found
}

// Leaves returns what an object sets, as differences from nothing; apiVersion,
// kind and name are left out.
func Leaves(o *Object) []Difference {
	v := visible(o)
	delete(v, "apiVersion")
	delete(v, "kind")
	if meta, ok := v["metadata"].(map[string]any); ok {
		delete(meta, "name")
		delete(meta, "namespace")
	}
	var c comparison
	c.value("", map[string]any{}, v)
	return c.found
}

// Lacks returns what o sets and live doesn't have so: what an apply of o would
// change, as far as that can be told without asking the API server.
func Lacks(live, o *Object) []Difference {
	c := comparison{onlyNew: true}
	c.value("", visible(live), visible(o))
	return c.found
}

// visible returns a copy of o's data without status and bookkeeping, deep enough
// to delete from metadata.
func visible(o *Object) map[string]any {
	if o == nil {
		return map[string]any{}
	}
	out := maps.Clone(o.Object)
	delete(out, "status")
	if meta, ok := out["metadata"].(map[string]any); ok {
		meta = maps.Clone(meta)
		for _, k := range bookkeeping {
			delete(meta, k)
		}
		out["metadata"] = meta
	}
	return out
}

type comparison struct {
	onlyNew bool // what only the old side has doesn't count
	found   []Difference
}

func (c *comparison) value(path string, old, new any) {
	switch n := new.(type) {
	case map[string]any:
		if o, ok := old.(map[string]any); ok || old == nil && len(n) > 0 {
			c.fields(path, o, n)
			return
		}
	case []any:
		if o, ok := old.([]any); ok || old == nil && len(n) > 0 {
			c.elements(path, o, n)
			return
		}
	case nil:
		if c.onlyNew {
			return
		}
		switch o := old.(type) {
		case map[string]any:
			if len(o) > 0 {
				c.fields(path, o, nil)
				return
			}
		case []any:
			if len(o) > 0 {
				c.elements(path, o, nil)
				return
			}
		}
	}
	if !same(old, new) {
		c.found = append(c.found, Difference{Path: path, Old: old, New: new})
	}
}

// same compares leaves; numbers by value, since JSON has one kind of them.
func same(a, b any) bool {
	if x, ok := a.(int64); ok {
		if y, ok := b.(float64); ok {
			return float64(x) == y
		}
	}
	if x, ok := a.(float64); ok {
		if y, ok := b.(int64); ok {
			return x == float64(y)
		}
	}
	return reflect.DeepEqual(a, b)
}

func (c *comparison) fields(path string, old, new map[string]any) {
	keys := make(map[string]bool, len(new))
	for k := range new {
		keys[k] = true
	}
	if !c.onlyNew {
		for k := range old {
			keys[k] = true
		}
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		c.value(join(path, k), old[k], new[k])
	}
}

// join appends a key to a path; one with dots, such as a label's, in brackets.
func join(path, key string) string {
	if strings.ContainsAny(key, "./[]") {
		return path + "[" + key + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func (c *comparison) elements(path string, old, new []any) {
	oldNames, ok := names(old)
	newNames, ok2 := names(new)
	if !ok || !ok2 {
		n := len(new)
		if !c.onlyNew {
			n = max(n, len(old))
		}
		for i := range n {
			c.value(fmt.Sprintf("%s[%d]", path, i), at(old, i), at(new, i))
		}
		return
	}
	for i, name := range newNames {
		c.value(path+"["+name+"]", at(old, slices.Index(oldNames, name)), new[i])
	}
	if c.onlyNew {
		return
	}
	for i, name := range oldNames {
		if !slices.Contains(newNames, name) {
			c.value(path+"["+name+"]", old[i], nil)
		}
	}
}

func at(list []any, i int) any {
	if i < 0 || i >= len(list) {
		return nil
	}
	return list[i]
}

// names returns the names of a list's elements, if each has one of its own.
func names(list []any) ([]string, bool) {
	seen := make(map[string]bool, len(list))
	out := make([]string, 0, len(list))
	for _, e := range list {
		m, _ := e.(map[string]any)
		name, ok := m["name"].(string)
		if !ok || seen[name] {
			return nil, false
		}
		seen[name] = true
		out = append(out, name)
	}
	return out, true
}
