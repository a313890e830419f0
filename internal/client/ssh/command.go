package ssh

import (
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Command is what Run runs: a program with its arguments, or a script.
//
// Nothing of it becomes part of the remote command line, so that neither the
// login shell interprets it nor `ps` shows it: the script, the environment and
// the input travel as data to a POSIX shell's standard input. Arguments in
// Argv do show in `ps` once the program runs.
type Command struct {
	Argv   []string          // program and arguments; or
	Script string            // a script for sh
	Env    map[string]string // added to what the host gives
	Dir    string            // where to run; empty means the home folder
	As     string            // the user to become by sudo; empty means the login user
	Stdin  io.Reader         // nil means empty input
	// Limit bounds the bytes of each output; more is an error of kind Limit,
	// and the command is killed. 0 means 64 MiB.
	Limit int64
	// Stdout and Stderr, if set, get the output as it comes, besides Result.
	Stdout, Stderr io.Writer
}

// A Result is how a command ended.
type Result struct {
	Stdout, Stderr []byte
	ExitCode       int    // -1 if a signal ended it
	Signal         string // "KILL"; empty if it exited
}

const defaultLimit = 64 << 20

func (c *Command) check() error {
	switch {
	case len(c.Argv) == 0 && c.Script == "", len(c.Argv) > 0 && c.Script != "":
		return fault.New(fault.Invalid, "a command needs either arguments or a script")
	case len(c.Argv) > 0 && c.Argv[0] == "":
		return fault.New(fault.Invalid, "the program's name is empty")
	case !isUserName(c.As):
		return fault.New(fault.Invalid, "%q is no user name", c.As)
	}
	for k := range c.Env {
		if !isVariable(k) {
			return fault.New(fault.Invalid, "%q is no name for a variable", k)
		}
	}
	for _, s := range slices.Concat(c.Argv, []string{c.Script, c.Dir}) {
		if strings.ContainsRune(s, 0) {
			return fault.New(fault.Invalid, "a command can't hold a NUL byte")
		}
	}
	for k, s := range c.Env {
		if strings.ContainsRune(s, 0) {
			return fault.New(fault.Invalid, "variable %s can't hold a NUL byte", k)
		}
	}
	return nil
}

// Quote returns s as one word of a POSIX shell. A quote within is put in double
// quotes, not behind a backslash, which some shells keep in an assignment.
func Quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'"'"'`) + "'"
}

func isVariable(s string) bool { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(s) }

func isUserName(s string) bool {
	return s == "" || regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*\$?$`).MatchString(s)
}

// program returns the text for the remote shell. It first prints the mark on
// both outputs, which tells what came before (a login shell's greetings, or
// sudo's refusal) from the command's own output, and the shell's process id.
// The second mark follows once the folder has been entered.
func (c *Command) program(mark string) string {
	var b strings.Builder
	b.WriteString("printf '%s %s\\n' " + mark + " \"$$\"\n")
	c.exports(&b)
	if c.Dir != "" {
		dir := c.Dir
		if !strings.HasPrefix(dir, "/") {
			dir = "./" + dir // neither an option nor looked up in CDPATH
		}
		b.WriteString("cd " + Quote(dir) + " || exit 1\n")
	}
	b.WriteString("printf '%s\\n' " + mark + " >&2\n")
	b.WriteString("(\n")
	if c.Script != "" {
		// eval keeps a syntax error, and an unclosed quote, inside.
		b.WriteString("eval " + Quote(c.Script))
	} else {
		for i, a := range c.Argv {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(Quote(a))
		}
	}
	b.WriteString("\n)")
	if c.Stdin == nil {
		b.WriteString(" </dev/null")
	}
	b.WriteString("\n")
	return b.String()
}

// exports writes the environment.
func (c *Command) exports(b *strings.Builder) {
	for _, k := range slices.Sorted(maps.Keys(c.Env)) {
		b.WriteString("export " + k + "=" + Quote(c.Env[k]) + "\n")
	}
}

// line returns the remote command line, which only ever holds constants, the
// user to become and the mark.
func (c *Command) line(login, mark string) string {
	sh := "sh -s"
	if c.Stdin != nil {
		// A shell may read ahead of the script on its standard input, so one
		// that is followed by data is read line by line up to the mark: the
		// shell's read takes not a byte more.
		sh = "sh -c 's=\nn=\"\n\"\nwhile IFS= read -r l; do case $l in " + mark + ") break ;; esac; s=\"$s$l$n\"; done\neval \"$s\"'"
	}
	if c.As != "" && c.As != login {
		sh = "sudo -n -H -u " + Quote(c.As) + " -- " + sh
	}
	return "exec " + sh
}

// input returns what is written to the remote shell.
func (c *Command) input(mark string) io.Reader {
	text := c.program(mark)
	if c.Stdin == nil {
		return strings.NewReader(text)
	}
	return io.MultiReader(strings.NewReader(text+mark+"\n"), c.Stdin)
}
