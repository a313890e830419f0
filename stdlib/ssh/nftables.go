package ssh

import (
	"context"
	"regexp"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type nftablesArgs struct {
	Name     string      `star:"name,required" doc:"Name of the ruleset: letters, digits and _."`
	Rules    effect.Text `star:"rules" doc:"Its tables, as nft reads them: \"table inet gsrun { ... }\". Besides tables there may be definitions."`
	Template string      `star:"template" doc:"File of the recipe that is filled with vars to give the rules."`
	Vars     effect.Data `star:"vars" doc:"Dict of the template's variables."`
}

type nftablesNameArgs struct {
	Name string `star:"name,required" doc:"Name of the ruleset."`
}

func nftablesNoun() builtin.Noun {
	return builtin.Noun{
		Name: "nftables", Doc: "Tables of the packet filter, now and after each boot", Identity: builtin.NaturalKey,
		Attrs: []builtin.Attr{
			{Name: "name", Type: "str", Doc: "Name of the ruleset."},
			{Name: "tables", Type: "list[str]", Doc: "Its tables: \"inet gsrun\"."},
			{Name: "in_force", Type: "bool", Doc: "Whether the kernel has them as they were loaded."},
		},
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, nftablesArgs]{
				Name: "ensure",
				Doc: "Make the packet filter have these tables, exactly. They are checked first, and replaced in one transaction: no packet meets " +
					"a part of them. Other tables, and /etc/nftables.conf, are left alone. What somebody changes or flushes is loaded again by the next " +
					"run, and, where systemd's nftables.service is restarted or reloaded, at once. At boot the unit gsrun-nftables@NAME loads them.",
				Returns: "object with name, tables and in_force",
				Example: `host.nftables.ensure("gsrun", rules = """table inet gsrun {
    chain input {
        type filter hook input priority filter; policy accept;
        tcp dport 2379 drop
    }
}
""")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.NotFound, fault.Failed, fault.Denied, fault.Invalid}, Run: ensureNftables,
			}),
			builtin.Of(builtin.Spec[*Host, nftablesNameArgs]{
				Name: "get", Doc: "Read which tables a ruleset has, and whether they are in force.",
				Returns: "object with name, tables and in_force; None if there is no such ruleset",
				Example: `host.nftables.get("gsrun")`,
				Effect:  builtin.Reads, Errors: []fault.Kind{fault.Denied, fault.Invalid}, Run: getNftables,
			}),
			builtin.Of(builtin.Spec[*Host, nftablesNameArgs]{
				Name: "delete", Doc: "Remove a ruleset's tables, now and for the next boot.",
				Returns: "None", Example: `host.nftables.delete("gsrun")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Failed, fault.Denied, fault.Invalid}, Run: deleteNftables,
			}),
		},
	}
}

// nftablesUnit loads a ruleset after what Debian's own unit loads, which begins
// by flushing everything.
const nftablesUnit = `[Unit]
Description=Packet filter tables of %i
DefaultDependencies=no
After=nftables.service
PartOf=nftables.service
ReloadPropagatedFrom=nftables.service
Wants=network-pre.target
Before=network-pre.target shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/sbin/nft -f /etc/nftables.d/gsrun-%i.nft
ExecReload=/usr/sbin/nft -f /etc/nftables.d/gsrun-%i.nft

[Install]
WantedBy=sysinit.target
`

// What is in force is compared by what nft lists, without what packets change:
// counters, and the elements of sets that rules add to.
const nftablesInForce = `inforce() {
	options=-s
	if grep -q -e dynamic -e timeout "$1" 2>/dev/null; then options='-s -t'; fi
	s=$(printf '%s\n' "$tables" | while read -r family t; do
		nft $options list table "$family" "$t" 2>/dev/null || echo none
	done | sha256sum) && echo "${s%% *}"
}
`

const observeNftablesScript = nftablesInForce + `if command -v nft >/dev/null 2>&1; then
	if [ -f "$f" ]; then
		l=$(head -n 1 "$f")
		tables=$(printf '%s' "$l" | tr ';' '\n' | sed -n 's/^ *delete table //p')
	fi
	echo "force $(inforce "$f")"
fi
[ ! -f "$stamp" ] || echo "stamp $(cat "$stamp")"
echo "enabled $(systemctl is-enabled "gsrun-nftables@$name.service" 2>/dev/null)"
[ ! -f "$unit" ] || [ "$(cat "$unit")" != "$unittext" ] || echo 'unit yes'
if [ -f "$f" ]; then echo; cat "$f"; fi
`

const applyNftablesScript = nftablesInForce + `command -v nft >/dev/null 2>&1 || fail 81 "the host has no nft"
command -v systemctl >/dev/null 2>&1 || fail 81 "the host has no systemd"
umask 022
mkdir -p "${f%/*}" "${stamp%/*}" || exit 1
rm -f "$f.new-"??????
t=$(umask 077; mktemp "$f.new-XXXXXX") || exit 1
die() { rm -f "$t"; fail "$1" "$2"; }
cat >"$t" || die 84 "writing $t failed; is the disk full?"
s=$(sha256sum <"$t"); [ "${s%% *}" = "$want" ] || die 83 'the rules arrived incomplete'
load() { { printf '%s' "$drop"; cat "$t"; } | nft "$@" -f - 2>&1; }
said=$(load -c) || die 84 "the rules aren't valid, and nothing was changed (line 1 is not of the recipe): $said"
rm -f "$stamp" || die 84 "removing $stamp failed"
said=$(load) || die 84 "$said"
sync "$t" 2>/dev/null || sync
mv -f "$t" "$f" || exit 1
printf '%s\n' "$unittext" >"$unit.new" && mv -f "$unit.new" "$unit" || exit 1
run() { said=$("$@" 2>&1) || fail 84 "$*: $said"; }
run systemctl daemon-reload
run systemctl enable "gsrun-nftables@$name.service"
[ "$(systemctl is-active "gsrun-nftables@$name.service")" = active ] || run systemctl start "gsrun-nftables@$name.service"
echo "$want $(inforce "$f")" >"$stamp.new" && mv -f "$stamp.new" "$stamp"
`

const deleteNftablesScript = `if command -v nft >/dev/null 2>&1; then
	said=$(printf '%s\n' "$drop" | nft -f - 2>&1) || fail 84 "$said"
fi
systemctl disable "gsrun-nftables@$name.service" >/dev/null 2>&1
systemctl stop "gsrun-nftables@$name.service" >/dev/null 2>&1
rm -f "$f" "$stamp" || exit 1
for o in "${f%/*}"/gsrun-*.nft; do
	[ ! -e "$o" ] || exit 0
done
rm -f "$unit" && systemctl daemon-reload
`

func nftablesVars(fn, name string) (vars, error) {
	if !regexp.MustCompile(`^[A-Za-z0-9_]+$`).MatchString(name) {
		return nil, invalid(fn, "%q is no name of a ruleset: letters, digits and _", name)
	}
	return vars{"name": name, "f": "/etc/nftables.d/gsrun-" + name + ".nft", "stamp": "/var/lib/gsrun/stamps/nftables/" + name,
		"unit": "/etc/systemd/system/gsrun-nftables@.service", "unittext": strings.TrimSuffix(nftablesUnit, "\n"), "tables": ""}, nil
}

// nftState is what a host has of a ruleset.
type nftState struct {
	text, tables   string // the file, and the tables that it replaces
	inForce, boots bool
}

func (h *Host) observeNftables(ctx context.Context, v vars) (effect.State, error) {
	got, err := h.look(ctx, observeNftablesScript, v)
	if err != nil {
		return effect.State{}, err
	}
	s := nftState{text: string(got.body), boots: got.get("enabled") == "enabled" && got.get("unit") == "yes"}
	s.tables = strings.Join(tablesOf(s.text), "\n")
	s.inForce = got.get("force") != "" && got.get("stamp") == hexSum(got.body)+" "+got.get("force")
	return effect.State{Exists: got.hasBody, Raw: s, Attrs: nftAttrs(v["name"], s.tables, s.inForce)}, nil
}

func nftAttrs(name, tables string, inForce bool) map[string]any {
	list := []any{}
	for t := range strings.FieldsFuncSeq(tables, func(r rune) bool { return r == '\n' }) {
		list = append(list, t)
	}
	return map[string]any{"name": name, "tables": list, "in_force": inForce}
}

// replacing returns the statements that remove tables which may not be there.
func replacing(tables []string) string {
	var b strings.Builder
	for _, t := range tables {
		b.WriteString("table " + t + "; delete table " + t + "; ")
	}
	return b.String()
}

// tablesOf returns the tables that a file of ours replaces.
func tablesOf(text string) []string {
	var out []string
	first, _, _ := strings.Cut(text, "\n")
	for part := range strings.SplitSeq(first, ";") {
		if t, ok := strings.CutPrefix(strings.TrimSpace(part), "delete table "); ok {
			out = append(out, t)
		}
	}
	return out
}

func ensureNftables(ctx context.Context, h *Host, a nftablesArgs) (any, error) {
	const fn = "ssh.host.nftables.ensure"
	v, err := nftablesVars(fn, a.Name)
	if err != nil {
		return nil, err
	}
	rules := a.Rules
	if a.Template != "" {
		if rules, err = render(ctx, fn, a.Template, a.Vars); err != nil {
			return nil, err
		}
	}
	if (a.Template != "") == (a.Rules.Reveal() != "" || !a.Rules.Known()) || a.Template == "" && a.Vars.V != nil {
		return nil, invalid(fn, "%s: give one of rules and template (with vars)", a.Name)
	}
	if !rules.Known() {
		return effect.DoLater(ctx, effect.Target{Scope: h.scope(), Kind: "nftables", Name: a.Name})
	}
	tables, err := nftTables(rules.Reveal())
	if err != nil {
		return nil, fault.Hinted(fault.Invalid, "give tables alone, such as table inet gsrun { ... }: their old state is replaced, other tables are left alone", "%s: %s: %w", fn, a.Name, err)
	}
	text := replacing(tables) + "\n" + strings.TrimSuffix(rules.Reveal(), "\n") + "\n"
	v["tables"] = strings.Join(tables, "\n")
	return (&act{host: h, kind: "nftables", name: a.Name, lock: "nftables", reach: []string{h.scope() + "/service/"},
		observe: func(ctx context.Context) (effect.State, error) { return h.observeNftables(ctx, v) },
		diff: func(st effect.State) (effect.Change, error) {
			s, _ := st.Raw.(nftState)
			var fields []effect.Field
			if s.text != text {
				f := effect.Field{Path: "rules", New: text}
				if st.Exists {
					f.Old = s.text
				}
				if rules.IsSecret() {
					f.New, f.Old = effect.Mask, nil
				}
				fields = append(fields, f)
			}
			if !s.inForce {
				fields = append(fields, effect.Field{Path: "in_force", Old: false, New: true})
			}
			if !s.boots {
				fields = append(fields, effect.Field{Path: "loaded at boot", Old: false, New: true})
			}
			return change(st, fields, nftAttrs(a.Name, v["tables"], true))
		},
		apply: func(ctx context.Context, c effect.Change) (effect.State, error) {
			s, _ := c.Before.Raw.(nftState)
			in := vars{"want": hexSum([]byte(text)), "drop": replacing(tablesOf(s.text))}
			for k, x := range v {
				in[k] = x
			}
			_, err := h.ask(ctx, applyNftablesScript, in, strings.NewReader(text))
			if fault.KindOf(err) == fault.NotFound {
				err = fault.Hinted(fault.NotFound, `host.package.ensure("nftables") first`, "%w", err)
			}
			return effect.State{Exists: true, Attrs: nftAttrs(a.Name, v["tables"], true)}, err
		},
	}).do(ctx)
}

func getNftables(ctx context.Context, h *Host, a nftablesNameArgs) (any, error) {
	v, err := nftablesVars("ssh.host.nftables.get", a.Name)
	if err != nil {
		return nil, err
	}
	q := h.query("nftables", a.Name)
	q.Absent = true
	return effect.Read(ctx, q, func(ctx context.Context) (effect.State, error) {
		s, err := h.observeNftables(ctx, v)
		if err == nil && !s.Exists {
			err = fault.New(fault.NotFound, "the host has no %s", v["f"])
		}
		return s, err
	})
}

func deleteNftables(ctx context.Context, h *Host, a nftablesNameArgs) (any, error) {
	v, err := nftablesVars("ssh.host.nftables.delete", a.Name)
	if err != nil {
		return nil, err
	}
	_, err = effect.Do(ctx, &act{host: h, kind: "nftables", name: a.Name, lock: "nftables", removes: true, reach: []string{h.scope() + "/service/"},
		observe: func(ctx context.Context) (effect.State, error) { return h.observeNftables(ctx, v) },
		diff:    removal,
		apply: func(ctx context.Context, c effect.Change) (effect.State, error) {
			s, _ := c.Before.Raw.(nftState)
			v["drop"] = replacing(tablesOf(s.text))
			_, err := h.ask(ctx, deleteNftablesScript, v, nil)
			return effect.State{}, err
		},
	})
	return nil, err
}
