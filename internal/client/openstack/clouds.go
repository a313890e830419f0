package openstack

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A CloudsFile is a clouds.yaml that was read, merged with the secure.yaml
// beside it if there is one. Its form is that of openstacksdk: see
// https://docs.openstack.org/openstacksdk/latest/user/config/configuration.html
// Vendor profiles (clouds-public.yaml), other files and the environment aren't
// looked at.
type CloudsFile struct {
	Path    string
	clouds  map[string]settings
	lines   map[string]string // where each cloud's entry begins
	suggest Suggest
}

// Suggest returns the candidate that was probably meant by name, or "".
type Suggest func(name string, candidates []string) string

// ReadClouds reads the file at path and the secure.yaml in its folder. suggest
// may be nil. The errors have kind Invalid, or Denied where a file can't be
// read for want of rights.
func ReadClouds(path string, suggest Suggest) (*CloudsFile, error) {
	if suggest == nil {
		suggest = func(string, []string) string { return "" }
	}
	f := &CloudsFile{Path: path, suggest: suggest}
	var err error
	if f.clouds, f.lines, err = readClouds(path); err != nil {
		return nil, err
	}
	secure, _, err := readClouds(filepath.Join(filepath.Dir(path), "secure.yaml"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for name, extra := range secure {
		if base, ok := f.clouds[name]; ok {
			f.clouds[name] = base.over(extra)
		}
	}
	return f, nil
}

// readClouds returns the entries of a file, and where each begins.
func readClouds(path string) (map[string]settings, map[string]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		kind := fault.Invalid
		if errors.Is(err, os.ErrPermission) {
			kind = fault.Denied
		}
		return nil, nil, &fault.Error{Op: "reading", Target: path, Kind: kind, Err: errors.Unwrap(err)}
	}
	var doc struct {
		Clouds map[string]yaml.Node `yaml:"clouds"`
	}
	const form = `the form is: clouds: {NAME: {auth: {auth_url: ..., ...}, region_name: ...}}`
	var all yaml.Node
	if err = yaml.Unmarshal(raw, &all); err == nil && len(all.Content) > 0 {
		err = all.Decode(&doc)
	}
	if err != nil {
		// The library's message quotes values, and these may be passwords.
		return nil, nil, fault.Hinted(fault.Invalid, form, "reading %s: it isn't a clouds.yaml%s", path, lineOf(err))
	}
	if doc.Clouds == nil {
		return nil, nil, fault.Hinted(fault.Invalid, form, "reading %s: it has no key clouds", path)
	}
	clouds, lines := make(map[string]settings), make(map[string]string)
	list := child(target(all.Content[0]), "clouds")
	for name, n := range doc.Clouds {
		if n.Kind != yaml.MappingNode && n.Tag != "!!null" && n.Kind != yaml.AliasNode && n.Kind != 0 {
			return nil, nil, fault.Hinted(fault.Invalid, form, "reading %s: it isn't a clouds.yaml (line %d)", path, n.Line)
		}
		clouds[name] = settingsOf(&n, path)
		lines[name] = path
		for i := 0; list != nil && i+1 < len(list.Content); i += 2 {
			if list.Content[i].Value == name {
				lines[name] = position(path, list.Content[i])
			}
		}
	}
	return clouds, lines, nil
}

// lineOf returns where err says the YAML is wrong, as " (line 3)".
func lineOf(err error) string {
	_, rest, ok := strings.Cut(err.Error(), "line ")
	if !ok {
		return ""
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end <= 0 {
		return ""
	}
	return " (line " + rest[:end] + ")"
}

// Names returns the names of the clouds, sorted.
func (f *CloudsFile) Names() []string {
	names := make([]string, 0, len(f.clouds))
	for n := range f.clouds {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Entry returns the cloud of that name, with what a caller says over it. An
// error of kind Invalid says which clouds there are, or names every field that
// is missing or wrong.
func (f *CloudsFile) Entry(name string, given Given) (Entry, error) {
	said, ok := f.clouds[name]
	if !ok {
		hint := "the file has: " + strings.Join(f.Names(), ", ")
		if near := f.suggest(name, f.Names()); near != "" {
			hint = "did you mean " + near + "? " + hint
		}
		if len(f.clouds) == 0 {
			hint = "the file has no clouds"
		}
		return Entry{}, fault.Hinted(fault.Invalid, hint, "%s: there is no cloud %q", f.Path, name)
	}
	more, err := given.settings()
	if err != nil {
		return Entry{}, err
	}
	r := &entryReader{said: said.given(more), dir: filepath.Dir(f.Path), label: "cloud " + `"` + name + `": `, at: cmp.Or(said["auth"].at, f.lines[name]), suggest: f.suggest}
	r.source = "cloud " + name + " in " + f.Path
	r.beside = " (and secure.yaml beside it)"
	return r.entry(name)
}

// A Given is what a caller says of a cloud.
type Given struct {
	// Values are texts by their names in clouds.yaml: "auth.username",
	// "region_name".
	Values map[string]string
	// Names are how the caller spells those that it spells otherwise.
	Names map[string]string
	// By is the caller: "openstack.connect".
	By string
}

func (g Given) settings() (settings, error) {
	out := make(settings)
	for name, text := range g.Values {
		spelt := cmp.Or(g.Names[name], name)
		if text == "" {
			return nil, fault.New(fault.Invalid, "%s: %s is empty", g.By, spelt)
		}
		out[name] = setting{text: text, name: spelt, at: g.By}
	}
	return out, nil
}

// GivenEntry returns the cloud that a caller says everything of. name is what
// it is called in messages.
func GivenEntry(name string, g Given) (Entry, error) {
	said, err := g.settings()
	if err != nil {
		return Entry{}, err
	}
	r := &entryReader{said: said, at: g.By, source: "the arguments of " + g.By, suggest: func(string, []string) string { return "" }}
	r.spell = func(field string) string { return cmp.Or(g.Names[field], strings.TrimPrefix(field, "auth.")) }
	return r.entry(name)
}

// environment are the variables that describe a cloud, as openstackclient has
// them, in clouds.yaml's words.
func environment() map[string]string {
	out := map[string]string{"OS_AUTH_TYPE": "auth_type", "OS_REGION_NAME": "region_name", "OS_INTERFACE": "interface", "OS_ENDPOINT_TYPE": "endpoint_type",
		"OS_CACERT": "cacert", "OS_CERT": "cert", "OS_KEY": "key", "OS_API_TIMEOUT": "api_timeout", "OS_INSECURE": "insecure"}
	for _, f := range authFields() {
		out["OS_"+strings.ToUpper(f)] = "auth." + f
	}
	for _, s := range Services() {
		for _, t := range s.types() {
			out["OS_"+strings.ToUpper(overrideField(t))] = overrideField(t)
		}
	}
	return out
}

// EnvironmentEntry returns the cloud that OS_* variables describe, with what a
// caller says over it. name is what it is called in messages.
func EnvironmentEntry(name string, lookup func(string) (string, bool), g Given) (Entry, error) {
	more, err := g.settings()
	if err != nil {
		return Entry{}, err
	}
	said, spelt := make(settings), make(map[string]string)
	for variable, field := range environment() {
		spelt[field] = variable
		if v, ok := lookup(variable); ok && v != "" {
			s := setting{text: v, name: variable, at: "the environment"}
			if field == "insecure" {
				s.kind, s.text = isFlag, strings.ToLower(v)
			}
			said[field] = s
		}
	}
	r := &entryReader{said: said.given(more), dir: ".", at: "the environment", source: "the environment", suggest: func(string, []string) string { return "" }}
	r.spell = func(field string) string { return cmp.Or(spelt[field], field) }
	if cloud, ok := lookup("OS_CLOUD"); ok && !r.said.has("auth.auth_url") {
		r.hint = "OS_CLOUD names the entry " + cloud + " of a clouds.yaml, which isn't looked up: name the file as clouds: in site.yaml, and connect to it by that name"
	}
	return r.entry(name)
}
