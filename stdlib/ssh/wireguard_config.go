package ssh

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A wantedWireguard is an interface as a recipe wants it.
type wantedWireguard struct {
	name      string
	addresses []string
	port      int
	peers     []wireguardPeer // sorted by key
	unknown   bool            // part of it isn't known yet
}

type wireguardPeer struct {
	key       string
	allowed   []string // sorted
	endpoint  string
	keepalive int64
}

func checkInterface(fn, name string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$`).MatchString(name) {
		return invalid(fn, "%q is no name of an interface", name)
	}
	return nil
}

func (a *wireguardArgs) wanted() (*wantedWireguard, error) {
	const fn = "ssh.host.wireguard.ensure"
	if err := checkInterface(fn, a.Interface); err != nil {
		return nil, err
	}
	if a.ListenPort < 1 || a.ListenPort > 65535 {
		return nil, invalid(fn, "port %d is not between 1 and 65535", a.ListenPort)
	}
	w := &wantedWireguard{name: a.Interface, port: a.ListenPort}
	d := digest{}
	d.add([]any{a.Address.V, a.Peers.V})
	w.unknown = d.unknown
	if w.unknown {
		return w, nil
	}
	var err error
	if w.addresses, err = prefixes(fn, "address", a.Address.V, false); err != nil {
		return nil, err
	}
	list, ok := a.Peers.V.([]any)
	if !ok && a.Peers.V != nil {
		return nil, invalid(fn, "peers is no list")
	}
	for i, x := range list {
		p, err := readPeer(fn, i, x)
		if err != nil {
			return nil, err
		}
		if _, twice := w.peer(p.key); twice {
			return nil, invalid(fn, "peers[%d]: the key %s is there twice", i, p.key)
		}
		w.peers = append(w.peers, p)
	}
	sort.Slice(w.peers, func(i, j int) bool { return w.peers[i].key < w.peers[j].key })
	return w, nil
}

func readPeer(fn string, i int, x any) (wireguardPeer, error) {
	m, ok := x.(map[string]any)
	if !ok {
		return wireguardPeer{}, invalid(fn, "peers[%d] is no dict", i)
	}
	var p wireguardPeer
	for k, v := range m {
		var err error
		ok := true
		switch k {
		case "public_key":
			p.key, ok = v.(string)
			raw, derr := base64.StdEncoding.DecodeString(p.key)
			ok = ok && derr == nil && len(raw) == 32
		case "allowed_ips":
			p.allowed, err = prefixes(fn, fmt.Sprintf("peers[%d]: allowed_ips", i), v, true)
		case "endpoint":
			if v != nil {
				p.endpoint, ok = v.(string)
				ok = ok && isEndpoint(p.endpoint)
			}
		case "keepalive":
			if v != nil {
				p.keepalive, ok = v.(int64)
				ok = ok && p.keepalive >= 0 && p.keepalive <= 65535
			}
		default:
			return p, invalid(fn, "peers[%d]: unknown key %q; a peer has public_key, allowed_ips, endpoint and keepalive", i, k)
		}
		if err != nil {
			return p, err
		}
		if !ok {
			return p, invalid(fn, "peers[%d]: %s can't be %v", i, k, v)
		}
	}
	if p.key == "" || len(p.allowed) == 0 {
		return p, invalid(fn, "peers[%d] needs public_key and allowed_ips", i)
	}
	return p, nil
}

func isEndpoint(s string) bool {
	host, port, err := net.SplitHostPort(s)
	n, perr := strconv.Atoi(port)
	return err == nil && perr == nil && n > 0 && n < 65536 && regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.:-]*$`).MatchString(host)
}

// prefixes reads addresses with a prefix length, sorted; networks have no host
// part.
func prefixes(fn, what string, x any, networks bool) ([]string, error) {
	list, ok := x.([]any)
	if !ok {
		list = []any{x}
	}
	var out []string
	for _, e := range list {
		s, _ := e.(string)
		for part := range strings.SplitSeq(s, ",") {
			part = strings.TrimSpace(part)
			p, err := netip.ParsePrefix(part)
			if addr, aerr := netip.ParseAddr(part); err != nil && aerr == nil {
				p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
			}
			if err != nil {
				return nil, invalid(fn, "%s: %v is no address with a prefix length", what, e)
			}
			if networks {
				p = p.Masked()
			}
			if !slices.Contains(out, p.String()) {
				out = append(out, p.String())
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

func (w *wantedWireguard) attrs(public string) map[string]any {
	addresses := make([]any, len(w.addresses))
	for i, a := range w.addresses {
		addresses[i] = a
	}
	m := map[string]any{"interface": w.name, "public_key": public, "addresses": addresses, "listen_port": w.port}
	if w.unknown {
		m["addresses"] = effect.Unknown{Of: w.name + " addresses"}
	}
	return m
}

func (w *wantedWireguard) peer(key string) (wireguardPeer, bool) {
	for _, p := range w.peers {
		if p.key == key {
			return p, true
		}
	}
	return wireguardPeer{}, false
}

// peerKeys returns the keys of the wanted peers and of those that the host
// has, sorted.
func (w *wantedWireguard) peerKeys(s wireguardState) []string {
	var keys []string
	for _, p := range w.peers {
		keys = append(keys, p.key)
	}
	for k := range s.peers {
		if !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// routes returns every address range that lies behind a peer.
func (w *wantedWireguard) routes() []string {
	var out []string
	for _, p := range w.peers {
		out = append(out, p.allowed...)
	}
	return out
}

// config returns the file that wg-quick reads. The private key isn't in it.
func (w *wantedWireguard) config() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Written by gsrun; changes are overwritten.\n[Interface]\nAddress = %s\nListenPort = %d\nPostUp = wg set %%i private-key /etc/wireguard/%%i.key\n",
		strings.Join(w.addresses, ", "), w.port)
	for _, p := range w.peers {
		fmt.Fprintf(&b, "\n[Peer]\nPublicKey = %s\nAllowedIPs = %s\n", p.key, strings.Join(p.allowed, ", "))
		if p.endpoint != "" {
			b.WriteString("Endpoint = " + p.endpoint + "\n")
		}
		if p.keepalive > 0 {
			fmt.Fprintf(&b, "PersistentKeepalive = %d\n", p.keepalive)
		}
	}
	return b.String()
}
