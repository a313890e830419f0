package main

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab"
)

// look returns all that there is in the lab, and the names of what gsrun keeps
// for its site.
func (v *victim) look() lab.Snapshot {
	v.t.Helper()
	all, err := v.lab.Snapshot(v.t.Context())
	if err != nil {
		v.t.Fatal(err)
	}
	site := v.lab.Info.Site
	err = filepath.WalkDir(site, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(site, path)
		if !d.IsDir() && filepath.Dir(name) != filepath.Join(".gsrun", "runs") { // one for each run
			for name = "site/" + identifiers.ReplaceAllString(name, "ID"); ; name += "'" {
				if _, taken := all[name]; !taken {
					break
				}
			}
			all[name] = ""
		}
		return err
	})
	if err != nil {
		v.t.Fatal(err)
	}
	return all
}

// identifiers are those of the cloud's servers, which their host keys are kept by,
// and those of application credentials.
var identifiers = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{32}\b`)

// twins names resources of the cloud that are there twice.
func twins(l *lab.Lab) string {
	var found strings.Builder
	for kind, things := range l.Cloud.State(false) {
		seen := make(map[string]bool)
		for _, x := range things {
			name, _ := x["name"].(string)
			if name == "" {
				name = fmt.Sprint(x["description"]) // floating IPs have no name, but a mark
			}
			if kind == "security_group_rule" { // parts of one group bear its mark
				name += fmt.Sprint(x["direction"], x["ethertype"], x["protocol"], x["port_range_min"], x["remote_ip_prefix"])
			}
			if !strings.Contains(name, "lab-") && !strings.Contains(name, "gsrun:") {
				continue
			}
			if seen[name] {
				fmt.Fprintf(&found, "two of %s %s\n", kind, name)
			}
			seen[name] = true
		}
	}
	return found.String()
}

// differences says how a lab isn't as it should be; "" if it is.
func differences(want, have lab.Snapshot) string {
	var out strings.Builder
	names := maps.Clone(want)
	maps.Copy(names, have)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		w, wanted := want[name]
		h, is := have[name]
		switch {
		case !wanted:
			fmt.Fprintf(&out, "too much: %s\n%s\n", name, indent(h))
		case !is:
			fmt.Fprintf(&out, "missing: %s\n", name)
		case w != h:
			fmt.Fprintf(&out, "differs: %s\n%s", name, lineDifferences(w, h))
		}
	}
	return out.String()
}

// lineDifferences lists the lines that only one of two texts has.
func lineDifferences(want, have string) string {
	var out strings.Builder
	count := make(map[string]int)
	for line := range strings.Lines(want + "\n") {
		count[line]++
	}
	for line := range strings.Lines(have + "\n") {
		if count[line]--; count[line] < 0 {
			fmt.Fprintf(&out, "  + %s", line)
		}
	}
	for line := range strings.Lines(want + "\n") {
		if count[line] > 0 {
			count[line]--
			fmt.Fprintf(&out, "  - %s", line)
		}
	}
	return out.String()
}

func indent(s string) string {
	const longest = 1000
	if len(s) > longest {
		s = s[:longest] + "..."
	}
	return "    " + strings.ReplaceAll(s, "\n", "\n    ")
}
