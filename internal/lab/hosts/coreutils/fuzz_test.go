package coreutils

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

// FuzzSed runs any script on three lines: no crash, no endless loop.
func FuzzSed(f *testing.F) {
	for _, s := range []string{"s/a/b/g", "2,3d", "/x/,$p", ":a;N;$!ba;s/\\n/,/g", "y/ab/ba/", "1!{p;d}", "$a\\\nx", "s,[,],x,2p", "/[/]/d", "2q5", "x;G;h", "s/\\(.\\)\\1*/&/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		for _, extended := range []bool{false, true} {
			p := &sedProgram{extended: extended}
			if p.parse(script) == nil {
				p.run([]string{"one", "two x", "a/b"}, true, false, &machine.Proc{Args: []string{"sed"}, Stdout: io.Discard, Stderr: io.Discard})
			}
		}
	})
}

// FuzzAwk parses any program.
func FuzzAwk(f *testing.F) {
	for _, s := range []string{"{print $1}", "BEGIN{for(i=0;i<3;i++)a[i]=i}", "/x/,/y/{next}", "$1~/a/&&NR>1", "{printf \"%d %s\\n\",$1,$2;x=y?1:2}", "END{for(k in a)delete a[k]}", "{sub(/a/,\"b\",$2)}", "!a[$0]++", "(1,2) in a", "{if(1){}else{}}", "do x while(0)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		if prog, err := parseAwk(src); err == nil && prog == nil {
			t.Error("neither a program nor an error")
		}
	})
}

// FuzzRegexp translates any POSIX expression; what has no special character
// must match itself.
func FuzzRegexp(f *testing.F) {
	for _, s := range []string{"a*b", "^x$", "\\(a\\|b\\)", "[]a]", "[^[:space:]]", "a{2}", "\\<w\\>", "*", "[", "\\", "a\\{1,2\\}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		basic, extended := basicRegexp(s), extendedRegexp(s)
		if strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789 -_/:=,") != "" {
			return
		}
		for _, expr := range []string{basic, extended} {
			if re, err := regexp.Compile("^(?:" + expr + ")$"); err != nil || !re.MatchString(s) {
				t.Errorf("%q as %q: %v", s, expr, err)
			}
		}
	})
}

func TestEdits(t *testing.T) {
	lines := func(s string) []string { return strings.Split(s, "") }
	for _, c := range [][2]string{{"abc", "abd"}, {"", "x"}, {"x", ""}, {"abcabba", "cbabac"}, {"aaaa", "aa"}, {"abcdefgh", "hgfedcba"}} {
		a, b := lines(c[0]), lines(c[1])
		var left, right strings.Builder
		for _, e := range edits(a, b) {
			if e.op != '+' {
				left.WriteString(e.line)
			}
			if e.op != '-' {
				right.WriteString(e.line)
			}
		}
		if left.String() != c[0] || right.String() != c[1] {
			t.Errorf("%q to %q: the script makes %q of %q", c[0], c[1], right.String(), left.String())
		}
	}
}
