package view

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// An emulator is a terminal in memory, with what scrolled out of it. It knows
// what a view may send and keeps a list of whatever else it gets. It wraps long
// lines, and wraps them anew when its size changes.
type emulator struct {
	mu            sync.Mutex
	width, height int
	rows          []emulated
	top           int // the first row on the screen
	row, col      int
	hidden        bool // the cursor
	strange       []string
	written       int
	rest          string // an incomplete sequence
}

type emulated struct {
	cells   []string // "" is the second half of a wide sign
	wrapped bool     // the line goes on in the next row
}

func newEmulator(width, height int) *emulator {
	return &emulator{width: width, height: height, rows: make([]emulated, 1)}
}

func (e *emulator) size() (func() int, func() int) {
	locked := func(p *int) func() int {
		return func() int {
			e.mu.Lock()
			defer e.mu.Unlock()
			return *p
		}
	}
	return locked(&e.width), locked(&e.height)
}

func (e *emulator) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.written++
	s := e.rest + string(p)
	e.rest = ""
	for s != "" {
		switch {
		case s[0] == '\n':
			e.newline()
			e.col = 0
			s = s[1:]
		case s[0] == '\r':
			e.col, s = 0, s[1:]
		case strings.HasPrefix(s, "\x1b["):
			end := strings.IndexFunc(s[2:], func(r rune) bool { return r >= '@' && r <= '~' })
			if end < 0 {
				e.rest = s
				return len(p), nil
			}
			e.control(s[2:2+end], s[2+end])
			s = s[3+end:]
		default:
			r, n := utf8.DecodeRuneInString(s)
			if r < 0x20 || r >= 0x7f && r < 0xa0 {
				e.strange = append(e.strange, fmt.Sprintf("%q", s[:n]))
			} else {
				e.put(r)
			}
			s = s[n:]
		}
	}
	return len(p), nil
}

func (e *emulator) newline() {
	e.row++
	for len(e.rows) <= e.row {
		e.rows = append(e.rows, emulated{})
	}
	if e.row >= e.top+e.height {
		e.top = e.row - e.height + 1
	}
}

func (e *emulator) put(r rune) {
	n := runeWidth(r)
	if n == 0 {
		if e.col > 0 {
			e.rows[e.row].cells[e.col-1] += string(r)
		}
		return
	}
	if e.col+n > e.width {
		e.rows[e.row].wrapped = true
		e.newline()
		e.col = 0
	}
	row := &e.rows[e.row]
	for len(row.cells) < e.col+n {
		row.cells = append(row.cells, " ")
	}
	row.cells[e.col] = string(r)
	if n == 2 {
		row.cells[e.col+1] = ""
	}
	e.col += n
}

func (e *emulator) control(args string, final byte) {
	n, err := strconv.Atoi(args)
	switch {
	case final == 'A' && err == nil:
		e.row = max(e.row-n, e.top)
	case final == 'J' && args == "":
		e.clearLine()
		for i := e.row + 1; i < len(e.rows); i++ {
			e.rows[i] = emulated{}
		}
	case final == 'K' && args == "":
		e.clearLine()
	case args == "?25" && final == 'l', args == "?25l":
		e.hidden = true
	case args == "?25" && final == 'h':
		e.hidden = false
	case final == 'm':
	default:
		e.strange = append(e.strange, "CSI "+args+string(final))
	}
}

func (e *emulator) clearLine() {
	row := &e.rows[e.row]
	row.cells = row.cells[:min(len(row.cells), e.col)]
	row.wrapped = false
}

// resize wraps all lines anew.
func (e *emulator) resize(width, height int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var rows []emulated
	cursor, offset := 0, 0
	for i := 0; i < len(e.rows); {
		var line []string
		first := i
		for {
			if i == e.row {
				offset = len(line) + e.col
				cursor = -1
			}
			line = append(line, e.rows[i].cells...)
			i++
			if i == len(e.rows) || !e.rows[i-1].wrapped {
				break
			}
		}
		at := len(rows)
		for {
			n := min(len(line), width)
			if n < len(line) && line[n] == "" {
				n--
			}
			rows = append(rows, emulated{cells: append([]string(nil), line[:n]...), wrapped: n < len(line)})
			line = line[n:]
			if len(line) == 0 {
				break
			}
		}
		if cursor == -1 && e.row >= first && e.row < i {
			cursor = at + offset/width
			e.col = offset % width
		}
	}
	for len(rows) <= cursor {
		rows = append(rows, emulated{})
	}
	e.rows, e.width, e.height, e.row = rows, width, height, cursor
	e.top = max(0, e.row-height+1)
}

// text returns all rows, what scrolled out of the screen included; the rows of a
// wrapped line are joined.
func (e *emulator) text() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	for _, r := range e.rows {
		line := strings.Join(r.cells, "")
		if !r.wrapped {
			line = strings.TrimRight(line, " ") + "\n"
		}
		b.WriteString(line)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// screen returns the rows that are visible.
func (e *emulator) screen() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	for _, r := range e.rows[e.top:] {
		out = append(out, strings.TrimRight(strings.Join(r.cells, ""), " "))
	}
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

func (e *emulator) isHidden() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hidden
}
