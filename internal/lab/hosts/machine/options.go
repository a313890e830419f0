package machine

import (
	"strings"
)

// Options are a command line's options by the first of their names, and the
// arguments that are left.
type Options struct {
	set  map[string][]string
	Args []string
}

// Has reports whether an option was given.
func (o *Options) Has(name string) bool { return len(o.set[name]) > 0 }

// Get returns the last value of an option.
func (o *Options) Get(name string) string {
	if v := o.set[name]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// All returns every value of an option.
func (o *Options) All(name string) []string { return o.set[name] }

// Options reads the command line as getopt_long does. spec lists the options,
// separated by spaces: "p|parents m|mode: color?" has a flag with two names, an
// option with a value, and one whose value is optional (--color=x). A spec that
// begins with "+" stops at the first argument. It says what is wrong on the
// standard error and returns nil.
func (p *Proc) Options(spec string) *Options {
	spec, ordered := strings.CutPrefix(spec, "+")
	type kind struct {
		name string
		arg  byte // 0, ':' or '?'
	}
	known := map[string]kind{}
	for entry := range strings.FieldsSeq(spec) {
		var arg byte
		if last := entry[len(entry)-1]; last == ':' || last == '?' {
			arg = last
			entry = entry[:len(entry)-1]
		}
		names := strings.Split(entry, "|")
		for _, name := range names {
			known[name] = kind{names[0], arg}
		}
	}
	o := &Options{set: map[string][]string{}}
	args := p.Args[1:]
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			o.Args = append(o.Args, args...)
			return o
		case strings.HasPrefix(arg, "--"):
			name, value, has := strings.Cut(arg[2:], "=")
			k, ok := known[name]
			if !ok || len(name) == 1 {
				p.Fail(0, "unrecognized option '%s'", arg)
				return nil
			}
			switch {
			case k.arg == 0 && has:
				p.Fail(0, "option '--%s' doesn't allow an argument", name)
				return nil
			case k.arg == ':' && !has:
				if len(args) == 0 {
					p.Fail(0, "option '--%s' requires an argument", name)
					return nil
				}
				value, args = args[0], args[1:]
			}
			o.set[k.name] = append(o.set[k.name], value)
		case len(arg) > 1 && arg[0] == '-':
			for i := 1; i < len(arg); i++ {
				name := arg[i : i+1]
				k, ok := known[name]
				if !ok {
					p.Fail(0, "invalid option -- '%s'", name)
					return nil
				}
				value := ""
				if k.arg == ':' {
					value = arg[i+1:]
					i = len(arg)
					if value == "" {
						if len(args) == 0 {
							p.Fail(0, "option requires an argument -- '%s'", name)
							return nil
						}
						value, args = args[0], args[1:]
					}
				} else if k.arg == '?' {
					value = arg[i+1:]
					i = len(arg)
				}
				o.set[k.name] = append(o.set[k.name], value)
			}
		default:
			o.Args = append(o.Args, arg)
			if ordered {
				o.Args = append(o.Args, args...)
				return o
			}
		}
	}
	return o
}
