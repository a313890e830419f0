package coreutils

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// A finder is one run of find.
type finder struct {
	ctx  context.Context
	p    *machine.Proc
	min  int
	max  int
	test func(name string, info *tree.Info) (match, prune bool)
	deep bool
	code int
}

func find(ctx context.Context, p *machine.Proc) int {
	args := p.Args[1:]
	for len(args) > 0 && (args[0] == "-L" || args[0] == "-P" || args[0] == "-H") {
		args = args[1:]
	}
	var roots []string
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") && args[0] != "(" && args[0] != "!" {
		roots = append(roots, args[0])
		args = args[1:]
	}
	if len(roots) == 0 {
		roots = []string{"."}
	}
	f := &finder{ctx: ctx, p: p, max: 1 << 30}
	e := &findExpr{f: f, args: args}
	test, err := e.or()
	if err == nil && len(e.args) > 0 {
		err = fmt.Errorf("paths must precede expression: `%s'", e.args[0])
	}
	if err != nil {
		return p.Fail(1, "%v", err)
	}
	if !e.acts {
		inner := test
		test = func(name string, info *tree.Info) (bool, bool) {
			ok, prune := inner(name, info)
			if ok {
				p.Printf("%s\n", name)
			}
			return ok, prune
		}
	}
	f.test = test
	for _, root := range roots {
		info, err := p.Machine.FS.Stat(p.Cred, p.Abs(root), false)
		if err != nil {
			f.code = p.Fail(1, "'%s': %s", root, machine.Strerror(err))
			continue
		}
		f.visit(root, info, 0)
	}
	return f.code
}

func (f *finder) visit(name string, info *tree.Info, depth int) {
	if f.ctx.Err() != nil || f.p.Broken() {
		return
	}
	prune := false
	if depth >= f.min && !f.deep {
		_, prune = f.test(name, info)
	}
	if info.IsDir() && depth < f.max && !prune {
		kids, err := f.p.Machine.FS.ReadDir(f.p.Cred, f.p.Abs(name))
		if err != nil {
			f.code = f.p.Fail(1, "'%s': %s", name, machine.Strerror(err))
		}
		for _, kid := range kids {
			f.visit(strings.TrimRight(name, "/")+"/"+kid.Name(), kid, depth+1)
		}
	}
	if depth >= f.min && f.deep {
		f.test(name, info)
	}
}

type findTest = func(name string, info *tree.Info) (match, prune bool)

type findExpr struct {
	f    *finder
	args []string
	acts bool
}

func (e *findExpr) peek() string {
	if len(e.args) == 0 {
		return ""
	}
	return e.args[0]
}

func (e *findExpr) or() (findTest, error) {
	left, err := e.and()
	for err == nil && (e.peek() == "-o" || e.peek() == "-or") {
		e.args = e.args[1:]
		var right findTest
		if right, err = e.and(); err == nil {
			l := left
			left = func(name string, info *tree.Info) (bool, bool) {
				ok, prune := l(name, info)
				if ok {
					return true, prune
				}
				ok, again := right(name, info)
				return ok, prune || again
			}
		}
	}
	return left, err
}

func (e *findExpr) and() (findTest, error) {
	left := findTest(func(string, *tree.Info) (bool, bool) { return true, false })
	for len(e.args) > 0 && e.peek() != ")" && e.peek() != "-o" && e.peek() != "-or" {
		if e.peek() == "-a" || e.peek() == "-and" {
			e.args = e.args[1:]
			continue
		}
		right, err := e.primary()
		if err != nil {
			return nil, err
		}
		l := left
		left = func(name string, info *tree.Info) (bool, bool) {
			ok, prune := l(name, info)
			if !ok {
				return false, prune
			}
			ok, again := right(name, info)
			return ok, prune || again
		}
	}
	return left, nil
}

func plain(test func(name string, info *tree.Info) bool) findTest {
	return func(name string, info *tree.Info) (bool, bool) { return test(name, info), false }
}

func (e *findExpr) primary() (findTest, error) {
	p := e.f.p
	op := e.args[0]
	e.args = e.args[1:]
	value := func() (string, error) {
		if len(e.args) == 0 {
			return "", fmt.Errorf("missing argument to `%s'", op)
		}
		v := e.args[0]
		e.args = e.args[1:]
		return v, nil
	}
	yes := plain(func(string, *tree.Info) bool { return true })
	switch op {
	case "!", "-not":
		if len(e.args) == 0 {
			return nil, fmt.Errorf("expected an expression after `%s'", op)
		}
		inner, err := e.primary()
		return func(name string, info *tree.Info) (bool, bool) {
			ok, prune := inner(name, info)
			return !ok, prune
		}, err
	case "(":
		inner, err := e.or()
		if err == nil && e.peek() != ")" {
			err = fmt.Errorf("invalid expression; expected to find a ')' but didn't see one")
		}
		if err == nil {
			e.args = e.args[1:]
		}
		return inner, err
	case "-print":
		e.acts = true
		return plain(func(name string, _ *tree.Info) bool { p.Printf("%s\n", name); return true }), nil
	case "-print0":
		e.acts = true
		return plain(func(name string, _ *tree.Info) bool { p.Printf("%s\x00", name); return true }), nil
	case "-printf":
		format, err := value()
		e.acts = true
		return plain(func(name string, info *tree.Info) bool {
			text := strings.NewReplacer("%p", name, "%f", path.Base(name), "%m", fmt.Sprintf("%o", tree.UnixMode(info.Mode())&0o7777),
				"%u", p.Machine.UserName(info.UID()), "%g", p.Machine.GroupName(info.GID()), "%s", strconv.FormatInt(info.Size(), 10),
				"%T@", strconv.FormatInt(info.ModTime().Unix(), 10), "%y", modeText(info.Mode())[:1]).Replace(format)
			p.Printf("%s", unescape(text))
			return true
		}), err
	case "-delete":
		e.acts, e.f.deep = true, true
		return plain(func(name string, _ *tree.Info) bool {
			if err := p.Machine.FS.Remove(p.Cred, p.Abs(name)); err != nil {
				e.f.code = p.Fail(1, "cannot delete '%s': %s", name, machine.Strerror(err))
				return false
			}
			return true
		}), nil
	case "-prune":
		return func(string, *tree.Info) (bool, bool) { return true, true }, nil
	case "-quit", "-xdev", "-mount":
		return yes, nil
	case "-depth":
		e.f.deep = true
		return yes, nil
	case "-empty":
		return plain(func(name string, info *tree.Info) bool {
			if info.IsDir() {
				kids, err := p.Machine.FS.ReadDir(p.Cred, p.Abs(name))
				return err == nil && len(kids) == 0
			}
			return info.Mode().IsRegular() && info.Size() == 0
		}), nil
	case "-exec":
		return e.exec()
	case "-true":
		return yes, nil
	}
	v, err := value()
	if err != nil && !slices.Contains([]string{"-name", "-iname", "-path", "-type", "-mindepth", "-maxdepth", "-user", "-group", "-perm", "-size", "-newer", "-mtime", "-mmin"}, op) {
		return nil, fmt.Errorf("unknown predicate `%s'", op)
	}
	if err != nil {
		return nil, err
	}
	return e.valued(op, v)
}

func (e *findExpr) valued(op, v string) (findTest, error) {
	p := e.f.p
	number := func() (int, int, error) {
		sign := 0
		switch {
		case strings.HasPrefix(v, "+"):
			sign = 1
		case strings.HasPrefix(v, "-"):
			sign = -1
		}
		n, err := strconv.Atoi(strings.TrimRight(strings.TrimLeft(v, "+-"), "ckMGb"))
		return n, sign, err
	}
	compare := func(have, want, sign int) bool {
		return sign == 0 && have == want || sign > 0 && have > want || sign < 0 && have < want
	}
	switch op {
	case "-name", "-iname", "-path", "-wholename":
		if _, err := path.Match(v, ""); err != nil {
			return nil, fmt.Errorf("bad pattern '%s'", v)
		}
		return plain(func(name string, _ *tree.Info) bool {
			pattern := v
			switch op {
			case "-name":
				name = path.Base(name)
			case "-iname":
				name, pattern = strings.ToLower(path.Base(name)), strings.ToLower(pattern)
			default:
				// Here, * matches slashes too.
				name, pattern = strings.ReplaceAll(name, "/", "\x01"), strings.ReplaceAll(pattern, "/", "\x01")
			}
			ok, _ := path.Match(pattern, name) // checked above
			return ok
		}), nil
	case "-type":
		return plain(func(_ string, info *tree.Info) bool {
			kind := modeText(info.Mode())[:1]
			if kind == "-" {
				kind = "f"
			}
			return strings.Contains(v, kind)
		}), nil
	case "-mindepth", "-maxdepth":
		n, _, err := number()
		if err != nil {
			return nil, fmt.Errorf("Expected a positive decimal integer argument to %s, but got '%s'", op, v)
		}
		if op == "-mindepth" {
			e.f.min = n
		} else {
			e.f.max = n
		}
		return plain(func(string, *tree.Info) bool { return true }), nil
	case "-user":
		return plain(func(_ string, info *tree.Info) bool {
			return p.Machine.UserName(info.UID()) == v || strconv.Itoa(info.UID()) == v
		}), nil
	case "-group":
		return plain(func(_ string, info *tree.Info) bool {
			return p.Machine.GroupName(info.GID()) == v || strconv.Itoa(info.GID()) == v
		}), nil
	case "-perm":
		mode, ok := machine.ParseMode(strings.TrimLeft(v, "-/"), 0, false)
		if !ok {
			return nil, fmt.Errorf("invalid mode '%s'", v)
		}
		return plain(func(_ string, info *tree.Info) bool {
			have := info.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
			switch v[0] {
			case '-':
				return have&mode == mode
			case '/':
				return have&mode != 0 || mode == 0
			}
			return have == mode
		}), nil
	case "-size":
		n, sign, err := number()
		if err != nil {
			return nil, fmt.Errorf("Invalid argument '%s' to -size", v)
		}
		unit := map[byte]int64{'c': 1, 'k': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}[v[len(v)-1]]
		if unit == 0 {
			unit = 512
		}
		return plain(func(_ string, info *tree.Info) bool { return compare(int((info.Size()+unit-1)/unit), n, sign) }), nil
	case "-newer":
		ref, err := p.Machine.FS.Stat(p.Cred, p.Abs(v), true)
		if err != nil {
			return nil, fmt.Errorf("'%s': %s", v, machine.Strerror(err))
		}
		return plain(func(_ string, info *tree.Info) bool { return info.ModTime().After(ref.ModTime()) }), nil
	case "-mtime", "-mmin":
		n, sign, err := number()
		if err != nil {
			return nil, fmt.Errorf("invalid argument `%s' to `%s'", v, op)
		}
		unit := 24 * time.Hour
		if op == "-mmin" {
			unit = time.Minute
		}
		now := p.Machine.Clock.Now()
		return plain(func(_ string, info *tree.Info) bool { return compare(int(now.Sub(info.ModTime())/unit), n, sign) }), nil
	}
	return nil, fmt.Errorf("unknown predicate `%s'", op)
}

// exec reads the command of -exec up to ; or +. With +, the command is run
// once per file as well: what it does is the same.
func (e *findExpr) exec() (findTest, error) {
	end := slices.IndexFunc(e.args, func(a string) bool { return a == ";" || a == "+" })
	if end < 1 {
		return nil, fmt.Errorf("missing argument to `-exec'")
	}
	command := slices.Clone(e.args[:end])
	e.args = e.args[end+1:]
	e.acts = true
	p := e.f.p
	return plain(func(name string, _ *tree.Info) bool {
		args := make([]string, len(command))
		for i, a := range command {
			args[i] = strings.ReplaceAll(a, "{}", name)
		}
		code, err := p.Run(e.f.ctx, machine.Cmd{Args: args})
		if err != nil {
			e.f.code = p.Fail(1, "'%s': %v", args[0], syscall.ENOENT)
			return false
		}
		return code == 0
	}), nil
}
