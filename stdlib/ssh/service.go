package ssh

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"sort"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type serviceArgs struct {
	Name      string      `star:"name,required" doc:"Name of the systemd unit; .service may be left out."`
	Enabled   bool        `star:"enabled" doc:"Whether it is started at boot."`
	Running   bool        `star:"running" doc:"Whether it runs now."`
	ReloadOn  effect.Data `star:"reload_on" doc:"List of what the running service must have read, such as results of file.ensure: it is reloaded (or restarted, if it can't reload) when their contents aren't those that it read last."`
	RestartOn effect.Data `star:"restart_on" doc:"The same for what needs a restart, such as results of package.ensure."`
}

type serviceNameArgs struct {
	Name string `star:"name,required" doc:"Name of the systemd unit; .service may be left out."`
}

func serviceNoun() builtin.Noun {
	return builtin.Noun{
		Name: "service", Doc: "A service on the host (systemd)", Identity: builtin.NaturalKey,
		Attrs: []builtin.Attr{
			{Name: "name", Type: "str", Doc: "Name of the unit."},
			{Name: "enabled", Type: "bool", Doc: "Whether it is started at boot."},
			{Name: "running", Type: "bool", Doc: "Whether it runs."},
		},
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, serviceArgs]{
				Name: "ensure",
				Doc: "Make a service be enabled and running, or not, and have read its configuration. What it read last is kept as a digest in " +
					"/var/lib/gsrun/stamps on the host, so that a run that is killed between a change and the reload is made up for by the next.",
				Returns: "object with name, enabled and running",
				Example: `conf = host.file.ensure("/etc/nftables.conf", content = "flush ruleset\n")
host.service.ensure("nftables", reload_on = [conf])`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.NotFound, fault.Failed, fault.Denied, fault.Invalid},
				Defaults: serviceArgs{Enabled: true, Running: true}, Run: ensureService,
			}),
			builtin.Of(builtin.Spec[*Host, serviceNameArgs]{
				Name: "get", Doc: "Read the state of a service.", Returns: "object with name, enabled and running; None if there is no such unit",
				Example: `host.service.get("ssh").running`,
				Effect:  builtin.Reads, Errors: []fault.Kind{fault.Invalid, fault.Failed}, Run: getService,
			}),
		},
	}
}

// A unit that systemd doesn't know has no state, or the state not-found.
const observeServiceScript = `command -v systemctl >/dev/null 2>&1 || fail 84 "the host has no systemd"
echo "enabled $(systemctl is-enabled "$u" 2>/dev/null)"
echo "active $(systemctl is-active "$u" 2>/dev/null)"
for k in reload restart; do
	[ ! -f "$stamps.$k" ] || echo "$k $(cat "$stamps.$k")"
done
`

const applyServiceScript = `say() { "$@" 2>&1; }
run() {
	said=$(say systemctl "$@") || {
		case $said in *'not found'* | *'not be found'* | *'No such file'* | *'not loaded'* | *'does not exist'*) fail 81 "$said" ;; esac
		said="$said
$(journalctl -n 10 --no-pager -o cat -u "$u" 2>/dev/null)"
		fail 84 "$said"
	}
}
run daemon-reload
for a in $actions; do run "$a" "$u"; done
if [ "$running" = yes ]; then
	s=$(systemctl is-active "$u" 2>/dev/null)
	[ "$s" = active ] || fail 84 "$u is $s:
$(journalctl -n 10 --no-pager -o cat -u "$u" 2>/dev/null)"
fi
stamp() {
	[ -n "$2" ] || return 0
	umask 077
	mkdir -p "${stamps%/*}" || exit 1
	rm -f "$stamps.gsrun-"??????
	t=$(mktemp "$stamps.gsrun-XXXXXX") && echo "$2" >"$t" && mv -f "$t" "$stamps.$1" || exit 1
}
stamp reload "$reload"
stamp restart "$restart"
`

// A serviceState is what a host says of a unit.
type serviceState struct {
	enabled, active string
	stamps          map[string]string // by consequence: reload, restart
}

func (s serviceState) isRunning() bool { return s.active == "active" || s.active == "reloading" }
func (s serviceState) isEnabled() bool {
	// A static or generated unit is started by what needs it.
	switch s.enabled {
	case "enabled", "enabled-runtime", "static", "generated", "alias", "indirect":
		return true
	}
	return false
}

func serviceVars(fn, name string) (vars, error) {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9:_.@\\-]*$`).MatchString(name) {
		return nil, invalid(fn, "%q is no name of a unit", name)
	}
	return vars{"u": name, "stamps": "/var/lib/gsrun/stamps/service/" + strings.TrimSuffix(name, ".service")}, nil
}

func (h *Host) observeService(ctx context.Context, v vars) (effect.State, error) {
	got, err := h.look(ctx, observeServiceScript, vars{"u": v["u"], "stamps": v["stamps"]})
	if err != nil {
		return effect.State{}, err
	}
	s := serviceState{enabled: got.get("enabled"), active: got.get("active"), stamps: map[string]string{"reload": got.get("reload"), "restart": got.get("restart")}}
	if s.enabled == "" || s.enabled == "not-found" {
		return effect.State{}, nil
	}
	return effect.State{Exists: true, Raw: s, Attrs: map[string]any{"name": v["u"], "enabled": s.isEnabled(), "running": s.isRunning()}}, nil
}

func ensureService(ctx context.Context, h *Host, a serviceArgs) (any, error) {
	const fn = "ssh.host.service.ensure"
	v, err := serviceVars(fn, a.Name)
	if err != nil {
		return nil, err
	}
	w := &wantedService{name: a.Name, enabled: a.Enabled, running: a.Running}
	if w.reload, err = digestOf(fn, "reload_on", a.ReloadOn.V); err != nil {
		return nil, err
	}
	if w.restart, err = digestOf(fn, "restart_on", a.RestartOn.V); err != nil {
		return nil, err
	}
	return (&act{host: h, kind: "service", name: a.Name,
		observe: func(ctx context.Context) (effect.State, error) { return h.observeService(ctx, v) },
		diff:    w.diff,
		apply: func(ctx context.Context, c effect.Change) (effect.State, error) {
			s, _ := c.Before.Raw.(serviceState)
			v["actions"], v["running"] = strings.Join(w.actions(s), " "), "no"
			v["reload"], v["restart"] = "", ""
			if a.Running {
				v["running"], v["reload"], v["restart"] = "yes", w.reload.sum, w.restart.sum
			}
			_, err := h.ask(ctx, applyServiceScript, v, nil)
			if fault.KindOf(err) == fault.NotFound {
				err = fault.Hinted(fault.NotFound, "install its package first", "%w", err)
			}
			return effect.State{Exists: true, Attrs: w.attrs()}, err
		},
	}).do(ctx)
}

// A wantedService is a service as a recipe wants it.
type wantedService struct {
	name             string
	enabled, running bool
	reload, restart  consequence
}

func (w *wantedService) attrs() map[string]any {
	return map[string]any{"name": w.name, "enabled": w.enabled, "running": w.running}
}

func (w *wantedService) diff(st effect.State) (effect.Change, error) {
	have := st.Attrs
	s, _ := st.Raw.(serviceState)
	if s.enabled == "masked" && (w.enabled || w.running) {
		return effect.Change{}, fault.Hinted(fault.Failed, "unmask it: somebody wanted it not to be started", "unit %s is masked", w.name)
	}
	want := map[string]any{"running": w.running}
	if w.mustEnable(s) || w.mustDisable(s) || !st.Exists {
		want["enabled"] = w.enabled
	}
	fields := effect.Compare(want, have)
	if w.running && s.isRunning() {
		for _, c := range []struct {
			name string
			consequence
		}{{"reload", w.reload}, {"restart", w.restart}} {
			if c.due(s.stamps[c.name]) {
				fields = append(fields, effect.Field{Path: c.name, Old: shortSum(s.stamps[c.name]), New: c.shown()})
			}
		}
	}
	if len(fields) == 0 {
		return effect.Unchanged(), nil
	}
	// A unit comes with its package; here it only changes its state.
	return effect.Change{Kind: effect.Update, Fields: fields, After: w.attrs()}, nil
}

func (w *wantedService) mustEnable(s serviceState) bool { return w.enabled && !s.isEnabled() }

func (w *wantedService) mustDisable(s serviceState) bool {
	return !w.enabled && strings.HasPrefix(s.enabled, "enabled")
}

// actions returns the systemctl verbs that lead from s to what is wanted.
func (w *wantedService) actions(s serviceState) []string {
	var out []string
	switch {
	case w.mustEnable(s):
		out = append(out, "enable")
	case w.mustDisable(s):
		out = append(out, "disable")
	}
	switch {
	case !w.running && s.isRunning():
		out = append(out, "stop")
	case !w.running:
	case !s.isRunning():
		out = append(out, "start")
	case w.restart.due(s.stamps["restart"]):
		out = append(out, "restart")
	case w.reload.due(s.stamps["reload"]):
		out = append(out, "reload-or-restart")
	}
	return out
}

func getService(ctx context.Context, h *Host, a serviceNameArgs) (any, error) {
	v, err := serviceVars("ssh.host.service.get", a.Name)
	if err != nil {
		return nil, err
	}
	q := h.query("service", a.Name)
	q.Absent = true
	return effect.Read(ctx, q, func(ctx context.Context) (effect.State, error) {
		s, err := h.observeService(ctx, v)
		if err == nil && !s.Exists {
			err = fault.New(fault.NotFound, "no such unit")
		}
		return s, err
	})
}

// A consequence is the digest of what a service must have read.
type consequence struct {
	sum     string // "" if there is nothing, or if it isn't known yet
	unknown bool
	secret  bool // what it is made from is, or holds, a secret
}

// due reports whether the service hasn't read what the digest stands for.
func (c consequence) due(stamp string) bool { return c.unknown || c.sum != "" && c.sum != stamp }

func (c consequence) shown() any {
	if c.unknown {
		return effect.Unknown{Of: "digest"}
	}
	if c.secret {
		return effect.SecretOf(c.sum[:12], "") // whoever has it can try what the secret may be
	}
	return shortSum(c.sum)
}

func shortSum(sum string) any {
	if sum == "" {
		return nil
	}
	return sum[:min(len(sum), 12)]
}

// digestOf returns the digest of a list of results. Of what has a digest of
// its own, such as a file, only that and the name count.
func digestOf(fn, param string, x any) (consequence, error) {
	if x == nil {
		return consequence{}, nil
	}
	if _, unknown := x.(effect.Unknown); unknown {
		return consequence{unknown: true}, nil
	}
	list, ok := x.([]any)
	if !ok {
		return consequence{}, invalid(fn, "%s is no list", param)
	}
	if len(list) == 0 {
		return consequence{}, nil
	}
	d := digest{}
	secret := effect.HoldsSecret(list)
	for _, e := range list {
		if m, ok := e.(map[string]any); ok && m["sha256"] != nil {
			e = map[string]any{"sha256": m["sha256"], "path": m["path"]}
		}
		if e == nil {
			return consequence{}, fault.Hinted(fault.Invalid, "pass what file.ensure returned", "%s: %s holds None", fn, param)
		}
		d.add(e)
	}
	if d.unknown {
		return consequence{unknown: true}, nil
	}
	sum := sha256.Sum256([]byte(d.text.String()))
	return consequence{sum: hex.EncodeToString(sum[:]), secret: secret}, nil
}

// A digest writes data in one fixed form.
type digest struct {
	text    strings.Builder
	unknown bool
}

func (d *digest) add(x any) {
	switch x := x.(type) {
	case effect.Unknown:
		d.unknown = true
	case *effect.Secret:
		fmt.Fprintf(&d.text, "%q;", x.Reveal())
	case []any:
		d.text.WriteByte('[')
		for _, e := range x {
			d.add(e)
		}
		d.text.WriteByte(']')
	case map[string]any:
		keys := make([]string, 0, len(x))
		for k := range x {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		d.text.WriteByte('{')
		for _, k := range keys {
			fmt.Fprintf(&d.text, "%q:", k)
			d.add(x[k])
		}
		d.text.WriteByte('}')
	case string:
		fmt.Fprintf(&d.text, "%q;", x)
	default:
		fmt.Fprintf(&d.text, "%v;", x)
	}
}
