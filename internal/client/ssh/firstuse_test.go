package ssh_test

import (
	"context"
	"sync"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A note is a memory of one key.
type note struct {
	mu     sync.Mutex
	line   string
	before string // what somebody else keeps before this one does
	err    error
}

func (n *note) Known(context.Context) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.line, nil
}

func (n *note) Keep(_ context.Context, line string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.line = line; n.before != "" {
		n.line = n.before
	}
	return n.line, n.err
}

func (n *note) Forget() string { return "tear the note" }

func TestFirstUse(t *testing.T) {
	d, cfg := daemon(t)
	n := new(note)
	cfg.HostKeys, cfg.FirstUse = nil, n
	c := connect(t, cfg)
	if err := c.Connect(bounded(t)); err != nil || n.line != d.HostKey {
		t.Fatalf("kept %q: %v", n.line, err)
	}
	if err := connect(t, cfg).Connect(bounded(t)); err != nil {
		t.Error(err)
	}
	other := sshtest.NewKey(t, sshtest.Ed25519, "").Public
	n.line = other
	want(t, connect(t, cfg).Connect(bounded(t)), fault.Untrusted, "doesn't match", "tear the note", "somebody else")
	n.line = sshtest.NewKey(t, sshtest.RSA, "").Public
	want(t, connect(t, cfg).Connect(bounded(t)), fault.Untrusted, "no key of the known types", "tear the note")
	n.line, n.before = "", other // at the same time
	want(t, connect(t, cfg).Connect(bounded(t)), fault.Untrusted, "doesn't match", "tear the note")
	n.line, n.err = "", fault.New(fault.Failed, "the disk is full")
	want(t, connect(t, cfg).Connect(bounded(t)), fault.Failed, "the disk is full")
}
