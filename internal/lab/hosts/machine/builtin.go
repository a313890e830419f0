package machine

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// call replaces the builtins that the interpreter lacks or for which it would
// ask the real machine.
func (sh *shell) call(ctx context.Context, args []string) ([]string, error) {
	hc := interp.HandlerCtx(ctx)
	switch args[0] {
	case "umask":
		if len(args) == 2 && args[1] != "-S" {
			mask, ok := parseUmask(args[1], umaskOf(hc.Env, sh.p.Umask))
			if !ok {
				return []string{ownPrefix + "umask", args[1]}, nil
			}
			return []string{"eval", fmt.Sprintf("%s=%04o", umaskVar, mask)}, nil
		}
		return append([]string{ownPrefix + "umask"}, args[1:]...), nil
	case "printf":
		if len(args) > 1 && args[1] != "-v" {
			return append([]string{ownPrefix + "printf"}, args[1:]...), nil
		}
	case "kill", "ulimit", "hash", "times":
		return append([]string{ownPrefix + args[0]}, args[1:]...), nil
	case "pwd":
		if slices.Contains(args[1:], "-P") {
			return []string{ownPrefix + "pwd"}, nil
		}
	case "export", "readonly", "local":
		// The interpreter knows them only in its own dialect, which eval speaks.
		line := args[0]
		for _, a := range args[1:] {
			line += " '" + strings.ReplaceAll(a, "'", `'"'"'`) + "'"
		}
		return []string{"eval", line}, nil
	case "disown", "bg", "fg", "jobs":
		return []string{"true"}, nil
	case "trap":
		return trap(args), nil
	case "command":
		if len(args) > 2 && args[1] == "-p" {
			return args[2:], nil
		}
		if len(args) > 2 && (args[1] == "-v" || args[1] == "-V") {
			return sh.which(hc, args[1] == "-V", args[2:]), nil
		}
	case "type":
		if len(args) > 1 && !strings.HasPrefix(args[1], "-") {
			return sh.which(hc, true, args[1:]), nil
		}
		if len(args) > 1 {
			return append([]string{ownPrefix + "type"}, args[1:]...), nil
		}
	case ".", "source":
		// POSIX looks a name without a slash up in PATH, readable or not.
		if len(args) > 1 && !strings.Contains(args[1], "/") {
			for dir := range strings.SplitSeq(hc.Env.Get("PATH").String(), ":") {
				file := path.Join(dir, args[1])
				if sh.p.Machine.FS.Access(sh.p.Cred, file, 4) == nil {
					return append([]string{args[0], file}, args[2:]...), nil
				}
			}
			return append([]string{args[0], "./" + args[1]}, args[2:]...), nil
		}
	}
	return args, nil
}

// trap keeps what the interpreter has of traps: EXIT and ERR.
func trap(args []string) []string {
	if len(args) < 3 {
		return args
	}
	out := []string{"trap", args[1]}
	rest := args[2:]
	if args[1] == "--" && len(args) > 3 {
		out = []string{"trap", "--", args[2]}
		rest = args[3:]
	}
	kept := false
	for _, sig := range rest {
		switch sig {
		case "0", "EXIT":
			out = append(out, "EXIT")
			kept = true
		case "ERR":
			out = append(out, sig)
			kept = true
		default:
			if _, ok := ParseSignal(sig); !ok {
				out = append(out, sig)
				kept = true
			}
		}
	}
	if !kept {
		return []string{"true"}
	}
	return out
}

// which rewrites command -v so that programs are looked up on the host, and
// functions and builtins by the interpreter, with a search path that is empty.
func (sh *shell) which(hc interp.HandlerContext, long bool, names []string) []string {
	name := names[0]
	if !interp.IsBuiltin(name) {
		if file, err := sh.p.Machine.Find(sh.p.Cred, hc.Dir, hc.Env.Get("PATH").String(), name); err == nil {
			if long {
				return []string{"printf", "%s\n", name + " is " + file}
			}
			if !strings.Contains(name, "/") {
				name = file
			}
			return []string{"printf", "%s\n", name}
		}
		if strings.Contains(name, "/") {
			return []string{"false"}
		}
	}
	quoted := "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	if long {
		return []string{"eval", "PATH=" + nowhere + " builtin type " + quoted}
	}
	return []string{"eval", "PATH=" + nowhere + " builtin command -v " + quoted}
}

// builtin returns the code of a builtin of our own.
func (sh *shell) builtin(name string) Program {
	switch name {
	case "umask":
		return func(_ context.Context, p *Proc) int {
			if len(p.Args) > 1 && p.Args[1] != "-S" {
				return p.Fail(2, "Illegal number: %s", p.Args[1])
			}
			p.Printf("%04o\n", p.Umask)
			return 0
		}
	case "kill":
		return Kill
	case "printf":
		if prog := sh.p.Machine.programs[name]; prog != nil {
			return prog
		}
	case "pwd":
		return func(_ context.Context, p *Proc) int {
			real, err := p.Machine.FS.RealPath(p.Cred, p.Dir, false)
			if err != nil {
				return p.Fail(1, "%s", Strerror(err))
			}
			p.Printf("%s\n", real)
			return 0
		}
	case "type":
		return func(_ context.Context, p *Proc) int {
			code := 0
			for _, name := range p.Args[1:] {
				if strings.HasPrefix(name, "-") {
					continue
				}
				file, err := p.Machine.Find(p.Cred, p.Dir, p.Getenv("PATH"), name)
				switch {
				case err == nil && p.Args[1] == "-t":
					p.Printf("file\n")
				case err == nil:
					p.Printf("%s\n", file)
				case p.Args[1] == "-t" && interp.IsBuiltin(name):
					p.Printf("builtin\n")
				default:
					code = 1
				}
			}
			return code
		}
	case "ulimit":
		return func(_ context.Context, p *Proc) int {
			switch {
			case slices.Contains(p.Args, "-n") && len(p.Args) == 2:
				p.Printf("1024\n")
			case len(p.Args) <= 2:
				p.Printf("unlimited\n")
			}
			return 0
		}
	}
	return func(context.Context, *Proc) int { return 0 }
}

// Kill is the program kill.
func Kill(_ context.Context, p *Proc) int {
	sig := Signal(syscall.SIGTERM)
	args := p.Args[1:]
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && len(args[0]) > 1 {
		name := args[0][1:]
		args = args[1:]
		if name == "-" {
			break
		}
		if name == "l" {
			p.Printf("HUP INT QUIT KILL USR1 USR2 PIPE ALRM TERM CONT STOP\n")
			return 0
		}
		if name == "s" && len(args) > 0 {
			name, args = args[0], args[1:]
		}
		s, ok := ParseSignal(name)
		if !ok {
			return p.Fail(1, "invalid signal: %s", name)
		}
		sig = s
	}
	if len(args) == 0 {
		return p.Fail(2, "usage: kill [-s sigspec | -signum] pid ...")
	}
	code := 0
	for _, arg := range args {
		pid, err := strconv.Atoi(arg)
		if err != nil {
			code = p.Fail(1, "illegal pid: %s", arg)
			continue
		}
		if err := p.Machine.Kill(p.Cred, pid, sig); err != nil {
			code = p.Fail(1, "(%d) - %s", pid, Strerror(err))
		}
	}
	return code
}

// parseUmask reads 022 or u=rwx,g=rx,o=.
func parseUmask(s string, old fs.FileMode) (fs.FileMode, bool) {
	if n, err := strconv.ParseUint(s, 8, 12); err == nil {
		return fs.FileMode(n) & 0o777, true
	}
	perm, ok := ParseMode(s, ^old&0o777, false)
	return ^perm & 0o777, ok
}

// ParseMode reads a mode as chmod does, octal or symbolic, for a file that has
// the mode old.
func ParseMode(s string, old fs.FileMode, dir bool) (fs.FileMode, bool) {
	if n, err := strconv.ParseUint(s, 8, 16); err == nil {
		return tree.PermOf(uint32(n)), n <= 0o7777
	}
	mode := old
	for clause := range strings.SplitSeq(s, ",") {
		i := strings.IndexAny(clause, "+-=")
		if i < 0 {
			return 0, false
		}
		who := clause[:i]
		if who == "" || strings.Contains(who, "a") {
			who = "ugo"
		}
		if strings.Trim(who, "ugo") != "" {
			return 0, false
		}
		op := clause[i]
		var bits fs.FileMode
		var special fs.FileMode
		for _, c := range clause[i+1:] {
			switch c {
			case 'r':
				bits |= 4
			case 'w':
				bits |= 2
			case 'x':
				bits |= 1
			case 'X':
				if dir || old&0o111 != 0 {
					bits |= 1
				}
			case 's':
				if strings.Contains(who, "u") {
					special |= fs.ModeSetuid
				}
				if strings.Contains(who, "g") {
					special |= fs.ModeSetgid
				}
			case 't':
				special |= fs.ModeSticky
			case 'u':
				bits |= old >> 6 & 7
			case 'g':
				bits |= old >> 3 & 7
			case 'o':
				bits |= old & 7
			default:
				return 0, false
			}
		}
		for _, w := range who {
			shift := map[rune]int{'u': 6, 'g': 3, 'o': 0}[w]
			switch op {
			case '+':
				mode |= bits << shift
			case '-':
				mode &^= bits << shift
			case '=':
				mode = mode&^(7<<shift) | bits<<shift
			}
		}
		if op == '-' {
			mode &^= special
		} else {
			mode |= special
		}
	}
	return mode, true
}

var _ expand.Environ = (*environ)(nil)
