package ssh

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/ssh"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// vars are shell variables of a script, by name.
type vars map[string]string

// prelude begins every script of this package. `fail CODE TEXT` ends it with
// one of the exit codes that scriptKind knows.
const prelude = `PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
fail() { printf '%s\n' "$2" >&2; exit "$1"; }
`

// Exit codes of this package's scripts.
const (
	exitNotFound    = 81
	exitExists      = 82
	exitConflict    = 83
	exitFailed      = 84
	exitUnavailable = 85
)

func scriptKind(code int) (fault.Kind, bool) {
	switch code {
	case exitNotFound:
		return fault.NotFound, true
	case exitExists:
		return fault.Exists, true
	case exitConflict:
		return fault.Conflict, true
	case exitUnavailable:
		return fault.Unavailable, true
	case exitFailed:
		return fault.Failed, true
	}
	return "", false
}

// ask runs a script of this package, which may change something, and returns
// its answer. It is one round trip. The script gets the variables, and stdin
// if it isn't nil.
func (h *Host) ask(ctx context.Context, script string, v vars, stdin io.Reader) (answer, error) {
	cmd := question(script, v)
	cmd.Stdin = stdin
	res, err := h.exec(ctx, "", cmd)
	return h.answered(res, err)
}

// look runs a script of this package that changes nothing, and returns its
// answer.
func (h *Host) look(ctx context.Context, script string, v vars) (answer, error) {
	c, err := h.pool.client(h)
	if err != nil {
		return answer{}, err
	}
	cmd := question(script, v)
	cmd.As = h.become("")
	res, err := c.Look(ctx, cmd)
	return h.answered(res, err)
}

func question(script string, v vars) client.Command {
	var b strings.Builder
	b.WriteString(prelude)
	for _, name := range slices.Sorted(maps.Keys(v)) {
		b.WriteString(name + "=" + client.Quote(v[name]) + "\n")
	}
	b.WriteString(script)
	return client.Command{Script: b.String(), Env: map[string]string{"LC_ALL": "C"}}
}

func (h *Host) answered(res client.Result, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	if res.ExitCode != 0 || res.Signal != "" {
		return answer{}, scriptError(h, res)
	}
	return parseAnswer(res.Stdout)
}

// scriptError explains a script that failed by what it said last.
func scriptError(h *Host, res client.Result) error {
	said := tail(string(res.Stderr), 8)
	if kind, ok := scriptKind(res.ExitCode); ok {
		return fault.New(kind, "%s", said)
	}
	switch {
	case strings.Contains(said, "ermission denied"), strings.Contains(said, "not permitted"):
		return fault.Hinted(fault.Denied, fmt.Sprintf("%s may not do this; connect with sudo = True", h.as()), "%s", said)
	case strings.Contains(said, "No space left"):
		return fault.Hinted(fault.Failed, "free some space on the host; what was there is unchanged", "%s", said)
	case strings.Contains(said, "Read-only file system"):
		return fault.Hinted(fault.Failed, "the file system is mounted read-only", "%s", said)
	case strings.Contains(said, "not found") && res.ExitCode == 127:
		return fault.Hinted(fault.NotFound, "install the package that has this program first", "%s", said)
	}
	return fault.New(fault.Failed, "%s: %s", ended(res), said)
}

// ended says how a command ended.
func ended(res client.Result) string {
	if res.Signal != "" {
		return "ended by signal " + res.Signal
	}
	return fmt.Sprintf("exit status %d", res.ExitCode)
}

// tail returns the last n lines of s, without an empty end.
func tail(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	if len(lines) > n {
		lines = append([]string{"..."}, lines[len(lines)-n:]...)
	}
	return strings.Join(lines, "\n")
}

// An answer is what a script printed: lines of a key, a space and a value, and
// after an empty line the body, in which anything may stand.
type answer struct {
	fields  map[string][]string
	body    []byte
	hasBody bool
}

func parseAnswer(out []byte) (answer, error) {
	a := answer{fields: make(map[string][]string)}
	for len(out) > 0 {
		line, rest, whole := bytes.Cut(out, []byte("\n"))
		if !whole {
			return a, fault.New(fault.Failed, "the host's answer ends in the middle of a line: %q", line)
		}
		out = rest
		if len(line) == 0 {
			a.body, a.hasBody = out, true
			return a, nil
		}
		key, value, _ := strings.Cut(string(line), " ")
		a.fields[key] = append(a.fields[key], value)
	}
	return a, nil
}

// get returns the first value of a key, or "".
func (a answer) get(key string) string {
	if v := a.fields[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// all returns the values of a key.
func (a answer) all(key string) []string { return a.fields[key] }

func decimal(n int) string { return strconv.Itoa(n) }

func parseNumber(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, fault.New(fault.Failed, "the host says %q where a number belongs", s)
	}
	return n, nil
}
