// Package time is the module for timestamps and durations.
package time

import (
	"context"
	"math"
	"strings"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Config says what the time is.
type Config struct {
	// Now returns the time for the step that ctx belongs to; a run that is
	// resumed may return what it did before. Nil means effect.Now.
	Now func(ctx context.Context) (time.Time, error)
}

// A Clock is one run's instance of the module.
type Clock struct {
	now func(context.Context) (time.Time, error)
}

// Module returns the module.
func Module(c Config) *builtin.Module {
	clock := &Clock{now: c.Now}
	if clock.now == nil {
		clock.now = effect.Now
	}
	return builtin.NewModule(builtin.Module{
		Name: "time",
		Doc: "Timestamps and durations, both as texts: timestamps as RFC 3339 (\"2026-11-30T12:00:00Z\"), which sort by time when they are in UTC, and durations as primitives take them (\"1h30m\"). " +
			"Numbers of seconds where there is arithmetic to do.",
		Recv:  clock,
		Funcs: []builtin.Func{now(), parseTime(), fromTimestamp(), timestamp(), format(), add(), sub(), parseDuration(), duration()},
	})
}

// text writes t as the module's functions return it.
func text(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func stamp(fn, s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return t, fault.Hinted(fault.Invalid, "read other forms with time.parse_time", "time.%s: %q is no timestamp such as 2026-11-30T12:00:00Z", fn, s)
	}
	return t, nil
}

type nowArgs struct{}

func now() builtin.Func {
	return builtin.Of(builtin.Spec[*Clock, nowArgs]{
		Name: "now", Doc: "Get the current time, in whole seconds.", Returns: "str: a timestamp in UTC", Example: `started = time.now()`, Effect: builtin.Reads,
		Run: func(ctx context.Context, c *Clock, _ nowArgs) (any, error) {
			t, err := c.now(ctx)
			if err != nil {
				return nil, err
			}
			return text(t.Truncate(time.Second)), nil
		},
	})
}

type parseTimeArgs struct {
	X        string `star:"x,required" doc:"The text."`
	Format   string `star:"format,positional" doc:"Its form, as strftime's: %Y %m %d %H %M %S %y %b %B %a %A %j %I %p %Z %z %f %%. RFC 3339 if empty."`
	Location string `star:"location,positional" doc:"Time zone of a text that names none: UTC, or a name such as Europe/Berlin."`
}

func parseTime() builtin.Func {
	return builtin.Of(builtin.Spec[any, parseTimeArgs]{
		Name: "parse_time", Doc: "Read a timestamp.", Returns: "str: a timestamp in UTC", Example: `t = time.parse_time("30.11.2026 13:00", "%d.%m.%Y %H:%M")`,
		Effect: builtin.Pure, Errors: []fault.Kind{fault.Invalid}, Defaults: parseTimeArgs{Location: "UTC"},
		Run: func(_ context.Context, _ any, a parseTimeArgs) (any, error) {
			loc, err := location("parse_time", a.Location)
			if err != nil {
				return nil, err
			}
			if a.Format == "" {
				t, err := stamp("parse_time", a.X)
				return text(t), err
			}
			l, err := layout("parse_time", a.Format)
			if err != nil {
				return nil, err
			}
			t, err := time.ParseInLocation(l, a.X, loc)
			if err != nil {
				return nil, fault.New(fault.Invalid, "time.parse_time: %q isn't of the form %q", a.X, a.Format)
			}
			return text(t), nil
		},
	})
}

func location(fn, name string) (*time.Location, error) {
	if name == "Local" { // what that is depends on the machine
		return nil, fault.New(fault.Invalid, "time.%s: name a time zone, not Local", fn)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fault.New(fault.Invalid, "time.%s: the time zone %q isn't known", fn, name)
	}
	return loc, nil
}

// layout returns a form of strftime as Go's.
func layout(fn, format string) (string, error) {
	parts := map[byte]string{'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'y': "06", 'b': "Jan", 'B': "January", 'a': "Mon", 'A': "Monday",
		'j': "002", 'I': "03", 'p': "PM", 'Z': "MST", 'z': "-0700", 'f': "000000", '%': "%"}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		i++
		if i == len(format) {
			return "", fault.New(fault.Invalid, "time.%s: the form %q ends in %%", fn, format)
		}
		p, ok := parts[format[i]]
		if !ok {
			return "", fault.New(fault.Invalid, "time.%s: %%%c of the form %q isn't known", fn, format[i], format)
		}
		b.WriteString(p)
	}
	return b.String(), nil
}

type formatArgs struct {
	Time     string `star:"time,required" doc:"A timestamp."`
	Format   string `star:"format,required" doc:"The form, as strftime's; see parse_time."`
	Location string `star:"location,positional" doc:"Time zone to show it in."`
}

func format() builtin.Func {
	return builtin.Of(builtin.Spec[any, formatArgs]{
		Name: "format", Doc: "Write a timestamp in another form.", Returns: "str", Example: `day = time.format("2026-11-30T12:00:00Z", "%Y-%m-%d")`,
		Effect: builtin.Pure, Errors: []fault.Kind{fault.Invalid}, Defaults: formatArgs{Location: "UTC"},
		Run: func(_ context.Context, _ any, a formatArgs) (any, error) {
			t, err := stamp("format", a.Time)
			if err != nil {
				return nil, err
			}
			loc, err := location("format", a.Location)
			if err != nil {
				return nil, err
			}
			var b strings.Builder
			// One directive at a time: Go's layouts would take digits of the
			// text between them for parts of theirs.
			for rest := a.Format; rest != ""; {
				plain, after, ok := strings.Cut(rest, "%")
				b.WriteString(plain)
				if !ok {
					break
				}
				l, err := layout("format", "%"+after[:min(1, len(after))])
				if err != nil {
					return nil, err
				}
				switch {
				case after[0] == '%':
					b.WriteByte('%')
				case after[0] == 'f':
					b.WriteString(t.Format(".000000")[1:])
				default:
					b.WriteString(t.In(loc).Format(l))
				}
				rest = after[1:]
			}
			return b.String(), nil
		},
	})
}

type fromTimestampArgs struct {
	Seconds float64 `star:"seconds,required" doc:"Seconds since 1970-01-01T00:00:00Z."`
}

func fromTimestamp() builtin.Func {
	return builtin.Of(builtin.Spec[any, fromTimestampArgs]{
		Name: "from_timestamp", Doc: "Make a timestamp of Unix time.", Returns: "str: a timestamp in UTC", Example: `t = time.from_timestamp(1796040000)`,
		Effect: builtin.Pure, Errors: []fault.Kind{fault.Invalid},
		Run: func(_ context.Context, _ any, a fromTimestampArgs) (any, error) {
			if math.Abs(a.Seconds) > 253402300799 { // the end of the year 9999
				return nil, fault.New(fault.Invalid, "time.from_timestamp: %g seconds are beyond the year 9999", a.Seconds)
			}
			whole, frac := math.Modf(a.Seconds)
			return text(time.Unix(int64(whole), int64(math.Round(frac*1e6))*1000)), nil
		},
	})
}

type timestampArgs struct {
	Time string `star:"time,required" doc:"A timestamp."`
}

func timestamp() builtin.Func {
	return builtin.Of(builtin.Spec[any, timestampArgs]{
		Name: "timestamp", Doc: "Get Unix time of a timestamp.", Returns: "int: seconds since 1970-01-01T00:00:00Z", Example: `seconds = time.timestamp("2026-11-30T12:00:00Z")`,
		Effect: builtin.Pure, Errors: []fault.Kind{fault.Invalid},
		Run: func(_ context.Context, _ any, a timestampArgs) (any, error) {
			t, err := stamp("timestamp", a.Time)
			return t.Unix(), err
		},
	})
}

type addArgs struct {
	Time     string `star:"time,required" doc:"A timestamp."`
	Duration string `star:"duration,required" doc:"How much later, such as 1h30m or 36h; below 0 for earlier."`
}

func add() builtin.Func {
	return builtin.Of(builtin.Spec[any, addArgs]{
		Name: "add", Doc: "Get the time some while later.", Returns: "str: a timestamp in UTC", Example: `expires = time.add("2026-11-30T12:00:00Z", "720h")`,
		Effect: builtin.Pure, Errors: []fault.Kind{fault.Invalid},
		Run: func(_ context.Context, _ any, a addArgs) (any, error) {
			t, err := stamp("add", a.Time)
			if err != nil {
				return nil, err
			}
			d, err := length("add", a.Duration)
			return text(t.Add(d)), err
		},
	})
}

type subArgs struct {
	Time  string `star:"time,required" doc:"A timestamp."`
	Other string `star:"other,required" doc:"The one to take from it."`
}

func sub() builtin.Func {
	return builtin.Of(builtin.Spec[any, subArgs]{
		Name: "sub", Doc: "Get the time between two timestamps.", Returns: "float: seconds, below 0 if the other is later",
		Example: `age = time.sub("2026-11-30T12:00:00Z", "2026-11-29T12:00:00Z")`,
		Effect:  builtin.Pure, Errors: []fault.Kind{fault.Invalid},
		Run: func(_ context.Context, _ any, a subArgs) (any, error) {
			t, err := stamp("sub", a.Time)
			if err != nil {
				return nil, err
			}
			o, err := stamp("sub", a.Other)
			return t.Sub(o).Seconds(), err
		},
	})
}

type parseDurationArgs struct {
	D string `star:"d,required" doc:"A duration, such as 90s, 5m or 1h30m."`
}

func length(fn, s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fault.New(fault.Invalid, `time.%s: %q is no duration such as "90s" or "1h30m"`, fn, s)
	}
	return d, nil
}

func parseDuration() builtin.Func {
	return builtin.Of(builtin.Spec[any, parseDurationArgs]{
		Name: "parse_duration", Doc: "Get the seconds of a duration.", Returns: "float", Example: `seconds = time.parse_duration("1h30m")`,
		Effect: builtin.Pure, Errors: []fault.Kind{fault.Invalid},
		Run: func(_ context.Context, _ any, a parseDurationArgs) (any, error) {
			d, err := length("parse_duration", a.D)
			return d.Seconds(), err
		},
	})
}

type durationArgs struct {
	Seconds float64 `star:"seconds,required" doc:"How long."`
}

func duration() builtin.Func {
	return builtin.Of(builtin.Spec[any, durationArgs]{
		Name: "duration", Doc: "Make a duration, as primitives take it, of seconds.", Returns: "str", Example: `timeout = time.duration(5400)`,
		Effect: builtin.Pure, Errors: []fault.Kind{fault.Invalid},
		Run: func(_ context.Context, _ any, a durationArgs) (any, error) {
			if math.Abs(a.Seconds) > 9e9 {
				return nil, fault.New(fault.Invalid, "time.duration: %g seconds are too many", a.Seconds)
			}
			return time.Duration(math.Round(a.Seconds * float64(time.Second))).String(), nil
		},
	})
}
