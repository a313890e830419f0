package view

import (
	"errors"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/dialect"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// plainSecret is what no output may ever hold, nor any form of it.
const plainSecret = "hunter2-0123456789"

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// script gives events times that go on.
type script struct {
	at     time.Time
	events []effect.Event
}

func (s *script) add(after time.Duration, e effect.Event) {
	if s.at.IsZero() {
		s.at = epoch
	}
	s.at = s.at.Add(after)
	e.Time = s.at
	s.events = append(s.events, e)
}

// place returns a fault that is at a line of a recipe.
func place(file string, line int32, err *fault.Error) error {
	err.Err = &dialect.PosError{Pos: syntax.MakePosition(&file, line, 5), Msg: err.Err.Error()}
	return err
}

// evil is text from outside that would like to own the terminal.
const evil = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\u009b31m\r\x00\x7f"

func secret() *effect.Secret { return effect.SecretOf(plainSecret, "env:X") }

// aRun is a run in which everything happens.
func aRun() []effect.Event {
	var s script
	ms := time.Millisecond
	s.add(0, effect.Event{Kind: effect.StepStart, Step: "gateway", Message: "The gateway."})
	s.add(0, effect.Event{Kind: effect.StepStart, Step: "gateway/network", Message: "Create the management network."})
	s.add(0, effect.Event{Kind: effect.StepStart, Step: "audit", Message: "Tell the inventory."})
	s.add(0, effect.Event{Kind: effect.StepSkip, Step: "audit"})
	create := &effect.Change{Kind: effect.Create, Fields: []effect.Field{{Path: "cidr", New: "10.20.0.0/24"}},
		After: map[string]any{"id": effect.Unknown{Of: "openstack/lab/network/oslab-mgmt id"}, "mtu": 1450}}
	s.add(10*ms, effect.Event{Kind: effect.OpStart, Step: "gateway/network", Target: "openstack/lab/network/oslab-mgmt", Change: create, Pos: "recipes/gateway.star:8"})
	s.add(400*ms, effect.Event{Kind: effect.OpEnd, Step: "gateway/network", Target: "openstack/lab/network/oslab-mgmt", Change: create, Elapsed: 410 * ms, Pos: "recipes/gateway.star:8"})
	none := effect.Unchanged()
	s.add(100*ms, effect.Event{Kind: effect.OpEnd, Step: "gateway/network", Target: "openstack/lab/subnet/oslab-mgmt", Change: &none, Elapsed: 90 * ms})
	s.add(0, effect.Event{Kind: effect.StepEnd, Step: "gateway/network", Elapsed: 510 * ms})
	s.add(0, effect.Event{Kind: effect.StepStart, Step: "gateway/server"})
	for i := range 12 {
		s.add(time.Second, effect.Event{Kind: effect.Progress, Step: "gateway/server", Message: "image: " + string(rune('a'+i))})
	}
	s.add(time.Second, effect.Event{Kind: effect.Waiting, Step: "gateway/server", Target: "openstack/lab/server/gw", Message: "the server: status BUILD", Elapsed: time.Second})
	s.add(time.Second, effect.Event{Kind: effect.Waiting, Step: "gateway/server", Target: "openstack/lab/server/gw", Message: "the server: status BUILD", Elapsed: 2 * time.Second})
	s.add(time.Second, effect.Event{Kind: effect.Waiting, Step: "gateway/server", Target: "openstack/lab/server/gw", Message: "the server: status ACTIVE", Elapsed: 3 * time.Second})
	s.add(0, effect.Event{Kind: effect.Log, Step: "gateway/server", Message: "two\nlines" + evil})
	s.add(0, effect.Event{Kind: effect.StepEnd, Step: "gateway/server", Elapsed: 15 * time.Second})
	s.add(0, effect.Event{Kind: effect.StepStart, Step: "gateway/nodes"})
	update := &effect.Change{Kind: effect.Update, Fields: []effect.Field{
		{Path: "mode", Old: "0644", New: "0600"},
		{Path: "password", Old: plainSecret + "-old", New: secret()},
		{Path: "vars", Old: map[string]any{"a": []any{plainSecret}}, New: map[string]any{"a": []any{secret(), "x"}}},
	}, Note: "note" + evil}
	s.add(0, effect.Event{Kind: effect.OpStart, Step: "gateway/nodes[1]", Target: "ssh/gw/file/etc/nftables.conf", Change: update})
	s.add(0, effect.Event{Kind: effect.OpRetry, Step: "gateway/nodes[1]", Target: "ssh/gw/file/etc/nftables.conf", Try: 1, Err: fault.New(fault.Unreachable, "connection refused")})
	s.add(time.Second, effect.Event{Kind: effect.OpEnd, Step: "gateway/nodes[1]", Target: "ssh/gw/file/etc/nftables.conf", Change: update, Elapsed: time.Second})
	run := &effect.Change{Kind: effect.Run, After: map[string]any{"stdout": effect.Unknown{Of: "ssh/gw/run stdout"}}, Note: "at least once"}
	opErr := &fault.Error{Target: "ssh/gw/run/kubeadm init", Kind: fault.Failed, Hint: "look at its output", Err: errors.New("exit status 1: no" + evil)}
	s.add(0, effect.Event{Kind: effect.OpStart, Step: "gateway/nodes[0]", Target: "ssh/gw/run/kubeadm init", Change: run})
	s.add(3*time.Second, effect.Event{Kind: effect.OpEnd, Step: "gateway/nodes[0]", Target: "ssh/gw/run/kubeadm init", Change: run, Err: opErr, Elapsed: 3 * time.Second})
	stepErr := &runtime.StepError{Step: "gateway/nodes", Err: &fault.Error{Op: "item 0", Kind: fault.Failed, Err: opErr}}
	s.add(0, effect.Event{Kind: effect.StepEnd, Step: "gateway/nodes", Err: stepErr, Elapsed: 4 * time.Second})
	s.add(0, effect.Event{Kind: effect.StepEnd, Step: "gateway", Err: stepErr, Elapsed: 20 * time.Second})
	s.add(0, effect.Event{Kind: effect.StepStart, Step: "wide"})
	s.add(0, effect.Event{Kind: effect.StepEnd, Step: "wide", Err: &runtime.StepError{Step: "wide", Err: fault.New(fault.Cancelled, "the context ended")}, Elapsed: 75 * time.Second})
	return s.events
}

// aPlanRun is a plan as events.
func aPlanRun() []effect.Event {
	var s script
	for _, c := range aPlan().Changes {
		s.add(0, effect.Event{Kind: effect.OpPlan, Step: c.Step, Target: c.Target.String(), Change: &c.Change, Pos: c.Pos})
	}
	for _, st := range aPlan().Steps {
		if st.Status == runtime.Deferred {
			s.add(0, effect.Event{Kind: effect.Deferred, Step: st.Path, Err: st.Err})
		} else {
			s.add(0, effect.Event{Kind: effect.StepEnd, Step: st.Path, Elapsed: st.Elapsed})
		}
	}
	return s.events
}

func aPlan() PlanData {
	unknown := func(of string) effect.Unknown { return effect.Unknown{Of: of} }
	net := effect.Target{Scope: "openstack/lab", Kind: "network", Name: "oslab-mgmt"}
	old := "flush ruleset\ntable ip nat {\n\tchain post {\n\t\tmasquerade\n\t}\n}\n# a\n# b\n# c\n# d\n# e\n# f\n# g\n# h\nlast"
	return PlanData{
		Recipe: "bootstrap",
		Order:  []string{"gateway", "gateway/network", "gateway/nat"},
		Changes: []effect.Planned{
			{Step: "gateway/nat", Target: effect.Target{Scope: "ssh/gw", Kind: "file", Name: "/etc/nftables.conf"}, Pos: "recipes/gateway.star:30", Change: effect.Change{
				Kind: effect.Update, Fields: []effect.Field{
					{Path: "content", Old: old, New: "flush ruleset\ntable ip nat {\n\tchain post {\n\t\toif eth0 masquerade\n    }\n}\n# a\n# b\n# c\n# d\n# e\n# f\n# g\n# h\nlast\n" + evil},
					{Path: "mode", Old: "0644", New: "0600"},
					{Path: "owner", Old: nil, New: "root"},
					{Path: "group", Old: "x", New: nil},
					{Path: "size", Old: "12", New: int64(12)},
					{Path: "token", Old: "plain " + plainSecret, New: secret()},
					{Path: "masked", Old: effect.Mask, New: effect.Mask},
					{Path: "env", Old: map[string]any{"A": "1", "B": plainSecret, "C": "keep"}, New: map[string]any{"A": "2", "B": secret(), "C": "keep", "D": unknown("x")}},
					{Path: "list", Old: []any{"a", plainSecret}, New: []any{secret(), "b", "c"}},
					{Path: "tags", Old: []any{"a", "b"}, New: []any{"a", "b", "c", int64(3), true, nil, "3"}},
					{Path: "rules", Old: []any{map[string]any{"port": 22, "cidr": "0.0.0.0/0"}}, New: []any{map[string]any{"port": 22, "cidr": "10.0.0.0/8"}, map[string]any{"port": 443, "cidr": "0.0.0.0/0"}}},
				}}},
			{Step: "gateway/network", Target: net, Pos: "recipes/gateway.star:8", Change: effect.Change{Kind: effect.Create,
				Fields: []effect.Field{{Path: "cidr", New: "10.20.0.0/24"}, {Path: "router_id", New: unknown("router id")}},
				After: map[string]any{"id": unknown("id"), "status": unknown("status"), "mtu": int64(1450), "name": "oslab-mgmt", "mark": "gsrun:x",
					"tags": []any{}, "description": "", "shared": false, "dns": []any{"1.1.1.1", "9.9.9.9"},
					"key": secret(), "user_data": "#cloud-config\nusers:\n\t- name: x\n", "labels": map[string]any{"app": "x", "deep": map[string]any{"list": []any{map[string]any{"a": 1, "b": "yes"}}}}}}},
			{Step: "gateway/network", Target: effect.Target{Scope: "openstack/lab", Kind: "port", Name: "p"}, Change: effect.Change{Kind: effect.Replace, Note: "network can't be changed",
				Fields: []effect.Field{{Path: "network", Old: "net-1", New: unknown("net id")}}}},
			{Step: "seed", Target: effect.Target{Scope: "ssh/gw", Kind: "run", Name: "kubeadm init" + evil}, Change: effect.Change{Kind: effect.Run, Note: "at least once"}},
			{Step: "seed", Target: effect.Target{Scope: "kube/seed", Unknown: true}, Change: effect.Change{Kind: effect.Later}},
			{Step: "nodes[10]", Target: effect.Target{Scope: "ssh/gw", Kind: "file", Name: "/b"}, Change: effect.Change{Kind: effect.Delete, Fields: []effect.Field{{Path: "id", Old: "abc"}}}},
			{Step: "nodes[2]", Target: effect.Target{Scope: "ssh/gw", Kind: "file", Name: "/a"}, Change: effect.Change{Kind: effect.Delete}},
		},
		Steps: []runtime.StepResult{
			{Path: "gateway/nat", Status: runtime.OK}, {Path: "gateway/network", Status: runtime.OK}, {Path: "gateway", Status: runtime.OK},
			{Path: "seed", Status: runtime.Deferred, Err: &runtime.StepError{Step: "seed",
				Err: place("recipes/seed.star", 42, fault.Hinted(fault.Deferred, "apply first", "the server's address is not known before it is applied, and is compared here"))}},
			{Path: "unchanged", Status: runtime.OK},
		},
		Stops: []Stop{{Step: "nodes[2]", Err: fault.New(fault.Deferred, "x is not known"), Pos: "recipes/n.star:7"}},
	}
}

func outputs() starlark.Value {
	return effect.NewStruct(starlark.StringDict{
		"public_ip":  starlark.String("127.77.0.11"),
		"kubeconfig": secret(),
		"later":      effect.Unknown{Of: "server address"},
		"nodes":      starlark.NewList([]starlark.Value{starlark.String("a"), starlark.MakeInt(3)}),
		"text":       starlark.String("two\nlines" + evil),
		"none":       starlark.None,
	})
}
