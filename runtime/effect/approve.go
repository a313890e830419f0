package effect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Question is what a run asks a person before it goes on.
type Question struct {
	// ID names the question within its run: the same one that a step asks when
	// it is tried again, or when the run goes on in another process, has the
	// same ID.
	ID    string
	Step  string
	Text  string // free of secrets
	Pos   string
	Asked time.Time
	Until time.Time // nobody waits after that
}

// An Answer is what a person said.
type Answer struct {
	Approved bool
	By       string // user@host
	At       time.Time
}

// An Asker puts questions to people. Its methods may be called by several
// goroutines at once.
type Asker interface {
	// Ask waits for the answer, or until ctx ends. It calls asked once the
	// question can be answered, with how; not if it was answered before. The hint
	// of an error after Until says how to be asked again.
	Ask(ctx context.Context, q Question, asked func(how string)) (Answer, error)
}

// tryKey is where a try of a step keeps which questions it asked.
type tryKey struct{}

// asking counts the questions of one try of a step, by what they ask.
type asking struct {
	mu    sync.Mutex
	times map[string]int
}

// WithTry returns a context for one try of a step: the questions that it asks
// are those of the try before, which may have been answered.
func WithTry(ctx context.Context) context.Context {
	return context.WithValue(ctx, tryKey{}, &asking{times: make(map[string]int)})
}

// questionID names the next question of that text.
func questionID(ctx context.Context, s *Scope, text string) string {
	key := s.Step + s.branch + "\x00" + text
	n := 0
	if a, ok := ctx.Value(tryKey{}).(*asking); ok {
		a.mu.Lock()
		n = a.times[key]
		a.times[key]++
		a.mu.Unlock()
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", key, n))
	return hex.EncodeToString(sum[:8])
}

// Approve waits until a person approves that the run goes on. A denial is an
// error of kind Denied. A plan only shows what would be asked.
func Approve(ctx context.Context, text Text, timeout time.Duration) error {
	s := From(ctx)
	if s == nil {
		return fault.Hinted(fault.Invalid, "move it into a step", "approve was called outside a step")
	}
	d := s.Door
	q := Question{Step: s.Step, Text: d.Redactor.String(text.String()), Pos: s.Pos, Asked: d.Clock.Now()}
	if d.Mode == Plan {
		doubt(ctx) // what the person will say isn't known
		if !d.Survey {
			d.emit(s, Event{Kind: Asked, Ask: &Ask{Text: q.Text}})
		}
		return nil
	}
	if d.Asker == nil {
		return fault.Hinted(fault.Invalid, "run the recipe by gsrun run", "nobody can be asked here: %s", q.Text)
	}
	q.ID, q.Until = questionID(ctx, s, q.Text), q.Asked.Add(timeout)
	actx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ans, err := d.Asker.Ask(actx, q, func(h string) {
		d.emit(s, Event{Kind: Asked, Ask: &Ask{Text: q.Text, How: h}})
	})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return fault.Wrap("waiting for approval of", fmt.Sprintf("%q", q.Text), fault.FromContext(ctx))
	case actx.Err() != nil:
		return &fault.Error{Op: "waiting for approval of", Target: fmt.Sprintf("%q", q.Text), Kind: fault.Timeout,
			Hint: fault.HintOf(err), Err: fmt.Errorf("nobody answered within %s", timeout)}
	default:
		return fault.Wrap("waiting for approval of", fmt.Sprintf("%q", q.Text), err)
	}
	word := "denied"
	if ans.Approved {
		word = "approved"
	}
	d.emit(s, Event{Kind: Answered, Ask: &Ask{Text: q.Text, Answer: word, By: ans.By}, Elapsed: d.Clock.Now().Sub(q.Asked)})
	if !ans.Approved {
		return fault.Hinted(fault.Denied, "run it again to be asked again", "%s denied it: %s", ans.By, q.Text)
	}
	return nil
}
