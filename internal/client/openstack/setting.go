package openstack

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A setting is one thing that is said of a cloud.
type setting struct {
	text string
	list []string // of a list
	kind settingKind
	name string // as its source spells it: "auth.username", "OS_USERNAME"
	at   string // where it is said: "clouds.yaml:7"
}

type settingKind int

const (
	isText settingKind = iota
	isFlag             // a truth value; text is true or false
	isList
	isOther
)

// Settings are what is said of a cloud, by the names that clouds.yaml has for
// it: "auth.username", "region_name".
type settings map[string]setting

// settingsOf reads an entry of a clouds.yaml.
func settingsOf(n *yaml.Node, file string) settings {
	out := make(settings)
	out.read(n, file, "", 0)
	return out
}

// read adds what the mapping n says. What it merges in counts less than what
// stands in it.
func (s settings) read(n *yaml.Node, file, prefix string, depth int) {
	n = target(n)
	if n == nil || n.Kind != yaml.MappingNode || depth > 10 {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Tag != "!!merge" {
			continue
		}
		if merged := target(n.Content[i+1]); merged.Kind == yaml.SequenceNode {
			for _, m := range slices.Backward(merged.Content) { // the first counts most
				s.read(m, file, prefix, depth+1)
			}
		} else {
			s.read(merged, file, prefix, depth+1)
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], target(n.Content[i+1])
		name := prefix + key.Value
		switch {
		case key.Tag == "!!merge":
		case name == "auth" && value.Kind == yaml.MappingNode:
			for other := range s {
				if strings.HasPrefix(other, "auth.") { // it isn't mixed with one that was merged in
					delete(s, other)
				}
			}
			s[name] = setting{kind: isOther, name: name, at: position(file, key)}
			s.read(value, file, "auth.", depth+1)
		case value.Tag == "!!null":
			delete(s, name)
		default:
			x := setting{name: name, at: position(file, key), text: value.Value}
			switch {
			case value.Kind == yaml.SequenceNode:
				x.kind = isList
				for _, e := range value.Content {
					if e = target(e); e.Kind == yaml.MappingNode { // regions: [{name: ...}]
						e = child(e, "name")
					}
					if e != nil {
						x.list = append(x.list, e.Value)
					}
				}
			case value.Kind != yaml.ScalarNode:
				x.kind = isOther
			case value.Tag == "!!bool":
				flag, err := strconv.ParseBool(strings.ToLower(value.Value))
				if err == nil {
					x.kind, x.text = isFlag, strconv.FormatBool(flag)
				}
			}
			s[name] = x
		}
	}
}

// target returns what an alias stands for.
func target(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// child returns the value of a key of a mapping, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return target(n.Content[i+1])
		}
	}
	return nil
}

func position(file string, n *yaml.Node) string { return file + ":" + strconv.Itoa(n.Line) }

// over returns s with more over it.
func (s settings) over(more settings) settings {
	out := maps.Clone(s)
	maps.Copy(out, more)
	if auth, ok := s["auth"]; ok {
		out["auth"] = auth // where what is missing in it would stand
	}
	return out
}

// What of a cloud says who logs in, and what for.
var (
	loginSettings = []string{"auth_type", "auth.username", "auth.user_id", "auth.password", "auth.user_domain_name", "auth.user_domain_id", "auth.token",
		"auth.application_credential_id", "auth.application_credential_name", "auth.application_credential_secret"}
	scopeSettings = []string{"auth.project_name", "auth.project_id", "auth.tenant_name", "auth.tenant_id", "auth.domain_name", "auth.domain_id", "auth.system_scope"}
)

// has reports whether any of the names is set.
func (s settings) has(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return s[n].text != "" })
}

// given returns s with what a caller says over it. Who logs in, and the scope,
// are each replaced as a whole: half of one login and half of another is none.
func (s settings) given(more settings) settings {
	out := maps.Clone(s)
	drop := func(names []string) {
		for _, n := range names {
			delete(out, n)
		}
	}
	credential := []string{"auth.application_credential_id", "auth.application_credential_name", "auth.application_credential_secret"}
	if more.has(loginSettings...) {
		drop(loginSettings)
		if !more.has("auth.user_domain_name", "auth.user_domain_id") && !more.has("auth.user_id") && more.has("auth.username") {
			for _, n := range []string{"auth.user_domain_name", "auth.user_domain_id"} {
				if d, ok := s[n]; ok {
					out[n] = d // names are of the domain that the entry speaks of
				}
			}
		}
	}
	if more.has(credential...) || more.has(scopeSettings...) {
		drop(scopeSettings)
	}
	if more.has(credential...) || more.has("auth.project_domain_name", "auth.project_domain_id") {
		drop([]string{"auth.project_domain_name", "auth.project_domain_id"})
	}
	maps.Copy(out, more)
	return out
}
