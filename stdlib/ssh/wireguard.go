package ssh

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type wireguardArgs struct {
	Interface  string      `star:"interface,required" doc:"Name of the interface, such as \"wg0\"."`
	Address    effect.Data `star:"address,required" doc:"Its address with the prefix length, such as \"10.99.0.1/24\", or a list."`
	ListenPort int         `star:"listen_port" doc:"UDP port."`
	Peers      effect.Data `star:"peers" doc:"List of dicts with public_key, allowed_ips (str or list), and optionally endpoint (\"host:port\") and keepalive (seconds). Their order doesn't matter."`
}

type wireguardNameArgs struct {
	Interface string `star:"interface,required" doc:"Name of the interface."`
}

func wireguardNoun() builtin.Noun {
	return builtin.Noun{
		Name: "wireguard", Doc: "A WireGuard interface on the host (wg-quick). Its private key is made on the host and never leaves it", Identity: builtin.NaturalKey,
		Attrs: []builtin.Attr{
			{Name: "interface", Type: "str", Doc: "Name of the interface."},
			{Name: "public_key", Type: "str", Doc: "Public key, in base64."},
			{Name: "addresses", Type: "list[str]", Doc: "Addresses with prefix length."},
			{Name: "listen_port", Type: "int", Doc: "UDP port."},
		},
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, wireguardArgs]{
				Name: "ensure",
				Doc: "Make an interface be up, now and after a boot, with exactly these peers. The private key is generated on the host if there is none. " +
					"Peers that stay keep their sessions; only another address of the interface itself takes it down for a moment. The host needs wireguard-tools.",
				Returns: "object with interface, public_key, addresses and listen_port",
				Example: `wg = host.wireguard.ensure("wg0", address = "10.99.0.1/24", listen_port = 51820, peers = [
    {"public_key": "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=", "allowed_ips": "10.99.0.2/32"},
])
log.info("operators connect with key " + wg.public_key)`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.NotFound, fault.Failed, fault.Denied, fault.Invalid},
				Defaults: wireguardArgs{ListenPort: 51820}, Run: ensureWireguard,
			}),
			builtin.Of(builtin.Spec[*Host, wireguardNameArgs]{
				Name: "delete", Doc: "Take an interface down and remove its configuration and its private key.",
				Returns: "None", Example: `host.wireguard.delete("wg0")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Failed, fault.Denied, fault.Invalid}, Run: deleteWireguard,
			}),
		},
	}
}

// The private key stays in its file: the configuration only names it.
const observeWireguardScript = `k=/etc/wireguard/$i.key c=/etc/wireguard/$i.conf
command -v wg >/dev/null 2>&1 || { echo 'tools no'; exit 0; }
if [ -s "$k" ]; then echo "public $(wg pubkey <"$k")" || exit 1; fi
echo "enabled $(systemctl is-enabled "wg-quick@$i" 2>/dev/null)"
if p=$(wg show "$i" public-key 2>/dev/null); then
	echo "live $p"
	echo "port $(wg show "$i" listen-port)"
	wg show "$i" allowed-ips | while read -r p a; do echo "peer $p $a"; done
	ip -o addr show dev "$i" 2>/dev/null | while read -r _ _ f a _; do case $f in inet | inet6) echo "address $a" ;; esac; done
fi
if [ -f "$c" ]; then echo; cat "$c"; fi
`

const applyWireguardScript = `d=/etc/wireguard k=/etc/wireguard/$i.key c=/etc/wireguard/$i.conf
command -v wg-quick >/dev/null 2>&1 || fail 81 "the host has no wg-quick"
umask 077
mkdir -p "$d" || exit 1
rm -f "$d/.$i.gsrun-"??????
if [ ! -s "$k" ]; then
	t=$(mktemp "$d/.$i.gsrun-XXXXXX") && wg genkey >"$t" && [ -s "$t" ] && mv -f "$t" "$k" || fail 84 'making a private key failed'
fi
t=$(mktemp "$d/.$i.gsrun-XXXXXX") && cat >"$t" || exit 1
s=$(sha256sum <"$t"); [ "${s%% *}" = "$want" ] || { rm -f "$t"; fail 83 'the configuration arrived incomplete'; }
sync "$t" 2>/dev/null || sync
mv -f "$t" "$c" || exit 1
run() { said=$("$@" 2>&1) || fail 84 "$*: $said"; }
run systemctl enable "wg-quick@$i"
case $how in
restart) run systemctl restart "wg-quick@$i" ;;
set)
	eval "$live"
	for r in $routes; do
		case $r in *:*) f=-6 ;; *) f=-4 ;; esac
		[ -n "$(ip $f route show dev "$i" match "$r" 2>/dev/null)" ] || run ip $f route add "$r" dev "$i"
	done
	;;
esac
echo "public $(wg pubkey <"$k")"
`

const deleteWireguardScript = `run() { said=$("$@" 2>&1) || fail 84 "$*: $said"; }
if wg show "$i" public-key >/dev/null 2>&1; then run systemctl stop "wg-quick@$i"; fi
systemctl disable "wg-quick@$i" >/dev/null 2>&1
rm -f "/etc/wireguard/$i.conf" "/etc/wireguard/$i.key"
`

// wireguardState is what a host has of an interface.
type wireguardState struct {
	public, enabled, live, config string
	port                          int
	peers                         map[string][]string // allowed addresses by public key, sorted
	addresses                     []string
}

func (h *Host) observeWireguard(ctx context.Context, name string) (wireguardState, error) {
	got, err := h.look(ctx, observeWireguardScript, vars{"i": name})
	if err != nil {
		return wireguardState{}, err
	}
	s := wireguardState{public: got.get("public"), enabled: got.get("enabled"), live: got.get("live"), config: string(got.body),
		peers: make(map[string][]string), addresses: got.all("address")}
	s.port, _ = strconv.Atoi(got.get("port")) // 0 if it isn't live
	for _, p := range got.all("peer") {
		f := strings.Fields(p)
		ips := []string{}
		for _, ip := range f[1:] {
			if ip != "(none)" {
				ips = append(ips, ip)
			}
		}
		slices.Sort(ips)
		s.peers[f[0]] = ips
	}
	return s, nil
}

func ensureWireguard(ctx context.Context, h *Host, a wireguardArgs) (any, error) {
	w, err := a.wanted()
	if err != nil {
		return nil, err
	}
	return (&act{host: h, kind: "wireguard", name: a.Interface,
		observe: func(ctx context.Context) (effect.State, error) {
			s, err := h.observeWireguard(ctx, a.Interface)
			return effect.State{Exists: s.public != "" || s.config != "", Raw: s, Attrs: w.attrs(s.public)}, err
		},
		diff: func(st effect.State) (effect.Change, error) {
			s, _ := st.Raw.(wireguardState)
			after := w.attrs(s.public)
			if s.public == "" {
				after["public_key"] = effect.Unknown{Of: h.scope() + "/wireguard/" + w.name + " public_key"}
			}
			return change(st, w.fields(s), after)
		},
		apply: func(ctx context.Context, c effect.Change) (effect.State, error) {
			s, _ := c.Before.Raw.(wireguardState)
			sum := sha256.Sum256([]byte(w.config()))
			v := vars{"i": w.name, "want": hex.EncodeToString(sum[:]), "how": w.way(s), "live": w.setCommands(s), "routes": strings.Join(w.routes(), " ")}
			got, err := h.ask(ctx, applyWireguardScript, v, strings.NewReader(w.config()))
			if fault.KindOf(err) == fault.NotFound {
				err = fault.Hinted(fault.NotFound, `host.package.ensure("wireguard-tools") first`, "%w", err)
			}
			return effect.State{Exists: true, Attrs: w.attrs(got.get("public"))}, err
		},
	}).do(ctx)
}

func deleteWireguard(ctx context.Context, h *Host, a wireguardNameArgs) (any, error) {
	if err := checkInterface("ssh.host.wireguard.delete", a.Interface); err != nil {
		return nil, err
	}
	_, err := effect.Do(ctx, &act{host: h, kind: "wireguard", name: a.Interface, removes: true,
		observe: func(ctx context.Context) (effect.State, error) {
			s, err := h.observeWireguard(ctx, a.Interface)
			return effect.State{Exists: s.public != "" || s.config != "" || s.live != ""}, err
		},
		diff: removal,
		apply: func(ctx context.Context, _ effect.Change) (effect.State, error) {
			_, err := h.ask(ctx, deleteWireguardScript, vars{"i": a.Interface}, nil)
			return effect.State{}, err
		},
	})
	return nil, err
}

// fields returns how the host's interface differs from the wanted one.
func (w *wantedWireguard) fields(s wireguardState) []effect.Field {
	var fields []effect.Field
	if s.public == "" {
		fields = append(fields, effect.Field{Path: "private_key", New: "generated on the host"})
	}
	switch {
	case w.unknown:
		fields = append(fields, effect.Field{Path: "config", Old: nilIfEmpty(s.config), New: effect.Unknown{Of: "peers of " + w.name}})
	case s.config != w.config():
		fields = append(fields, effect.Field{Path: "config", Old: nilIfEmpty(s.config), New: w.config()})
	}
	if s.enabled != "enabled" {
		fields = append(fields, effect.Field{Path: "enabled", Old: false, New: true})
	}
	if s.live == "" {
		return append(fields, effect.Field{Path: "running", Old: false, New: true})
	}
	if s.public != "" && s.live != s.public {
		fields = append(fields, effect.Field{Path: "running key", Old: s.live, New: s.public})
	}
	if s.port != w.port {
		fields = append(fields, effect.Field{Path: "running port", Old: s.port, New: w.port})
	}
	if !w.unknown {
		for _, key := range w.peerKeys(s) {
			p, wanted := w.peer(key)
			have, is := s.peers[key]
			switch {
			case !wanted:
				fields = append(fields, effect.Field{Path: "running peer " + key, Old: strings.Join(have, ", ")})
			case !is:
				fields = append(fields, effect.Field{Path: "running peer " + key, New: strings.Join(p.allowed, ", ")})
			case !slices.Equal(have, p.allowed):
				fields = append(fields, effect.Field{Path: "running peer " + key, Old: strings.Join(have, ", "), New: strings.Join(p.allowed, ", ")})
			}
		}
	}
	return fields
}

func nilIfEmpty(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// way says how the running interface gets what is wanted: by settings, which
// leave its other peers alone, or by a restart.
func (w *wantedWireguard) way(s wireguardState) string {
	if s.live == "" || !w.hasAddresses(s.addresses) || slices.ContainsFunc(w.routes(), func(r string) bool { return strings.HasSuffix(r, "/0") }) {
		return "restart"
	}
	return "set"
}

func (w *wantedWireguard) hasAddresses(have []string) bool {
	for _, a := range w.addresses {
		if !slices.Contains(have, a) {
			return false
		}
	}
	for _, a := range have {
		if !slices.Contains(w.addresses, a) && !strings.HasPrefix(a, "fe80:") {
			return false
		}
	}
	return true
}

// setCommands returns the commands that change a running interface.
func (w *wantedWireguard) setCommands(s wireguardState) string {
	var b strings.Builder
	fmt.Fprintf(&b, "run wg set %s listen-port %d private-key /etc/wireguard/%s.key\n", w.name, w.port, w.name)
	for _, key := range w.peerKeys(s) {
		p, wanted := w.peer(key)
		if !wanted {
			fmt.Fprintf(&b, "run wg set %s peer %s remove\n", w.name, key)
			continue
		}
		fmt.Fprintf(&b, "run wg set %s peer %s allowed-ips %s", w.name, key, strings.Join(p.allowed, ","))
		if p.endpoint != "" {
			b.WriteString(" endpoint " + p.endpoint)
		}
		fmt.Fprintf(&b, " persistent-keepalive %d\n", p.keepalive)
	}
	return b.String()
}
