package view

import (
	"strings"
	"testing"
	"time"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain ümläut 日本":    "plain ümläut 日本",
		"a\x1b[31mb":         `a\x1b[31mb`,
		"a\nb\tc\r":          `a\nb\tc\r`,
		"\u202ex\u2028":      `\u202ex\u2028`,
		"\u009b31m\x7f":      `\u009b31m\x7f`,
		"\xff\xc3(":          `\xff\xc3(`,
		"a\U000e0041b\u200b": `a\U000e0041b\u200b`,
		"":                   "",
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"one":                                "one",
		"one\ntwo":                           "one; two",
		"exit status 1:\n\n  a\r\n\tb.\nc\n": "exit status 1: a; b. c",
		"x [\n1,\n2\n]":                      "x [ 1, 2 ]",
		"a\x1b[2J\tb\n\u202ec\xff":           `a\x1b[2J\tb; \u202ec\xff`,
		"\n\n":                               "",
		"":                                   "",
	} {
		if got := oneLine(in); got != want {
			t.Errorf("oneLine(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in    string
		cells int
		want  string
	}{
		{"short", 5, "short"},
		{"longer", 5, "long…"},
		{"日本語", 6, "日本語"},
		{"日本語", 5, "日本…"},
		{"日本語", 4, "日…"},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
		{"\x1b[31mlonger\x1b[0m", 5, "\x1b[31mlong…\x1b[0m"},
		{"\x1b[31mshort\x1b[0m", 5, "\x1b[31mshort\x1b[0m"},
		{"abc", 1, "…"},
		{"abc", 0, ""},
	} {
		if got := cut(c.in, c.cells, "…"); got != c.want {
			t.Errorf("cut(%q, %d) = %q, want %q", c.in, c.cells, got, c.want)
		}
	}
	if got := cut("abcdef", 2, "..."); got != ".." {
		t.Errorf("cut to less than the ellipsis = %q", got)
	}
}

func FuzzCut(f *testing.F) {
	f.Add("日本\x1b語 e\u0301 \x1b[31m", 3)
	f.Fuzz(func(t *testing.T, s string, cells int) {
		cells = min(max(cells, 0), 200)
		got := cut(clean(s), cells, "…")
		if textWidth(got) > cells {
			t.Errorf("%q takes %d cells, want at most %d", got, textWidth(got), cells)
		}
		if strings.IndexFunc(got, hostile) >= 0 {
			t.Errorf("%q has control characters", got)
		}
	})
}

func TestTook(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0.0s", 0: "0.0s", 440 * time.Millisecond: "0.4s", 9949 * time.Millisecond: "9.9s", 9990 * time.Millisecond: "10s",
		59400 * time.Millisecond: "59s", 59600 * time.Millisecond: "1m00s", 185 * time.Second: "3m05s", time.Hour - time.Millisecond: "1h00m", 123 * time.Minute: "2h03m",
	} {
		if got := took(d); got != want {
			t.Errorf("took(%v) = %q, want %q", d, got, want)
		}
	}
}
