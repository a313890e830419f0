package control

import (
	"path"
	"sync"
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

// A Rule makes objects misbehave. Kind and Name are patterns as path.Match has them; an empty
// one matches all.
type Rule struct {
	Kind      string // "Pod", "Certificate", "OpenStackMachine", "Application", ...
	Namespace string
	Name      string
	Action    Action
	Reason    string // of the condition that tells of it
	Message   string
	Count     int // how often it acts; 0 is always
}

// Faults is a set of rules that may change while the lab runs. The zero value has none.
type Faults struct {
	mu    sync.Mutex
	rules []*Rule
}

// Add adds a rule. The first that matches counts.
func (f *Faults) Add(r Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, &r)
}

// Clear removes all rules.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// take returns the first rule with one of the actions that matches o, and counts it.
func (f *Faults) take(o *object, actions ...Action) *Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, r := range f.rules {
		if !match(r.Kind, o.GetKind()) || !match(r.Namespace, o.GetNamespace()) || !match(r.Name, o.GetName()) {
			continue
		}
		for _, a := range actions {
			if r.Action != a {
				continue
			}
			taken := *r
			if r.Count > 0 {
				if r.Count--; r.Count == 0 {
					f.rules = append(f.rules[:i:i], f.rules[i+1:]...)
				}
			}
			return &taken
		}
	}
	return nil
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
