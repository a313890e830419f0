package ssh

import (
	"context"
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type sysctlArgs struct {
	Key   string      `star:"key,required" doc:"Name of the kernel parameter, such as \"net.ipv4.ip_forward\"."`
	Value effect.Data `star:"value,required" doc:"Value, a str or an int."`
}

type sysctlKeyArgs struct {
	Key string `star:"key,required" doc:"Name of the kernel parameter."`
}

func sysctlNoun() builtin.Noun {
	return builtin.Noun{
		Name: "sysctl", Doc: "A kernel parameter, live and for the next boot", Identity: builtin.NaturalKey,
		Attrs: []builtin.Attr{
			{Name: "key", Type: "str", Doc: "Name of the parameter."},
			{Name: "value", Type: "str", Doc: "Its live value."},
			{Name: "persistent", Type: "bool", Doc: "Whether gsrun's file in /etc/sysctl.d gives this value."},
		},
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, sysctlArgs]{
				Name: "ensure", Doc: "Set a kernel parameter now, and in /etc/sysctl.d/60-gsrun-KEY.conf for the next boot.",
				Returns: "object with key, value and persistent", Example: `host.sysctl.ensure("net.ipv4.ip_forward", "1")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.NotFound, fault.Failed, fault.Denied, fault.Invalid}, Run: ensureSysctl,
			}),
			builtin.Of(builtin.Spec[*Host, sysctlKeyArgs]{
				Name: "get", Doc: "Read a kernel parameter.",
				Returns: "object with key, value and persistent; None if the kernel has no such parameter", Example: `host.sysctl.get("net.ipv4.ip_forward").value`,
				Effect: builtin.Reads, Errors: []fault.Kind{fault.Denied, fault.Invalid}, Run: getSysctl,
			}),
			builtin.Of(builtin.Spec[*Host, sysctlKeyArgs]{
				Name: "delete", Doc: "Remove gsrun's file for a parameter. The live value stays until the next boot.",
				Returns: "None", Example: `host.sysctl.delete("net.ipv4.ip_forward")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Denied, fault.Invalid}, Run: deleteSysctl,
			}),
		},
	}
}

const observeSysctlScript = `set -f
if v=$(sysctl -n "$k" 2>/dev/null); then echo "live "$v; fi
if [ -f "$f" ]; then echo "file $(head -n 1 "$f")"; fi
`

// The live value comes first: a parameter that doesn't exist isn't persisted.
const applySysctlScript = `said=$(sysctl -w "$k=$v" 2>&1) || case $said in
*'No such file'* | *'cannot stat'* | *'unknown'*) fail 81 "the kernel has no parameter $k" ;;
*) fail 84 "$said" ;;
esac
umask 022
mkdir -p /etc/sysctl.d || exit 1
rm -f "$f.gsrun-"??????
t=$(mktemp "$f.gsrun-XXXXXX") && echo "$k = $v" >"$t" && chmod 0644 "$t" && mv -f "$t" "$f" || { rm -f "$t"; exit 1; }
`

func sysctlVars(fn, key string) (vars, error) {
	if !regexp.MustCompile(`^[A-Za-z0-9_.:/-]+$`).MatchString(key) || strings.Contains(key, "..") || strings.HasPrefix(key, "-") {
		return nil, invalid(fn, "%q is no name of a kernel parameter", key)
	}
	return vars{"k": key, "f": "/etc/sysctl.d/60-gsrun-" + strings.NewReplacer("/", "-", ".", "_").Replace(key) + ".conf"}, nil
}

// plainValue returns a str or an int as text with single spaces.
func plainValue(fn string, x any) (string, error) {
	switch x := x.(type) {
	case string:
		if s := strings.Join(strings.Fields(x), " "); s != "" && !strings.ContainsRune(s, 0) {
			return s, nil
		}
	case int64, *big.Int:
		return fmt.Sprint(x), nil
	}
	return "", invalid(fn, "the value is neither a str nor an int")
}

func (h *Host) observeSysctl(ctx context.Context, v vars) (effect.State, error) {
	got, err := h.look(ctx, observeSysctlScript, vars{"k": v["k"], "f": v["f"]})
	if err != nil {
		return effect.State{}, err
	}
	live, isLive := got.fields["live"]
	if !isLive {
		return effect.State{}, nil
	}
	value := strings.Join(strings.Fields(live[0]), " ")
	return effect.State{Exists: true, Raw: got.get("file") != "", Attrs: map[string]any{"key": v["k"], "value": value,
		"persistent": got.get("file") == v["k"]+" = "+value}}, nil
}

func ensureSysctl(ctx context.Context, h *Host, a sysctlArgs) (any, error) {
	const fn = "ssh.host.sysctl.ensure"
	v, err := sysctlVars(fn, a.Key)
	if err != nil {
		return nil, err
	}
	if _, unknown := a.Value.V.(effect.Unknown); unknown {
		return effect.DoLater(ctx, effect.Target{Scope: h.scope(), Kind: "sysctl", Name: a.Key})
	}
	if v["v"], err = plainValue(fn, a.Value.V); err != nil {
		return nil, err
	}
	want := map[string]any{"key": a.Key, "value": v["v"], "persistent": true}
	return (&act{host: h, kind: "sysctl", name: a.Key,
		observe: func(ctx context.Context) (effect.State, error) { return h.observeSysctl(ctx, v) },
		diff: func(s effect.State) (effect.Change, error) {
			fields := effect.Compare(want, s.Attrs)
			c, err := change(s, fields, want)
			if c.Kind == effect.Create { // a parameter isn't made
				c.Kind = effect.Update
			}
			return c, err
		},
		apply: func(ctx context.Context, _ effect.Change) (effect.State, error) {
			_, err := h.ask(ctx, applySysctlScript, v, nil)
			if fault.KindOf(err) == fault.NotFound {
				err = fault.Hinted(fault.NotFound, "check its name; it may come with a kernel module: see host.kernel_module.ensure", "%w", err)
			}
			return effect.State{Exists: true, Attrs: want}, err
		},
	}).do(ctx)
}

func getSysctl(ctx context.Context, h *Host, a sysctlKeyArgs) (any, error) {
	v, err := sysctlVars("ssh.host.sysctl.get", a.Key)
	if err != nil {
		return nil, err
	}
	q := h.query("sysctl", a.Key)
	q.Absent = true
	return effect.Read(ctx, q, func(ctx context.Context) (effect.State, error) {
		s, err := h.observeSysctl(ctx, v)
		if err == nil && !s.Exists {
			err = fault.New(fault.NotFound, "the kernel has no parameter %s", a.Key)
		}
		return s, err
	})
}

func deleteSysctl(ctx context.Context, h *Host, a sysctlKeyArgs) (any, error) {
	v, err := sysctlVars("ssh.host.sysctl.delete", a.Key)
	if err != nil {
		return nil, err
	}
	return nil, h.deleteFileAt(ctx, "sysctl", a.Key, v["f"])
}
