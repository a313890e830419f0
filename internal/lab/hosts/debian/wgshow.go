package debian

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

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
