package ssh

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type cronArgs struct {
	Name     string      `star:"name,required" doc:"Name of the job: letters, digits, hyphens and underscores, which is all that cron reads."`
	Schedule string      `star:"schedule,required" doc:"Five fields: minute, hour, day of the month, month and weekday, such as \"30 4 * * 1-5\"; or @reboot, @hourly, @daily, @weekly, @monthly or @yearly."`
	Command  effect.Text `star:"command,required" doc:"Shell command, in one line; it may be secret. A % in it is written so that cron leaves it as it is."`
	User     string      `star:"user" doc:"User that runs it."`
	Env      effect.Data `star:"env" doc:"Dict of variables that cron sets, such as {\"MAILTO\": \"ops@example.org\"}; values may be secret."`
}

type cronNameArgs struct {
	Name string `star:"name,required" doc:"Name of the job."`
}

func cronNoun() builtin.Noun {
	return builtin.Noun{
		Name: "cron", Doc: "A job of cron, in a file of its own in /etc/cron.d", Identity: builtin.NaturalKey,
		Attrs: []builtin.Attr{
			{Name: "name", Type: "str", Doc: "Name of the job."},
			{Name: "path", Type: "str", Doc: "Path of its file."},
			{Name: "schedule", Type: "str", Doc: "When it runs."},
			{Name: "user", Type: "str", Doc: "Who runs it."},
		},
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, cronArgs]{
				Name: "ensure", Doc: "Make a job of cron be there. Its file can be read by all, or only by root if something in it is secret. The user must exist.",
				Returns: "object with name, path, schedule and user", Example: `host.cron.ensure("backup", "30 4 * * *", "/usr/local/bin/backup --all", env = {"MAILTO": ""})`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.NotFound, fault.Exists, fault.Failed, fault.Denied, fault.Invalid},
				Defaults: cronArgs{User: "root"}, Run: ensureCron,
			}),
			builtin.Of(builtin.Spec[*Host, cronNameArgs]{
				Name: "get", Doc: "Read the file of a job, of which the last entry counts.", Returns: "object with name, path, schedule and user; None if there is no such file",
				Example: `host.cron.get("e2scrub_all")`,
				Effect:  builtin.Reads, Errors: []fault.Kind{fault.Exists, fault.Failed, fault.Denied, fault.Invalid, fault.Limit}, Run: getCron,
			}),
			builtin.Of(builtin.Spec[*Host, cronNameArgs]{
				Name: "delete", Doc: "Make a job not be there. If it runs just now, it goes on.",
				Returns: "None", Example: `host.cron.delete("backup")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Exists, fault.Denied, fault.Invalid}, Run: deleteCron,
			}),
		},
	}
}

func cronPath(fn, name string) (string, error) {
	if !regexp.MustCompile(`^[A-Za-z0-9_-]+$`).MatchString(name) {
		return "", invalid(fn, "%q is no name of a job: cron reads only files of letters, digits, hyphens and underscores", name)
	}
	return "/etc/cron.d/" + name, nil
}

// A cronField is one of the five parts of a schedule.
type cronField struct {
	name     string
	min, max int
	names    string // of the values from min, with three letters each
}

func cronFields() []cronField {
	return []cronField{{"minute", 0, 59, ""}, {"hour", 0, 23, ""}, {"day of the month", 1, 31, ""},
		{"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"}, {"weekday", 0, 7, "sunmontuewedthufrisat"}}
}

func (f cronField) value(s string) (int, bool) {
	if i := strings.Index(f.names, strings.ToLower(s)); len(s) == 3 && i >= 0 && i%3 == 0 {
		return f.min + i/3, true
	}
	n, err := strconv.ParseUint(s, 10, 8)
	return int(n), err == nil && int(n) >= f.min && int(n) <= f.max
}

// check says what is wrong with a field: a list of values and ranges with
// steps.
func (f cronField) check(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		span, step, stepped := strings.Cut(part, "/")
		from, to, ranged := strings.Cut(span, "-")
		if n, err := strconv.ParseUint(step, 10, 8); stepped && (err != nil || n == 0 || !ranged && span != "*") {
			return fmt.Errorf("the %s %q: a step is a number, after * or a range", f.name, part)
		}
		if span == "*" {
			continue
		}
		low, ok := f.value(from)
		high := low
		if ranged && ok {
			high, ok = f.value(to)
		}
		if !ok || high < low {
			return fmt.Errorf("the %s %q: it is from %d to %d", f.name, part, f.min, f.max)
		}
	}
	return nil
}

func checkSchedule(fn, s string) error {
	if strings.HasPrefix(s, "@") {
		if slices.Contains([]string{"@reboot", "@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"}, s) {
			return nil
		}
		return invalid(fn, "schedule: cron knows no %s", s)
	}
	parts := strings.Split(s, " ")
	fields := cronFields()
	if len(parts) != len(fields) {
		return fault.Hinted(fault.Invalid, `a schedule looks like "30 4 * * 1-5": minute, hour, day of the month, month, weekday`, "%s: schedule: %q hasn't five fields with single spaces", fn, s)
	}
	for i, f := range fields {
		if err := f.check(parts[i]); err != nil {
			return invalid(fn, "schedule: %v", err)
		}
	}
	return nil
}

// text returns the job's file.
func (a *cronArgs) text(fn string) (effect.Text, error) {
	env, ok := a.Env.V.(map[string]any)
	if a.Env.V != nil && !ok {
		return effect.Text{}, invalid(fn, "env is no dict")
	}
	var b strings.Builder
	b.WriteString("# Written by gsrun; what is changed here is undone.\n")
	parts := []effect.Text{a.Command}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		v, err := textOf(env[name])
		if err != nil {
			return v, invalid(fn, "env: %s: %v", name, err)
		}
		if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(name) || v.Known() && strings.ContainsAny(v.Reveal(), "\x00\n\"") {
			return v, invalid(fn, "env: %q is no name of a variable, or its value has a line end or a double quote", name)
		}
		parts = append(parts, v)
		if v.Known() {
			fmt.Fprintf(&b, "%s=\"%s\"\n", name, v.Reveal())
		}
	}
	for _, p := range parts {
		if !p.Known() {
			return p, nil
		}
	}
	command := a.Command.Reveal()
	if strings.TrimSpace(command) == "" || strings.ContainsAny(command, "\x00\n") {
		return effect.Text{}, invalid(fn, "the command is empty, or has a line end")
	}
	fmt.Fprintf(&b, "%s %s %s\n", a.Schedule, a.User, strings.ReplaceAll(command, "%", `\%`))
	if i := slices.IndexFunc(parts, effect.Text.IsSecret); i >= 0 {
		return textOf(effect.SecretOf(b.String(), ""))
	}
	return effect.Plain(b.String()), nil
}

func ensureCron(ctx context.Context, h *Host, a cronArgs) (any, error) {
	const fn = "ssh.host.cron.ensure"
	path, err := cronPath(fn, a.Name)
	if err == nil {
		err = checkUser(fn, a.User)
	}
	if err == nil {
		err = checkSchedule(fn, a.Schedule)
	}
	if err != nil {
		return nil, err
	}
	text, err := a.text(fn)
	if err != nil {
		return nil, err
	}
	if !text.Known() {
		return effect.DoLater(ctx, effect.Target{Scope: h.scope(), Kind: "cron", Name: a.Name})
	}
	// cron says nothing of a user that it doesn't know.
	f := fileArgs{Path: path, Content: effect.Data{V: text.Value()}, Mode: "0644", Owner: "root", Validate: "id -u " + a.User + " # %s"}
	if text.IsSecret() {
		f.Mode = "0600"
	}
	w, err := f.wanted(ctx, h)
	if err != nil {
		return nil, err
	}
	return w.act(h).as("cron", a.Name, path, map[string]any{"name": a.Name, "path": path, "schedule": a.Schedule, "user": a.User}).do(ctx)
}

func getCron(ctx context.Context, h *Host, a cronNameArgs) (any, error) {
	path, err := cronPath("ssh.host.cron.get", a.Name)
	if err != nil {
		return nil, err
	}
	q := h.query("cron", a.Name)
	q.Absent = true
	return effect.Read(ctx, q, func(ctx context.Context) (effect.State, error) {
		s, err := (&edit{host: h, path: path}).observe(ctx)
		if err != nil {
			return effect.State{}, err
		}
		if !s.Exists {
			return effect.State{}, fault.New(fault.NotFound, "no such job")
		}
		attrs := map[string]any{"name": a.Name, "path": path, "schedule": "", "user": ""}
		for line := range strings.Lines(*s.Raw.(fileRaw).text) {
			f := strings.Fields(line)
			n := 5
			if strings.HasPrefix(line, "@") {
				n = 1
			}
			if len(f) > n+1 && checkSchedule("", strings.Join(f[:n], " ")) == nil {
				attrs["schedule"], attrs["user"] = strings.Join(f[:n], " "), f[n]
			}
		}
		return effect.State{Exists: true, Attrs: attrs}, nil
	})
}

func deleteCron(ctx context.Context, h *Host, a cronNameArgs) (any, error) {
	path, err := cronPath("ssh.host.cron.delete", a.Name)
	if err != nil {
		return nil, err
	}
	return nil, h.deleteFileAt(ctx, "cron", a.Name, path)
}
