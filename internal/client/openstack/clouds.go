package openstack

import (
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
// Vendor profiles, other files and the environment aren't looked at.
type CloudsFile struct {
	Path    string
	clouds  map[string]map[string]any
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
	clouds, err := readClouds(path)
	if err != nil {
		return nil, err
	}
	secure, err := readClouds(filepath.Join(filepath.Dir(path), "secure.yaml"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for name, extra := range secure {
		if base, ok := clouds[name]; ok && base != nil {
			merge(base, extra)
		}
	}
	return &CloudsFile{Path: path, clouds: clouds, suggest: suggest}, nil
}

func readClouds(path string) (map[string]map[string]any, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		kind := fault.Invalid
		if errors.Is(err, os.ErrPermission) {
			kind = fault.Denied
		}
		return nil, &fault.Error{Op: "reading", Target: path, Kind: kind, Err: errors.Unwrap(err)}
	}
	var doc struct {
		Clouds map[string]map[string]any `yaml:"clouds"`
	}
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		// The library's message quotes values, and these may be passwords.
		return nil, fault.Hinted(fault.Invalid, `the form is: clouds: {NAME: {auth: {auth_url: ..., ...}, region_name: ...}}`,
			"reading %s: it isn't a clouds.yaml%s", path, lineOf(err))
	}
	if doc.Clouds == nil {
		return nil, fault.Hinted(fault.Invalid, `the form is: clouds: {NAME: {auth: {auth_url: ..., ...}, region_name: ...}}`,
			"reading %s: it has no key clouds", path)
	}
	return doc.Clouds, nil
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

// merge puts extra over base, maps within maps.
func merge(base, extra map[string]any) {
	for k, v := range extra {
		if m, ok := v.(map[string]any); ok {
			if b, ok := base[k].(map[string]any); ok {
				merge(b, m)
				continue
			}
		}
		base[k] = v
	}
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
