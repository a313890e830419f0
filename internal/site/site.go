// Package site reads a site: the folder with the values, overrides and files
// of one place that recipes are run for.
package site

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// FileName is the file that makes a folder a site.
const FileName = "site.yaml"

// A Site is what site.yaml says. Paths are relative to the site's folder.
type Site struct {
	// Name tells the resources of two sites in one project apart: it is part of
	// every name and owner mark. Lower-case letters, digits and dashes.
	Name string `yaml:"name"`
	// State is the folder of journals, locks and generated secrets. Default
	// ".gsrun".
	State string `yaml:"state,omitempty"`
	// Clouds is the clouds.yaml that openstack.connect reads, or "env": then it
	// reads OS_* variables of the environment.
	Clouds string `yaml:"clouds,omitempty"`
	// Values are what recipes see as ctx.site.
	Values map[string]any `yaml:"values,omitempty"`
	// Inputs are values for the inputs of recipes, by the recipe's path.
	Inputs    map[string]map[string]any `yaml:"inputs,omitempty"`
	Secrets   Secrets                   `yaml:"secrets,omitempty"`
	Artifacts Artifacts                 `yaml:"artifacts,omitempty"`
	Limits    Limits                    `yaml:"limits,omitempty"`

	// Dir is the site's folder; it isn't read from the file.
	Dir string `yaml:"-"`

	declared map[string]string // file and line of each source of a secret
	lines    map[string]int    // of what the file says: "inputs.gateway.cidr"
	lab      string            // folder of the lab that it stands under; mostly empty
}

// Secrets say where secrets come from and who can read those that are kept.
type Secrets struct {
	// Recipients are the age public keys that kept secrets are encrypted to.
	Recipients []string `yaml:"recipients,omitempty"`
	// Identity is the file with the age private key that opens them.
	Identity string `yaml:"identity,omitempty"`
	// Sources name where each secret("name") is read from: {env: NAME},
	// {file: path}, {age: path}, {sops: path, key: a.b}, {kubernetes: {...}}.
	Sources map[string]any `yaml:"sources,omitempty"`
}

// Artifacts say where files from upstream come from.
type Artifacts struct {
	// Mirror is the base URL of a mirror: https://HOST/PATH is fetched from
	// MIRROR/HOST/PATH.
	Mirror string `yaml:"mirror,omitempty"`
	// Lock is the file of digests. Default "gsrun.lock".
	Lock string `yaml:"lock,omitempty"`
	// Cache is the folder of fetched files. Default: one per user.
	Cache string `yaml:"cache,omitempty"`
}

// Limits bound what a run may do.
type Limits struct {
	// Steps is the number of Starlark steps that one step of a recipe may take.
	Steps uint64 `yaml:"steps,omitempty"`
	// Deletes is the number of deletions that one run may make. Default 0: a
	// run that deletes says so with --max-deletes.
	Deletes int `yaml:"deletes,omitempty"`
	// Creates is the number of things that one service of a cloud is asked to
	// make at the same time. Default 5.
	Creates int `yaml:"creates,omitempty"`
	// Interval is the pause between two looks at what a cloud has under way.
	// Default 2s.
	Interval time.Duration `yaml:"interval,omitempty"`
	// Patience is how long a cloud may take to show what it was asked to make.
	// Default 6s.
	Patience time.Duration `yaml:"patience,omitempty"`
}

// Load reads the site in the folder dir.
func Load(dir string) (*Site, error) {
	path := filepath.Join(dir, FileName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Hinted(fault.Invalid, "a site is a folder with a site.yaml; "+least, "%s is no site: it has no %s", dir, FileName)
	}
	if err != nil {
		return nil, &fault.Error{Op: "reading site", Target: path, Kind: fault.Invalid, Err: err}
	}
	s := &Site{Dir: dir, declared: sourceLines(path, data)}
	r := &reader{path: path, lines: make(map[string]int), shallow: map[string]bool{"inputs": true}}
	if err := r.read(data, s); err != nil {
		return nil, err
	}
	s.lines = r.lines
	return s, nil
}

// sourceLines returns where each source of a secret is declared.
func sourceLines(path string, data []byte) map[string]string {
	out := make(map[string]string)
	var doc struct {
		Secrets struct {
			Sources map[string]yaml.Node `yaml:"sources"`
		} `yaml:"secrets"`
	}
	if yaml.Unmarshal(data, &doc) != nil {
		return out // what is wrong with it is told by whoever reads all of it
	}
	for name, n := range doc.Secrets.Sources {
		out[name] = fmt.Sprintf("%s:%d", path, n.Line)
	}
	return out
}

// Declared returns the file and line at which each source of a secret is
// declared, by the secret's name.
func (s *Site) Declared() map[string]string { return s.declared }

// At returns the file and line that say something, such as
// "inputs.gateway.cidr"; "" if this site doesn't.
func (s *Site) At(what string) string {
	line := s.lines[what]
	if line == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d", filepath.Join(s.Dir, FileName), line)
}

// Find returns the nearest folder from dir upward that is a site, or "".
func Find(dir string) string {
	for {
		if _, err := os.Stat(filepath.Join(dir, FileName)); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

// Path returns a path that the site names, made absolute by its folder; "" for
// "".
func (s *Site) Path(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(s.Dir, p)
}

// CloudsFile returns the clouds.yaml, "" for none, and whether the environment
// is named in its place.
func (s *Site) CloudsFile() (path string, env bool) {
	if s.Clouds == "env" {
		return "", true
	}
	return s.Path(s.Clouds), false
}

// StateDir returns the folder of journals, locks and generated secrets.
func (s *Site) StateDir() string {
	if s.State == "" {
		return s.Path(".gsrun")
	}
	return s.Path(s.State)
}

// OutputsDir returns the folder of what recipes make known to other programs:
// state/NAME in the site's folder, or in that of the lab.
func (s *Site) OutputsDir() string {
	dir := s.Dir
	if s.lab != "" {
		dir = s.lab
	}
	return filepath.Join(dir, "state", s.Name)
}

// InputsOf returns what the site says for the inputs of a recipe. A nil site
// says nothing.
func (s *Site) InputsOf(recipe string) map[string]any {
	if s == nil {
		return nil
	}
	return s.Inputs[recipe]
}

// LockFile returns the file of digests.
func (s *Site) LockFile() string {
	if s.Artifacts.Lock == "" {
		return s.Path("gsrun.lock")
	}
	return s.Path(s.Artifacts.Lock)
}

// CacheDir returns the folder of fetched files.
func (s *Site) CacheDir() (string, error) {
	if s.Artifacts.Cache != "" {
		return s.Path(s.Artifacts.Cache), nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fault.Hinted(fault.Invalid, "name a folder as artifacts.cache in site.yaml", "no folder for fetched files: %v", err)
	}
	return filepath.Join(dir, "gsrun", "artifacts"), nil
}

// Under returns a copy of s with the values that a lab's site gives for it:
// its cloud with its pace, secrets, mirror and lock, and its inputs where s gives
// none.
func (s *Site) Under(lab *Site) *Site {
	c := *s
	c.lab = lab.Dir
	c.Clouds = lab.Path(lab.Clouds)
	c.State = filepath.Join(lab.StateDir(), "sites", s.Name)
	c.Secrets = lab.Secrets
	c.Secrets.Identity = lab.Path(lab.Secrets.Identity)
	c.Secrets.Sources = make(map[string]any)
	for name, spec := range s.Secrets.Sources {
		c.Secrets.Sources[name] = spec
	}
	for name, spec := range lab.Secrets.Sources {
		c.Secrets.Sources[name] = absolute(lab, spec)
	}
	c.declared = maps.Clone(s.declared)
	if c.declared == nil {
		c.declared = make(map[string]string)
	}
	maps.Copy(c.declared, lab.declared)
	c.Artifacts = Artifacts{Mirror: lab.Artifacts.Mirror, Lock: lab.LockFile(), Cache: lab.Path(lab.Artifacts.Cache)}
	c.Limits.Interval, c.Limits.Patience = lab.Limits.Interval, lab.Limits.Patience
	c.Inputs = make(map[string]map[string]any)
	for _, from := range []*Site{lab, s} {
		for recipe, inputs := range from.Inputs {
			if c.Inputs[recipe] == nil {
				c.Inputs[recipe] = make(map[string]any)
			}
			for k, v := range inputs {
				c.Inputs[recipe][k] = v
			}
		}
	}
	return &c
}

// absolute makes the paths in a secret's source absolute.
func absolute(s *Site, spec any) any {
	m, ok := spec.(map[string]any)
	if !ok {
		return spec
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		switch x := v.(type) {
		case string:
			if k == "file" || k == "age" || k == "sops" || k == "kubeconfig_file" {
				v = s.Path(x)
			}
		case map[string]any:
			v = absolute(s, x)
		}
		out[k] = v
	}
	return out
}

// Write writes site.yaml into the site's folder.
func (s *Site) Write() error {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(s); err != nil {
		return fmt.Errorf("writing %s: %w", FileName, err)
	}
	path := filepath.Join(s.Dir, FileName)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		return &fault.Error{Op: "writing", Target: path, Kind: fault.Invalid, Err: err}
	}
	return nil
}
