package view

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A details renders what a change does to its target, field by field.
type details struct {
	palette
	ascii bool
	full  bool // long texts whole
	r     *effect.Redactor
}

// maxRows is how many fields of something new are shown unless all are asked
// for: a Kubernetes object may have hundreds.
const maxRows = 24

// maxLines is how many lines of one new text are shown unless all are asked for.
const maxLines = 40

// A row is one field, ready to be aligned: a name, and a value in one line or
// a body of several.
type row struct {
	name, value string
	body        []string
	bare        bool // there is only the name
}

// of returns the lines of a change, without indentation.
func (d details) of(target effect.Target, c effect.Change) []string {
	var rows []row
	seen := make(map[string]bool)
	spots := make(map[string]bool)
	lists := make(map[string][]pair) // the elements of a list are fields of one path
	for _, f := range c.Fields {
		p := pairOf(f, d.r)
		seen[p.path] = true
		secretSpots(p.new, "."+p.path, spots)
		lists[p.path] = append(lists[p.path], p)
	}
	for _, f := range c.Fields {
		path := d.r.String(f.Path)
		if ps := lists[path]; len(ps) == 1 {
			rows = append(rows, d.rows(c.Kind, ps[0])...)
		} else if len(ps) > 1 {
			rows = append(rows, d.elements(c.Kind, path, ps))
		}
		delete(lists, path)
	}
	if more := len(rows) - maxRows; c.Kind == effect.Create && more > 1 && !d.full {
		rows = append(rows[:maxRows:maxRows], row{bare: true, name: d.paint(dim, "... "+plural(more, "more field"))})
	}
	if c.Kind == effect.Create || c.Kind == effect.Replace {
		rows = append(rows, d.after(target, c.After, seen, spots)...)
	}
	return d.align(rows)
}

// after returns rows for the attributes to come that aren't named among the
// fields; those not known yet come last, together.
func (d details) after(target effect.Target, attrs map[string]any, seen, spots map[string]bool) []row {
	var rows []row
	var unknown []string
	for _, k := range keysOf(attrs) {
		name := d.r.String(k)
		if seen[name] {
			continue
		}
		x := hide(normal(attrs[k], d.r), "."+name, spots)
		switch {
		case noise(target, name, x):
		case isUnknown(x):
			unknown = append(unknown, clean(name))
		default:
			rows = append(rows, d.rows(effect.Create, pair{path: name, new: x})...)
		}
	}
	if len(unknown) > 0 {
		rows = append(rows, row{name: strings.Join(unknown, ", "), value: d.paint(dim, effect.UnknownText)})
	}
	return rows
}

// elements returns the row of a list of which each element that comes, goes or
// differs is a pair: one block, with signs unless all elements come.
func (d details) elements(kind effect.ChangeKind, path string, ps []pair) row {
	var gone, come []any
	hidden := false
	for _, p := range ps {
		hidden = hidden || p.hidden
		if p.old != nil && !(kind == effect.Create && hollow(p.old)) {
			gone = append(gone, p.old)
		}
		if p.new != nil {
			come = append(come, p.new)
		}
	}
	// What is secret in one element is in the others, though observed as plain text.
	spots := make(map[string]bool)
	secretSpots(gone, "", spots)
	secretSpots(come, "", spots)
	gone, _ = hide(gone, "", spots).([]any)
	come, _ = hide(come, "", spots).([]any)
	name := clean(path)
	switch {
	case hidden:
		return row{name: name, value: effect.Mask + " (changed)"}
	case kind == effect.Create && len(gone) == 0:
		return d.single(name, come)
	case kind == effect.Delete && len(come) == 0:
		return d.single(name, gone)
	}
	body := func(x []any) []string {
		if len(x) == 0 {
			return nil
		}
		return block(x)
	}
	return row{name: name, body: d.hunk(hunk{edits: replaced(body(gone), body(come))})}
}

// hollow reports whether a value is what something that isn't there has: empty,
// zero or false.
func hollow(x any) bool { return empty(x) || x == false || x == json.Number("0") }

func isUnknown(x any) bool {
	_, ok := x.(effect.Unknown)
	return ok
}

// noise reports whether an attribute of something new says nothing that its
// target doesn't say, or nothing at all.
func noise(target effect.Target, name string, x any) bool {
	if empty(x) || name == "mark" {
		return true
	}
	s, ok := x.(string)
	if !ok {
		return false
	}
	if s == target.Name || s == target.Kind || s == target.Scope {
		return true
	}
	switch name {
	case "name", "kind", "namespace", "path", "api_version":
		return slices.Contains(strings.Split(target.String(), "/"), s)
	}
	return false
}

// rows returns the rows of one difference: one, or one for each part of a map
// that differs.
func (d details) rows(kind effect.ChangeKind, p pair) []row {
	old, oldMap := p.old.(map[string]any)
	new, newMap := p.new.(map[string]any)
	if oldMap && newMap && !p.hidden && len(old) > 0 && len(new) > 0 {
		return d.mapRows(p.path, old, new)
	}
	name := clean(p.path)
	switch {
	case p.hidden:
		return []row{{name: name, value: effect.Mask + " (changed)"}}
	case p.old == nil && p.new == nil:
		return []row{{name: name, value: d.paint(dim, "none")}}
	case p.old == nil && kind != effect.Update, kind == effect.Create && hollow(p.old):
		return []row{d.single(name, p.new)}
	case p.new == nil && kind == effect.Delete:
		return []row{d.single(name, p.old)}
	case byLine(p.old) && byLine(p.new) && (!short(p.old) || !short(p.new)):
		return []row{{name: name, body: d.compare(p.old, p.new)}}
	}
	from, to := inline(p.old), inline(p.new)
	if from == to {
		from, to = inlineAt(p.old, true), inlineAt(p.new, true)
	}
	if from == to {
		from, to = typed(p.old), typed(p.new)
	}
	return []row{{name: name, value: d.paint(red, from) + d.arrow() + d.paint(green, to)}}
}

// typed writes a value with its type, where that is all that differs.
func typed(x any) string {
	switch x := x.(type) {
	case string:
		return strconv.QuoteToASCII(x)
	case nil:
		return "none"
	}
	return inlineAt(x, true) + " (" + reflect.TypeOf(x).Kind().String() + ")"
}

func (d details) arrow() string {
	if d.ascii {
		return " -> "
	}
	return " → "
}

// mapRows compares two maps key by key.
func (d details) mapRows(path string, old, new map[string]any) []row {
	all := make(map[string]bool)
	for k := range old {
		all[k] = true
	}
	for k := range new {
		all[k] = true
	}
	var rows []row
	for _, k := range keysOf(all) {
		if reflect.DeepEqual(old[k], new[k]) && !isUnknown(new[k]) {
			continue
		}
		p := pair{path: path + "." + k, old: old[k], new: new[k]}
		p.hidden = holdsMask(new[k]) && alike(old[k], new[k])
		rows = append(rows, d.rows(effect.Update, p)...)
	}
	if len(rows) == 0 {
		rows = append(rows, row{name: clean(path), value: "(changed)"})
	}
	return rows
}

// holdsMask reports whether a secret is anywhere in x.
func holdsMask(x any) bool {
	spots := make(map[string]bool)
	secretSpots(x, "", spots)
	return len(spots) > 0
}

// byLine reports whether x can be compared line by line.
func byLine(x any) bool {
	switch x.(type) {
	case nil, string, []any, map[string]any:
		return true
	}
	return false
}

// single returns the row of a value that stands alone.
func (d details) single(name string, x any) row {
	if isUnknown(x) {
		return row{name: name, value: d.paint(dim, effect.UnknownText)}
	}
	if short(x) {
		if s, ok := x.(string); ok {
			x = strings.TrimSuffix(s, "\n")
		}
		return row{name: name, value: inline(x)}
	}
	body := block(x)
	if more := len(body) - maxLines; more > 1 && !d.full {
		body = append(body[:maxLines:maxLines], d.paint(dim, "... "+plural(more, "more line")))
	}
	if _, ok := x.(string); ok {
		for i, l := range body {
			body[i] = d.paint(dim, "|") + " " + l
		}
	}
	return row{name: name, body: body}
}

// compare returns the unified diff of two values.
func (d details) compare(old, new any) []string {
	var out []string
	for _, h := range unified(asText(old), asText(new), 3) {
		out = append(out, d.paint(cyan, h.header()))
		out = append(out, d.hunk(h)...)
	}
	return out
}

// asText returns a value as the text that is compared.
func asText(x any) string {
	switch x := x.(type) {
	case nil:
		return ""
	case string:
		return x
	}
	return strings.Join(block(x), "\n") + "\n"
}

// hunk returns the lines of a hunk. Tabs are spread, except where a line was
// removed and added with only its tabs changed.
func (d details) hunk(h hunk) []string {
	sides := map[byte]map[string]bool{'-': {}, '+': {}, ' ': {}}
	spread := func(s string) string { return strings.ReplaceAll(strings.TrimSuffix(s, noNewline), "\t", tab) }
	for _, e := range h.edits {
		sides[e.op][spread(e.text)] = true
	}
	var out []string
	for _, e := range h.edits {
		text, bare := strings.CutSuffix(e.text, noNewline)
		s := spread(text)
		if e.op != ' ' && sides['-'][s] && sides['+'][s] {
			s = text
		}
		color := ""
		switch e.op {
		case '-':
			color = red
		case '+':
			color = green
		}
		out = append(out, d.paint(color, strings.TrimRight(string(e.op)+clean(s), " ")))
		if bare {
			out = append(out, `\ no newline at the end`)
		}
	}
	return out
}

// maxName is the widest name that values are aligned after.
const maxName = 28

// align puts the rows' values in a column.
func (d details) align(rows []row) []string {
	wide := 0
	for _, r := range rows {
		if n := textWidth(r.name) + 1; n <= maxName && r.body == nil && !r.bare {
			wide = max(wide, n)
		}
	}
	var out []string
	for _, r := range rows {
		if r.bare {
			out = append(out, r.name)
			continue
		}
		if r.body != nil {
			out = append(out, r.name+":")
			for _, l := range r.body {
				out = append(out, "  "+l)
			}
			continue
		}
		out = append(out, pad(r.name+":", wide)+" "+r.value)
	}
	return out
}
