// Package view turns the events of a run into output: a live tree of steps on
// a terminal, plain lines elsewhere, JSON for programs; and it renders plans
// and summaries. Nothing that it prints holds a secret, or a control character
// that came from outside.
package view

import (
	"io"
	"os"

	"golang.org/x/term"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A Kind says which form a View gives to events.
type Kind string

// The kinds.
const (
	Auto  Kind = "auto"  // Tree on a terminal that can show it, else Plain
	Tree  Kind = "tree"  // a live tree of steps
	Plain Kind = "plain" // a line for each thing worth one
	JSON  Kind = "json"  // an object a line; see the type Record
	None  Kind = "none"  // nothing
)

// A Verb says what the run that is shown does.
type Verb string

// The verbs.
const (
	Running  Verb = "run"
	Planning Verb = "plan"
)

// A Config says how a View shows a run.
type Config struct {
	Kind Kind
	Out  io.Writer // standard output: JSON goes there
	Err  io.Writer // standard error: the tree and plain lines go there
	// Color colours the output. Detect tells whether to.
	Color bool
	// ASCII keeps to signs that any terminal has.
	ASCII bool
	// Width and Height return the terminal's size in cells. They are called
	// again for each picture, so that the tree follows a resize. Nil means that
	// of Err if it is a terminal, else 80 and 24.
	Width, Height func() int
	Verb          Verb
	// Verbose shows ops that changed nothing, too, where the kind is Plain.
	Verbose bool
	// Redactor removes the secrets of the run once more from all that is shown:
	// what was observed in the world may hold one as plain text. May be nil.
	Redactor *effect.Redactor
	Clock    effect.Clock // nil means the machine's own
	// Getenv reads the environment, by which Auto tells what the terminal can
	// show; nil means the process's own.
	Getenv func(string) string
}

// A View shows the events of one run.
type View interface {
	// Event shows e. It may be called by several goroutines at once. It returns
	// at once unless the output is some megabytes behind.
	Event(e effect.Event)
	// Close shows what is left, waits until all is written, and leaves the
	// terminal as it was. It returns the first error in writing. Events that
	// come later are dropped.
	Close() error
}

// New returns the view that c describes. Close must be called.
func New(c Config) View {
	if c.Clock == nil {
		c.Clock = effect.SystemClock{}
	}
	if c.Out == nil {
		c.Out = io.Discard
	}
	if c.Err == nil {
		c.Err = io.Discard
	}
	if c.Kind == Auto || c.Kind == "" {
		if c.Getenv == nil {
			c.Getenv = os.Getenv
		}
		f, _ := c.Err.(*os.File)
		c.Kind = Detect(f, c.Getenv).Kind
	}
	switch c.Kind {
	case JSON:
		return newJSONView(c)
	case Tree:
		return newTree(c)
	case None:
		return nothing{}
	default:
		return newPlain(c)
	}
}

// nothing shows nothing.
type nothing struct{}

func (nothing) Event(effect.Event) {}
func (nothing) Close() error       { return nil }

// terminal returns the file descriptor of w, if it has one.
func terminal(w io.Writer) (int, bool) {
	f, ok := w.(interface{ Fd() uintptr })
	if !ok {
		return 0, false
	}
	return int(f.Fd()), true
}

// A Terminal says what Detect found out of an output.
type Terminal struct {
	Kind  Kind // Tree or Plain
	Color bool
	ASCII bool
}

// Detect tells what to show on f by what it is and by the environment that
// getenv reads: TERM=dumb has neither a tree nor colours, NO_COLOR set to
// anything but "" has no colours (see no-color.org), a locale that is known not
// to be UTF-8 has ASCII only.
func Detect(f *os.File, getenv func(string) string) Terminal {
	t := Terminal{Kind: Plain}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := getenv(name); v != "" {
			t.ASCII = !isUTF8(v)
			break
		}
	}
	if !IsTerminal(f) {
		return t
	}
	if kind := getenv("TERM"); kind == "dumb" || kind == "" {
		return t
	}
	t.Kind, t.Color = Tree, getenv("NO_COLOR") == ""
	return t
}

// IsTerminal reports whether f is a terminal. It may be nil.
func IsTerminal(f *os.File) bool { return f != nil && term.IsTerminal(int(f.Fd())) }

// size returns the size of the terminal that c shows on.
func (c *Config) size() (width, height int) {
	width, height = 80, 24
	if fd, ok := terminal(c.Err); ok && (c.Width == nil || c.Height == nil) {
		if w, h, err := term.GetSize(fd); err == nil && w > 0 && h > 0 {
			width, height = w, h
		}
	}
	if c.Width != nil {
		if w := c.Width(); w > 0 {
			width = w
		}
	}
	if c.Height != nil {
		if h := c.Height(); h > 0 {
			height = h
		}
	}
	return width, height
}
