package debian

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

func (s *System) ip(_ context.Context, p *machine.Proc) int {
	asJSON, brief, one, family := false, false, false, 0
	args := p.Args[1:]
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch args[0] {
		case "-j", "-json":
			asJSON = true
		case "-br", "-brief":
			brief = true
		case "-o", "-oneline":
			one = true
		case "-4":
			family = 4
		case "-6":
			family = 6
		case "-d", "-p", "-s", "-c", "-color", "-details":
		case "-V":
			p.Printf("ip utility, iproute2-6.1.0\n")
			return 0
		default:
			fmt.Fprintf(p.Stderr, "Option \"%s\" is unknown, try \"ip -help\".\n", args[0])
			return 255
		}
		args = args[1:]
	}
	if len(args) == 0 {
		return 255
	}
	object, rest := args[0], args[1:]
	verb := "show"
	if len(rest) > 0 && slices.Contains([]string{"show", "list", "ls", "add", "del", "delete", "set", "get", "replace", "flush", "change", "l", "s"}, rest[0]) {
		verb, rest = rest[0], rest[1:]
	}
	if verb == "list" || verb == "ls" || verb == "l" || verb == "s" {
		verb = "show"
	}
	if verb != "show" && verb != "get" && p.Cred.UID != 0 {
		fmt.Fprintln(p.Stderr, "RTNETLINK answers: Operation not permitted")
		return 2
	}
	switch {
	case strings.HasPrefix("address", object) && verb == "show", strings.HasPrefix("link", object) && verb == "show":
		return s.ipShow(p, rest, strings.HasPrefix("link", object), asJSON, brief, one, family)
	case strings.HasPrefix("address", object) || strings.HasPrefix("link", object):
		return s.ipChange(p, verb, rest, strings.HasPrefix("link", object))
	case strings.HasPrefix("route", object):
		return s.ipRoute(p, verb, rest, asJSON)
	case strings.HasPrefix("rule", object), strings.HasPrefix("neighbour", object), object == "netns":
		return 0
	}
	fmt.Fprintf(p.Stderr, "Object \"%s\" is unknown, try \"ip help\".\n", object)
	return 255
}

func device(args []string) string {
	for i, a := range args {
		if a == "dev" && i+1 < len(args) {
			return args[i+1]
		}
	}
	if len(args) > 0 && args[0] != "up" && args[0] != "type" && args[0] != "scope" {
		return args[0]
	}
	return ""
}

func (s *System) ipShow(p *machine.Proc, rest []string, linksOnly, asJSON, brief, one bool, family int) int {
	s.kernel.mu.Lock()
	links := slices.Clone(s.kernel.links)
	s.kernel.mu.Unlock()
	want := device(rest)
	type addr struct {
		Family string `json:"family"`
		Local  string `json:"local"`
		Length int    `json:"prefixlen"`
		Scope  string `json:"scope"`
		Label  string `json:"label,omitempty"`
	}
	type row struct {
		Index   int      `json:"ifindex"`
		Name    string   `json:"ifname"`
		Flags   []string `json:"flags"`
		MTU     int      `json:"mtu"`
		State   string   `json:"operstate"`
		Kind    string   `json:"link_type"`
		Address string   `json:"address,omitempty"`
		Addrs   []addr   `json:"addr_info,omitempty"`
	}
	rows := []row{}
	for i, l := range links {
		if want != "" && l.name != want {
			continue
		}
		r := row{Index: i + 1, Name: l.name, Flags: []string{"UP", "LOWER_UP"}, MTU: l.mtu, State: "UP", Kind: l.kind, Address: l.mac}
		if !l.up {
			r.Flags, r.State = nil, "DOWN"
		}
		if l.kind != "ether" && l.up {
			r.State = "UNKNOWN"
		}
		if l.kind == "wireguard" {
			r.Kind = "none"
		}
		for _, a := range l.addrs {
			if linksOnly || family == 4 && !a.Addr().Is4() || family == 6 && !a.Addr().Is6() {
				continue
			}
			fam, scope := "inet", "global"
			if a.Addr().Is6() {
				fam = "inet6"
			}
			if l.kind == "loopback" {
				scope = "host"
			}
			r.Addrs = append(r.Addrs, addr{fam, a.Addr().String(), a.Bits(), scope, l.name})
		}
		rows = append(rows, r)
	}
	if want != "" && len(rows) == 0 {
		fmt.Fprintf(p.Stderr, "Device \"%s\" does not exist.\n", want)
		return 1
	}
	if asJSON {
		out, err := json.Marshal(rows)
		if err != nil {
			return p.Fail(1, "%v", err)
		}
		p.Printf("%s\n", out)
		return 0
	}
	for _, r := range rows {
		var addrs []string
		for _, a := range r.Addrs {
			addrs = append(addrs, fmt.Sprintf("%s/%d", a.Local, a.Length))
		}
		switch {
		case brief && linksOnly:
			p.Printf("%-16s %-14s %s <%s>\n", r.Name, r.State, r.Address, strings.Join(r.Flags, ","))
		case brief:
			p.Printf("%-16s %-14s %s\n", r.Name, r.State, strings.Join(addrs, " "))
		case one && !linksOnly:
			for _, a := range r.Addrs {
				p.Printf("%d: %s    %s %s/%d scope %s %s\\       valid_lft forever preferred_lft forever\n", r.Index, r.Name, a.Family, a.Local, a.Length, a.Scope, r.Name)
			}
		default:
			p.Printf("%d: %s: <%s> mtu %d state %s\n    link/%s %s\n", r.Index, r.Name, strings.Join(r.Flags, ","), r.MTU, r.State, r.Kind, r.Address)
			for _, a := range r.Addrs {
				p.Printf("    %s %s/%d scope %s %s\n", a.Family, a.Local, a.Length, a.Scope, r.Name)
			}
		}
	}
	return 0
}

func (s *System) ipChange(p *machine.Proc, verb string, rest []string, onLink bool) int {
	say := func(text string) int { fmt.Fprintln(p.Stderr, text); return 2 }
	k := s.kernel
	name := device(rest)
	if !onLink {
		name = ""
		for i, a := range rest {
			if a == "dev" && i+1 < len(rest) {
				name = rest[i+1]
			}
		}
	}
	k.mu.Lock()
	var l *link
	for _, x := range k.links {
		if x.name == name {
			l = x
		}
	}
	k.mu.Unlock()
	defer s.FS.Touched()
	if onLink {
		switch verb {
		case "add":
			if l != nil {
				return say("RTNETLINK answers: File exists")
			}
			kind := "dummy"
			if i := slices.Index(rest, "type"); i >= 0 && i+1 < len(rest) {
				kind = rest[i+1]
			}
			if kind == "wireguard" {
				if err := k.load("wireguard"); err != nil {
					return say("Error: Unknown device type.")
				}
			}
			k.mu.Lock()
			k.links = append(k.links, &link{name: name, kind: kind, mtu: 1420})
			if kind == "wireguard" {
				k.tunnels[name] = &tunnel{peers: map[string]*peer{}}
			}
			k.mu.Unlock()
			return 0
		case "del", "delete":
			if l == nil {
				fmt.Fprintf(p.Stderr, "Cannot find device \"%s\"\n", name)
				return 1
			}
			k.drop(name)
			return 0
		}
		if l == nil {
			fmt.Fprintf(p.Stderr, "Cannot find device \"%s\"\n", name)
			return 1
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		for i, a := range rest {
			switch a {
			case "up":
				l.up = true
			case "down":
				l.up = false
			case "mtu":
				if i+1 < len(rest) {
					n, err := strconv.Atoi(rest[i+1])
					if err != nil {
						return say("Error: argument \"" + rest[i+1] + "\" is wrong: Invalid \"mtu\" value")
					}
					l.mtu = n
				}
			}
		}
		return 0
	}
	if l == nil {
		fmt.Fprintf(p.Stderr, "Cannot find device \"%s\"\n", name)
		return 1
	}
	if verb == "flush" {
		k.mu.Lock()
		defer k.mu.Unlock()
		l.addrs = nil
		return 0
	}
	if len(rest) == 0 {
		return say("RTNETLINK answers: Invalid argument")
	}
	pre, err := netip.ParsePrefix(rest[0])
	if err != nil {
		addr, aerr := netip.ParseAddr(rest[0])
		if aerr != nil {
			fmt.Fprintf(p.Stderr, "Error: any valid prefix is expected rather than \"%s\".\n", rest[0])
			return 1
		}
		pre = netip.PrefixFrom(addr, addr.BitLen())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	has := slices.Contains(l.addrs, pre)
	switch verb {
	case "add":
		if has {
			return say("RTNETLINK answers: File exists")
		}
		l.addrs = append(l.addrs, pre)
	case "replace", "change":
		if !has {
			l.addrs = append(l.addrs, pre)
		}
	case "del", "delete":
		if !has {
			return say("RTNETLINK answers: Cannot assign requested address")
		}
		l.addrs = slices.DeleteFunc(l.addrs, func(a netip.Prefix) bool { return a == pre })
	}
	return 0
}

// gatewayOf is the first address of a network.
func gatewayOf(a netip.Prefix) netip.Addr { return a.Masked().Addr().Next() }

func (s *System) ipRoute(p *machine.Proc, verb string, rest []string, asJSON bool) int {
	s.kernel.mu.Lock()
	links := slices.Clone(s.kernel.links)
	s.kernel.mu.Unlock()
	type route struct {
		Dst     string `json:"dst"`
		Gateway string `json:"gateway,omitempty"`
		Dev     string `json:"dev"`
		Src     string `json:"prefsrc,omitempty"`
	}
	out := []route{}
	var def *route
	for _, l := range links {
		for _, a := range l.addrs {
			if l.kind == "loopback" || !a.Addr().Is4() {
				continue
			}
			if def == nil && l.kind == "ether" {
				def = &route{"default", gatewayOf(a).String(), l.name, a.Addr().String()}
			}
			out = append(out, route{a.Masked().String(), "", l.name, a.Addr().String()})
		}
	}
	switch verb {
	case "get":
		if len(rest) == 0 {
			return 255
		}
		to, err := netip.ParseAddr(rest[0])
		if err != nil {
			fmt.Fprintf(p.Stderr, "Error: any valid prefix is expected rather than \"%s\".\n", rest[0])
			return 1
		}
		var got *route
		for _, r := range out {
			if pre, err := netip.ParsePrefix(r.Dst); err == nil && pre.Contains(to) {
				got = &r
			}
		}
		if got == nil {
			got = def
		}
		if got == nil {
			fmt.Fprintln(p.Stderr, "RTNETLINK answers: Network is unreachable")
			return 2
		}
		one := *got
		one.Dst = to.String()
		if asJSON {
			b, err := json.Marshal([]route{one})
			if err != nil {
				return p.Fail(1, "%v", err)
			}
			p.Printf("%s\n", b)
			return 0
		}
		via := ""
		if one.Gateway != "" {
			via = "via " + one.Gateway + " "
		}
		p.Printf("%s %sdev %s src %s uid %d\n    cache\n", one.Dst, via, one.Dev, one.Src, p.Cred.UID)
		return 0
	case "show":
		if def != nil {
			out = append([]route{*def}, out...)
		}
		onlyDefault := slices.Contains(rest, "default")
		if asJSON {
			b, err := json.Marshal(out)
			if err != nil {
				return p.Fail(1, "%v", err)
			}
			p.Printf("%s\n", b)
			return 0
		}
		for _, r := range out {
			switch {
			case r.Gateway != "":
				p.Printf("%s via %s dev %s proto dhcp src %s metric 100\n", r.Dst, r.Gateway, r.Dev, r.Src)
			case !onlyDefault:
				p.Printf("%s dev %s proto kernel scope link src %s\n", r.Dst, r.Dev, r.Src)
			}
		}
		return 0
	}
	s.FS.Touched()
	return 0
}
