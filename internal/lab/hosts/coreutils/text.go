package coreutils

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

func cat(ctx context.Context, p *machine.Proc) int {
	o := p.Options("n|number A|show-all E T v b s u e t")
	if o == nil {
		return 1
	}
	n := 0
	return p.Each(ctx, o.Args, func(_ string, r io.Reader) error {
		if !o.Has("n") {
			_, err := io.Copy(p, r)
			return err
		}
		return machine.Lines(r, func(line string, _ bool) bool {
			n++
			p.Printf("%6d\t%s\n", n, line)
			return !p.Broken()
		})
	})
}

func tee(ctx context.Context, p *machine.Proc) int {
	o := p.Options("a|append i p")
	if o == nil {
		return 1
	}
	flag := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if o.Has("a") {
		flag = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	code := 0
	out := []io.Writer{p}
	for _, name := range o.Args {
		f, err := p.Open(ctx, name, flag, 0o666)
		if err != nil {
			code = p.Fail(1, "%s: %s", name, machine.Strerror(err))
			continue
		}
		defer func() {
			if err := f.Close(); err != nil && code == 0 {
				code = p.Fail(1, "%s: %s", name, machine.Strerror(err))
			}
		}()
		out = append(out, &named{p: p, name: name, w: f, code: &code})
	}
	if _, err := io.Copy(io.MultiWriter(out...), p.In(ctx)); err != nil && !p.Broken() && ctx.Err() == nil {
		return p.Fail(1, "%s", machine.Strerror(err))
	}
	return code
}

// named reports the first failed write to a file and swallows the rest.
type named struct {
	p    *machine.Proc
	name string
	w    io.Writer
	code *int
	bad  bool
}

func (n *named) Write(b []byte) (int, error) {
	if !n.bad {
		if _, err := n.w.Write(b); err != nil {
			n.bad = true
			*n.code = n.p.Fail(1, "%s: %s", n.name, machine.Strerror(err))
		}
	}
	return len(b), nil
}

// count reads the number of -n or -c, with the suffixes K, M and G.
func count(s string) (int64, error) {
	unit := int64(1)
	for suffix, u := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "kB": 1000, "MB": 1e6, "K": 1 << 10, "k": 1 << 10,
		"M": 1 << 20, "G": 1 << 30, "b": 512} {
		if v, ok := strings.CutSuffix(s, suffix); ok && (unit == 1 || len(suffix) > 1) {
			if _, err := strconv.ParseInt(v, 10, 64); err == nil {
				s, unit = v, u
				break
			}
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n * unit, err
}

func head(ctx context.Context, p *machine.Proc) int {
	p.Args = dashNumber(p.Args)
	o := p.Options("n|lines: c|bytes: q|quiet v|verbose")
	if o == nil {
		return 1
	}
	return ends(ctx, p, o, func(r io.Reader, lines bool, n int64, signed string) error {
		less := strings.HasPrefix(signed, "-")
		switch {
		case !lines && !less:
			_, err := io.CopyN(p, r, n)
			if err == io.EOF {
				err = nil
			}
			return err
		case !lines:
			data, err := io.ReadAll(r)
			_, _ = p.Write(data[:max(0, int64(len(data))+n)])
			return err
		case less:
			all, err := allLines(r)
			for _, line := range all[:max(0, int64(len(all))+n)] {
				p.Printf("%s", line)
			}
			return err
		}
		if n == 0 {
			return nil
		}
		return machine.Lines(r, func(line string, last bool) bool {
			p.Printf("%s", line+newline(last))
			n--
			return n > 0 && !p.Broken()
		})
	})
}

func newline(last bool) string {
	if last {
		return ""
	}
	return "\n"
}

// allLines reads the lines of r with their ends.
func allLines(r io.Reader) ([]string, error) {
	var out []string
	err := machine.Lines(r, func(line string, last bool) bool {
		out = append(out, line+newline(last))
		return true
	})
	return out, err
}

func tail(ctx context.Context, p *machine.Proc) int {
	p.Args = dashNumber(p.Args)
	o := p.Options("n|lines: c|bytes: q|quiet v|verbose f F")
	if o == nil {
		return 1
	}
	code := ends(ctx, p, o, func(r io.Reader, lines bool, n int64, signed string) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		from := strings.HasPrefix(signed, "+")
		if n < 0 {
			n = -n
		}
		if !lines {
			if from {
				n = max(0, int64(len(data))-n+1)
			}
			_, err = p.Write(data[max(0, int64(len(data))-n):])
			return err
		}
		all, _ := allLines(bytes.NewReader(data))
		if from {
			n = max(0, int64(len(all))-n+1)
		}
		for _, line := range all[max(0, int64(len(all))-n):] {
			p.Printf("%s", line)
		}
		return nil
	})
	if o.Has("f") || o.Has("F") {
		<-ctx.Done()
	}
	return code
}

// dashNumber turns the old "head -5" into "head -n 5".
func dashNumber(args []string) []string {
	if len(args) > 1 && len(args[1]) > 1 && args[1][0] == '-' && strings.Trim(args[1][1:], "0123456789") == "" {
		return append([]string{args[0], "-n", args[1][1:]}, args[2:]...)
	}
	return args
}

func ends(ctx context.Context, p *machine.Proc, o *machine.Options, fn func(r io.Reader, lines bool, n int64, signed string) error) int {
	signed, lines := cmp.Or(o.Get("n"), "10"), true
	if o.Has("c") {
		signed, lines = o.Get("c"), false
	}
	n, err := count(signed)
	if err != nil {
		return p.Fail(1, "invalid number of lines: '%s'", signed)
	}
	i := 0
	return p.Each(ctx, o.Args, func(name string, r io.Reader) error {
		if len(o.Args) > 1 && !o.Has("q") || o.Has("v") {
			if i++; i > 1 {
				p.Printf("\n")
			}
			p.Printf("==> %s <==\n", name)
		}
		return fn(r, lines, n, signed)
	})
}

func wc(ctx context.Context, p *machine.Proc) int {
	o := p.Options("l|lines w|words c|bytes m|chars")
	if o == nil {
		return 1
	}
	all := !o.Has("l") && !o.Has("w") && !o.Has("c") && !o.Has("m")
	var total [4]int
	files := 0
	show := func(n [4]int, name string) {
		var cols []string
		for i, flag := range []string{"l", "w", "m", "c"} {
			if o.Has(flag) || all && flag != "m" {
				cols = append(cols, strconv.Itoa(n[i]))
			}
		}
		if len(cols) > 1 || len(o.Args) > 1 {
			for i, c := range cols {
				cols[i] = fmt.Sprintf("%7s", c)
			}
		}
		if name != "" {
			cols = append(cols, name)
		}
		p.Printf("%s\n", strings.Join(cols, " "))
	}
	code := p.Each(ctx, o.Args, func(name string, r io.Reader) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		n := [4]int{bytes.Count(data, []byte("\n")), len(bytes.Fields(data)), utf8.RuneCount(data), len(data)}
		for i := range total {
			total[i] += n[i]
		}
		files++
		if len(o.Args) == 0 {
			name = ""
		}
		show(n, name)
		return nil
	})
	if len(o.Args) > 1 {
		show(total, "total")
	}
	return code
}
