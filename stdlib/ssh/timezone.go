package ssh

import (
	"context"
	"regexp"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type timezoneArgs struct {
	Name string `star:"name,required" doc:"Name of the time zone, such as \"Europe/Berlin\"."`
}

func timezoneNoun() builtin.Noun {
	return builtin.Noun{
		Name: "timezone", Doc: "The host's time zone", Identity: builtin.NaturalKey,
		Attrs: []builtin.Attr{{Name: "name", Type: "str", Doc: "Name of the time zone; UTC, if none was ever set."}},
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, timezoneArgs]{
				Name: "ensure", Doc: "Set the time zone: /etc/localtime, and /etc/timezone where it is used. Programs that run keep theirs until they start anew.",
				Returns: "object with name", Example: `host.timezone.ensure("Europe/Berlin")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.NotFound, fault.Denied, fault.Invalid}, Run: ensureTimezone,
			}),
			builtin.Of(builtin.Spec[*Host, noArgs]{
				Name: "get", Doc: "Read the time zone.", Returns: "object with name",
				Example: `host.timezone.get().name`,
				Effect:  builtin.Reads, Errors: []fault.Kind{fault.Failed}, Run: getTimezone,
			}),
		},
	}
}

// A link in zoneinfo has names of its own, so it isn't followed.
const observeTimezoneScript = `[ ! -L /etc/localtime ] || printf 'link %s\n' "$(readlink /etc/localtime)"
[ ! -e /etc/localtime ] || echo 'there yes'
[ ! -f /etc/timezone ] || printf 'file %s\n' "$(head -n 1 /etc/timezone)"
`

const applyTimezoneScript = `[ -f "/usr/share/zoneinfo/$z" ] || fail 81 "the host knows no time zone $z"
umask 022
rm -rf /etc/.localtime.gsrun-?????? /etc/.timezone.gsrun-??????
if [ -f /etc/timezone ]; then
	t=$(mktemp /etc/.timezone.gsrun-XXXXXX) && printf '%s\n' "$z" >"$t" && chmod 0644 "$t" && mv -f "$t" /etc/timezone || { rm -f "$t"; exit 1; }
fi
t=$(mktemp -d /etc/.localtime.gsrun-XXXXXX) || exit 1
ln -s "/usr/share/zoneinfo/$z" "$t/link" && mv -fT "$t/link" /etc/localtime || { rm -rf "$t"; exit 1; }
rmdir "$t"
`

func (h *Host) observeTimezone(ctx context.Context) (effect.State, error) {
	got, err := h.look(ctx, observeTimezoneScript, nil)
	_, name, _ := strings.Cut(got.get("link"), "zoneinfo/")
	if name == "" && got.get("there") == "" {
		name = "UTC"
	}
	_, used := got.fields["file"]
	return effect.State{Exists: true, Raw: used && got.get("file") != name, Attrs: map[string]any{"name": name}}, err
}

func ensureTimezone(ctx context.Context, h *Host, a timezoneArgs) (any, error) {
	if !regexp.MustCompile(`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$`).MatchString(a.Name) {
		return nil, invalid("ssh.host.timezone.ensure", "%q is no name of a time zone", a.Name)
	}
	want := map[string]any{"name": a.Name}
	return (&act{host: h, kind: "timezone", name: "own", reach: []string{h.scope() + "/file/etc/timezone", h.scope() + "/link/etc/localtime"},
		observe: h.observeTimezone,
		diff: func(s effect.State) (effect.Change, error) {
			fields := effect.Compare(want, s.Attrs)
			if other, _ := s.Raw.(bool); other && len(fields) == 0 {
				fields = []effect.Field{{Path: "/etc/timezone", Old: "another", New: a.Name}}
			}
			c, err := change(s, fields, want)
			if c.Kind == effect.Create { // every host has one
				c.Kind = effect.Update
			}
			return c, err
		},
		apply: func(ctx context.Context, _ effect.Change) (effect.State, error) {
			_, err := h.ask(ctx, applyTimezoneScript, vars{"z": a.Name}, nil)
			if fault.KindOf(err) == fault.NotFound {
				err = fault.Hinted(fault.NotFound, "check its name; zones come with the package tzdata", "%w", err)
			}
			return effect.State{Exists: true, Attrs: want}, err
		},
	}).do(ctx)
}

func getTimezone(ctx context.Context, h *Host, _ noArgs) (any, error) {
	return effect.Read(ctx, h.query("timezone", "own"), h.observeTimezone)
}
