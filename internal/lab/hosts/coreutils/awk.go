package coreutils

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

// awk runs the part of the language that one-liners are made of: patterns,
// fields, arrays, control flow and the string functions; no getline, no own
// functions, no output to files or commands.
func awk(ctx context.Context, p *machine.Proc) int {
	o := p.Options("+F: v: f: W:")
	if o == nil {
		return 2
	}
	args := o.Args
	var src string
	if files := o.All("f"); len(files) > 0 {
		for _, f := range files {
			all, code := gather(ctx, p, []string{f})
			if code != 0 {
				return 2
			}
			src += strings.Join(all, "\n") + "\n"
		}
	} else {
		if len(args) == 0 {
			fmt.Fprintln(p.Stderr, "Usage: mawk [Options] [Program] [file ...]")
			return 2
		}
		src, args = args[0], args[1:]
	}
	prog, err := parseAwk(src)
	if err != nil {
		return p.Fail(2, "line 1: %v", err)
	}
	in := &awkRun{ctx: ctx, p: p, prog: prog, vars: map[string]awkValue{}, arrays: map[string]map[string]awkValue{}, res: map[string]*regexp.Regexp{}}
	for name, v := range map[string]string{"FS": " ", "OFS": " ", "ORS": "\n", "RS": "\n", "SUBSEP": "\x1c", "NR": "0", "NF": "0", "FNR": "0"} {
		in.vars[name] = strnum(v)
	}
	if fs := o.Get("F"); fs != "" {
		if fs == "t" {
			fs = "\t"
		}
		in.vars["FS"] = awkText(unescape(fs))
	}
	assign := func(text string) bool {
		name, value, ok := strings.Cut(text, "=")
		if ok && regexp.MustCompile(`^[A-Za-z_]\w*$`).MatchString(name) {
			in.vars[name] = strnum(unescape(value))
			return true
		}
		return false
	}
	for _, v := range o.All("v") {
		if !assign(v) {
			return p.Fail(2, "improper assignment: -v %s", v)
		}
	}
	return in.run(args, assign)
}

// An awkValue is a text that may be a number.
type awkValue struct {
	text   string
	num    float64
	number bool // num is the value
}

func awkText(s string) awkValue    { return awkValue{text: s} }
func awkNumber(n float64) awkValue { return awkValue{num: n, number: true} }

func awkBool(b bool) awkValue {
	if b {
		return awkNumber(1)
	}
	return awkNumber(0)
}

// strnum is input that counts as a number if it looks like one.
func strnum(s string) awkValue {
	t := strings.TrimSpace(s)
	if n, err := strconv.ParseFloat(t, 64); err == nil && t != "" && strings.Trim(t, "0123456789.eE+-") == "" {
		return awkValue{text: s, num: n, number: true}
	}
	return awkText(s)
}

func (v awkValue) str() string {
	if v.text != "" || !v.number {
		return v.text
	}
	if v.num == float64(int64(v.num)) {
		return strconv.FormatInt(int64(v.num), 10)
	}
	return strconv.FormatFloat(v.num, 'g', 6, 64)
}

func (v awkValue) float() float64 {
	if v.number {
		return v.num
	}
	return leading(v.text)
}

func (v awkValue) truth() bool {
	if v.number {
		return v.num != 0
	}
	return v.text != ""
}

// awkRun is one run of a program.
type awkRun struct {
	ctx    context.Context
	p      *machine.Proc
	prog   *awkProgram
	vars   map[string]awkValue
	arrays map[string]map[string]awkValue
	res    map[string]*regexp.Regexp
	fields []string // fields[0] is the record
	out    strings.Builder
	code   int
	steps  int
}

// How a statement ended.
var (
	errNext  = errors.New("next")
	errExit  = errors.New("exit")
	errBreak = errors.New("break")
	errCont  = errors.New("continue")
)

func (in *awkRun) flush() {
	if in.out.Len() > 0 {
		in.p.Printf("%s", in.out.String())
		in.out.Reset()
	}
}

func (in *awkRun) run(args []string, assign func(string) bool) int {
	defer in.flush()
	report := func(err error) bool {
		if err == nil || err == errNext {
			return false
		}
		if err != errExit {
			in.code = in.p.Fail(2, "%v", err)
		}
		return true
	}
	finish := func() int {
		for _, r := range in.prog.end {
			if report(in.block(r)) {
				break
			}
		}
		return in.code
	}
	for _, b := range in.prog.begin {
		if err := in.block(b); report(err) {
			if err == errExit {
				return finish()
			}
			return in.code
		}
	}
	if len(in.prog.rules) == 0 && len(in.prog.end) == 0 {
		return in.code
	}
	var files []string
	for _, a := range args {
		if !assign(a) {
			files = append(files, a)
		}
	}
	nr := 0
	stop := false
	code := in.p.Each(in.ctx, files, func(name string, r io.Reader) error {
		if stop {
			return nil
		}
		in.vars["FILENAME"] = awkText(strings.TrimPrefix(name, "-"))
		fnr := 0
		record := func(line string) bool {
			nr++
			fnr++
			in.vars["NR"], in.vars["FNR"] = awkNumber(float64(nr)), awkNumber(float64(fnr))
			in.split(line)
			for _, rule := range in.prog.rules {
				ok, err := in.picks(rule)
				if err == nil && ok {
					err = in.block(rule.body)
				}
				if err == errNext {
					break
				}
				if report(err) {
					stop = true
					return false
				}
			}
			if in.out.Len() > 32<<10 {
				in.flush()
			}
			return in.ctx.Err() == nil && !in.p.Broken()
		}
		if in.vars["RS"].str() == "" {
			data, err := io.ReadAll(r)
			for part := range strings.SplitSeq(strings.Trim(string(data), "\n"), "\n\n") {
				if part = strings.Trim(part, "\n"); part != "" && !record(part) {
					break
				}
			}
			return err
		}
		return machine.Lines(r, func(line string, _ bool) bool { return record(line) })
	})
	if code != 0 {
		in.code = 2
	}
	if stop && in.code == 2 {
		return in.code
	}
	return finish()
}

func (in *awkRun) split(line string) {
	in.fields = append([]string{line}, in.cut(line, in.vars["FS"].str())...)
	in.vars["NF"] = awkNumber(float64(len(in.fields) - 1))
}

func (in *awkRun) cut(s, fs string) []string {
	switch {
	case s == "":
		return nil
	case fs == " ":
		return strings.Fields(s)
	case len(fs) == 1 && fs != "|" && strings.IndexByte(`\^$.[]*+?()`, fs[0]) < 0:
		return strings.Split(s, fs)
	case len(fs) == 1:
		return strings.Split(s, fs)
	}
	re, err := in.regexp(fs)
	if err != nil {
		return []string{s}
	}
	return re.Split(s, -1)
}

func (in *awkRun) regexp(s string) (*regexp.Regexp, error) {
	if re := in.res[s]; re != nil {
		return re, nil
	}
	re, err := regexp.Compile(extendedRegexp(s))
	if err == nil {
		in.res[s] = re
	}
	return re, err
}

func (in *awkRun) picks(r *awkRule) (bool, error) {
	if r.from == nil {
		return true, nil
	}
	if r.to == nil {
		v, err := in.eval(r.from)
		return v.truth(), err
	}
	if !r.inside {
		v, err := in.eval(r.from)
		if err != nil || !v.truth() {
			return false, err
		}
		r.inside = true
	}
	v, err := in.eval(r.to)
	if v.truth() {
		r.inside = false
	}
	return true, err
}

func (in *awkRun) setField(n int, v string) {
	for len(in.fields) <= n {
		in.fields = append(in.fields, "")
	}
	if n == 0 {
		in.split(v)
		return
	}
	in.fields[n] = v
	in.vars["NF"] = awkNumber(float64(len(in.fields) - 1))
	in.fields[0] = strings.Join(in.fields[1:], in.vars["OFS"].str())
}

func (in *awkRun) assign(target *awkExpr, v awkValue) error {
	switch target.op {
	case "var":
		in.vars[target.text] = v
		if target.text == "NF" {
			n := int(v.float())
			for len(in.fields) <= n {
				in.fields = append(in.fields, "")
			}
			in.fields = in.fields[:n+1]
			in.fields[0] = strings.Join(in.fields[1:], in.vars["OFS"].str())
		}
	case "$":
		n, err := in.eval(target.args[0])
		if err != nil {
			return err
		}
		if i := int(n.float()); i >= 0 && i < 1<<16 {
			in.setField(i, v.str())
		}
	case "index":
		key, err := in.key(target.args)
		if err != nil {
			return err
		}
		in.array(target.text)[key] = v
	default:
		return errors.New("assignment to what isn't a variable")
	}
	return nil
}

func (in *awkRun) array(name string) map[string]awkValue {
	if in.arrays[name] == nil {
		in.arrays[name] = map[string]awkValue{}
	}
	return in.arrays[name]
}

func (in *awkRun) key(args []*awkExpr) (string, error) {
	var parts []string
	for _, a := range args {
		v, err := in.eval(a)
		if err != nil {
			return "", err
		}
		parts = append(parts, v.str())
	}
	return strings.Join(parts, in.vars["SUBSEP"].str()), nil
}
