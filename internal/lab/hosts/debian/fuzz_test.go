package debian

import (
	"errors"
	"strings"
	"testing"
)

// FuzzNft feeds the packet filter's parser: what it prints of a ruleset that
// it has read, it must read again, to the same ruleset.
func FuzzNft(f *testing.F) {
	for _, s := range []string{
		"flush ruleset\ntable ip nat {\n chain post {\n type nat hook postrouting priority srcnat; policy accept;\n ip saddr 10.0.0.0/8 masquerade\n }\n}\n",
		"define a = { 1, 2 }\ntable inet f { set s { type ipv4_addr; elements = { 10.0.0.1, 10.0.0.2 } }\nchain c { tcp dport $a accept; ip saddr @s drop }\n}",
		"add table ip6 x; add chain ip6 x y { type filter hook input priority 0; }; delete table ip6 x", "list ruleset", "table ip {", "}", "\"", "add rule", "include \"/x*\"", "chain a b c", "flush chain ip a b",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parse := func(text string) (*ruleset, error) {
			p := &nftParser{rules: &ruleset{}, name: "f", defines: map[string][]string{}, list: func(string, ...any) {}, glob: func(string) []string { return nil },
				read: func(string) (string, error) { return "", errors.New("no file") }}
			err := p.run(text)
			return p.rules, err
		}
		show := func(r *ruleset) string {
			var sb strings.Builder
			for _, t := range r.tables {
				t.print(&sb)
			}
			return sb.String()
		}
		rules, err := parse(text)
		if err != nil {
			var ne *nftError
			if !errors.As(err, &ne) || ne.line < 1 {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		once := show(rules)
		again, err := parse(once)
		if err != nil {
			t.Fatalf("%q prints as\n%s\nwhich isn't read: %v", text, once, err)
		}
		if twice := show(again); twice != once {
			t.Errorf("%q prints as\n%s\nand then as\n%s", text, once, twice)
		}
	})
}

// FuzzTunnel does the same for WireGuard's configuration.
func FuzzTunnel(f *testing.F) {
	key, err := newKey()
	if err != nil {
		f.Fatal(err)
	}
	f.Add("[Interface]\nPrivateKey = "+key+"\nListenPort=1\nAddress = 10.0.0.1/24\n[Peer]\nPublicKey="+key+"\nAllowedIPs = 10.0.0.2/32, ::/0\nEndpoint = a:1\n", true)
	f.Add("[Peer]\n", false)
	f.Fuzz(func(t *testing.T, text string, quick bool) {
		one, _, err := parseTunnel(text, quick)
		if err != nil || one.key == "" {
			return
		}
		conf := one.conf()
		two, _, err := parseTunnel(conf, false)
		if err != nil || two.conf() != conf {
			t.Errorf("%q becomes %q: %v", text, conf, err)
		}
	})
}
