package debian

import (
	"cmp"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

// A tunnel is one WireGuard device of the kernel.
type tunnel struct {
	key   string // private, base64
	port  int
	mark  string
	peers map[string]*peer
}

type peer struct {
	key, psk  string
	endpoint  string
	allowed   []string
	keepalive string
}

// newKey makes a private key, as wg genkey does.
func newKey() (string, error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return "", err
	}
	b := key.Bytes()
	b[0] &= 248
	b[31] = b[31]&127 | 64
	return base64.StdEncoding.EncodeToString(b), nil
}

// publicKey derives a public key.
func publicKey(private string) (string, error) {
	b, err := base64.StdEncoding.DecodeString(private)
	if err != nil || len(b) != 32 {
		return "", errors.New("Key is not the correct length or format")
	}
	key, err := ecdh.X25519().NewPrivateKey(b)
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(key.PublicKey().Bytes()), nil
}

func validKey(s string) bool {
	b, err := base64.StdEncoding.DecodeString(s)
	return err == nil && len(b) == 32
}

// parseTunnel reads the configuration of wg, or, with quick, of wg-quick.
func parseTunnel(text string, quick bool) (*tunnel, map[string][]string, error) {
	t := &tunnel{peers: map[string]*peer{}}
	extra := map[string][]string{}
	var section string
	var cur *peer
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if strings.HasPrefix(line, "[") {
			section = strings.ToLower(line)
			switch section {
			case "[interface]":
			case "[peer]":
				cur = &peer{}
			default:
				return nil, nil, fmt.Errorf("Line unrecognized: `%s'", line)
			}
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || section == "" {
			return nil, nil, fmt.Errorf("Line unrecognized: `%s'", line)
		}
		switch section + strings.ToLower(key) {
		case "[interface]privatekey":
			if !validKey(value) {
				return nil, nil, fmt.Errorf("Key is not the correct length or format: `%s'", value)
			}
			t.key = value
		case "[interface]listenport":
			port, err := strconv.Atoi(value)
			if err != nil || port < 0 || port > 65535 {
				return nil, nil, fmt.Errorf("Unable to parse port: `%s'", value)
			}
			t.port = port
		case "[interface]fwmark":
			t.mark = value
		case "[peer]publickey":
			if !validKey(value) {
				return nil, nil, fmt.Errorf("Key is not the correct length or format: `%s'", value)
			}
			cur.key = value
			t.peers[value] = cur
		case "[peer]presharedkey":
			cur.psk = value
		case "[peer]endpoint":
			cur.endpoint = value
		case "[peer]persistentkeepalive":
			cur.keepalive = value
		case "[peer]allowedips":
			for ip := range strings.SplitSeq(value, ",") {
				if ip = strings.TrimSpace(ip); ip == "" {
					continue
				}
				if !validAddress(ip) {
					return nil, nil, fmt.Errorf("Unable to parse IP address: `%s'", ip)
				}
				cur.allowed = append(cur.allowed, ip)
			}
		default:
			name := strings.ToLower(key)
			if !quick || section != "[interface]" || !slices.Contains([]string{"address", "dns", "mtu", "table", "preup", "postup", "predown", "postdown", "saveconfig"}, name) {
				return nil, nil, fmt.Errorf("Line unrecognized: `%s' (line %d)", line, n+1)
			}
			extra[name] = append(extra[name], value)
		}
	}
	for _, p := range t.peers {
		if p.key == "" {
			return nil, nil, errors.New("A peer is missing a public key")
		}
	}
	return t, extra, nil
}

func (t *tunnel) conf() string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "[Interface]\n")
	if t.port > 0 {
		fmt.Fprintf(&sb, "ListenPort = %d\n", t.port)
	}
	fmt.Fprintf(&sb, "PrivateKey = %s\n", t.key)
	for _, k := range slices.Sorted(maps.Keys(t.peers)) {
		p := t.peers[k]
		fmt.Fprintf(&sb, "\n[Peer]\nPublicKey = %s\n", p.key)
		if p.psk != "" {
			fmt.Fprintf(&sb, "PresharedKey = %s\n", p.psk)
		}
		fmt.Fprintf(&sb, "AllowedIPs = %s\n", strings.Join(p.allowed, ", "))
		if p.endpoint != "" {
			fmt.Fprintf(&sb, "Endpoint = %s\n", p.endpoint)
		}
		if p.keepalive != "" {
			fmt.Fprintf(&sb, "PersistentKeepalive = %s\n", p.keepalive)
		}
	}
	return sb.String()
}

func (s *System) wg(ctx context.Context, p *machine.Proc) int {
	args := p.Args[1:]
	if len(args) == 0 {
		args = []string{"show"}
	}
	say := func(text string) int { fmt.Fprintln(p.Stderr, text); return 1 }
	switch args[0] {
	case "genkey", "genpsk":
		key, err := newKey()
		if err != nil {
			return say("wg: " + err.Error())
		}
		p.Printf("%s\n", key)
		return 0
	case "pubkey":
		pub, err := publicKey(strings.TrimSpace(readAll(p.In(ctx))))
		if err != nil {
			return say("wg: " + err.Error())
		}
		p.Printf("%s\n", pub)
		return 0
	case "--version":
		p.Printf("wireguard-tools v1.0.20210914 - https://git.zx2c4.com/wireguard-tools/\n")
		return 0
	}
	if p.Cred.UID != 0 {
		return say("Unable to access interface: Operation not permitted")
	}
	k := s.kernel
	if args[0] == "show" && (len(args) == 1 || args[1] == "all" || args[1] == "interfaces") {
		k.mu.Lock()
		names := slices.Sorted(maps.Keys(k.tunnels))
		k.mu.Unlock()
		if len(args) > 1 && args[1] == "interfaces" {
			p.Printf("%s\n", strings.Join(names, " "))
			return 0
		}
		for _, name := range names {
			s.wgShow(p, name, args[min(2, len(args)):], len(args) > 1)
		}
		return 0
	}
	if len(args) < 2 {
		return say("Usage: wg <cmd> [<args>]")
	}
	name := args[1]
	k.mu.Lock()
	t := k.tunnels[name]
	k.mu.Unlock()
	if t == nil {
		return say("Unable to access interface: No such device")
	}
	switch args[0] {
	case "show":
		return s.wgShow(p, name, args[2:], false)
	case "showconf":
		k.mu.Lock()
		defer k.mu.Unlock()
		p.Printf("%s", t.conf())
		return 0
	case "setconf", "syncconf", "addconf":
		if len(args) != 3 {
			return say("Usage: wg " + args[0] + " <interface> <configuration filename>")
		}
		in, err := p.Input(ctx, args[2])
		if err != nil {
			return say("fopen: " + machine.Strerror(err))
		}
		defer in.Close()
		fresh, _, err := parseTunnel(readAll(in), false)
		if err != nil {
			return say(err.Error() + "\nConfiguration parsing error")
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if args[0] == "addconf" {
			maps.Copy(t.peers, fresh.peers)
		} else {
			// Peers that are the same keep what the kernel knows of them.
			for key, old := range t.peers {
				if now := fresh.peers[key]; now != nil && now.endpoint == "" {
					now.endpoint = old.endpoint
				}
			}
			t.peers = fresh.peers
		}
		if fresh.key != "" {
			t.key = fresh.key
		}
		if fresh.port != 0 {
			t.port = fresh.port
		}
		return 0
	case "set":
		return s.wgSet(p, t, args[2:])
	}
	return say("Invalid subcommand: `" + args[0] + "'")
}

func (s *System) wgSet(p *machine.Proc, t *tunnel, args []string) int {
	say := func(text string) int { fmt.Fprintln(p.Stderr, text); return 1 }
	k := s.kernel
	var cur *peer
	curKey := ""
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		if word == "remove" {
			k.mu.Lock()
			delete(t.peers, curKey)
			k.mu.Unlock()
			continue
		}
		if len(args) == 0 {
			return say("Invalid argument: " + word)
		}
		value := args[0]
		args = args[1:]
		file := func() (string, int) {
			text, err := s.FS.ReadFile(p.Cred, p.Abs(value))
			if value == "/dev/stdin" {
				text, err = []byte(readAll(p.In(context.Background()))), nil
			}
			if err != nil {
				return "", say("fopen: " + machine.Strerror(err))
			}
			key := strings.TrimSpace(string(text))
			if !validKey(key) {
				return "", say("Key is not the correct length or format: `" + key + "'")
			}
			return key, 0
		}
		switch word {
		case "listen-port":
			port, err := strconv.Atoi(value)
			if err != nil {
				return say("Unable to parse port: `" + value + "'")
			}
			k.mu.Lock()
			t.port = port
			k.mu.Unlock()
		case "private-key":
			key, code := file()
			if code != 0 {
				return code
			}
			k.mu.Lock()
			t.key = key
			k.mu.Unlock()
		case "peer":
			if !validKey(value) {
				return say("Key is not the correct length or format: `" + value + "'")
			}
			k.mu.Lock()
			curKey = value
			if cur = t.peers[value]; cur == nil {
				cur = &peer{key: value}
				t.peers[value] = cur
			}
			k.mu.Unlock()
		case "allowed-ips", "endpoint", "persistent-keepalive", "preshared-key":
			if cur == nil {
				return say("Invalid argument: " + word)
			}
			psk := ""
			if word == "preshared-key" {
				key, code := file()
				if code != 0 {
					return code
				}
				psk = key
			}
			k.mu.Lock()
			switch word {
			case "allowed-ips":
				cur.allowed = nil
				for ip := range strings.SplitSeq(value, ",") {
					if ip = strings.TrimSpace(ip); validAddress(ip) {
						cur.allowed = append(cur.allowed, ip)
					}
				}
			case "endpoint":
				cur.endpoint = value
			case "persistent-keepalive":
				cur.keepalive = value
			case "preshared-key":
				cur.psk = psk
			}
			k.mu.Unlock()
		case "fwmark":
		default:
			return say("Invalid argument: " + word)
		}
	}
	s.FS.Touched()
	return 0
}

func (s *System) wgShow(p *machine.Proc, name string, what []string, prefix bool) int {
	s.kernel.mu.Lock()
	defer s.kernel.mu.Unlock()
	t := s.kernel.tunnels[name]
	if t == nil {
		return 1
	}
	public, err := publicKey(t.key)
	if err != nil {
		public = "(none)"
	}
	lead := ""
	if prefix {
		lead = name + "\t"
	}
	none := func(v string) string { return cmp.Or(v, "(none)") }
	keys := slices.Sorted(maps.Keys(t.peers))
	if len(what) == 0 {
		p.Printf("interface: %s\n  public key: %s\n  private key: (hidden)\n  listening port: %d\n", name, public, t.port)
		for _, k := range keys {
			pr := t.peers[k]
			p.Printf("\npeer: %s\n", k)
			if pr.endpoint != "" {
				p.Printf("  endpoint: %s\n", pr.endpoint)
			}
			p.Printf("  allowed ips: %s\n", none(strings.Join(pr.allowed, ", ")))
			if pr.keepalive != "" {
				p.Printf("  persistent keepalive: every %s seconds\n", pr.keepalive)
			}
		}
		return 0
	}
	each := func(value func(*peer) string) {
		for _, k := range keys {
			p.Printf("%s%s\t%s\n", lead, k, value(t.peers[k]))
		}
	}
	switch what[0] {
	case "public-key":
		p.Printf("%s%s\n", lead, public)
	case "private-key":
		p.Printf("%s%s\n", lead, t.key)
	case "listen-port":
		p.Printf("%s%d\n", lead, t.port)
	case "fwmark":
		p.Printf("%soff\n", lead)
	case "peers":
		for _, k := range keys {
			p.Printf("%s%s\n", lead, k)
		}
	case "endpoints":
		each(func(pr *peer) string { return none(pr.endpoint) })
	case "allowed-ips":
		each(func(pr *peer) string { return none(strings.Join(pr.allowed, " ")) })
	case "latest-handshakes":
		each(func(*peer) string { return "0" })
	case "transfer":
		each(func(*peer) string { return "0\t0" })
	case "persistent-keepalive":
		each(func(pr *peer) string { return cmp.Or(pr.keepalive, "off") })
	case "preshared-keys":
		each(func(pr *peer) string { return none(pr.psk) })
	case "dump":
		p.Printf("%s%s\t%s\t%d\toff\n", lead, t.key, public, t.port)
		each(func(pr *peer) string {
			return strings.Join([]string{none(pr.psk), none(pr.endpoint), none(strings.Join(pr.allowed, ",")), "0", "0", "0", cmp.Or(pr.keepalive, "off")}, "\t")
		})
	default:
		fmt.Fprintf(p.Stderr, "Invalid argument: %s\n", what[0])
		return 1
	}
	return 0
}

func (s *System) wgQuick(ctx context.Context, p *machine.Proc) int {
	if len(p.Args) != 3 {
		fmt.Fprintln(p.Stderr, "Usage: wg-quick [ up | down | save | strip ] [ CONFIG_FILE | INTERFACE ]")
		return 1
	}
	say := func(text string) int { fmt.Fprintln(p.Stderr, "wg-quick: "+text); return 1 }
	if p.Cred.UID != 0 {
		return say("must be root")
	}
	verb, name := p.Args[1], p.Args[2]
	file := "/etc/wireguard/" + name + ".conf"
	if strings.HasSuffix(name, ".conf") {
		file = p.Abs(name)
		name = strings.TrimSuffix(name[strings.LastIndex(name, "/")+1:], ".conf")
	}
	k := s.kernel
	k.mu.Lock()
	t := k.tunnels[name]
	k.mu.Unlock()
	text, err := s.FS.ReadFile(p.Cred, file)
	if err != nil {
		return say(fmt.Sprintf("`%s' does not exist", file))
	}
	fresh, extra, err := parseTunnel(string(text), true)
	if err != nil {
		return say(err.Error() + "\nConfiguration parsing error")
	}
	hooks := func(key string) int {
		for _, line := range extra[key] {
			line = strings.ReplaceAll(line, "%i", name)
			fmt.Fprintf(p.Stderr, "[#] %s\n", line)
			if code, err := p.Run(ctx, machine.Cmd{Args: []string{"/bin/bash", "-c", line}}); err != nil || code != 0 {
				return 1
			}
		}
		return 0
	}
	switch verb {
	case "strip":
		p.Printf("%s", fresh.conf())
		return 0
	case "down":
		if t == nil {
			return say(fmt.Sprintf("`%s' is not a WireGuard interface", name))
		}
		if hooks("predown") != 0 {
			return 1
		}
		fmt.Fprintf(p.Stderr, "[#] ip link delete dev %s\n", name)
		k.drop(name)
		return hooks("postdown")
	case "save":
		return 0
	case "up":
	default:
		return say("unknown command " + verb)
	}
	if t != nil {
		return say(fmt.Sprintf("`%s' already exists", name))
	}
	if hooks("preup") != 0 {
		return 1
	}
	if err := k.load("wireguard"); err != nil {
		return say(err.Error())
	}
	l := &link{name: name, kind: "wireguard", up: true, mtu: 1420}
	for _, list := range extra["address"] {
		for a := range strings.SplitSeq(list, ",") {
			pre, err := netip.ParsePrefix(strings.TrimSpace(a))
			if err != nil {
				addr, aerr := netip.ParseAddr(strings.TrimSpace(a))
				if aerr != nil {
					return say("invalid address " + a)
				}
				pre = netip.PrefixFrom(addr, addr.BitLen())
			}
			l.addrs = append(l.addrs, pre)
		}
	}
	fmt.Fprintf(p.Stderr, "[#] ip link add %s type wireguard\n[#] wg setconf %s /dev/fd/63\n", name, name)
	k.mu.Lock()
	k.tunnels[name] = fresh
	k.links = append(k.links, l)
	k.mu.Unlock()
	s.FS.Touched()
	if hooks("postup") != 0 {
		k.drop(name)
		return 1
	}
	return 0
}

// drop removes an interface.
func (k *kernel) drop(name string) {
	k.mu.Lock()
	delete(k.tunnels, name)
	k.links = slices.DeleteFunc(k.links, func(l *link) bool { return l.name == name })
	k.mu.Unlock()
	k.sys.FS.Touched()
}

// Tunnel describes a WireGuard device: its public key, port and peers' public
// keys.
func (s *System) Tunnel(name string) (public string, port int, peers []string, ok bool) {
	s.kernel.mu.Lock()
	defer s.kernel.mu.Unlock()
	t := s.kernel.tunnels[name]
	if t == nil {
		return "", 0, nil, false
	}
	public, err := publicKey(t.key)
	return public, t.port, slices.Sorted(maps.Keys(t.peers)), err == nil
}
