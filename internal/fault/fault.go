// Package fault is the one error type of gsrun and the kinds that decide what
// happens next: whether an operation is tried again, which exit code the
// process ends with, and which condition a Job reports.
package fault

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Kind says what sort of failure an error is.
type Kind string

// The kinds. A recipe sees the text as `error.kind`.
const (
	Invalid     Kind = "invalid"     // an argument, recipe or file is wrong; nothing was touched
	NotFound    Kind = "not_found"   // what was named isn't there
	Exists      Kind = "exists"      // the name is taken by something that isn't ours
	Conflict    Kind = "conflict"    // the target's state forbids it now: in use, being changed
	Denied      Kind = "denied"      // credentials or rights don't suffice
	Quota       Kind = "quota"       // a limit of the project or of the cloud's capacity
	Unreachable Kind = "unreachable" // no connection could be made, or it broke
	Unavailable Kind = "unavailable" // the service answers that it can't serve now: 429, 5xx
	Timeout     Kind = "timeout"     // a deadline passed
	Failed      Kind = "failed"      // it was done, and it failed: an exit status, a server in ERROR
	Untrusted   Kind = "untrusted"   // a host key, digest, signature or certificate doesn't match
	Cancelled   Kind = "cancelled"   // somebody asked to stop
	Limit       Kind = "limit"       // a resource limit of the engine: steps, recursion, output, the disk of its journal
	Deferred    Kind = "deferred"    // a plan met a decision on a value not yet known
	Drift       Kind = "drift"       // the world isn't as the plan being applied says
	Locked      Kind = "locked"      // another run holds the lock, or took it over
	Internal    Kind = "internal"    // a defect of gsrun
)

// Kinds lists every kind, in the order above.
func Kinds() []Kind {
	return []Kind{Invalid, NotFound, Exists, Conflict, Denied, Quota, Unreachable, Unavailable, Timeout,
		Failed, Untrusted, Cancelled, Limit, Deferred, Drift, Locked, Internal}
}

// Retryable reports whether the same operation may succeed if it is simply
// tried again.
func (k Kind) Retryable() bool {
	switch k {
	case Conflict, Unreachable, Unavailable:
		return true
	}
	return false
}

// ExitCode returns the process exit code for a run that ended with an error of
// kind k: 3 for input that was refused before anything was touched, 4 for
// missing rights or trust, 5 for a peer that can't be reached or a deadline, 6
// for a lock, 7 for drift, 130 for an interruption, and 1 for all else.
func (k Kind) ExitCode() int {
	switch k {
	case Invalid, Limit:
		return 3
	case Denied, Untrusted, Quota:
		return 4
	case Unreachable, Unavailable, Timeout:
		return 5
	case Locked:
		return 6
	case Drift:
		return 7
	case Cancelled:
		return 130
	}
	return 1
}

// An Error is a failure of one operation on one target.
type Error struct {
	Op     string // what was being done, a gerund: "creating network"
	Target string // what it was done to: "openstack/network/mgmt"
	Kind   Kind
	Hint   string        // what the reader could do about it; may be empty
	After  time.Duration // the peer asked not to be called again earlier (Retry-After); 0 if it didn't
	Err    error         // the cause
}

func (e *Error) Error() string {
	s := e.Op
	if e.Target != "" {
		if s != "" {
			s += " "
		}
		s += e.Target
	}
	if e.Err != nil {
		if s != "" {
			s += ": "
		}
		s += e.Err.Error()
	}
	if s == "" {
		s = string(e.Kind)
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// New returns an Error of kind k whose cause is the formatted text.
func New(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, Err: fmt.Errorf(format, args...)}
}

// Hinted returns an Error as New does, with a hint.
func Hinted(k Kind, hint, format string, args ...any) *Error {
	e := New(k, format, args...)
	e.Hint = hint
	return e
}

// Wrap returns err as a failure of op on target. The kind is that of err, or
// Internal if err has none. It returns nil for nil.
func Wrap(op, target string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Target: target, Kind: KindOf(err), Err: err}
}

// KindOf returns the kind of err: that of the outermost Error in its chain,
// Cancelled or Timeout for the two errors of context, Internal for others. It
// returns "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) && e.Kind != "" {
		return e.Kind
	}
	switch {
	case errors.Is(err, context.Canceled):
		return Cancelled
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	}
	return Internal
}

// HintOf returns the first hint in the chain of err, or "".
func HintOf(err error) string {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return ""
		}
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Err
	}
	return ""
}

// AfterOf returns how long the peer asked to wait before another try, or 0.
func AfterOf(err error) time.Duration {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return 0
		}
		if e.After > 0 {
			return e.After
		}
		err = e.Err
	}
	return 0
}

// FromContext returns the error of a context that ended, as an Error: Timeout
// if its deadline passed, else Cancelled. It returns nil while ctx lives. A
// cause given to the cancellation is kept.
func FromContext(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	cause := context.Cause(ctx)
	var e *Error
	if errors.As(cause, &e) {
		return e
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &Error{Kind: Timeout, Err: cause}
	}
	return &Error{Kind: Cancelled, Err: cause}
}
