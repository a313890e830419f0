package coreutils

import (
	"context"
	"errors"
	"path"
	"strconv"
	"strings"
	"syscall"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

func ps(_ context.Context, p *machine.Proc) int {
	show := func(q *machine.Proc) {
		if strings.Contains(strings.Join(p.Args, " "), "-o") {
			p.Printf("%5d %s\n", q.PID, strings.Join(q.Title(), " "))
			return
		}
		p.Printf("%-8s %5d %5d ? 00:00:00 %s\n", q.User, q.PID, q.Parent, strings.Join(q.Title(), " "))
	}
	p.Printf("%-8s %5s %5s TTY TIME CMD\n", "UID", "PID", "PPID")
	want := ""
	for i, a := range p.Args {
		if a == "-p" && i+1 < len(p.Args) {
			want = p.Args[i+1]
		}
	}
	found := want == ""
	for _, q := range p.Machine.Procs() {
		if want == "" || strconv.Itoa(q.PID) == want {
			show(q)
			found = true
		}
	}
	if !found {
		return 1
	}
	return 0
}

func pgrep(_ context.Context, p *machine.Proc) int {
	o := p.Options("f|full x|exact u|euid: n o l a c 9 signal: e")
	if o == nil || len(o.Args) != 1 {
		return 2
	}
	pattern := o.Args[0]
	sig := machine.Signal(syscall.SIGTERM)
	if o.Has("9") {
		sig = machine.Signal(syscall.SIGKILL)
	}
	if o.Has("signal") {
		s, ok := machine.ParseSignal(o.Get("signal"))
		if !ok {
			return p.Fail(2, "invalid signal %s", o.Get("signal"))
		}
		sig = s
	}
	found := 0
	for _, q := range p.Machine.Procs() {
		name := path.Base(q.Title()[0])
		if o.Has("f") {
			name = strings.Join(q.Title(), " ")
		}
		if q == p || q.PID == p.PID || o.Has("x") && name != pattern || !strings.Contains(name, pattern) {
			continue
		}
		found++
		if p.Name() == "pkill" {
			// It may have ended by itself in the meantime.
			if err := p.Machine.Kill(p.Cred, q.PID, sig); errors.Is(err, syscall.EPERM) {
				p.Fail(1, "killing pid %d failed: %s", q.PID, machine.Strerror(err))
			}
			continue
		}
		if !o.Has("c") {
			p.Printf("%d\n", q.PID)
		}
	}
	if o.Has("c") {
		p.Printf("%d\n", found)
	}
	if found == 0 {
		return 1
	}
	return 0
}

func which(_ context.Context, p *machine.Proc) int {
	code := 0
	for _, name := range p.Args[1:] {
		file, err := p.Machine.Find(p.Cred, p.Dir, p.Getenv("PATH"), name)
		if err != nil {
			code = 1
			continue
		}
		p.Printf("%s\n", file)
	}
	return code
}
