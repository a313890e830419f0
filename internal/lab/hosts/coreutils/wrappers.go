package coreutils

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

// start runs the command that a wrapper such as env or nohup was given.
func start(ctx context.Context, p *machine.Proc, cmd machine.Cmd, failed string) int {
	code, err := p.Run(ctx, cmd)
	if err != nil {
		p.Fail(0, "%s'%s': %v", failed, cmd.Args[0], err)
	}
	return code
}

func env(ctx context.Context, p *machine.Proc) int {
	o := p.Options("+i|ignore-environment u|unset: C|chdir: 0|null S|split-string:")
	if o == nil {
		return 125
	}
	vars := p.Environ()
	args := o.Args
	if o.Has("i") || len(args) > 0 && args[0] == "-" {
		vars = map[string]string{}
		if !o.Has("i") {
			args = args[1:]
		}
	}
	for _, name := range o.All("u") {
		delete(vars, name)
	}
	if s := o.Get("S"); s != "" {
		args = append(strings.Fields(s), args...)
	}
	for len(args) > 0 {
		name, value, ok := strings.Cut(args[0], "=")
		if !ok {
			break
		}
		vars[name] = value
		args = args[1:]
	}
	if len(args) == 0 {
		end := "\n"
		if o.Has("0") {
			end = "\x00"
		}
		names := make([]string, 0, len(vars))
		for name := range vars {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			p.Printf("%s=%s%s", name, vars[name], end)
		}
		return 0
	}
	dir := o.Get("C")
	if dir != "" {
		dir = p.Abs(dir)
	}
	return start(ctx, p, machine.Cmd{Args: args, Env: vars, Dir: dir}, "")
}

func printenv(_ context.Context, p *machine.Proc) int {
	vars := p.Environ()
	if len(p.Args) == 1 {
		return env(context.Background(), p)
	}
	code := 0
	for _, name := range p.Args[1:] {
		v, ok := vars[name]
		if !ok {
			code = 1
			continue
		}
		p.Printf("%s\n", v)
	}
	return code
}

func timeout(ctx context.Context, p *machine.Proc) int {
	o := p.Options("+s|signal: k|kill-after: preserve-status foreground v|verbose")
	if o == nil {
		return 125
	}
	if len(o.Args) < 2 {
		return p.Fail(125, "missing operand")
	}
	d, ok := parseSeconds(o.Args[0])
	if !ok {
		return p.Fail(125, "invalid time interval '%s'", o.Args[0])
	}
	sig, ok := machine.ParseSignal(cmp.Or(o.Get("s"), "TERM"))
	if !ok {
		return p.Fail(125, "%s: invalid signal", o.Get("s"))
	}
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan int, 1)
	go func() { done <- start(run, p, machine.Cmd{Args: o.Args[1:]}, "failed to run command ") }()
	var expired <-chan time.Time
	if d > 0 {
		expired = p.Machine.Clock.After(d)
	}
	select {
	case code := <-done:
		return code
	case <-expired:
	}
	cancel(sig)
	code := <-done
	switch {
	case o.Has("preserve-status"):
		return code
	case sig == machine.Signal(syscall.SIGKILL):
		return 137
	}
	return 124
}

func nohup(ctx context.Context, p *machine.Proc) int {
	args := p.Args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return p.Fail(125, "missing operand")
	}
	return start(ctx, p, machine.Cmd{Args: args, Detach: true}, "failed to run command ")
}

func setsid(ctx context.Context, p *machine.Proc) int {
	o := p.Options("+f|fork w|wait c|ctty")
	if o == nil || len(o.Args) == 0 {
		return p.Fail(1, "no command specified")
	}
	return start(ctx, p, machine.Cmd{Args: o.Args, Detach: true}, "failed to execute ")
}

// nice runs a command as it is: there is no scheduler to please.
func nice(ctx context.Context, p *machine.Proc) int {
	o := p.Options("+n: c: p: t o: i: e:")
	if o == nil {
		return 125
	}
	if len(o.Args) == 0 {
		p.Printf("0\n")
		return 0
	}
	return start(ctx, p, machine.Cmd{Args: o.Args}, "")
}

func flock(ctx context.Context, p *machine.Proc) int {
	o := p.Options("+n|nonblock w|timeout: x|exclusive s|shared u|unlock o|close E|conflict-exit-code: c|command: v")
	if o == nil {
		return 64
	}
	if len(o.Args) == 0 {
		return p.Fail(64, "requires at least one argument")
	}
	file := p.Abs(o.Args[0])
	if _, err := p.Machine.FS.Stat(p.Cred, file, true); err != nil {
		f, err := p.Machine.FS.Open(p.Cred, file, os.O_CREATE|os.O_RDONLY, 0o666&^p.Umask)
		if err != nil {
			return p.Fail(66, "cannot open lock file %s: %s", o.Args[0], machine.Strerror(err))
		}
		f.Close()
	}
	wait := ctx
	if o.Has("w") {
		d, ok := parseSeconds(o.Get("w"))
		if !ok {
			return p.Fail(64, "invalid timeout value: '%s'", o.Get("w"))
		}
		var cancel context.CancelFunc
		wait, cancel = context.WithCancel(ctx)
		defer cancel()
		expired := p.Machine.Clock.After(d)
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			select {
			case <-expired:
				cancel()
			case <-stop:
			}
		}()
	}
	free := p.Machine.Lock(wait, file, o.Has("n"))
	if free == nil {
		code, err := strconv.Atoi(cmp.Or(o.Get("E"), "1"))
		if err != nil {
			return p.Fail(64, "invalid exit code: '%s'", o.Get("E"))
		}
		return code
	}
	defer free()
	args := o.Args[1:]
	switch {
	case o.Has("c"):
		args = []string{"/bin/sh", "-c", o.Get("c")}
	case len(args) > 1 && args[0] == "-c":
		args = []string{"/bin/sh", "-c", args[1]}
	}
	if len(args) == 0 {
		return 0
	}
	return start(ctx, p, machine.Cmd{Args: args}, "failed to execute ")
}
