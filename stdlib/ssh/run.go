package ssh

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	client "git.vanillacore.net/govstack/gsrun/internal/client/ssh"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type runArgs struct {
	Argv        []effect.Text          `star:"argv,positional" doc:"Program and arguments. No shell sees them. They show in the host's process list, so secrets are refused."`
	Sh          effect.Text            `star:"sh" doc:"Script for sh, instead of argv. Secrets are refused in it: pass them in env."`
	Readonly    bool                   `star:"readonly" doc:"The command changes nothing: it runs in a plan too, and isn't counted as a change."`
	Creates     string                 `star:"creates" doc:"Path that the command creates; while it exists, the command isn't run."`
	Unless      string                 `star:"unless" doc:"Script that changes nothing; while it exits with 0, the command isn't run."`
	Env         map[string]effect.Text `star:"env" doc:"Environment variables; they may be secret."`
	Dir         string                 `star:"dir" doc:"Folder to run in. None means the user's home folder."`
	Stdin       effect.Text            `star:"stdin" doc:"Text on standard input; it may be secret."`
	User        string                 `star:"user" doc:"User to become by sudo. None means that of the host: root with sudo, else the login user."`
	Timeout     time.Duration          `star:"timeout" doc:"Time after which the command is killed."`
	OK          effect.Data            `star:"ok" doc:"Exit codes that are no failure, as a list of ints. None means [0]."`
	OutputLimit int                    `star:"output_limit" doc:"Bytes of either output above which the command is killed."`
}

func runFunc() builtin.Func {
	return builtin.Of(builtin.Spec[*Host, runArgs]{
		Name: "run",
		Doc: "Run a program or a script and wait for it to end. With `creates` or `unless` it is run only where it is needed, and once at a time: " +
			"where a gsrun that was killed left it running, it is waited for. " +
			"Without them it is run once per run at least, which a plan says. If the connection breaks while it runs, it isn't run again by itself; the error says whether it still runs.",
		Returns: "object with stdout, stderr (str) and exit_code (int); outputs are empty if it didn't need to run",
		Example: `host.run(["kubeadm", "init", "--config", "/etc/kubernetes/init.yaml"], creates = "/etc/kubernetes/admin.conf", timeout = "10m")
version = host.run(["uname", "-r"], readonly = True).stdout.strip()`,
		Effect:   builtin.Changes,
		Errors:   []fault.Kind{fault.Failed, fault.NotFound, fault.Timeout, fault.Limit, fault.Unreachable, fault.Denied, fault.Invalid},
		Defaults: runArgs{Timeout: 10 * time.Minute, OutputLimit: 4 << 20},
		Run:      run,
	})
}

func run(ctx context.Context, h *Host, a runArgs) (any, error) {
	ok, err := a.check()
	if err != nil {
		return nil, err
	}
	if a.Readonly {
		q := h.query("run", a.title())
		q.Target.Unknown = q.Target.Unknown || !a.known()
		return effect.Read(ctx, q, func(ctx context.Context) (effect.State, error) { return h.runOnce(ctx, a, ok, true) })
	}
	return (&act{host: h, kind: "run", name: a.title(), lock: "run " + a.title(), reach: h.anything(), always: a.Creates == "" && a.Unless == "",
		observe: func(ctx context.Context) (effect.State, error) { return h.runNeeded(ctx, a) },
		diff: func(s effect.State) (effect.Change, error) {
			if s.Exists {
				return effect.Unchanged(), nil
			}
			c := effect.Change{Kind: effect.Run, Fields: a.fields(), After: map[string]any{}}
			for _, k := range []string{"stdout", "stderr", "exit_code"} {
				c.After[k] = effect.Unknown{Of: h.scope() + "/run " + k}
			}
			if a.Creates == "" && a.Unless == "" {
				c.Note = "at least once"
			}
			return c, nil
		},
		apply: func(ctx context.Context, _ effect.Change) (effect.State, error) { return h.runOnce(ctx, a, ok, false) },
	}).do(ctx)
}

// check refuses what can't be run, and returns the exit codes that are fine.
func (a *runArgs) check() ([]int, error) {
	if (len(a.Argv) == 0) == (a.Sh.Known() && a.Sh.Empty()) {
		return nil, invalid("ssh.host.run", "give either argv or sh")
	}
	for i, t := range append([]effect.Text{a.Sh}, a.Argv...) {
		if t.IsSecret() {
			what := "sh"
			if i > 0 {
				what = fmt.Sprintf("argv[%d]", i-1)
			}
			return nil, fault.Hinted(fault.Invalid, "pass it in env or stdin, which the process list doesn't show", "ssh.host.run: %s holds a secret", what)
		}
	}
	if a.Readonly && (a.Creates != "" || a.Unless != "") {
		return nil, invalid("ssh.host.run", "a readonly command has no use for creates or unless")
	}
	if a.OK.V == nil {
		return []int{0}, nil
	}
	list, isList := a.OK.V.([]any)
	if !isList || len(list) == 0 {
		return nil, invalid("ssh.host.run", "ok is no list of exit codes")
	}
	var ok []int
	for _, x := range list {
		n, isInt := x.(int64)
		if !isInt || n < 0 || n > 255 {
			return nil, invalid("ssh.host.run", "%v in ok is no exit code", x)
		}
		ok = append(ok, int(n))
	}
	return ok, nil
}

// known reports whether all of the command is known.
func (a *runArgs) known() bool {
	known := a.Sh.Known() && a.Stdin.Known()
	for _, t := range a.Argv {
		known = known && t.Known()
	}
	for _, t := range a.Env {
		known = known && t.Known()
	}
	return known
}

// fields shows what the title doesn't: what is run, if that is longer, and what
// it is given.
func (a *runArgs) fields() []effect.Field {
	var out []effect.Field
	if text := strings.TrimSpace(a.Sh.String()); strings.ContainsRune(text, '\n') || utf8.RuneCountInString(text) > titleLength {
		out = append(out, effect.Field{Path: "sh", New: a.Sh.Value()})
	}
	if len(a.Argv) > 0 && strings.HasSuffix(a.title(), "...") {
		argv := make([]any, len(a.Argv))
		for i, t := range a.Argv {
			argv[i] = t.Value()
		}
		out = append(out, effect.Field{Path: "argv", New: argv})
	}
	if !a.Stdin.Empty() {
		out = append(out, effect.Field{Path: "stdin", New: a.Stdin.Value()})
	}
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		out = append(out, effect.Field{Path: "env." + name, New: a.Env[name].Value()})
	}
	return out
}

// titleLength is the longest title in characters.
const titleLength = 80

// title names the command in plans and messages: on one line, and short.
func (a *runArgs) title() string {
	var words []string
	for _, t := range a.Argv {
		w := t.String()
		if w == "" || strings.ContainsAny(w, " \t\n'\"\\$`|&;<>()") && t.Known() {
			w = client.Quote(w)
		}
		words = append(words, w)
	}
	s := strings.Join(append(words, strings.Fields(a.Sh.String())...), " ")
	if utf8.RuneCountInString(s) > titleLength {
		s = string([]rune(s)[:titleLength-3]) + "..."
	}
	return s
}

// runNeeded looks whether the command still has to be run. The state exists if
// it doesn't.
func (h *Host) runNeeded(ctx context.Context, a runArgs) (effect.State, error) {
	done := effect.State{Exists: true, Attrs: runAttrs(client.Result{})}
	if a.Creates != "" {
		got, err := h.look(ctx, `if [ -e "$p" ] || [ -L "$p" ]; then echo 'there yes'; else echo 'there no'; fi`+"\n", vars{"p": a.Creates})
		if err != nil {
			return effect.State{}, err
		}
		if got.get("there") == "yes" {
			return done, nil
		}
	}
	if a.Unless != "" {
		ctx, cancel := context.WithTimeout(ctx, a.Timeout)
		defer cancel()
		res, err := h.exec(ctx, a.User, client.Command{Script: a.Unless, Env: a.plainEnv(), Dir: a.Dir, Limit: int64(a.OutputLimit)})
		if fault.KindOf(err) == fault.NotFound {
			return effect.State{}, nil // its folder or user may be made by a step before; else running it says so
		}
		if err != nil {
			return effect.State{}, err
		}
		if res.ExitCode == 0 {
			return done, nil
		}
	}
	return effect.State{}, nil
}

// plainEnv returns the variables that are known; in a plan others are left out.
func (a *runArgs) plainEnv() map[string]string {
	env := make(map[string]string, len(a.Env))
	for k, t := range a.Env {
		if t.Known() {
			env[k] = t.Reveal()
		}
	}
	return env
}

func (h *Host) runOnce(ctx context.Context, a runArgs, ok []int, readonly bool) (effect.State, error) {
	rctx, cancel := context.WithTimeoutCause(ctx, a.Timeout,
		fault.Hinted(fault.Timeout, "raise timeout if it needs longer; the command was killed", "the command didn't end within %s", a.Timeout))
	defer cancel()
	cmd := client.Command{Script: a.Sh.Reveal(), Env: a.plainEnv(), Dir: a.Dir, Limit: int64(a.OutputLimit)}
	for _, t := range a.Argv {
		cmd.Argv = append(cmd.Argv, t.Reveal())
	}
	if !a.Stdin.Empty() {
		cmd.Stdin = strings.NewReader(a.Stdin.Reveal())
	}
	if !readonly {
		cmd = a.guarded(cmd)
	}
	res, err := h.exec(rctx, a.User, cmd)
	var lost *client.LostError
	if errors.As(err, &lost) && !readonly {
		return effect.State{}, &fault.Error{Kind: fault.Failed, Err: fmt.Errorf("%w, while the command was running; %s", err, h.fate(ctx, a.User, lost)),
			Hint: "look at the host before running it again"}
	}
	if err != nil {
		return effect.State{}, err
	}
	if res.Signal != "" || !slices.Contains(ok, res.ExitCode) {
		return effect.State{}, commandError(res)
	}
	return effect.State{Exists: true, Attrs: runAttrs(res)}, nil
}

// fateTimeout bounds the look at what became of a command.
const fateTimeout = 20 * time.Second

// fate says what became of a command whose connection was lost.
func (h *Host) fate(ctx context.Context, user string, lost *client.LostError) string {
	const unknown = "whether it still runs isn't known"
	c, err := h.pool.client(h)
	if err != nil || lost.PID == 0 {
		return unknown
	}
	ctx, cancel := context.WithTimeout(ctx, fateTimeout)
	defer cancel()
	runs, err := c.IsRunning(ctx, lost.PID, h.become(user))
	switch {
	case err != nil:
		return unknown
	case runs:
		return fmt.Sprintf("it still runs there, as process %d", lost.PID)
	}
	return "it has ended since"
}

// commandError is the error of a command that failed, with what it said last.
func commandError(res client.Result) error {
	said := tail(string(res.Stderr), 10)
	if said == "" {
		said = tail(string(res.Stdout), 10)
	}
	if said != "" {
		said = ":\n" + said
	}
	switch {
	case res.Signal != "":
		return fault.New(fault.Failed, "the command was %s%s", ended(res), said)
	case res.ExitCode == 127:
		return fault.Hinted(fault.NotFound, "is its package installed, and is it in PATH? A full path helps", "the command was not found (exit status 127)%s", said)
	case res.ExitCode == 126:
		return fault.Hinted(fault.Denied, "is it executable?", "the command can't be executed (exit status 126)%s", said)
	}
	return fault.New(fault.Failed, "the command failed with exit status %d%s", res.ExitCode, said)
}

// runAttrs returns a command's result as data. Output that isn't text comes as
// bytes.
func runAttrs(res client.Result) map[string]any {
	return map[string]any{"stdout": textOrBytes(res.Stdout), "stderr": textOrBytes(res.Stderr), "exit_code": res.ExitCode}
}

func textOrBytes(b []byte) any {
	if utf8.Valid(b) {
		return string(b)
	}
	return append([]byte(nil), b...)
}
