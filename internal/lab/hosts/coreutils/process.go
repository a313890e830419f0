package coreutils

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

func succeed(context.Context, *machine.Proc) int { return 0 }

func fail(context.Context, *machine.Proc) int { return 1 }

// viaShell runs a program that shells have built in.
func viaShell(ctx context.Context, p *machine.Proc) int {
	script := p.Name() + ` "$@"`
	code, err := p.Run(ctx, machine.Cmd{Args: append([]string{"/bin/bash", "-c", script, p.Name()}, p.Args[1:]...)})
	if err != nil {
		return p.Fail(127, "%v", err)
	}
	return code
}

func echo(ctx context.Context, p *machine.Proc) int { return viaShell(ctx, p) }
func test(ctx context.Context, p *machine.Proc) int { return viaShell(ctx, p) }

func pwd(_ context.Context, p *machine.Proc) int {
	p.Printf("%s\n", p.Dir)
	return 0
}

func tty(_ context.Context, p *machine.Proc) int {
	p.Printf("not a tty\n")
	return 1
}

func arch(_ context.Context, p *machine.Proc) int {
	p.Printf("x86_64\n")
	return 0
}

// parseSeconds reads a duration as sleep takes it: 1, 0.5, 2m.
func parseSeconds(s string) (time.Duration, bool) {
	unit := time.Second
	if n := len(s); n > 0 {
		switch s[n-1] {
		case 's':
			s = s[:n-1]
		case 'm':
			s, unit = s[:n-1], time.Minute
		case 'h':
			s, unit = s[:n-1], time.Hour
		case 'd':
			s, unit = s[:n-1], 24*time.Hour
		}
	}
	if s == "infinity" {
		return 1 << 62, true
	}
	f, err := strconv.ParseFloat(s, 64)
	return time.Duration(f * float64(unit)), err == nil && f >= 0
}

func sleep(ctx context.Context, p *machine.Proc) int {
	var d time.Duration
	for _, a := range p.Args[1:] {
		n, ok := parseSeconds(a)
		if !ok {
			return p.Fail(1, "invalid time interval '%s'", a)
		}
		d += n
	}
	if len(p.Args) < 2 {
		return p.Fail(1, "missing operand")
	}
	select {
	case <-p.Machine.Clock.After(d):
	case <-ctx.Done():
	}
	return 0
}

func date(_ context.Context, p *machine.Proc) int {
	o := p.Options("u|utc d|date: r|reference: s|set: I|iso-8601? R|rfc-email rfc-3339:")
	if o == nil {
		return 1
	}
	now := p.Machine.Clock.Now()
	if o.Has("d") {
		t, ok := parseDate(o.Get("d"), now)
		if !ok {
			return p.Fail(1, "invalid date '%s'", o.Get("d"))
		}
		now = t
	}
	if o.Has("r") {
		info, err := p.Machine.FS.Stat(p.Cred, p.Abs(o.Get("r")), true)
		if err != nil {
			return p.Fail(1, "%s: %s", o.Get("r"), machine.Strerror(err))
		}
		now = info.ModTime()
	}
	now = now.UTC()
	format := "%a %b %e %H:%M:%S UTC %Y"
	switch {
	case o.Has("I"):
		format = map[string]string{"": "%Y-%m-%d", "date": "%Y-%m-%d"}[o.Get("I")]
		if format == "" {
			format = "%Y-%m-%dT%H:%M:%S+00:00"
		}
	case o.Has("R"):
		format = "%a, %d %b %Y %H:%M:%S +0000"
	}
	if len(o.Args) > 0 && strings.HasPrefix(o.Args[0], "+") {
		format = o.Args[0][1:]
	}
	p.Printf("%s\n", strftime(format, now))
	return 0
}

func strftime(format string, t time.Time) string {
	layouts := map[byte]string{
		'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'y': "06", 'b': "Jan", 'B': "January", 'a': "Mon",
		'A': "Monday", 'e': "_2", 'Z': "MST", 'z': "-0700", 'F': "2006-01-02", 'T': "15:04:05", 'p': "PM", 'I': "03", 'j': "002",
		'D': "01/02/06", 'R': "15:04", 'h': "Jan",
	}
	var sb strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			sb.WriteByte(format[i])
			continue
		}
		i++
		if format[i] == '-' && i+1 < len(format) {
			i++
			sb.WriteString(cmp.Or(strings.TrimLeft(t.Format(layouts[format[i]]), "0 "), "0"))
			continue
		}
		switch c := format[i]; {
		case c == 's':
			sb.WriteString(strconv.FormatInt(t.Unix(), 10))
		case c == 'N':
			fmt.Fprintf(&sb, "%09d", t.Nanosecond())
		case c == 'n':
			sb.WriteByte('\n')
		case c == 'u':
			sb.WriteString(strconv.Itoa((int(t.Weekday())+6)%7 + 1))
		case layouts[c] != "":
			sb.WriteString(t.Format(layouts[c]))
		default:
			sb.WriteByte(c)
		}
	}
	return sb.String()
}

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

func xargs(ctx context.Context, p *machine.Proc) int {
	o := p.Options("+0|null n|max-args: I|replace: r|no-run-if-empty P|max-procs: t|verbose d|delimiter: L: a|arg-file: x")
	if o == nil {
		return 1
	}
	data, err := io.ReadAll(p.In(ctx))
	if err != nil && ctx.Err() == nil {
		return p.Fail(1, "%s", machine.Strerror(err))
	}
	var items []string
	switch {
	case o.Has("0"):
		items = strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
	case o.Has("d"):
		d := unescape(o.Get("d"))
		items = strings.Split(strings.TrimSuffix(string(data), d), d)
	case o.Has("I") || o.Has("L"):
		for line := range strings.SplitSeq(string(data), "\n") {
			if line = strings.TrimSpace(line); line != "" {
				items = append(items, line)
			}
		}
	default:
		items = words(string(data))
	}
	if len(data) == 0 {
		items = nil
	}
	base := o.Args
	if len(base) == 0 {
		base = []string{"echo"}
	}
	if len(items) == 0 && (o.Has("r") || o.Has("I")) {
		return 0
	}
	n := len(items)
	if v := cmp.Or(o.Get("n"), o.Get("L")); v != "" {
		if n, err = strconv.Atoi(v); err != nil || n < 1 {
			return p.Fail(1, "invalid number \"%s\" for -n option", v)
		}
	}
	if o.Has("I") {
		n = 1
	}
	code := 0
	for first := true; first || len(items) > 0; first = false {
		some := items[:min(n, len(items))]
		items = items[len(some):]
		args := slices.Clone(base)
		if o.Has("I") {
			for i, a := range args {
				args[i] = strings.ReplaceAll(a, o.Get("I"), some[0])
			}
		} else {
			args = append(args, some...)
		}
		if o.Has("t") {
			fmt.Fprintln(p.Stderr, strings.Join(args, " "))
		}
		status, err := p.Run(ctx, machine.Cmd{Args: args, Stdin: nil})
		switch {
		case err != nil:
			return p.Fail(status, "%s: %v", args[0], err)
		case status == 255:
			return p.Fail(124, "%s: exited with status 255; aborting", args[0])
		case status != 0:
			code = 123
		}
		if ctx.Err() != nil {
			break
		}
	}
	return code
}

// words splits text as xargs does, with quotes and backslashes.
func words(text string) []string {
	var out []string
	var cur bytes.Buffer
	in, quote := false, byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				cur.WriteByte(c)
			}
		case c == '\'' || c == '"':
			in, quote = true, c
		case c == '\\' && i+1 < len(text):
			i++
			in = true
			cur.WriteByte(text[i])
		case c == ' ' || c == '\t' || c == '\n':
			if in {
				out = append(out, cur.String())
				cur.Reset()
				in = false
			}
		default:
			in = true
			cur.WriteByte(c)
		}
	}
	if in {
		out = append(out, cur.String())
	}
	return out
}

func ps(_ context.Context, p *machine.Proc) int {
	show := func(q *machine.Proc) {
		if strings.Contains(strings.Join(p.Args, " "), "-o") {
			p.Printf("%5d %s\n", q.PID, strings.Join(q.Title(), " "))
			return
		}
		p.Printf("%-8s %5d %5d ? 00:00:00 %s\n", q.User, q.PID, q.Parent, strings.Join(q.Title(), " "))
	}
	p.Printf("%-8s %5s %5s TTY TIME CMD\n", "UID", "PID", "PPID")
	want := ""
	for i, a := range p.Args {
		if a == "-p" && i+1 < len(p.Args) {
			want = p.Args[i+1]
		}
	}
	found := want == ""
	for _, q := range p.Machine.Procs() {
		if want == "" || strconv.Itoa(q.PID) == want {
			show(q)
			found = true
		}
	}
	if !found {
		return 1
	}
	return 0
}

func pgrep(_ context.Context, p *machine.Proc) int {
	o := p.Options("f|full x|exact u|euid: n o l a c 9 signal: e")
	if o == nil || len(o.Args) != 1 {
		return 2
	}
	pattern := o.Args[0]
	sig := machine.Signal(syscall.SIGTERM)
	if o.Has("9") {
		sig = machine.Signal(syscall.SIGKILL)
	}
	if o.Has("signal") {
		s, ok := machine.ParseSignal(o.Get("signal"))
		if !ok {
			return p.Fail(2, "invalid signal %s", o.Get("signal"))
		}
		sig = s
	}
	found := 0
	for _, q := range p.Machine.Procs() {
		name := path.Base(q.Title()[0])
		if o.Has("f") {
			name = strings.Join(q.Title(), " ")
		}
		if q == p || q.PID == p.PID || o.Has("x") && name != pattern || !strings.Contains(name, pattern) {
			continue
		}
		found++
		if p.Name() == "pkill" {
			// It may have ended by itself in the meantime.
			if err := p.Machine.Kill(p.Cred, q.PID, sig); errors.Is(err, syscall.EPERM) {
				p.Fail(1, "killing pid %d failed: %s", q.PID, machine.Strerror(err))
			}
			continue
		}
		if !o.Has("c") {
			p.Printf("%d\n", q.PID)
		}
	}
	if o.Has("c") {
		p.Printf("%d\n", found)
	}
	if found == 0 {
		return 1
	}
	return 0
}

func which(_ context.Context, p *machine.Proc) int {
	code := 0
	for _, name := range p.Args[1:] {
		file, err := p.Machine.Find(p.Cred, p.Dir, p.Getenv("PATH"), name)
		if err != nil {
			code = 1
			continue
		}
		p.Printf("%s\n", file)
	}
	return code
}
