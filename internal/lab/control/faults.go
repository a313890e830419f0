package control

import (
	"path"
	"slices"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/inject"
)

// An Action is what a fault does to an object.
type Action string

// The actions.
const (
	Stall Action = "stall" // the object makes no progress while the rule stands
	Fail  Action = "fail"  // it fails, with the rule's reason and message
	Flap  Action = "flap"  // it becomes ready and unready again, each time it is looked at
	Lose  Action = "lose"  // the machine is gone, as if its host had died
)

// A Rule makes objects misbehave. The first that matches and isn't used up counts.
type Rule struct {
	ID        string `json:"id" doc:"name to clear it by; made up if empty"`
	Kind      string `json:"kind,omitempty" doc:"pattern of the object's kind: Pod, Certificate, OpenStackMachine, Application, ...; any if empty"`
	Namespace string `json:"namespace,omitempty" doc:"pattern of its namespace; any if empty"`
	Name      string `json:"name,omitempty" doc:"pattern of its name; any if empty"`
	Skip      int    `json:"skip,omitempty" doc:"looks at matching objects to let pass first"`
	Count     int    `json:"count,omitempty" doc:"how often it acts; 0 is once, -1 always, which is until it is cleared"`
	Chance    int    `json:"chance,omitempty" doc:"at how many of 100 looks; 0 is all"`

	Action  Action `json:"action" doc:"stall (no progress), fail, flap (ready and unready by turns) or lose (the machine is gone)"`
	Reason  string `json:"reason,omitempty" doc:"reason of the condition that tells of it"`
	Message string `json:"message,omitempty" doc:"message of that condition"`

	Hits int `json:"hits"` // how often it acted
}

// Faults is a set of rules that may change while the lab runs.
type Faults struct{ *inject.Set[Rule] }

// NewFaults returns a set without rules.
func NewFaults() *Faults {
	return &Faults{inject.New("controllers", func(r *Rule) inject.Turns {
		return inject.Turns{ID: &r.ID, Skip: &r.Skip, Count: &r.Count, Chance: &r.Chance, Hits: &r.Hits}
	})}
}

// Inject adds a rule and returns its id. The error is of kind Invalid.
func (f *Faults) Inject(r Rule) (string, error) {
	for name, pattern := range map[string]string{"kind": r.Kind, "namespace": r.Namespace, "name": r.Name} {
		if _, err := path.Match(pattern, ""); err != nil {
			return "", fault.New(fault.Invalid, "%s: %q is no pattern", name, pattern)
		}
	}
	if !slices.Contains([]Action{Stall, Fail, Flap, Lose}, r.Action) {
		return "", fault.New(fault.Invalid, "action is stall, fail, flap or lose, not %q", r.Action)
	}
	return f.Add(r), nil
}

// take returns the first rule with one of the actions that matches o, and counts it.
func (f *Faults) take(o *object, actions ...Action) *Rule {
	return f.Take(func(r *Rule) bool {
		return slices.Contains(actions, r.Action) && match(r.Kind, o.GetKind()) && match(r.Namespace, o.GetNamespace()) && match(r.Name, o.GetName())
	})
}

func match(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// because returns the rule's reason and message, or those given.
func (r *Rule) because(reason, message string) (string, string) {
	if r.Reason != "" {
		reason = r.Reason
	}
	if r.Message != "" {
		message = r.Message
	}
	return reason, message
}
