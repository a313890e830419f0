package ssh

import (
	"context"
	"regexp"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type hostnameArgs struct {
	Name string `star:"name,required" doc:"Name of the host, of at most 64 letters, digits, hyphens and dots."`
}

func hostnameNoun() builtin.Noun {
	return builtin.Noun{
		Name: "hostname", Doc: "The host's own name, live and for the next boot", Identity: builtin.NaturalKey,
		Attrs: []builtin.Attr{
			{Name: "name", Type: "str", Doc: "The live name."},
			{Name: "persistent", Type: "bool", Doc: "Whether /etc/hostname gives this name."},
		},
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, hostnameArgs]{
				Name: "ensure", Doc: "Set the host's name now, and in /etc/hostname for the next boot. That the name has an address is another matter: see host.hosts_entry.",
				Returns: "object with name and persistent", Example: `host.hostname.ensure("gw1")
host.hosts_entry.ensure("127.0.1.1", ["gw1"])`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Failed, fault.Denied, fault.Invalid}, Run: ensureHostname,
			}),
			builtin.Of(builtin.Spec[*Host, noArgs]{
				Name: "get", Doc: "Read the host's name.", Returns: "object with name and persistent",
				Example: `host.hostname.get().name`,
				Effect:  builtin.Reads, Errors: []fault.Kind{fault.Failed}, Run: getHostname,
			}),
		},
	}
}

const observeHostnameScript = `n=$(uname -n) || exit 1
echo "live $n"
[ ! -f /etc/hostname ] || printf 'file %s\n' "$(grep -v '^#' /etc/hostname | head -n 1)"
`

// The file comes first: what a killed run leaves live is seen by the next.
// systemd's daemon reads both anew whenever it is asked.
const applyHostnameScript = `umask 022
f=/etc/hostname
rm -f "$f.gsrun-"??????
t=$(mktemp "$f.gsrun-XXXXXX") && printf '%s\n' "$n" >"$t" && chmod 0644 "$t" && mv -f "$t" "$f" || { rm -f "$t"; exit 1; }
[ "$(uname -n)" = "$n" ] && exit
if command -v hostname >/dev/null 2>&1; then said=$(hostname "$n" 2>&1)
elif command -v hostnamectl >/dev/null 2>&1; then said=$(hostnamectl set-hostname "$n" 2>&1)
else said=$(printf '%s' "$n" 2>&1 >/proc/sys/kernel/hostname); fi || fail 84 "$said"
`

func (h *Host) observeHostname(ctx context.Context) (effect.State, error) {
	got, err := h.look(ctx, observeHostnameScript, nil)
	return effect.State{Exists: true, Attrs: map[string]any{"name": got.get("live"), "persistent": got.get("file") == got.get("live")}}, err
}

func ensureHostname(ctx context.Context, h *Host, a hostnameArgs) (any, error) {
	if !regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`).MatchString(a.Name) || len(a.Name) > 64 {
		return nil, invalid("ssh.host.hostname.ensure", "%q is no name for a host", a.Name)
	}
	want := map[string]any{"name": a.Name, "persistent": true}
	return (&act{host: h, kind: "hostname", name: "own", lock: "file/etc/hostname", reach: []string{h.scope() + "/file/etc/hostname"},
		observe: h.observeHostname,
		diff: func(s effect.State) (effect.Change, error) {
			c, err := change(s, effect.Compare(want, s.Attrs), want)
			if c.Kind == effect.Create { // every host has a name
				c.Kind = effect.Update
			}
			return c, err
		},
		apply: func(ctx context.Context, _ effect.Change) (effect.State, error) {
			_, err := h.ask(ctx, applyHostnameScript, vars{"n": a.Name}, nil)
			return effect.State{Exists: true, Attrs: want}, err
		},
	}).do(ctx)
}

func getHostname(ctx context.Context, h *Host, _ noArgs) (any, error) {
	return effect.Read(ctx, h.query("hostname", "own"), h.observeHostname)
}
