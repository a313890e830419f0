package effect

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Mode says what the door does with a change.
type Mode int

// The modes.
const (
	Apply Mode = iota // make it
	Plan              // show it
)

// A Clock tells the time and waits. Tests inject their own.
type Clock interface {
	Now() time.Time
	// Sleep waits for d, or until ctx ends, whose error it then returns.
	Sleep(ctx context.Context, d time.Duration) error
}

// A Recorder keeps the journal of a run. Its methods may be called at the same
// time by several steps.
type Recorder interface {
	// Intent records that a change is about to be made. It returns once the
	// record is durable.
	Intent(Record) error
	// Result records how it ended. It returns once the record is durable if
	// something was changed, and may return earlier otherwise.
	Result(Record) error
}

// A Record is the journal's entry for one op.
type Record struct {
	Time   time.Time
	Step   string
	Target string
	Kind   ChangeKind
	Mark   string
	Attrs  map[string]any // after the op; secrets are kept as references
	Err    error          // redacted
	Pos    string
}

// Retry says how often and how patiently the door tries again.
type Retry struct {
	Tries int           // at most so many tries; 0 means 5
	Base  time.Duration // the first pause, doubled each time; 0 means 500 ms
	Max   time.Duration // the longest pause; 0 means 20 s
}

// A Guard is asked before each change whether the run may still make one: that
// it holds its lock. Until leave is called, once the change's result is in the
// journal, nobody can take the lock over. It is called by several goroutines at
// once.
type Guard func(context.Context) (leave func(), err error)

// A Door runs the ops of one run.
type Door struct {
	Mode      Mode
	Clock     Clock
	Recorder  Recorder             // nil keeps no journal
	Emit      func(Event)          // nil drops events; called by several goroutines at once
	Redactor  *Redactor            // nil removes nothing
	Memory    Memory               // nil keeps nothing of the clock and of chance
	Retry     Retry                //
	Guard     Guard                // nil guards nothing
	Contract  *Contract            // the saved plan that the changes must be of; nil if there is none
	Unsettled map[string]time.Time // creations that an earlier run began, and that may be under way still, by target: when they were begun
	Created   map[Made]time.Time   // what an earlier run made a moment ago and none deleted since: when it was made
	Deletes   int                  // the deletion budget: more deletions are refused; < 0 means no limit
	Asker     Asker                // asks people; nil means that nobody can be asked
	Met       func(Sighting)       // told of each op that was observed, by several goroutines at once; nil tells nobody
	Survey    bool                 // of a plan: only look at what is there; a step that fails doesn't end the others
	// Around, if set, makes each change by calling apply: tests watch what
	// happens between the intent and the result.
	Around func(ctx context.Context, r Record, apply func(context.Context) (State, error)) (State, error)

	mu        sync.Mutex
	planned   []Planned
	plannedAt map[Target][]int // indexes in planned
	counts    Counts
	spent     int // deletions that were begun
	claims    map[Target]map[string]claimed
	lost      map[string]error // of a survey: systems that couldn't be reached
}

func (d *Door) emit(s *Scope, e Event) {
	if d.Emit == nil {
		return
	}
	e.Time = d.Clock.Now()
	if e.Step == "" {
		e.Step = s.Step
	}
	if e.Pos == "" {
		e.Pos = s.Pos
	}
	e.Message = d.Redactor.String(e.Message)
	e.Target = d.Redactor.String(e.Target)
	e.Err = d.Redacted(e.Err)
	d.Emit(e)
}

// Send emits an event of a step or run; its texts are redacted first.
func (d *Door) Send(e Event) { d.emit(&Scope{}, e) }

// Redacted returns err with the secrets of the run removed from its texts. Its
// kind and hint stay.
func (d *Door) Redacted(err error) error {
	if err == nil || d.Redactor == nil {
		return err
	}
	text := err.Error()
	if clean := d.Redactor.String(text); clean != text {
		return &fault.Error{Kind: fault.KindOf(err), Hint: d.Redactor.String(fault.HintOf(err)), Err: fmt.Errorf("%s", clean)}
	}
	return err
}

// A Made is something that an owner made.
type Made struct{ Target, Mark string }

// Unsettled returns when an earlier run began to create the target, if its end
// was never seen: the request of a process that died may be under way still. Or
// it returns when one made it a moment ago, which may not be listed yet. It is
// the zero time if there is no such thing.
func Unsettled(ctx context.Context, t Target) time.Time {
	s := From(ctx)
	begun := s.Door.Unsettled[t.String()]
	s.Door.mu.Lock()
	defer s.Door.mu.Unlock()
	if made := s.Door.Created[s.made(t)]; made.After(begun) {
		return made
	}
	return begun
}

func (s *Scope) made(t Target) Made { return Made{t.String(), s.Owner.Mark(t.Name)} }

// unmake takes note of a deletion: nothing is expected to be there any more.
func (d *Door) unmake(m Made) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.Created, m)
}

// Do runs op, or plans it, and returns the state after it: as it is now if
// nothing needs to change, as it will be if the run is a plan.
func Do(ctx context.Context, op Op) (State, error) {
	s := From(ctx)
	if s == nil {
		return State{}, fault.Hinted(fault.Invalid, "move it into a step", "%s was called outside a step", op.Target())
	}
	return s.Door.do(ctx, s, op)
}

func (d *Door) do(ctx context.Context, s *Scope, op Op) (State, error) {
	t := op.Target()
	if t.Unknown {
		if d.Mode != Plan {
			return State{}, fault.New(fault.Internal, "%s isn't known, though this is no plan", t)
		}
		d.meet(s, op, t, State{})
		if d.Survey {
			s.setPending(t.within())
			doubt(ctx)
			return State{Unknown: true}, nil
		}
		c := Change{Kind: Later}
		if l, ok := op.(later); ok {
			c.Reach = l.reach
		}
		return d.plan(ctx, s, t, c), nil
	}
	if err := d.lostBefore(t.Scope); err != nil {
		return State{}, fault.Wrap("", t.String(), err)
	}
	start := d.Clock.Now()
	var last error
	var tried *Change // the change that an earlier try was about to make
	ctx, touched := touchable(ctx)
	for try := 1; ; try++ {
		st, changed, err := d.once(ctx, s, op, t, start, tried)
		if err == nil {
			d.claim(s, op, t)
			return st, nil
		}
		if changed != nil {
			tried = changed
		}
		if ctxErr := fault.FromContext(ctx); ctxErr != nil {
			err = interrupted(ctxErr, last, err)
		} else if fault.KindOf(err).Retryable() && try < d.tries() {
			last = err
			d.emit(s, Event{Kind: OpRetry, Target: t.String(), Err: err, Try: try})
			if serr := d.Clock.Sleep(ctx, d.pause(try, fault.AfterOf(err))); serr == nil {
				continue
			}
			err = interrupted(fault.FromContext(ctx), last, err)
		}
		if !strings.HasPrefix(err.Error(), t.String()+":") && !strings.HasPrefix(err.Error(), t.String()+" ") {
			err = fault.Wrap("", t.String(), err)
		}
		attempted := caught(ctx, err)
		d.mu.Lock()
		if fault.KindOf(err) != fault.Cancelled && !attempted {
			d.counts.Failed++
		}
		if touched.Load() {
			d.counts.Partly++
		}
		d.mu.Unlock()
		d.lose(t.Scope, err)
		d.emit(s, Event{Kind: OpEnd, Target: t.String(), Change: changed, Err: err, Attempt: attempted, Elapsed: d.Clock.Now().Sub(start)})
		return State{}, err
	}
}

// interrupted explains the end of ctx by what was seen last.
func interrupted(ctxErr, last, err error) error {
	seen := last
	if seen == nil {
		seen = err
	}
	if fault.KindOf(seen) == fault.KindOf(ctxErr) {
		return ctxErr
	}
	return &fault.Error{Kind: fault.KindOf(ctxErr), Hint: fault.HintOf(seen), Err: fmt.Errorf("%w; last seen: %v", ctxErr, seen)}
}

// once observes, compares and, if the run applies, acts; one time. A change
// that was tried before and is found made now is this run's all the same: only
// its answer was lost.
func (d *Door) once(ctx context.Context, s *Scope, op Op, t Target, start time.Time, tried *Change) (State, *Change, error) {
	if err := fault.FromContext(ctx); err != nil {
		return State{}, nil, err
	}
	before, err := op.Observe(ctx)
	if err != nil {
		return State{}, nil, err
	}
	d.meet(s, op, t, before)
	if tried != nil && tried.Kind == Create && before.Exists {
		Touched(ctx) // only the answer was lost
	}
	if d.Survey {
		return d.survey(ctx, s, op, t, before), nil, nil
	}
	c, err := op.Diff(before)
	if err != nil {
		return State{}, nil, err
	}
	c.Before, c.Fields = before, d.hideOld(c.Fields)
	if c.Kind == "" {
		c.Kind = None
	}
	if d.Mode == Plan {
		if u := d.uncertain(s, op, t, before, c); u != nil {
			return d.plan(ctx, s, t, *u), &c, nil
		}
		if c.Kind == Later {
			c.May = mayBe(op, c.Kind)
		}
	}
	if c.Kind == None {
		if tried != nil {
			c = *tried
		}
		d.count(c.Kind)
		if d.Recorder != nil && d.Mode == Apply {
			if err := d.Recorder.Result(Record{Time: d.Clock.Now(), Step: s.Step, Target: t.String(), Kind: c.Kind, Mark: s.Owner.Mark(t.Name), Attrs: d.cleaned(before.Attrs), Pos: s.Pos}); err != nil {
				return State{}, nil, err
			}
		}
		d.emit(s, Event{Kind: OpEnd, Target: t.String(), Change: &c, Elapsed: d.Clock.Now().Sub(start)})
		return before, &c, nil
	}
	if d.Mode == Plan {
		return d.plan(ctx, s, t, c), &c, nil
	}
	return d.apply(ctx, s, op, t, c, start, tried)
}

func (d *Door) apply(ctx context.Context, s *Scope, op Op, t Target, c Change, start time.Time, tried *Change) (State, *Change, error) {
	if d.Contract != nil {
		if err := d.Contract.Admit(s.Step, s.Pos, t, c); err != nil {
			return State{}, &c, err
		}
	}
	if d.Guard != nil {
		leave, err := d.Guard(ctx)
		if err != nil {
			return State{}, &c, err
		}
		defer leave()
	}
	if (c.Kind == Delete || c.Kind == Replace) && tried == nil {
		if err := d.spend(t); err != nil {
			return State{}, &c, err
		}
	}
	d.emit(s, Event{Kind: OpStart, Target: t.String(), Change: &c})
	rec := Record{Time: d.Clock.Now(), Step: s.Step, Target: t.String(), Kind: c.Kind, Mark: s.Owner.Mark(t.Name), Pos: s.Pos}
	if d.Recorder != nil {
		if err := d.Recorder.Intent(rec); err != nil {
			return State{}, &c, err
		}
	}
	if c.Kind == Delete {
		d.unmake(s.made(t))
	}
	after, err := d.make(ctx, op, c, rec)
	if err == nil {
		d.count(c.Kind) // it was made, whether or not that can be recorded
	}
	rec.Time, rec.Attrs, rec.Err = d.Clock.Now(), d.cleaned(after.Attrs), d.Redacted(err)
	if d.Recorder != nil {
		if rerr := d.Recorder.Result(rec); rerr != nil && err == nil {
			untouched(ctx) // it is counted in full
			return State{}, &c, rerr
		}
	}
	if err != nil {
		return State{}, &c, err
	}
	d.emit(s, Event{Kind: OpEnd, Target: t.String(), Change: &c, Elapsed: d.Clock.Now().Sub(start)})
	return after, &c, nil
}

// make makes the change.
func (d *Door) make(ctx context.Context, op Op, c Change, rec Record) (State, error) {
	if d.Around == nil {
		return op.Apply(ctx, c)
	}
	return d.Around(ctx, rec, func(ctx context.Context) (State, error) { return op.Apply(ctx, c) })
}

// spend takes one deletion from the budget.
func (d *Door) spend(t Target) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Deletes < 0 {
		return nil
	}
	if d.spent >= d.Deletes {
		return fault.Hinted(fault.Invalid, "raise it with --max-deletes if this is meant",
			"deleting %s would exceed the run's deletion budget of %d", t, d.Deletes)
	}
	d.spent++
	return nil
}

func (d *Door) tries() int {
	if d.Retry.Tries > 0 {
		return d.Retry.Tries
	}
	return 5
}

// pause returns how long to wait after the given number of failed tries: twice
// as long each time, with jitter, and at least as long as the peer asked for.
func (d *Door) pause(failed int, asked time.Duration) time.Duration {
	base, longest := d.Retry.Base, d.Retry.Max
	if base == 0 {
		base = 500 * time.Millisecond
	}
	if longest == 0 {
		longest = 20 * time.Second
	}
	p := min(base<<min(failed-1, 16), longest)
	p = p/2 + rand.N(p/2+1)
	return max(p, asked)
}

// Progressf reports what the running op is doing now.
func Progressf(ctx context.Context, format string, args ...any) {
	if s := From(ctx); s != nil {
		s.Door.emit(s, Event{Kind: Progress, Message: fmt.Sprintf(format, args...)})
	}
}

// Logf reports a line that the recipe wants kept.
func Logf(ctx context.Context, format string, args ...any) {
	if s := From(ctx); s != nil {
		s.Door.emit(s, Event{Kind: Log, Message: fmt.Sprintf(format, args...)})
	}
}
