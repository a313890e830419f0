package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	kubeclient "git.vanillacore.net/govstack/gsrun/internal/client/kube"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type waitArgs struct {
	Kind       string        `star:"kind,required" doc:"Kind, plural or short name, as for get. It needn't be served yet."`
	Name       string        `star:"name,required" doc:"Name of the object."`
	Namespace  string        `star:"namespace" doc:"Its namespace, if the kind has one; default if empty."`
	Condition  string        `star:"condition" doc:"Type of the condition to wait for, such as Available."`
	Status     string        `star:"status" doc:"Status that the condition should have."`
	Path       string        `star:"path" doc:"Field to wait for, such as status.phase or status.nodes[0].name. A key with dots is escaped by backslashes or put in brackets and quotes."`
	Value      effect.Data   `star:"value" doc:"Value that the field at path should have; any but an empty one if None."`
	Stable     time.Duration `star:"stable" doc:"How long it has to stay so before it counts."`
	Timeout    time.Duration `star:"timeout" doc:"How long to wait."`
	APIVersion string        `star:"api_version" doc:"Version to read it in; the one that the cluster prefers if empty."`
}

func waitFunc() builtin.Func {
	return builtin.Of(builtin.Spec[*Cluster, waitArgs]{
		Name: "wait",
		Doc: "Wait for an object to have a condition, or a value in a field; with neither, to be as its spec wants. " +
			"What its controller says of an older spec doesn't count. An object or kind that isn't there yet is waited for too. " +
			"While it waits, and if the time is up, it says what blocks: phase, conditions with their reasons, a status that lags.",
		Returns:  "dict: the object as it was when it was as wanted",
		Example:  `cluster.wait("Namespace", "kube-system", path = "status.phase", value = "Active", timeout = "1m")`,
		Effect:   builtin.Waits,
		Errors:   []fault.Kind{fault.Invalid, fault.Denied, fault.Timeout, fault.Failed},
		Defaults: waitArgs{Status: "True", Timeout: 5 * time.Minute},
		Run:      func(ctx context.Context, c *Cluster, a waitArgs) (any, error) { return c.wait(ctx, a) },
	})
}

func (c *Cluster) wait(ctx context.Context, a waitArgs) (any, error) {
	if a.Condition != "" && a.Path != "" {
		return nil, fault.New(fault.Invalid, "kube.wait: condition and path can't both be given")
	}
	if a.Value.V != nil && a.Path == "" {
		return nil, fault.New(fault.Invalid, "kube.wait: value needs a path")
	}
	steps, err := pathSteps(a.Path)
	if err != nil {
		return nil, err
	}
	if u, ok := a.Value.V.(effect.Unknown); ok {
		return u, nil
	}
	goal := "ready"
	switch {
	case a.Condition != "":
		goal = a.Condition + " = " + a.Status
	case a.Path != "" && a.Value.V != nil:
		goal = fmt.Sprintf("%s = %v", a.Path, a.Value.V) // a secret shows as stars
	case a.Path != "":
		goal = a.Path + " being set"
	}
	q := c.query(a.Kind, a.Namespace, a.Name)
	now := effect.From(ctx).Door.Clock.Now
	var since time.Time
	w := effect.Wait{Query: q, For: fmt.Sprintf("%s: %s", q.Target, goal), Timeout: a.Timeout, Interval: glance}
	return effect.Await(ctx, w, func(ctx context.Context) (effect.Poll, error) {
		client, err := c.client()
		if err != nil {
			return effect.Poll{}, err
		}
		k, err := client.Lookup(ctx, a.Kind, a.APIVersion)
		if err != nil {
			return effect.Poll{}, err
		}
		o, err := client.Get(ctx, k, within(k, a.Namespace), a.Name)
		if err != nil {
			since = time.Time{}
			return effect.Poll{}, err
		}
		view := data(ctx, o)
		met, seen, err := c.met(o, a, steps)
		if err != nil {
			if planning(ctx) {
				return effect.Poll{Seen: err.Error()}, nil
			}
			return effect.Poll{}, err
		}
		if !met {
			since = time.Time{}
			return effect.Poll{Seen: seen}, nil
		}
		if since.IsZero() {
			since = now()
		}
		if left := a.Stable - now().Sub(since); left > 0 && !planning(ctx) {
			return effect.Poll{Seen: "it is so, and has to stay so for " + a.Stable.String()}, nil
		}
		return effect.Poll{Done: true, Value: view}, nil
	})
}

// met reports whether the object is as wanted, else what blocks it.
func (c *Cluster) met(o *kubeclient.Object, a waitArgs, steps []string) (met bool, seen string, err error) {
	switch {
	case a.Condition != "":
		for _, cond := range kubeclient.Conditions(o) {
			if cond.Type != a.Condition {
				continue
			}
			if lag := kubeclient.Lagging(o, &cond); lag != "" {
				return false, also(lag, o), nil
			}
			if strings.EqualFold(cond.Status, a.Status) {
				return true, "", nil
			}
			return false, also(cond.String(), o), nil
		}
		return false, also("it has no condition "+a.Condition, o), nil
	case a.Path != "":
		have, ok := field(o.Object, steps)
		if lag := kubeclient.Lagging(o, nil); lag != "" {
			return false, also(lag, o), nil
		}
		if a.Value.V == nil && ok && !empty(have) || a.Value.V != nil && ok && len(effect.Compare(map[string]any{"": a.Value.V}, map[string]any{"": have})) == 0 {
			return true, "", nil
		}
		seen := a.Path + " isn't set"
		if ok {
			if o.GroupVersionKind().GroupKind() == secretKind && steps[0] == "data" {
				have = effect.Mask
			}
			seen = fmt.Sprintf("%s is %v", a.Path, have)
		}
		return false, also(seen, o), nil
	}
	h := kubeclient.HealthOf(o)
	if h.Failed {
		return false, "", fault.New(fault.Failed, "it has failed: %s", h.Message)
	}
	if h.Current {
		return true, "", nil
	}
	return false, also(h.Message, o), nil
}

// also adds to what was seen what else the object tells of why it isn't ready.
func also(seen string, o *kubeclient.Object) string {
	all := kubeclient.Blocking(o)
	if all == "" || strings.Contains(all, seen) {
		return cmp.Or(all, seen)
	}
	return seen + "; " + all
}

// empty reports whether a field's value is none that is worth waiting for.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// pathSteps takes a path apart: "status.nodes[0].name" has the steps status,
// nodes, 0, name. A leading dot and the braces of a JSONPath are allowed.
func pathSteps(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	text := strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(path, "{"), "}"), ".")
	var steps []string
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch ch := text[i]; {
		case ch == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		case ch == '.' || ch == '[':
			if b.Len() > 0 {
				steps = append(steps, b.String())
				b.Reset()
			}
			if ch != '[' {
				continue
			}
			end := strings.IndexByte(text[i:], ']')
			if end < 2 {
				return nil, fault.New(fault.Invalid, "path %q: nothing between [ and ]", path)
			}
			steps = append(steps, strings.Trim(text[i+1:i+end], `'"`))
			i += end
		default:
			b.WriteByte(ch)
		}
	}
	if b.Len() > 0 {
		steps = append(steps, b.String())
	}
	if len(steps) == 0 || slices.Contains(steps, "*") {
		return nil, fault.New(fault.Invalid, "path %q: it has to name one field", path)
	}
	return steps, nil
}

// field returns the value that the steps lead to.
func field(v any, steps []string) (any, bool) {
	for _, s := range steps {
		switch at := v.(type) {
		case map[string]any:
			next, ok := at[s]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(s)
			if err != nil || i < 0 || i >= len(at) {
				return nil, false
			}
			v = at[i]
		default:
			return nil, false
		}
	}
	return v, true
}
