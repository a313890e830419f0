package debian

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// statements and matches that a rule may consist of.
func ruleWords() []string {
	return strings.Fields("accept drop reject return continue queue jump goto counter log limit masquerade snat dnat redirect tproxy notrack mark meta ct ip ip6 icmp icmpv6 tcp udp " +
		"udplite sctp dccp ether vlan arp iif iifname oif oifname iifgroup oifgroup skuid skgid fib rt socket th comment set add update delete tcp-option exthdr numgen jhash pkttype " +
		"cgroup vmap dup fwd hash flow l4proto nfproto protocol mh ah esp comp @th @nh @ll osf synproxy")
}

// selectors lists what may follow the words that name a protocol's header or a
// packet's properties.
func selectors() map[string][]string {
	return map[string][]string{
		"ip":     strings.Fields("saddr daddr protocol version ttl length dscp id frag-off checksum hdrlength ecn option"),
		"ip6":    strings.Fields("saddr daddr nexthdr hoplimit version length dscp flowlabel ecn"),
		"tcp":    strings.Fields("sport dport flags sequence ackseq window checksum option doff urgptr reserved"),
		"udp":    strings.Fields("sport dport length checksum"),
		"icmp":   strings.Fields("type code id sequence mtu gateway checksum"),
		"icmpv6": strings.Fields("type code id sequence mtu checksum packet-too-big"),
		"ct":     strings.Fields("state mark status direction helper expiration label original reply count zone id l3proto protocol bytes packets saddr daddr proto-src proto-dst"),
		"meta":   strings.Fields("mark iif oif iifname oifname iiftype oiftype protocol nfproto l4proto length skuid skgid pkttype cpu priority random time day hour cgroup set ibrname obrname nftrace"),
		"th":     strings.Fields("sport dport"),
	}
}

// rule reads one rule and checks what it can: the words that it begins with,
// addresses, ports and the chains and sets that it names.
func (p *nftParser) rule(t *table, c *chain, first bool) error {
	start := p.pos
	words, err := p.restOfLine()
	if err != nil {
		return err
	}
	fail := func(format string, args ...any) error {
		p.pos = start
		return p.errorf(format, args...)
	}
	if len(words) == 0 {
		return p.unexpected()
	}
	if !slices.Contains(ruleWords(), words[0]) {
		return fail("syntax error, unexpected %s", words[0])
	}
	if words[0] == "comment" {
		return nil
	}
	after := selectors()
	depth := 0
	for i, w := range words {
		next := ""
		if i+1 < len(words) {
			next = words[i+1]
		}
		switch w {
		case "{":
			depth++
		case "}":
			depth--
		}
		if list := after[w]; list != nil && depth == 0 && (i == 0 || !slices.Contains([]string{"protocol", "l4proto", "nexthdr", "to", "==", "!=", "set", "type", "with"}, words[i-1])) && !slices.Contains(list, next) {
			return fail("syntax error, unexpected %s", cmp.Or(next, "newline"))
		}
		switch w {
		case "saddr", "daddr":
			if next == "!=" && i+2 < len(words) {
				next = words[i+2]
			}
			if next == "" {
				return fail("syntax error, unexpected newline")
			}
			if i > 0 && words[i-1] == "ip" && next != "{" && !strings.HasPrefix(next, "@") && !validAddress(next) {
				return fail("Could not resolve hostname: Name or service not known")
			}
		case "dport", "sport":
			if next == "!=" && i+2 < len(words) {
				next = words[i+2]
			}
			if next == "" {
				return fail("syntax error, unexpected newline")
			}
			if next != "{" && !strings.HasPrefix(next, "@") && !validPort(next) {
				return fail("Could not resolve service: Servname not supported for ai_socktype")
			}
		case "jump", "goto":
			if next == "" {
				return fail("syntax error, unexpected newline")
			}
		case "masquerade", "snat":
			if c.hook != "" && (c.kind != "nat" || c.hook != "postrouting" && c.hook != "input") {
				return fail("Could not process rule: Operation not supported")
			}
		case "dnat", "redirect":
			if c.hook != "" && (c.kind != "nat" || c.hook != "prerouting" && c.hook != "output") {
				return fail("Could not process rule: Operation not supported")
			}
		case "iifname", "oifname", "iif", "oif":
			if next == "" {
				return fail("syntax error, unexpected newline")
			}
		}
		if name, ok := strings.CutPrefix(w, "@"); ok && t.set(name) == nil && !strings.Contains(w, ",") && name != "th" && name != "nh" && name != "ll" {
			return fail("No such file or directory; did you mean set in table %s '%s'?", t.family, t.name)
		}
	}
	switch last := words[len(words)-1]; last {
	case "saddr", "daddr", "dport", "sport", "to", "state", "ip", "tcp", "udp", "ct", "meta":
		return fail("syntax error, unexpected newline")
	}
	if first {
		c.rules = append([][]string{words}, c.rules...)
	} else {
		c.rules = append(c.rules, words)
	}
	return nil
}

func validAddress(s string) bool {
	from, to, span := strings.Cut(s, "-")
	if span {
		_, err1 := netip.ParseAddr(from)
		_, err2 := netip.ParseAddr(to)
		return err1 == nil && err2 == nil
	}
	if _, err := netip.ParsePrefix(s); err == nil {
		return true
	}
	_, err := netip.ParseAddr(s)
	return err == nil
}

func validPort(s string) bool {
	for part := range strings.SplitSeq(s, "-") {
		n, err := strconv.Atoi(part)
		if err == nil && n >= 0 && n < 65536 {
			continue
		}
		if !slices.Contains([]string{"ssh", "http", "https", "domain", "ntp", "bootps", "bootpc", "smtp"}, part) {
			return false
		}
	}
	return true
}
