// Package re is the module for regular expressions.
package re

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Expressions keeps compiled expressions: recipes use few, often in loops.
type Expressions struct {
	mu   sync.Mutex
	kept map[string]*regexp.Regexp
}

// maxKept bounds what is kept.
const maxKept = 200

func (x *Expressions) compile(pattern string) (*regexp.Regexp, error) {
	if x != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		if re, ok := x.kept[pattern]; ok {
			return re, nil
		}
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fault.Hinted(fault.Invalid, "the syntax is that of RE2: no backreferences, no lookaround", "the regular expression %q can't be read: %v", pattern, err)
	}
	if x != nil {
		if x.kept == nil || len(x.kept) >= maxKept {
			x.kept = make(map[string]*regexp.Regexp)
		}
		x.kept[pattern] = re
	}
	return re, nil
}

// Module returns the module.
func Module() *builtin.Module {
	return builtin.NewModule(builtin.Module{
		Name: "re",
		Doc: "Regular expressions, in the syntax of RE2, which take time linear in the text. Write patterns as raw strings: r\"\\d+\". " +
			"What is found in a secret is secret, and what is found in a text that isn't known yet isn't known either.",
		Recv: new(Expressions),
		Funcs: []builtin.Func{
			find("match", "Match a pattern at the beginning of a text.", `m = re.match(r"v(\d+)\.(\d+)", "v1.37.2")`, true),
			find("search", "Find the first place in a text that a pattern matches.", `m = re.search(r"(?P<port>\d+)/tcp", "listening on 6443/tcp")`, false),
			findAll(), sub(), split(),
		},
	})
}

type findArgs struct {
	Pattern string      `star:"pattern,required" doc:"The regular expression."`
	S       effect.Text `star:"s,required" doc:"The text."`
}

func find(name, doc, example string, atStart bool) builtin.Func {
	return builtin.Of(builtin.Spec[*Expressions, findArgs]{
		Name: name,
		Doc: doc + "\n\nThe result has `text` (what matched), `start` and `end` (in bytes), `groups` (list, None where a group didn't take part) " +
			"and `named` (dict of the named groups).",
		Returns: "re.match, or None if nothing matches",
		Example: example,
		Effect:  builtin.Pure,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, x *Expressions, a findArgs) (any, error) {
			pattern := a.Pattern
			if atStart {
				pattern = `\A(?:` + pattern + `)`
				if _, err := x.compile(a.Pattern); err != nil { // name it as it was written
					return nil, err
				}
			}
			re, err := x.compile(pattern)
			if err != nil || !a.S.Known() {
				return a.S.Value(), err
			}
			s := a.S.Reveal()
			loc := re.FindStringSubmatchIndex(s)
			if loc == nil {
				return nil, nil
			}
			keep := keeper(ctx, a.S)
			groups, named := []any{}, map[string]any{}
			for i, name := range re.SubexpNames() {
				if i == 0 {
					continue
				}
				var g any
				if loc[2*i] >= 0 {
					g = keep(s[loc[2*i]:loc[2*i+1]])
				}
				groups = append(groups, g)
				if name != "" {
					named[name] = g
				}
			}
			return effect.NewObject("re.match", map[string]any{"text": keep(s[loc[0]:loc[1]]), "start": loc[0], "end": loc[1], "groups": groups, "named": named}), nil
		},
	})
}

// keeper returns a function that makes parts of secret texts secret.
func keeper(ctx context.Context, from ...effect.Text) func(string) any {
	origin := effect.OriginOf(from...)
	return func(s string) any { return origin.Text(ctx, s) }
}

func findAll() builtin.Func {
	return builtin.Of(builtin.Spec[*Expressions, findArgs]{
		Name:    "find_all",
		Doc:     "Find all places in a text that a pattern matches.",
		Returns: "list[str]: what matched; with one group in the pattern, what that matched; with several, lists of what they matched",
		Example: `ports = re.find_all(r"(\d+)/tcp", "22/tcp 6443/tcp")`,
		Effect:  builtin.Pure,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, x *Expressions, a findArgs) (any, error) {
			re, err := x.compile(a.Pattern)
			if err != nil || !a.S.Known() {
				return a.S.Value(), err
			}
			keep := keeper(ctx, a.S)
			out := []any{}
			for _, m := range re.FindAllStringSubmatch(a.S.Reveal(), -1) {
				switch len(m) {
				case 1:
					out = append(out, keep(m[0]))
				case 2:
					out = append(out, keep(m[1]))
				default:
					groups := make([]any, 0, len(m)-1)
					for _, g := range m[1:] {
						groups = append(groups, keep(g))
					}
					out = append(out, groups)
				}
			}
			return out, nil
		},
	})
}

type subArgs struct {
	Pattern string      `star:"pattern,required" doc:"The regular expression."`
	Repl    effect.Text `star:"repl,required" doc:"What to put in place of each match: \\1 or \\g<name> for a group, \\\\ for a backslash."`
	S       effect.Text `star:"s,required" doc:"The text."`
	Count   int         `star:"count" doc:"Replace at most so many; 0 for all."`
}

func sub() builtin.Func {
	return builtin.Of(builtin.Spec[*Expressions, subArgs]{
		Name:    "sub",
		Doc:     "Replace what a pattern matches.",
		Returns: "str",
		Example: `text = re.sub(r"replicas: \d+", "replicas: 3", "replicas: 1")`,
		Effect:  builtin.Pure,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, x *Expressions, a subArgs) (any, error) {
			re, err := x.compile(a.Pattern)
			if err != nil {
				return nil, err
			}
			for _, t := range []effect.Text{a.S, a.Repl} {
				if !t.Known() {
					return t.Value(), nil
				}
			}
			repl, err := replacement(re, a.Repl.Reveal())
			if err != nil {
				return nil, err
			}
			s := a.S.Reveal()
			count := a.Count
			if count <= 0 {
				count = -1
			}
			var b strings.Builder
			last := 0
			for _, loc := range re.FindAllStringSubmatchIndex(s, count) {
				b.WriteString(s[last:loc[0]])
				for _, part := range repl {
					if part.group < 0 {
						b.WriteString(part.text)
					} else if at := loc[2*part.group]; at >= 0 {
						b.WriteString(s[at:loc[2*part.group+1]])
					}
				}
				last = loc[1]
			}
			b.WriteString(s[last:])
			return keeper(ctx, a.S, a.Repl)(b.String()), nil
		},
	})
}

// part is a piece of a replacement: text, or what a group matched.
type part struct {
	text  string
	group int // < 0 for text
}

func replacement(re *regexp.Regexp, repl string) ([]part, error) {
	var parts []part
	bad := func(what string) error {
		return fault.New(fault.Invalid, "re.sub: the replacement has %s, but the pattern has %d groups", what, re.NumSubexp())
	}
	for repl != "" {
		text, rest, escaped := strings.Cut(repl, `\`)
		if text != "" {
			parts = append(parts, part{text, -1})
		}
		if !escaped {
			break
		}
		switch {
		case strings.HasPrefix(rest, "g<"):
			name, after, closed := strings.Cut(rest[2:], ">")
			i := re.SubexpIndex(name)
			if n, err := strconv.Atoi(name); err == nil && n >= 0 && n <= re.NumSubexp() {
				i = n
			}
			if !closed || i < 0 {
				return nil, bad(fmt.Sprintf(`\g<%s`, rest[2:]))
			}
			parts, rest = append(parts, part{"", i}), after
		case rest != "" && rest[0] >= '0' && rest[0] <= '9':
			n := int(rest[0] - '0')
			if n > re.NumSubexp() {
				return nil, bad(`\` + rest[:1])
			}
			parts, rest = append(parts, part{"", n}), rest[1:]
		case rest != "":
			parts, rest = append(parts, part{rest[:1], -1}), rest[1:]
		default:
			return nil, bad("a backslash at its end")
		}
		repl = rest
	}
	return parts, nil
}

type splitArgs struct {
	Pattern  string      `star:"pattern,required" doc:"The regular expression."`
	S        effect.Text `star:"s,required" doc:"The text."`
	MaxSplit int         `star:"maxsplit" doc:"Split at most so often; 0 for everywhere."`
}

func split() builtin.Func {
	return builtin.Of(builtin.Spec[*Expressions, splitArgs]{
		Name:    "split",
		Doc:     "Split a text where a pattern matches.",
		Returns: "list[str]",
		Example: `words = re.split(r"\s+", "one two  three")`,
		Effect:  builtin.Pure,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, x *Expressions, a splitArgs) (any, error) {
			re, err := x.compile(a.Pattern)
			if err != nil || !a.S.Known() {
				return a.S.Value(), err
			}
			n := -1
			if a.MaxSplit > 0 {
				n = a.MaxSplit + 1
			}
			keep := keeper(ctx, a.S)
			out := []any{}
			for _, s := range re.Split(a.S.Reveal(), n) {
				out = append(out, keep(s))
			}
			return out, nil
		},
	})
}
