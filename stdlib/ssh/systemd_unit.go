package ssh

import (
	"context"
	"maps"
	"regexp"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type systemdUnitArgs struct {
	Name     string      `star:"name,required" doc:"Name of the unit with its kind, such as \"backup.service\" or \"backup.timer\"."`
	Content  effect.Data `star:"content" doc:"Content, a str; it may be secret."`
	Template string      `star:"template" doc:"File of the recipe that is filled with vars to give the content."`
	Vars     effect.Data `star:"vars" doc:"Dict of the template's variables."`
	Override string      `star:"override" doc:"Name of a drop-in: the content is added to a unit that comes from elsewhere, in /etc/systemd/system/UNIT.d/NAME.conf."`
	Verify   bool        `star:"verify" doc:"Have systemd-analyze verify the unit before it is put in place, where the host has it. It wants the programs of the unit to be there."`
}

type systemdUnitNameArgs struct {
	Name     string `star:"name,required" doc:"Name of the unit with its kind."`
	Override string `star:"override" doc:"Name of a drop-in of the unit."`
}

func systemdUnitNoun() builtin.Noun {
	return builtin.Noun{
		Name: "systemd_unit", Doc: "A unit of systemd, or a drop-in for one, in /etc/systemd/system", Identity: builtin.NaturalKey,
		Attrs: append(fileAttrs(), builtin.Attr{Name: "name", Type: "str", Doc: "Name of the unit."}),
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, systemdUnitArgs]{
				Name: "ensure",
				Doc: "Make a unit have this content, and systemd have read it. Whether it is due to read it systemd says itself, so that a run that is killed " +
					"in between is made up for by the next. It is enabled and started by service.ensure. A host on which systemd doesn't run gets the file.",
				Returns: "object that describes the unit's file, as file.ensure returns it, with the unit's name",
				Example: `unit = host.systemd_unit.ensure("pause.service", content = "[Service]\nExecStart=/bin/sleep infinity\n\n[Install]\nWantedBy=multi-user.target\n")
host.service.ensure(unit.name, restart_on = [unit])`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.NotFound, fault.Exists, fault.Failed, fault.Denied, fault.Invalid},
				Defaults: systemdUnitArgs{Verify: true}, Run: ensureSystemdUnit,
			}),
			builtin.Of(builtin.Spec[*Host, systemdUnitNameArgs]{
				Name: "get", Doc: "Read what is known of a unit's file, or of a drop-in, in /etc/systemd/system.",
				Returns: "object with path, sha256, size, mode, owner, group and name; None if there is no such file",
				Example: `host.systemd_unit.get("ssh.service", override = "limits")`,
				Effect:  builtin.Reads, Errors: []fault.Kind{fault.Exists, fault.Denied, fault.Invalid}, Run: getSystemdUnit,
			}),
			builtin.Of(builtin.Spec[*Host, systemdUnitNameArgs]{
				Name: "delete", Doc: "Make a unit's file, or a drop-in, not be there, and systemd know it. What runs goes on: end it by service.ensure before.",
				Returns: "None", Example: `host.systemd_unit.delete("pause.service")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Exists, fault.Failed, fault.Denied, fault.Invalid}, Run: deleteSystemdUnit,
			}),
		},
	}
}

const observeUnitScript = `[ -d /run/systemd/system ] || exit 0
echo "due $(systemctl show -p NeedDaemonReload --value -- "$u" 2>/dev/null)"
`

const reloadUnitsScript = `[ -d /run/systemd/system ] || exit 0
said=$(systemctl daemon-reload 2>&1) || fail 84 "$said"
`

// verifyUnit checks the new file $t as the unit u, or as a drop-in o of it,
// which the unit's own file is then put beside. What is wrong with other units
// doesn't matter; old programs can't tell them apart.
const verifyUnit = `: %s; command -v systemd-analyze >/dev/null 2>&1 || exit 0
v=$(mktemp -d) || exit 1
if [ -z "$o" ]; then cp "$t" "$v/$u"
else
	f=$(systemctl show -p FragmentPath --value -- "$u" 2>/dev/null)
	[ -f "$f" ] || { rm -rf "$v"; exit 0; }
	mkdir "$v/$u.d" && cp "$f" "$v/$u" && cp "$t" "$v/$u.d/$o.conf"
fi
chmod 0644 "$v/$u"
r=--recursive-errors=no
systemd-analyze --help 2>/dev/null | grep -q recursive-errors || r=
systemd-analyze verify --man=no $r "$v/$u"
c=$?
rm -rf "$v"
(exit "$c")`

// A unitFile is a file of a unit.
type unitFile struct{ unit, override, path string }

func newUnitFile(fn, name, override string) (unitFile, error) {
	if !regexp.MustCompile(`^[A-Za-z0-9:_.\\@-]+\.(service|socket|timer|target|mount|automount|path|slice|swap)$`).MatchString(name) {
		return unitFile{}, fault.Hinted(fault.Invalid, `give its kind, too: "backup.service"`, "%s: %q is no name of a unit", fn, name)
	}
	u := unitFile{unit: name, override: override, path: "/etc/systemd/system/" + name}
	if override != "" {
		if !regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`).MatchString(override) {
			return u, invalid(fn, "%q is no name of a drop-in", override)
		}
		u.path += ".d/" + strings.TrimSuffix(override, ".conf") + ".conf"
	}
	return u, nil
}

// name is that of the target.
func (u unitFile) name() string {
	if u.override == "" {
		return u.unit
	}
	return u.unit + "/" + u.override
}

// with returns a file's data with the unit's name.
func (u unitFile) with(attrs map[string]any) map[string]any {
	if attrs == nil {
		return nil
	}
	all := maps.Clone(attrs)
	all["name"] = u.unit
	return all
}

// A unitState is what Observe knows beyond the data.
type unitState struct {
	file effect.State
	due  bool // systemd must read its units anew
}

// observe looks at the file, and asks systemd whether it has read it.
func (u unitFile) observe(ctx context.Context, h *Host, file func(context.Context) (effect.State, error)) (effect.State, error) {
	s, err := file(ctx)
	if err != nil {
		return effect.State{}, err
	}
	got, err := h.look(ctx, observeUnitScript, vars{"u": u.unit})
	return effect.State{Exists: s.Exists, Attrs: u.with(s.Attrs), Raw: unitState{s, got.get("due") == "yes"}}, err
}

func (h *Host) reloadUnits(ctx context.Context) error {
	_, err := h.ask(ctx, reloadUnitsScript, nil, nil)
	return err
}

// due adds to a change that systemd reads its units.
func due(c effect.Change, s effect.State) (effect.Change, bool) {
	raw, _ := s.Raw.(unitState)
	if !raw.due {
		return c, false
	}
	c.Fields = append(c.Fields, effect.Field{Path: "daemon-reload", Old: "due", New: "done"})
	return c, true
}

func ensureSystemdUnit(ctx context.Context, h *Host, a systemdUnitArgs) (any, error) {
	const fn = "ssh.host.systemd_unit.ensure"
	u, err := newUnitFile(fn, a.Name, a.Override)
	if err != nil {
		return nil, err
	}
	f := fileArgs{Path: u.path, Content: a.Content, Template: a.Template, Vars: a.Vars, Mode: "0644", Owner: "root"}
	if a.Verify {
		f.Validate = verifyUnit
	}
	w, err := f.wanted(ctx, h)
	if err != nil {
		return nil, err
	}
	if w.content.IsSecret() {
		w.mode = 0o600
	}
	w.vars = vars{"u": u.unit, "o": strings.TrimSuffix(u.override, ".conf")}
	file := w.act(h)
	return (&act{host: h, kind: "systemd_unit", name: u.name(), lock: file.lock, reach: []string{h.scope() + "/file" + u.path},
		observe: func(ctx context.Context) (effect.State, error) { return u.observe(ctx, h, file.observe) },
		diff: func(s effect.State) (effect.Change, error) {
			raw, _ := s.Raw.(unitState)
			c, err := file.diff(raw.file)
			c, is := due(c, s)
			if is && c.Kind == effect.None {
				c.Kind, c.After, c.Reach = effect.Update, w.attrs(h, raw.file.Attrs), h.partsOf(u.path)
			}
			c.After = u.with(c.After)
			return c, err
		},
		apply: func(ctx context.Context, c effect.Change) (effect.State, error) {
			raw, _ := c.Before.Raw.(unitState)
			c.Before = raw.file
			if u.override != "" {
				if _, err := h.ask(ctx, `umask 022; mkdir -p -- "${p%/*}"`+"\n", vars{"p": u.path}, nil); err != nil {
					return effect.State{}, err
				}
			}
			s, err := file.apply(ctx, c)
			if err == nil {
				err = h.reloadUnits(ctx)
			}
			s.Attrs = u.with(s.Attrs)
			return s, err
		},
	}).do(ctx)
}

func getSystemdUnit(ctx context.Context, h *Host, a systemdUnitNameArgs) (any, error) {
	u, err := newUnitFile("ssh.host.systemd_unit.get", a.Name, a.Override)
	if err != nil {
		return nil, err
	}
	q := h.query("systemd_unit", u.name())
	q.Absent = true
	return effect.Read(ctx, q, func(ctx context.Context) (effect.State, error) {
		s, err := h.observeFile(ctx, u.path, "", false)
		if err == nil && !s.Exists {
			err = fault.New(fault.NotFound, "no such file")
		}
		s.Attrs = u.with(s.Attrs)
		return s, err
	})
}

func deleteSystemdUnit(ctx context.Context, h *Host, a systemdUnitNameArgs) (any, error) {
	u, err := newUnitFile("ssh.host.systemd_unit.delete", a.Name, a.Override)
	if err != nil {
		return nil, err
	}
	_, err = effect.Do(ctx, &act{host: h, kind: "systemd_unit", name: u.name(), removes: true, lock: "file" + u.path,
		reach: append(h.partsOf(u.path), h.scope()+"/file"+u.path),
		observe: func(ctx context.Context) (effect.State, error) {
			return u.observe(ctx, h, func(ctx context.Context) (effect.State, error) { return h.observeFile(ctx, u.path, "", false) })
		},
		diff: func(s effect.State) (effect.Change, error) {
			c, err := removal(s)
			c, is := due(c, s)
			if is && c.Kind == effect.None {
				c.Kind = effect.Update
			}
			return c, err
		},
		apply: func(ctx context.Context, _ effect.Change) (effect.State, error) {
			_, err := h.ask(ctx, `rm -f -- "$p"; [ "${p%.d/*}" = "$p" ] || rmdir -- "${p%/*}" 2>/dev/null || :`+"\n", vars{"p": u.path}, nil)
			if err == nil {
				err = h.reloadUnits(ctx)
			}
			return effect.State{}, err
		},
	})
	return nil, err
}
