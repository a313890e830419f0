package debian

import (
	"path"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// A unit is a unit file with its drop-ins, read.
type unit struct {
	name  string // with the instance: wg-quick@wg0.service
	file  string
	text  string // all files, to tell whether they have changed
	keys  map[string][]string
	masks bool
}

// unitDirs are searched in order.
func unitDirs() []string {
	return []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system"}
}

// unitName adds the suffix that systemctl takes for granted.
func unitName(name string) string {
	switch path.Ext(name) {
	case ".service", ".timer", ".socket", ".target", ".mount", ".path", ".slice", ".device", ".swap", ".scope":
		return name
	}
	return name + ".service"
}

// instance splits name@inst.service.
func instance(name string) (template, inst string) {
	base, rest, ok := strings.Cut(name, "@")
	if !ok {
		return "", ""
	}
	ext := path.Ext(rest)
	return base + "@" + ext, strings.TrimSuffix(rest, ext)
}

// readUnit finds and reads a unit's files; nil means there are none.
func (s *System) readUnit(name string) *unit {
	template, inst := instance(name)
	names := []string{name}
	if template != "" && inst != "" {
		names = append(names, template)
	}
	u := &unit{name: name, keys: map[string][]string{}}
	for _, n := range names {
		for _, dir := range unitDirs() {
			file := dir + "/" + n
			if info, err := s.FS.Stat(tree.Root(), file, false); err != nil || info.IsDir() {
				continue
			}
			if target, err := s.FS.RealPath(tree.Root(), file, true); err == nil && target == "/dev/null" {
				return &unit{name: name, file: file, masks: true}
			}
			data, err := s.FS.ReadFile(tree.Root(), file)
			if err != nil {
				continue
			}
			u.file = file
			if real, err := s.FS.RealPath(tree.Root(), file, false); err == nil {
				u.file = real
			}
			u.text = string(data)
			break
		}
		if u.file != "" {
			break
		}
	}
	if u.file == "" {
		return nil
	}
	var dropins []string
	for _, n := range names {
		for _, dir := range unitDirs() {
			dropins = append(dropins, s.listFiles(dir+"/"+n+".d", ".conf")...)
		}
	}
	slices.SortFunc(dropins, func(a, b string) int { return strings.Compare(path.Base(a), path.Base(b)) })
	u.parse(u.text, inst)
	for _, file := range dropins {
		text := s.Text(file)
		u.text += "\n# " + file + "\n" + text
		u.parse(text, inst)
	}
	return u
}

func (u *unit) parse(text, inst string) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	section := ""
	plain := strings.TrimSuffix(u.name, path.Ext(u.name))
	prefix, _, _ := strings.Cut(plain, "@")
	expand := strings.NewReplacer("%i", inst, "%I", inst, "%n", u.name, "%N", plain, "%p", prefix, "%%", "%")
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		default:
			key, value, ok := strings.Cut(line, "=")
			if !ok {
				continue
			}
			key = section + "." + strings.TrimSpace(key)
			value = expand.Replace(strings.TrimSpace(value))
			if value == "" {
				delete(u.keys, key) // an empty value clears the list
				continue
			}
			u.keys[key] = append(u.keys[key], value)
		}
	}
}

func (u *unit) get(key string) string {
	if v := u.keys[key]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// words joins the lists that a key has been given, split at spaces.
func (u *unit) words(key string) []string {
	return strings.Fields(strings.Join(u.keys[key], " "))
}

// linksOf lists where enabling a unit puts links.
func (u *unit) linksOf() []string {
	var out []string
	for _, target := range u.words("Install.WantedBy") {
		out = append(out, "/etc/systemd/system/"+target+".wants/"+u.name)
	}
	for _, target := range u.words("Install.RequiredBy") {
		out = append(out, "/etc/systemd/system/"+target+".requires/"+u.name)
	}
	for _, alias := range u.words("Install.Alias") {
		out = append(out, "/etc/systemd/system/"+alias)
	}
	return out
}

// enablement is what systemctl is-enabled says.
func (s *System) enablement(name string) string {
	u := s.readUnit(name)
	switch {
	case u == nil:
		return ""
	case u.masks && strings.HasPrefix(u.file, "/run/"):
		return "masked-runtime"
	case u.masks:
		return "masked"
	}
	links := u.linksOf()
	if len(links) == 0 {
		if also := u.words("Install.Also"); len(also) > 0 {
			return "indirect"
		}
		return "static"
	}
	for _, link := range links {
		if _, err := s.FS.Stat(tree.Root(), link, false); err == nil {
			return "enabled"
		}
	}
	return "disabled"
}

// enable makes a unit's links and returns the lines that systemctl prints.
func (s *System) enable(c tree.Cred, u *unit) ([]string, error) {
	var out []string
	for _, link := range u.linksOf() {
		if _, err := s.FS.Stat(c, link, false); err == nil {
			continue
		}
		if err := s.FS.MkdirAll(c, path.Dir(link), 0o755); err != nil {
			return out, err
		}
		if err := s.FS.Symlink(c, u.file, link); err != nil {
			return out, err
		}
		out = append(out, "Created symlink "+link+" → "+u.file+".")
	}
	return out, nil
}

// disable removes every link to a unit.
func (s *System) disable(c tree.Cred, name string) ([]string, error) {
	var out []string
	kids, err := s.FS.ReadDir(tree.Root(), "/etc/systemd/system")
	if err != nil {
		return nil, err
	}
	for _, kid := range kids {
		link := "/etc/systemd/system/" + kid.Name() + "/" + name
		if !kid.IsDir() || !strings.HasSuffix(kid.Name(), ".wants") && !strings.HasSuffix(kid.Name(), ".requires") {
			continue
		}
		if _, err := s.FS.Stat(tree.Root(), link, false); err != nil {
			continue
		}
		if err := s.FS.Remove(c, link); err != nil {
			return out, err
		}
		out = append(out, "Removed \""+link+"\".")
	}
	return out, nil
}
