package effect

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Memory keeps what a run got from the clock or by chance, so that a run that
// goes on from another, or does what a plan said, gets the same. Its methods
// may be called by several goroutines at once.
type Memory interface {
	// Recall returns what was kept under key, and whether there is anything.
	Recall(key string) (value string, found bool)
	// Keep keeps a value. It needn't be durable before the next change is.
	Keep(key, value string) error
}

// Once returns what get returns, or what it did at the same place of the run
// that this one goes on from: the place is the step, the item, and how manieth
// call for the same thing it is there.
func Once(ctx context.Context, what string, get func() (string, error)) (string, error) {
	s := From(ctx)
	if s == nil || s.Door.Memory == nil {
		return get()
	}
	key := s.place(what)
	if v, ok := s.Door.Memory.Recall(key); ok {
		return v, nil
	}
	v, err := get()
	if err != nil {
		return "", err
	}
	return v, s.Door.Memory.Keep(key, v)
}

// Now returns the time that it is for the step that ctx belongs to.
func Now(ctx context.Context) (time.Time, error) {
	var clock Clock = SystemClock{}
	if s := From(ctx); s != nil && s.Door.Clock != nil {
		clock = s.Door.Clock
	}
	text, err := Once(ctx, "time", func() (string, error) { return clock.Now().UTC().Format(time.RFC3339Nano), nil })
	if err != nil {
		return time.Time{}, err
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, &fault.Error{Op: "reading", Target: "a kept time", Kind: fault.Invalid, Err: err}
	}
	return t, nil
}

// Branch returns a context for one of several calls that a step makes at the
// same time: what each of them gets from the clock is told apart by its number.
func Branch(ctx context.Context, n int) context.Context {
	s := From(ctx)
	if s == nil {
		return ctx
	}
	b := *s
	b.branch += "." + strconv.Itoa(n)
	return With(ctx, &b)
}

// place returns the key of the next call for what.
func (s *Scope) place(what string) string {
	key := s.Step + s.branch + " " + what
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.calls[key]
	s.calls[key] = n + 1
	return fmt.Sprintf("%s %d", key, n)
}
