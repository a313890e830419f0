package view

import (
	"fmt"
	"slices"
	"strings"
)

// An edit is one line of a comparison.
type edit struct {
	op   byte // ' ' kept, '-' removed, '+' added
	text string
}

// A hunk is a part of a unified diff: where it begins and its lines.
type hunk struct {
	oldStart, oldLines int // 1-based; the start is the line before if there are no lines
	newStart, newLines int
	edits              []edit
}

// header returns the hunk's "@@ -1,3 +1,4 @@".
func (h hunk) header() string {
	part := func(start, n int) string {
		if n == 1 {
			return fmt.Sprint(start)
		}
		return fmt.Sprintf("%d,%d", start, n)
	}
	return "@@ -" + part(h.oldStart, h.oldLines) + " +" + part(h.newStart, h.newLines) + " @@"
}

// noNewline ends a line of an edit that is the last one of a text which
// doesn't end with a newline. Texts are split so that no line holds one.
const noNewline = "\n"

// splitLines splits a text into lines. A last line that lacks its newline is
// told from one that has it by a mark, so that the two differ.
func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	out := strings.Split(s, "\n")
	if last := len(out) - 1; out[last] == "" {
		return out[:last]
	}
	out[len(out)-1] += noNewline
	return out
}

// unified compares two texts line by line and returns the hunks of their
// difference, with the given number of unchanged lines around each. There are
// none if they are equal.
func unified(old, new string, context int) []hunk {
	edits := compareLines(splitLines(old), splitLines(new))
	var out []hunk
	oldLine, newLine := 0, 0 // lines before edits[at]
	at := 0
	for i := 0; i < len(edits); i++ {
		if edits[i].op == ' ' {
			continue
		}
		from, last := max(i-context, at), i
		for j := i + 1; j < len(edits) && j-last <= 2*context+1; j++ {
			if edits[j].op != ' ' {
				last = j
			}
		}
		to := min(last+1+context, len(edits))
		oldLine, newLine = advance(edits[at:from], oldLine, newLine)
		h := hunk{oldStart: oldLine, newStart: newLine, edits: edits[from:to]}
		oldLine, newLine = advance(h.edits, oldLine, newLine)
		h.oldLines, h.newLines = oldLine-h.oldStart, newLine-h.newStart
		if h.oldLines > 0 {
			h.oldStart++
		}
		if h.newLines > 0 {
			h.newStart++
		}
		out = append(out, h)
		at, i = to, to-1
	}
	return out
}

// Unified returns the difference of two texts as a unified diff, each line with
// a newline; "" if they are equal. It holds no control characters but tabs.
func Unified(oldName, newName, old, new string) string {
	hunks := unified(old, new, 3)
	if len(hunks) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", oldName, newName)
	for _, h := range hunks {
		b.WriteString(h.header() + "\n")
		for _, e := range h.edits {
			text, bare := strings.CutSuffix(e.text, noNewline)
			cells := strings.Split(text, "\t")
			for i := range cells {
				cells[i] = clean(cells[i])
			}
			b.WriteString(string(e.op) + strings.Join(cells, "\t") + "\n")
			if bare {
				b.WriteString("\\ No newline at end of file\n")
			}
		}
	}
	return b.String()
}

// advance counts the lines of both texts that edits consume.
func advance(edits []edit, oldLine, newLine int) (int, int) {
	for _, e := range edits {
		if e.op != '+' {
			oldLine++
		}
		if e.op != '-' {
			newLine++
		}
	}
	return oldLine, newLine
}

// maxEdits bounds the search for the shortest difference: texts that differ in
// more lines are shown as all removed and all added.
const maxEdits = 1500

// compareLines returns the edits that make b of a.
func compareLines(a, b []string) []edit {
	var head, tail []edit
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head = append(head, edit{' ', a[0]})
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail = append(tail, edit{' ', a[len(a)-1]})
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	out := append(head, shortest(a, b)...)
	for i := len(tail) - 1; i >= 0; i-- {
		out = append(out, tail[i])
	}
	return out
}

// shortest finds the shortest edit script by Myers' greedy algorithm ("An
// O(ND) Difference Algorithm and Its Variations", 1986): for each number d of
// edits, the furthest point on each diagonal k = x-y that d edits reach.
func shortest(a, b []string) []edit {
	if len(a) == 0 || len(b) == 0 {
		return replaced(a, b)
	}
	limit := min(len(a)+len(b), maxEdits)
	reach := make([]int32, 2*limit+3)
	var trace [][]int32 // trace[d] is reach for the diagonals -d..d
	for d := 0; d <= limit; d++ {
		for k := -d; k <= d; k += 2 {
			var x int
			if k == -d || k != d && reach[limit+k] < reach[limit+k+2] {
				x = int(reach[limit+k+2]) // down: a line of b is added
			} else {
				x = int(reach[limit+k]) + 1 // right: a line of a is removed
			}
			y := x - k
			for x < len(a) && y < len(b) && a[x] == b[y] {
				x, y = x+1, y+1
			}
			reach[limit+k+1] = int32(x)
			if x >= len(a) && y >= len(b) {
				return walkBack(a, b, trace, d)
			}
		}
		trace = append(trace, append([]int32(nil), reach[limit-d+1:limit+d+2]...))
	}
	return replaced(a, b)
}

// walkBack follows the trace from the end of both texts to their beginning.
func walkBack(a, b []string, trace [][]int32, d int) []edit {
	var back []edit
	x, y := len(a), len(b)
	for ; d > 0; d-- {
		before := trace[d-1] // diagonals -(d-1)..d-1
		at := func(k int) int {
			if k < -(d-1) || k > d-1 {
				return -1
			}
			return int(before[k+d-1])
		}
		k := x - y
		down := k == -d || k != d && at(k-1) < at(k+1)
		// The edit ends at (endX, x-k); what follows up to (x, y) is kept.
		endX := at(k-1) + 1
		if down {
			endX = at(k + 1)
		}
		for x > endX {
			x, y = x-1, y-1
			back = append(back, edit{' ', a[x]})
		}
		if down {
			y--
			back = append(back, edit{'+', b[y]})
		} else {
			x--
			back = append(back, edit{'-', a[x]})
		}
	}
	for x > 0 {
		x--
		back = append(back, edit{' ', a[x]})
	}
	slices.Reverse(back)
	return back
}

func replaced(a, b []string) []edit {
	out := make([]edit, 0, len(a)+len(b))
	for _, l := range a {
		out = append(out, edit{'-', l})
	}
	for _, l := range b {
		out = append(out, edit{'+', l})
	}
	return out
}
