package view

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// patch applies hunks to a text and checks on the way that each fits where its
// header says.
func patch(t *testing.T, old string, hunks []hunk) string {
	t.Helper()
	src := splitLines(old)
	var out []string
	at := 0
	for _, h := range hunks {
		start := h.oldStart
		if h.oldLines > 0 {
			start--
		}
		if start < at {
			t.Fatalf("hunk %s begins before line %d", h.header(), at)
		}
		out = append(out, src[at:start]...)
		at = start
		newStart := h.newStart
		if h.newLines > 0 {
			newStart--
		}
		if newStart != len(out) {
			t.Fatalf("hunk %s: the new text is at line %d there", h.header(), len(out))
		}
		oldN, newN := 0, 0
		for _, e := range h.edits {
			if e.op != '+' {
				if src[at] != e.text {
					t.Fatalf("hunk %s: line %d is %q, want %q", h.header(), at+1, src[at], e.text)
				}
				at++
				oldN++
			}
			if e.op != '-' {
				out = append(out, e.text)
				newN++
			}
		}
		if oldN != h.oldLines || newN != h.newLines {
			t.Fatalf("hunk %s has %d and %d lines", h.header(), oldN, newN)
		}
	}
	out = append(out, src[at:]...)
	for i, l := range out {
		bare, ok := strings.CutSuffix(l, noNewline)
		if !ok {
			bare += "\n"
		} else if i < len(out)-1 {
			t.Fatalf("line %d of %d has no newline", i+1, len(out))
		}
		out[i] = bare
	}
	return strings.Join(out, "")
}

// distance is the length of the shortest edit script, by dynamic programming.
func distance(a, b []string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diag := row[0]
		row[0] = i + 1
		for j := range b {
			cost := min(row[j], row[j+1]) + 1
			if a[i] == b[j] {
				cost = diag
			}
			diag, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

func randomText(r *rand.Rand, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%c", 'a'+rune(r.IntN(4)))
		if i < n-1 || r.IntN(3) > 0 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func TestUnifiedGivesTheNewText(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 4000 {
		a, b := randomText(r, r.IntN(30)), randomText(r, r.IntN(30))
		context := r.IntN(4)
		hunks := unified(a, b, context)
		if got := patch(t, a, hunks); got != b {
			t.Fatalf("from %q by %v:\ngot  %q\nwant %q", a, hunks, got, b)
		}
		if (a == b) != (len(hunks) == 0) {
			t.Fatalf("%q and %q: %d hunks", a, b, len(hunks))
		}
		edits, kept := 0, 0
		for _, h := range hunks {
			for _, e := range h.edits {
				if e.op == ' ' {
					kept++
					if kept > 2*context {
						t.Fatalf("%q and %q: more than %d unchanged lines together", a, b, 2*context)
					}
				} else {
					edits++
					kept = 0
				}
			}
			if kept > context {
				t.Fatalf("%q and %q: %d unchanged lines at the end", a, b, kept)
			}
			kept = 0
		}
		if want := distance(splitLines(a), splitLines(b)); edits != want {
			t.Fatalf("%q and %q: %d edits, the shortest way has %d", a, b, edits, want)
		}
	}
}

func TestUnifiedOfLongTexts(t *testing.T) {
	var a, b strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&a, "line %d\n", i)
		fmt.Fprintf(&b, "other %d\n", i)
	}
	for _, old := range []string{"", a.String()} {
		for _, new := range []string{b.String(), a.String() + "x", strings.Replace(a.String(), "line 777\n", "", 1)} {
			if got := patch(t, old, unified(old, new, 3)); got != new {
				t.Fatal("the difference doesn't give the new text")
			}
		}
	}
}

func TestUnifiedHeaders(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"", "a\n", "@@ -0,0 +1 @@"},
		{"a\n", "", "@@ -1 +0,0 @@"},
		{"a\n", "a", "@@ -1 +1 @@"},
		{"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n", "@@ -2,7 +2,7 @@"},
	} {
		hunks := unified(c.old, c.new, 3)
		if len(hunks) != 1 || hunks[0].header() != c.want {
			t.Errorf("%q to %q: got %v, want %s", c.old, c.new, hunks, c.want)
		}
	}
}

func FuzzUnified(f *testing.F) {
	f.Add("a\nb\n", "b\nc")
	f.Add("0", "\n\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		if got := patch(t, a, unified(a, b, 3)); got != b {
			t.Fatalf("got %q, want %q", got, b)
		}
	})
}
