package debian

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

// A ruleset is what the packet filter holds.
type ruleset struct{ tables []*table }

type table struct {
	family, name string
	chains       []*chain
	sets         []*set
}

type chain struct {
	name   string
	kind   string // filter, nat or route; "" for a chain that is only jumped to
	hook   string
	prio   string
	policy string
	rules  [][]string
}

type set struct {
	word, name string   // set or map
	props      []string // type, flags: as they were written
	elements   []string
}

func (r *ruleset) clone() *ruleset {
	out := &ruleset{}
	for _, t := range r.tables {
		c := &table{family: t.family, name: t.name}
		for _, ch := range t.chains {
			n := *ch
			n.rules = slices.Clone(ch.rules)
			c.chains = append(c.chains, &n)
		}
		for _, st := range t.sets {
			n := *st
			n.elements = slices.Clone(st.elements)
			c.sets = append(c.sets, &n)
		}
		out.tables = append(out.tables, c)
	}
	return out
}

func (r *ruleset) table(family, name string) *table {
	for _, t := range r.tables {
		if t.family == family && t.name == name {
			return t
		}
	}
	return nil
}

func (t *table) chain(name string) *chain {
	for _, c := range t.chains {
		if c.name == name {
			return c
		}
	}
	return nil
}

func (t *table) set(name string) *set {
	for _, s := range t.sets {
		if s.name == name {
			return s
		}
	}
	return nil
}

func (t *table) print(sb *strings.Builder) {
	fmt.Fprintf(sb, "table %s %s {\n", t.family, t.name)
	first := true
	gap := func() {
		if !first {
			sb.WriteString("\n")
		}
		first = false
	}
	for _, s := range t.sets {
		gap()
		fmt.Fprintf(sb, "\t%s %s {\n", s.word, s.name)
		for _, p := range s.props {
			fmt.Fprintf(sb, "\t\t%s\n", p)
		}
		if len(s.elements) > 0 {
			fmt.Fprintf(sb, "\t\telements = { %s }\n", strings.Join(s.elements, ", "))
		}
		sb.WriteString("\t}\n")
	}
	for _, c := range t.chains {
		gap()
		fmt.Fprintf(sb, "\tchain %s {\n", c.name)
		if c.hook != "" {
			fmt.Fprintf(sb, "\t\ttype %s hook %s priority %s; policy %s;\n", c.kind, c.hook, c.prio, c.policy)
		}
		for _, rule := range c.rules {
			fmt.Fprintf(sb, "\t\t%s\n", ruleText(rule))
		}
		sb.WriteString("\t}\n")
	}
	sb.WriteString("}\n")
}

func ruleText(words []string) string {
	text := strings.Join(words, " ")
	return strings.ReplaceAll(text, " ,", ",")
}

func (s *System) nft(ctx context.Context, p *machine.Proc) int {
	o := p.Options("+f|file: c|check a|handle n|numeric s|stateless j|json e|echo o|optimize I|includepath: i|interactive v|version D|define: t|terse N y S")
	if o == nil {
		return 1
	}
	if o.Has("v") {
		p.Printf("nftables v1.0.6 (Lester Gooch #5)\n")
		return 0
	}
	if p.Cred.UID != 0 {
		fmt.Fprintln(p.Stderr, "Operation not permitted (you must be root)")
		return 1
	}
	name, text := "<cmdline>", strings.Join(o.Args, " ")
	if f := o.Get("f"); f != "" {
		if f == "-" || f == "/dev/stdin" {
			name, text = "/dev/stdin", readAll(p.In(ctx))
		} else {
			data, err := s.FS.ReadFile(p.Cred, p.Abs(f))
			if err != nil {
				fmt.Fprintf(p.Stderr, "internal:0:0-0: Error: Could not open file \"%s\": %s\n", f, machine.Strerror(err))
				return 1
			}
			name, text = f, string(data)
		}
	} else if len(o.Args) == 0 {
		fmt.Fprintln(p.Stderr, "nft: no command specified")
		return 1
	}
	k := s.kernel
	k.mu.Lock()
	now := k.rules.clone()
	k.mu.Unlock()
	ps := &nftParser{rules: now, name: name, defines: map[string][]string{}, list: p.Printf, read: func(file string) (string, error) {
		data, err := s.FS.ReadFile(p.Cred, machine.Abs(path.Dir(p.Abs(o.Get("f"))), file))
		return string(data), err
	}, glob: func(pattern string) []string {
		return slices.DeleteFunc(s.listFiles(path.Dir(pattern), ""), func(f string) bool {
			ok, err := path.Match(pattern, f)
			return err != nil || !ok
		})
	}}
	for _, d := range o.All("D") {
		n, v, _ := strings.Cut(d, "=")
		ps.defines[n] = []string{v}
	}
	if err := ps.run(text); err != nil {
		fmt.Fprintln(p.Stderr, err.Error())
		return 1
	}
	for _, t := range now.tables {
		for _, c := range t.chains {
			for _, rule := range c.rules {
				if slices.ContainsFunc(rule, func(w string) bool { return w == "jump" || w == "goto" }) && t.jump(rule) == nil {
					fmt.Fprintf(p.Stderr, "%s:1:1-1: Error: Could not process rule: No such file or directory\n%s\n", name, ruleText(rule))
					return 1
				}
			}
		}
	}
	if o.Has("c") || !ps.changed {
		return 0
	}
	k.mu.Lock()
	k.rules = now
	k.mu.Unlock()
	s.FS.Touched()
	return 0
}
