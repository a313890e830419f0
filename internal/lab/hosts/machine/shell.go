package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
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

// nowhere can't be a directory anywhere: below it neither a program can be
// found nor a pipe be made.
const nowhere = "/dev/null/none"

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
			code = sh.run(ctx, stmt)
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

// at returns the path that a handler was asked for, as an absolute one.
func at(ctx context.Context, name string) string { return Abs(interp.HandlerCtx(ctx).Dir, name) }

func umaskOf(env expand.Environ, def fs.FileMode) fs.FileMode {
	if v := env.Get(umaskVar); v.IsSet() {
		if n, err := strconv.ParseUint(v.String(), 8, 12); err == nil {
			return fs.FileMode(n)
		}
	}
	return def
}

func (sh *shell) open(ctx context.Context, name string, flag int, perm fs.FileMode) (io.ReadWriteCloser, error) {
	hc := interp.HandlerCtx(ctx)
	child := *sh.view(hc)
	f, err := child.Open(ctx, name, flag, 0o666)
	if err == nil && flag&(os.O_WRONLY|os.O_RDWR) == 0 {
		if h, ok := f.(*tree.File); ok && h.Info().IsDir() {
			f.Close()
			err = errors.New("Is a directory")
		}
	}
	if err != nil {
		verb := "open"
		if flag&os.O_CREATE != 0 {
			verb = "create"
		}
		reason := Strerror(err)
		if reason == "No such file or directory" && verb == "open" {
			reason = "No such file"
		}
		return nil, &fs.PathError{Op: fmt.Sprintf("%s: %d: cannot %s", sh.title, max(1, hc.Pos.Line()), verb), Path: name,
			Err: errors.New(reason)}
	}
	return f, nil
}

// view is the shell's process as it is at this point of the script.
func (sh *shell) view(hc interp.HandlerContext) *Proc {
	p := sh.p
	return &Proc{
		Machine: p.Machine, PID: p.PID, Args: p.Args, Dir: hc.Dir, User: p.User, Cred: p.Cred,
		Umask: umaskOf(hc.Env, p.Umask), Stdin: hc.Stdin, Stdout: hc.Stdout, Stderr: hc.Stderr, env: p.env,
	}
}

func (sh *shell) readDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	infos, err := sh.p.Machine.FS.ReadDir(sh.p.Cred, at(ctx, name))
	if err != nil {
		return nil, err
	}
	out := make([]fs.DirEntry, len(infos))
	for i, info := range infos {
		out[i] = info
	}
	return out, nil
}

func (sh *shell) stat(ctx context.Context, name string, follow bool) (fs.FileInfo, error) {
	info, err := sh.p.Machine.FS.Stat(sh.p.Cred, at(ctx, name), follow)
	if err != nil {
		return nil, err
	}
	return info, nil
}

func (sh *shell) access(ctx context.Context, name string, mode interp.AccessMode) error {
	return sh.p.Machine.FS.Access(sh.p.Cred, at(ctx, name), fs.FileMode(mode))
}

// exec runs a command that is neither a function nor a builtin.
func (sh *shell) exec(ctx context.Context, args []string) error {
	hc := interp.HandlerCtx(ctx)
	view := sh.view(hc)
	view.env = func(yield func(name, value string) bool) {
		hc.Env.Each(func(name string, v expand.Variable) bool {
			if v.Exported && v.Kind == expand.String && v.IsSet() {
				return yield(name, v.String())
			}
			return true
		})
	}
	cmd := Cmd{Args: args}
	if name, ok := strings.CutPrefix(args[0], ownPrefix); ok {
		cmd.Args = append([]string{name}, args[1:]...)
		cmd.program = sh.builtin(name)
	} else if !strings.Contains(args[0], "/") {
		// PATH counts even when it isn't exported.
		if file, err := sh.p.Machine.Find(view.Cred, view.Dir, hc.Env.Get("PATH").String(), args[0]); err == nil {
			cmd.Args = append([]string{file}, args[1:]...)
		}
	}
	code, err := view.Run(ctx, cmd)
	if err != nil {
		reason := err.Error()
		if err == ErrNotFound && !strings.Contains(args[0], "/") {
			reason = "not found"
			if sh.dialect == syntax.LangBash {
				reason = "command not found"
			}
		}
		where := fmt.Sprintf("%d", hc.Pos.Line())
		if sh.dialect == syntax.LangBash {
			where = "line " + where
		}
		fmt.Fprintf(hc.Stderr, "%s: %s: %s: %s\n", sh.title, where, args[0], reason)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if code != 0 {
		return interp.ExitStatus(uint8(code))
	}
	return nil
}
