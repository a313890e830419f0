package debian

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
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
