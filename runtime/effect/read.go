package effect

import (
	"context"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Query is a read of the outside world.
type Query struct {
	Target Target
	// Scope is the part of the world that the answer depends on, as a prefix
	// of targets: "ssh/gw", "kube/seed", "openstack/lab/network". A planned
	// change in it makes the answer Unknown.
	Scope string
	// Absent makes an answer of "not found" the result None.
	Absent bool
}

// Read asks the outside world through the door: with its deadlines and
// retries. The result is what ask returns; in a plan it is Unknown where the
// answer depends on a change that is only planned.
func Read[T any](ctx context.Context, q Query, ask func(context.Context) (T, error)) (any, error) {
	s := From(ctx)
	if s == nil {
		return nil, fault.Hinted(fault.Invalid, "move it into a step", "%s was read outside a step", q.Target)
	}
	d := s.Door
	if d.Mode == Plan && (q.Target.Unknown || q.Scope != "" && s.isPending(q.Scope)) {
		doubt(ctx)
		return Unknown{Of: q.Target.String()}, nil
	}
	var last error
	for try := 1; ; try++ {
		v, err := ask(ctx)
		if err == nil {
			return v, nil
		}
		if q.Absent && fault.KindOf(err) == fault.NotFound {
			return nil, nil
		}
		if ctxErr := fault.FromContext(ctx); ctxErr != nil {
			err = interrupted(ctxErr, last, err)
		} else if fault.KindOf(err).Retryable() && try < d.tries() {
			last = err
			d.emit(s, Event{Kind: OpRetry, Target: q.Target.String(), Err: err, Try: try})
			if d.Clock.Sleep(ctx, d.pause(try, fault.AfterOf(err))) == nil {
				continue
			}
			err = interrupted(fault.FromContext(ctx), last, err)
		}
		return nil, fault.Wrap("reading", q.Target.String(), err)
	}
}

// DoLater plans a change whose target depends on a value that isn't known yet.
// The result is Unknown. reach says which targets that may be (see
// Change.Reach); nothing means those of the target's name, or of its scope if
// it has no kind.
func DoLater(ctx context.Context, t Target, reach ...string) (State, error) {
	return Do(ctx, later{t, reach})
}

type later struct {
	t     Target
	reach []string
}

func (l later) Target() Target {
	t := l.t
	t.Unknown = true
	return t
}

func (later) Observe(context.Context) (State, error)       { return State{}, nil }
func (later) Diff(State) (Change, error)                   { return Unchanged(), nil }
func (later) Apply(context.Context, Change) (State, error) { return State{}, nil }

// A Wait is a condition to wait for.
type Wait struct {
	Query
	For      string        // what is waited for, for people: "SSH on 203.0.113.7"
	Timeout  time.Duration // 0 means 10 minutes
	Interval time.Duration // the pause between checks, shorter at first; 0 means 1 s
}

// A Poll is one look at what is waited for.
type Poll struct {
	Done  bool
	Value any    // the result, once done
	Seen  string // what was seen, for progress and for the error: "phase Provisioning"
}

// Await looks until the condition holds. A look that fails with an error of a
// kind that may pass is one that isn't done yet. When the time is up, the
// error says what was waited for, how long, and what was seen last. A plan
// looks once and returns Unknown if the condition doesn't hold.
func Await(ctx context.Context, w Wait, look func(context.Context) (Poll, error)) (any, error) {
	s := From(ctx)
	if s == nil {
		return nil, fault.Hinted(fault.Invalid, "move it into a step", "waiting for %s outside a step", w.For)
	}
	d := s.Door
	if d.Mode == Plan && (w.Target.Unknown || w.Scope != "" && s.isPending(w.Scope)) {
		doubt(ctx)
		return Unknown{Of: w.For}, nil
	}
	timeout, interval := w.Timeout, w.Interval
	if timeout == 0 {
		timeout = 10 * time.Minute
	}
	if interval == 0 {
		interval = time.Second
	}
	start := d.Clock.Now()
	pause := interval / 8
	seen := "nothing yet"
	var last error
	wctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		p, err := look(wctx)
		switch {
		case err == nil && p.Done:
			return p.Value, nil
		case err == nil:
			last = nil
			if p.Seen != "" && p.Seen != seen {
				seen = p.Seen
				d.emit(s, Event{Kind: Waiting, Target: w.Target.String(), Message: w.For + ": " + seen, Elapsed: d.Clock.Now().Sub(start)})
			}
		case wctx.Err() != nil:
		case fault.KindOf(err).Retryable() || fault.KindOf(err) == fault.NotFound || fault.KindOf(err) == fault.Timeout:
			last = err
			if text := err.Error(); text != seen {
				seen = text
				d.emit(s, Event{Kind: Waiting, Target: w.Target.String(), Message: w.For + ": " + seen, Elapsed: d.Clock.Now().Sub(start)})
			}
		default:
			return nil, fault.Wrap("waiting for", w.For, err)
		}
		if d.Mode == Plan {
			doubt(ctx)
			return Unknown{Of: w.For}, nil
		}
		if d.Clock.Sleep(wctx, max(pause, fault.AfterOf(err))) == nil && wctx.Err() == nil {
			pause = min(2*pause, interval)
			continue
		}
		if err := fault.FromContext(ctx); err != nil {
			return nil, fault.Wrap("waiting for", w.For, interrupted(err, last, fault.New(fault.Failed, "%s", seen)))
		}
		return nil, &fault.Error{Op: "waiting for", Target: w.For, Kind: fault.Timeout, Hint: fault.HintOf(last),
			Err: fault.New(fault.Timeout, "not done after %s; last seen: %s", d.Clock.Now().Sub(start).Round(time.Millisecond), seen)}
	}
}
