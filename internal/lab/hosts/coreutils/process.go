package coreutils

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
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
