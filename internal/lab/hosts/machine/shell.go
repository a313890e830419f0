package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// Shell is the program sh, and bash under that name.
func Shell(ctx context.Context, p *Proc) int {
	name := p.Name()
	dialect := syntax.LangPOSIX
	if name == "bash" || name == "rbash" {
		dialect = syntax.LangBash
	}
	var opts []string
	var script *string
	fromStdin := false
	args := p.Args[1:]
flags:
	for len(args) > 0 {
		switch arg := args[0]; {
		case arg == "--":
			args = args[1:]
			break flags
		case arg == "--login", arg == "--noprofile", arg == "--norc", arg == "--posix":
		case arg == "-o" || arg == "+o":
			if len(args) < 2 {
				return p.Fail(2, "%s: option requires an argument", arg)
			}
			opts = append(opts, arg, args[1])
			args = args[1:]
		case len(arg) > 1 && (arg[0] == '-' || arg[0] == '+'):
			wants := false
			for _, flag := range arg[1:] {
				switch flag {
				case 'c':
					wants = true
				case 's':
					fromStdin = true
				case 'l', 'i', 'm', 'b', 'h':
				case 'o':
					if len(args) < 2 {
						return p.Fail(2, "-o: option requires an argument")
					}
					opts = append(opts, "-o", args[1])
					args = args[1:]
				default:
					opts = append(opts, string(arg[0])+string(flag))
				}
			}
			if wants {
				if len(args) < 2 {
					return p.Fail(2, "-c: option requires an argument")
				}
				script = &args[1]
				args = args[1:]
			}
		default:
			break flags
		}
		args = args[1:]
	}
	sh := &shell{p: p, name: name, title: name, dialect: dialect}
	var src io.Reader
	switch {
	case script != nil:
		src = strings.NewReader(*script)
		if len(args) > 0 {
			sh.title, args = args[0], args[1:]
		}
	case fromStdin || len(args) == 0:
	default:
		data, err := p.Machine.FS.ReadFile(p.Cred, p.Abs(args[0]))
		if err != nil {
			return p.Fail(127, "0: cannot open %s: %s", args[0], Strerror(err))
		}
		sh.title = args[0]
		args = args[1:]
		src = strings.NewReader(string(data))
	}
	if err := sh.start(append(append(opts, "--"), args...)); err != nil {
		return p.Fail(2, "0: Illegal option: %v", err)
	}
	if src == nil {
		return sh.interact(ctx)
	}
	return sh.script(ctx, src)
}

type shell struct {
	p       *Proc
	name    string // sh or bash
	title   string // $0
	dialect syntax.LangVariant
	runner  *interp.Runner
	sealed  bool
	holds   bool // something in the background has the shell's output
}

// umaskVar keeps the umask of a shell, so that a subshell has its own.
const umaskVar = "__lab_umask"

// ownPrefix marks builtins whose code is ours, in place of the interpreter's,
// which would look at the real machine.
const ownPrefix = "\x00"

func (sh *shell) start(params []string) error {
	p := sh.p
	stdin := p.Stdin
	if _, ok := stdin.(*os.File); !ok && stdin != nil {
		// Anything else is copied into a pipe by the interpreter.
		stdin = p.Stdin
	}
	r, err := interp.New(
		interp.Env(&environ{sh: sh, list: expand.ListEnviron(sh.list()...)}),
		func(r *interp.Runner) error { r.Dir = path.Clean(p.Dir); return nil },
		interp.Params(params...),
		interp.StdIO(stdin, p.Stdout, p.Stderr),
		interp.CallHandler(sh.call),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return sh.exec }),
		interp.OpenHandler(sh.open),
		interp.ReadDirHandler2(sh.readDir),
		interp.StatHandler(sh.stat),
		interp.AccessHandler(sh.access),
	)
	if err != nil {
		return err
	}
	r.Reset()
	sh.sealed = true
	sh.runner = r
	return nil
}

func (sh *shell) list() []string {
	p := sh.p
	list := []string{
		"UID=" + strconv.Itoa(p.Cred.UID), "EUID=" + strconv.Itoa(p.Cred.UID), "GID=" + strconv.Itoa(p.Cred.GID),
		"HOME=/",
	}
	p.env(func(name, value string) bool {
		list = append(list, name+"="+value)
		return true
	})
	return list
}

// environ is the environment that a shell starts with. While the interpreter
// sets itself up it is shown a folder for its pipes in which none can be made.
type environ struct {
	sh   *shell
	list expand.Environ
}

func (e *environ) Get(name string) expand.Variable {
	if name == "TMPDIR" && !e.sh.sealed {
		return expand.Variable{Set: true, Kind: expand.String, Str: nowhere}
	}
	if user, ok := strings.CutPrefix(name, "HOME "); ok {
		home := "~" + user // as a shell leaves it if there is no such user
		if u, ok := e.sh.p.Machine.LookupUser(user); ok {
			home = u.Home
		}
		return expand.Variable{Set: true, Kind: expand.String, Str: home}
	}
	return e.list.Get(name)
}

func (e *environ) Each(fn func(string, expand.Variable) bool) { e.list.Each(fn) }

func (sh *shell) parser() *syntax.Parser { return syntax.NewParser(syntax.Variant(sh.dialect)) }

// script runs a whole script.
func (sh *shell) script(ctx context.Context, src io.Reader) int {
	file, err := sh.parser().Parse(src, sh.title)
	if err != nil {
		return sh.syntaxError(err)
	}
	sh.look(file)
	code := sh.run(ctx, file)
	sh.linger(ctx)
	return code
}

// linger waits for what the script left in the background, if that has the
// shell's output: whoever reads the output waits for its end as well.
func (sh *shell) linger(ctx context.Context) {
	if !sh.holds || ctx.Err() != nil {
		return
	}
	file, err := sh.parser().Parse(strings.NewReader("wait"), "")
	if err != nil {
		return
	}
	done := make(chan struct{})
	sh.p.Machine.work.Go(func() {
		defer close(done)
		sh.run(ctx, file.Stmts[0])
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// look notes whether a statement sends something to the background without
// taking the shell's output away from it.
func (sh *shell) look(node syntax.Node) {
	syntax.Walk(node, func(n syntax.Node) bool {
		st, ok := n.(*syntax.Stmt)
		if !ok || !st.Background {
			return true
		}
		var out, errOut bool
		for _, r := range st.Redirs {
			both := r.Op == syntax.RdrAll || r.Op == syntax.AppAll
			out = out || both || r.N == nil && (r.Op == syntax.RdrOut || r.Op == syntax.AppOut || r.Op == syntax.DplOut)
			errOut = errOut || both || r.N != nil && r.N.Value == "2"
		}
		if !out || !errOut {
			sh.holds = true
		}
		return true
	})
}

// interact runs the standard input, statement by statement, as it comes.
func (sh *shell) interact(ctx context.Context) int {
	code := 0
	for stmts, err := range sh.parser().InteractiveSeq(sh.p.In(ctx)) {
		if ctx.Err() != nil {
			return 1
		}
		if err != nil {
			return sh.syntaxError(err)
		}
		for _, stmt := range stmts {
			sh.look(stmt)
			ended := sh.block(ctx, stmt)
			code = sh.run(ctx, stmt)
			ended()
			if sh.runner.Exited() {
				sh.linger(ctx)
				return code
			}
		}
	}
	sh.run(ctx, &syntax.File{Name: sh.title}) // the EXIT trap
	sh.linger(ctx)
	return code
}

// block tells who watches blocks of one.
func (sh *shell) block(ctx context.Context, stmt *syntax.Stmt) (ended func()) {
	watch, watched := ctx.Value(blockKey{}).(Watch)
	if _, ok := stmt.Cmd.(*syntax.Subshell); ok && watched {
		return watch(sh.p)
	}
	return func() {}
}

func (sh *shell) syntaxError(err error) int {
	var perr syntax.ParseError
	line, text := uint(1), err.Error()
	if errors.As(err, &perr) {
		line, text = perr.Pos.Line(), perr.Text
	}
	fmt.Fprintf(sh.p.Stderr, "%s: %d: Syntax error: %s\n", sh.title, line, text)
	return 2
}

func (sh *shell) run(ctx context.Context, node syntax.Node) (code int) {
	defer func() {
		// The interpreter panics on what it doesn't know; the host lives on.
		if r := recover(); r != nil {
			code = sh.p.Fail(2, "%v", r)
		}
	}()
	err := sh.runner.Run(ctx, node)
	var status interp.ExitStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	case ctx.Err() != nil:
		return 128 + int(sh.p.signal(ctx))
	}
	fmt.Fprintf(sh.p.Stderr, "%s: %v\n", sh.title, err)
	return 2
}
