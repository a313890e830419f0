package view

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

const secretKey = "-----BEGIN KEY-----\nMIIEowIBAAKCAQEA7bq0Nf3y\nq9hX2tq1oCkPz5kYyH0aBcDe\n-----END KEY-----\n"

// canaries are forms of the two secrets that no output may hold.
func canaries() []string {
	quoted, _ := json.Marshal(secretKey)
	return []string{plainSecret, "MIIEowIBAAKCAQEA7bq0Nf3y", "q9hX2tq1oCkPz5kYyH0aBcDe", string(quoted[1 : len(quoted)-1]),
		base64.StdEncoding.EncodeToString([]byte(plainSecret)), base64.RawURLEncoding.EncodeToString([]byte(secretKey)), url.QueryEscape(secretKey)}
}

// everyOutput returns all that the package writes for the events, plan and
// summary, by the name of what wrote it.
func everyOutput(t *testing.T, events []effect.Event, p PlanData, s SummaryData, r *effect.Redactor) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for _, kind := range []Kind{Plain, JSON, Tree} {
		for _, verb := range []Verb{Running, Planning} {
			var b lockedBuffer
			v := New(Config{Kind: kind, Out: &b, Err: &b, Verbose: true, Verb: verb, Redactor: r, Clock: newHandClock()})
			for _, e := range events {
				v.Event(e)
				if tr, ok := v.(*tree); ok {
					settle(tr.sink)
					tr.paint(false)
				}
			}
			if err := v.Close(); err != nil {
				t.Fatal(err)
			}
			out[string(kind)+" "+string(verb)] = b.String()
		}
	}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"plan":         func(b *bytes.Buffer) error { return Plan(b, p, PlanOptions{Full: true, Redactor: r}) },
		"plan json":    func(b *bytes.Buffer) error { return PlanJSON(b, p, PlanOptions{Redactor: r}) },
		"summary":      func(b *bytes.Buffer) error { return Summary(b, s, SummaryOptions{Redactor: r}) },
		"summary json": func(b *bytes.Buffer) error { return SummaryJSON(b, s, SummaryOptions{Redactor: r}) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		out[name] = b.String()
	}
	return out
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	gate
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.got.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.got.String()
}

// everywhere returns events, a plan and a summary with text in each place that
// has room for it, and x in each place for a value.
func everywhere(text string, x ...any) ([]effect.Event, PlanData, SummaryData) {
	err := &fault.Error{Op: text, Target: text, Kind: fault.Failed, Hint: text, Err: errors.New(text)}
	c := effect.Change{Note: text, After: map[string]any{"after " + text: text}, Before: effect.State{Attrs: map[string]any{"a": text}}}
	for i, v := range x {
		path := fmt.Sprintf("f%d %s", i, text)
		c.Fields = append(c.Fields, effect.Field{Path: path, New: v}, effect.Field{Path: path, Old: v}, effect.Field{Path: path, Old: v, New: "x"},
			effect.Field{Path: path, Old: map[string]any{"k": v, text: 1}, New: map[string]any{"k": []any{v, "x"}}},
			effect.Field{Path: path, Old: "some\nlines\n", New: v})
		c.After[fmt.Sprintf("a%d", i)] = v
		c.After[fmt.Sprintf("deep%d", i)] = []any{map[string]any{"b": []any{v}}}
	}
	var events []effect.Event
	var p PlanData
	for _, ck := range []effect.ChangeKind{effect.None, effect.Create, effect.Update, effect.Replace, effect.Delete, effect.Run, effect.Later} {
		ch := c
		ch.Kind = ck
		for _, k := range []effect.EventKind{effect.RunStart, effect.StepStart, effect.OpStart, effect.Progress, effect.Waiting, effect.Log, effect.OpRetry,
			effect.OpPlan, effect.OpEnd, effect.StepEnd, effect.StepSkip, effect.Deferred, effect.RunEnd} {
			for _, e := range []error{nil, err, &runtime.StepError{Step: "s " + text, Err: err}, place("f "+text, 3, fault.New(fault.Deferred, "%s", text))} {
				events = append(events, effect.Event{Time: epoch, Kind: k, Step: "s " + text, Target: "t " + text, Change: &ch, Message: text, Err: e, Pos: text + ":3"})
			}
		}
		p.Changes = append(p.Changes, effect.Planned{Step: "s " + text, Target: effect.Target{Scope: "t", Name: text}, Change: ch, Pos: text})
	}
	p.Recipe, p.Err = text, err
	p.Steps = []runtime.StepResult{{Path: "d " + text, Status: runtime.Deferred, Err: err}}
	p.Stops = []Stop{{Step: "e", Err: err, Pos: text}, {Step: "f", Pos: text}}
	fields := starlark.StringDict{"o": starlark.String(text)}
	for i, v := range x {
		fields[fmt.Sprint("x", i)] = effect.ToStarlark(v)
	}
	return events, p, SummaryData{Run: text, Recipe: text, Outputs: effect.NewStruct(fields), Err: err, Steps: p.Steps}
}

// Values that are secret stay out of every output, by their type alone.
func TestSecretValuesAreMasked(t *testing.T) {
	events, p, s := everywhere("harmless", secret(), effect.SecretOf(secretKey, ""))
	check(t, everyOutput(t, events, p, s, nil))
}

// Texts that hold a secret stay out of every output by what the run has declared
// secret.
func TestSecretsInTextsAreRemoved(t *testing.T) {
	var r effect.Redactor
	r.Add(plainSecret)
	r.Add(secretKey)
	for _, text := range canaries() {
		events, p, s := everywhere("a "+text+" b", text, "some\nlines\n"+secretKey+text+"\nmore\n", []byte(text), map[string]string{text: text}, effect.Plain(text))
		check(t, everyOutput(t, events, p, s, &r))
	}
}

func check(t *testing.T, outputs map[string]string) {
	t.Helper()
	for name, text := range outputs {
		values := !strings.HasPrefix(name, string(Plain)) && !strings.HasPrefix(name, string(Tree))
		if values && !strings.Contains(text, effect.Mask) {
			t.Errorf("%s: shows no mask", name)
		}
		for _, c := range canaries() {
			if i := strings.Index(text, c); i >= 0 {
				t.Errorf("%s: %q leaks: %q", name, c, text[max(0, i-60):min(len(text), i+len(c)+60)])
			}
		}
	}
}

// Nothing from outside reaches a terminal as it is: no output has a control
// character but newlines, and what the tree uses to move the cursor.
func TestControlCharactersAreEscaped(t *testing.T) {
	events, p, s := everywhere("a"+evil+"\u2028\u2066b\xff", evil, "two\nlines"+evil+"\n\tend", []any{evil}, map[string]any{evil: evil})
	for name, text := range everyOutput(t, events, p, s, nil) {
		own := []string{"\x1b[K", "\x1b[J", "\x1b[?25l", "\x1b[?25h"}
		if strings.HasPrefix(name, string(Tree)) {
			for _, o := range own {
				text = strings.ReplaceAll(text, o, "")
			}
			for n := range 100 {
				text = strings.ReplaceAll(text, fmt.Sprintf("\x1b[%dA\r", n), "")
			}
		}
		i := strings.IndexFunc(text, func(r rune) bool {
			return r != '\n' && (unicode.IsControl(r) || hostile(r) || r == unicode.ReplacementChar && !strings.Contains(name, "json"))
		})
		if i >= 0 {
			t.Errorf("%s: has %q", name, text[max(0, i-40):min(len(text), i+20)])
		}
	}
}

// The secret that a run declares by NewSecret is removed without further ado.
func TestDeclaredSecret(t *testing.T) {
	d := &effect.Door{Redactor: new(effect.Redactor)}
	ctx := effect.With(context.Background(), effect.NewScope(d, effect.Owner{}, "s", nil))
	if _, err := effect.NewSecret(ctx, plainSecret, "env:X"); err != nil {
		t.Fatal(err)
	}
	if got := normal([]any{"a " + plainSecret, plainSecret}, d.Redactor); !reflect.DeepEqual(got, []any{"a ***", mask(plainSecret)}) {
		t.Errorf("got %v", got)
	}
}
