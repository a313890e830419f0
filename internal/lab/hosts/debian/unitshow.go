package debian

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

func (s *System) properties(name string) (map[string]string, []string) {
	m := s.services
	name = unitName(name)
	p := map[string]string{"Id": name, "Names": name, "LoadState": "not-found", "ActiveState": "inactive", "SubState": "dead", "MainPID": "0",
		"Result": "success", "ExecMainStatus": "0", "NRestarts": "0", "UnitFileState": "", "FragmentPath": "", "NeedDaemonReload": "no",
		"Description": name, "Type": "", "ActiveEnterTimestamp": "", "InvocationID": "", "CanReload": "no", "Environment": "", "User": ""}
	order := []string{"Type", "MainPID", "Result", "NRestarts", "ExecMainStatus", "Environment", "User", "Id", "Names", "Description", "LoadState", "ActiveState",
		"SubState", "FragmentPath", "UnitFileState", "NeedDaemonReload", "CanReload", "ActiveEnterTimestamp", "InvocationID"}
	svc := m.load(name)
	if svc == nil {
		return p, order
	}
	st := m.state(svc)
	yes := func(b bool) string {
		if b {
			return "yes"
		}
		return "no"
	}
	p["LoadState"] = "loaded"
	if st.unit.masks {
		p["LoadState"] = "masked"
	}
	p["ActiveState"], p["SubState"], p["Result"] = st.active, st.sub, st.result
	p["ExecMainStatus"], p["NRestarts"] = strconv.Itoa(st.code), strconv.Itoa(st.restarts)
	p["UnitFileState"], p["FragmentPath"] = s.enablement(name), st.unit.file
	p["NeedDaemonReload"] = yes(m.stale(svc))
	p["CanReload"] = yes(len(st.unit.keys["Service.ExecReload"]) > 0)
	p["Description"] = cmp.Or(st.unit.get("Unit.Description"), name)
	p["Type"] = cmp.Or(st.unit.get("Service.Type"), "simple")
	p["Environment"] = strings.Join(st.unit.keys["Service.Environment"], " ")
	p["User"] = st.unit.get("Service.User")
	if st.active == "active" {
		p["ActiveEnterTimestamp"] = st.since.UTC().Format("Mon 2006-01-02 15:04:05 UTC")
		p["MainPID"] = strconv.Itoa(st.pid)
	}
	if st.invocation > 0 {
		p["InvocationID"] = fmt.Sprintf("%032x", st.invocation)
	}
	return p, order
}

func (s *System) showUnits(p *machine.Proc, o *machine.Options, names []string) int {
	var want []string
	for _, list := range append(o.All("p"), o.All("P")...) {
		want = append(want, strings.Split(list, ",")...)
	}
	if len(names) == 0 {
		names = []string{"-.slice"}
	}
	for i, name := range names {
		if i > 0 {
			p.Printf("\n")
		}
		props, order := s.properties(name)
		keys := order
		if len(want) > 0 {
			// systemctl prints in its own order.
			keys = nil
			for _, k := range order {
				if slices.Contains(want, k) {
					keys = append(keys, k)
				}
			}
		}
		for _, k := range keys {
			if o.Has("value") || o.Has("P") {
				p.Printf("%s\n", props[k])
			} else {
				p.Printf("%s=%s\n", k, props[k])
			}
		}
	}
	return 0
}

func (s *System) unitStatus(p *machine.Proc, names []string) int {
	m := s.services
	code := 0
	for _, name := range names {
		name = unitName(name)
		svc := m.load(name)
		if svc == nil {
			fmt.Fprintf(p.Stderr, "Unit %s could not be found.\n", name)
			code = 4
			continue
		}
		st := m.state(svc)
		p.Printf("● %s - %s\n     Loaded: loaded (%s; %s; preset: enabled)\n     Active: %s (%s) since %s\n", name,
			cmp.Or(st.unit.get("Unit.Description"), name), st.unit.file, s.enablement(name), st.active, st.sub, st.since.UTC().Format("Mon 2006-01-02 15:04:05 UTC"))
		for _, e := range m.entries(name, 10) {
			p.Printf("%s\n", s.journalLine(e))
		}
		if st.active != "active" {
			code = 3
		}
	}
	return code
}

func (s *System) listUnitFiles(p *machine.Proc, o *machine.Options, names []string) int {
	seen := map[string]bool{}
	for _, dir := range unitDirs() {
		kids, err := s.FS.ReadDir(tree.Root(), dir)
		if err != nil {
			continue
		}
		for _, kid := range kids {
			if kid.IsDir() || path.Ext(kid.Name()) == "" {
				continue
			}
			seen[kid.Name()] = true
		}
	}
	n := 0
	if !o.Has("no-legend") {
		p.Printf("UNIT FILE STATE PRESET\n")
	}
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if t := o.Get("t"); t != "" && path.Ext(name) != "."+t {
			continue
		}
		if len(names) > 0 && !slices.ContainsFunc(names, func(glob string) bool {
			ok, _ := path.Match(glob, name) // a bad pattern matches nothing
			return ok || name == unitName(glob)
		}) {
			continue
		}
		state := s.enablement(name)
		if want := o.Get("state"); want != "" && want != state {
			continue
		}
		p.Printf("%s %s enabled\n", name, state)
		n++
	}
	if !o.Has("no-legend") {
		p.Printf("\n%d unit files listed.\n", n)
	}
	if n == 0 {
		return 1
	}
	return 0
}

// systemdAnalyze verifies unit files: whether a service has a command, and its
// program is there. Whatever else it is asked it does in silence.
func (s *System) systemdAnalyze(_ context.Context, p *machine.Proc) int {
	if len(p.Args) < 2 || p.Args[1] != "verify" {
		return 0
	}
	code := 0
	for _, file := range p.Args[2:] {
		if strings.HasPrefix(file, "-") {
			continue
		}
		data, err := p.Machine.FS.ReadFile(p.Cred, p.Abs(file))
		if err != nil {
			code = p.Fail(1, "Failed to prepare filename %s: %s", file, machine.Strerror(err))
			continue
		}
		name := path.Base(file)
		if path.Ext(name) != ".service" {
			continue
		}
		u := &unit{name: name, keys: map[string][]string{}}
		u.parse(string(data), "")
		starts := u.keys["Service.ExecStart"]
		if len(starts) == 0 {
			fmt.Fprintf(p.Stderr, "%s: Service has no ExecStart=, ExecStop=, or SuccessAction=. Refusing.\n", name)
			code = 1
		}
		for _, line := range starts {
			program, _, _ := strings.Cut(strings.TrimLeft(line, "-@:+!"), " ")
			if strings.HasPrefix(program, "/") && !s.Exists(program) {
				fmt.Fprintf(p.Stderr, "%s: Command %s is not executable: No such file or directory\n", name, program)
				code = 1
			}
		}
	}
	return code
}
