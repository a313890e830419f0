package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// nowhere can't be a directory anywhere: below it neither a program can be
// found nor a pipe be made.
const nowhere = "/dev/null/none"

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
