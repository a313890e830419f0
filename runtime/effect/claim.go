package effect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
)

// A Claimer is an op that says what it wants of its target, once it was
// observed. Two ops of a run that want different things of one target would
// change it to and fro in each run.
type Claimer interface{ Claims() []Claim }

// A Claim is a value that an op wants an attribute to have.
type Claim struct {
	Path  string
	Value any // no Unknown and no secret
	// Same reports whether another op's value means the same; nil compares data.
	Same func(value any) bool
}

// claimed is a claim of an op that ended well.
type claimed struct {
	Claim
	step, pos string
}

// claim keeps what an op wants of t, and warns of what another one of the run
// wanted otherwise.
func (d *Door) claim(s *Scope, op Op, t Target) {
	c, ok := op.(Claimer)
	if !ok || d.Survey {
		return
	}
	d.mu.Lock()
	if d.claims == nil {
		d.claims = make(map[Target]map[string]claimed)
	}
	before := d.claims[t]
	if before == nil {
		before = make(map[string]claimed)
		d.claims[t] = before
	}
	var texts []string
	for _, now := range c.Claims() {
		then, given := before[now.Path]
		if given && (then.step != s.Step || then.pos != s.Pos) && !now.means(then.Claim) {
			texts = append(texts, fmt.Sprintf("warning: %s: %s is to be %s at %s, and %s at %s: each run changes it to and fro",
				t, now.Path, shown(then.Value), cmp.Or(then.pos, "step "+then.step), shown(now.Value), cmp.Or(s.Pos, "step "+s.Step)))
		}
		before[now.Path] = claimed{now, s.Step, s.Pos}
	}
	d.mu.Unlock()
	for _, text := range texts {
		d.emit(s, Event{Kind: Log, Message: text})
	}
}

// shown writes a value on one line.
func shown(v any) string {
	if s, ok := v.(string); ok && s != "" {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// means reports whether both claims can hold.
func (c Claim) means(other Claim) bool {
	return reflect.DeepEqual(c.Value, other.Value) || c.Same != nil && c.Same(other.Value) || other.Same != nil && other.Same(c.Value)
}
