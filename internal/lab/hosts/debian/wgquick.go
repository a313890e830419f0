package debian

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

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
