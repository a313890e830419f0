package effect

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A SavedChange is a planned change as a saved plan keeps it. Values are in the
// journal's form, in which what wasn't known shows as such and a secret is only
// a digest that is made with the site's key.
type SavedChange struct {
	Step    string                     `json:"step"`
	Scope   string                     `json:"scope,omitempty"`
	Kind    string                     `json:"kind,omitempty"`
	Name    string                     `json:"name,omitempty"`
	Unknown bool                       `json:"unknown,omitempty"` // the target isn't known yet
	Change  ChangeKind                 `json:"change"`
	May     ChangeKind                 `json:"may,omitempty"` // of a later change: the deletion that it may turn out to be
	Note    string                     `json:"note,omitempty"`
	Fields  []SavedField               `json:"fields,omitempty"`
	After   map[string]json.RawMessage `json:"after,omitempty"`
	Pos     string                     `json:"pos,omitempty"`
}

// A SavedField is one difference of a SavedChange.
type SavedField struct {
	Path string          `json:"path"`
	Old  json.RawMessage `json:"old,omitempty"`
	New  json.RawMessage `json:"new,omitempty"`
}

func (s SavedChange) target() Target {
	return Target{Scope: s.Scope, Kind: s.Kind, Name: s.Name, Unknown: s.Unknown}
}

// A Saver turns planned changes into what is saved, and compares.
type Saver struct{ codec Codec }

// NewSaver returns a saver whose digests of secrets are made with key.
func NewSaver(key []byte, r *Redactor) Saver {
	return Saver{Codec{Vault: fingerprints(key), Redactor: r}}
}

// fingerprints is the key of a vault that keeps digests of secrets, which tell
// whether two are the same to whoever has the key, and nothing else to anybody.
type fingerprints []byte

func (f fingerprints) Seal(s *Secret) (string, error) { return f.of(s.plain), nil }

func (f fingerprints) of(text string) string {
	mac := hmac.New(sha256.New, f)
	mac.Write([]byte(text))
	return "hmac-sha256:" + hex.EncodeToString(mac.Sum(nil))
}

func (fingerprints) Open(context.Context, string) (*Secret, error) {
	return nil, fault.New(fault.Invalid, "a saved plan has no secrets to open")
}

// Planned returns the change that was saved, for people to see: secrets are
// masked.
func (c SavedChange) Planned() (Planned, error) {
	out := Planned{Step: c.Step, Target: c.target(), Pos: c.Pos, Change: Change{Kind: c.Change, May: c.May, Note: c.Note}}
	read := func(form json.RawMessage) (any, error) {
		if len(form) == 0 {
			return nil, nil
		}
		v, err := Codec{Vault: masks{}}.Decode(context.Background(), form)
		if err != nil {
			return nil, err
		}
		return FromStarlark(v)
	}
	for _, f := range c.Fields {
		have, err := read(f.Old)
		if err != nil {
			return out, err
		}
		want, err := read(f.New)
		if err != nil {
			return out, err
		}
		out.Change.Fields = append(out.Change.Fields, Field{Path: f.Path, Old: have, New: want})
	}
	for name, form := range c.After {
		v, err := read(form)
		if err != nil {
			return out, err
		}
		if out.Change.After == nil {
			out.Change.After = make(map[string]any)
		}
		out.Change.After[name] = v
	}
	return out, nil
}

// masks is a vault that gives out masks.
type masks struct{}

func (masks) Seal(*Secret) (string, error)                  { return Mask, nil }
func (masks) Open(context.Context, string) (*Secret, error) { return SecretOf(Mask, ""), nil }

// Form returns data as it is saved.
func (s Saver) Form(x any) (json.RawMessage, error) { return s.codec.Encode(ToStarlark(plainData(x))) }

// Save returns a planned change as it is saved.
func (s Saver) Save(step string, t Target, c Change, pos string) (SavedChange, error) {
	out := SavedChange{Step: step, Scope: t.Scope, Kind: t.Kind, Name: t.Name, Unknown: t.Unknown, Change: c.Kind, May: c.May, Note: c.Note, Pos: pos}
	for _, f := range c.Fields {
		sf := SavedField{Path: f.Path}
		var err error
		if sf.Old, err = s.Form(f.Old); err == nil {
			sf.New, err = s.Form(f.New)
		}
		if err != nil {
			return out, fault.Wrap("saving the plan of", t.String(), err)
		}
		out.Fields = append(out.Fields, sf)
	}
	for name, v := range c.After {
		form, err := s.Form(v)
		if err != nil {
			return out, fault.Wrap("saving the plan of", t.String(), err)
		}
		if out.After == nil {
			out.After = make(map[string]json.RawMessage)
		}
		out.After[name] = form
	}
	return out, nil
}

// differences says how a change differs from the planned one in what was known.
func (s Saver) differences(planned, now SavedChange) []string {
	if planned.Change == Later {
		return s.beyond(planned, now)
	}
	if now.Change == Later {
		return []string{string(planned.Change) + " was planned, now it isn't known any more what it takes"}
	}
	if planned.Change != now.Change {
		return []string{fmt.Sprintf("%s was planned, now it would %s", planned.Change, now.Change)}
	}
	// One path may have several fields: the rules of a group.
	left := slices.Clone(planned.Fields)
	var out []string
	for _, f := range now.Fields {
		i := slices.IndexFunc(left, func(p SavedField) bool { return p.Path == f.Path && s.Fulfils(p.Old, f.Old) && s.Fulfils(p.New, f.New) })
		if i < 0 {
			if i = slices.IndexFunc(left, func(p SavedField) bool { return p.Path == f.Path }); i < 0 {
				out = append(out, f.Path+" changes too")
				continue
			}
			if p := left[i]; !s.Fulfils(p.Old, f.Old) {
				out = append(out, f.Path+" was "+brief(p.Old)+" and is "+brief(f.Old))
			} else {
				out = append(out, f.Path+" was to become "+brief(p.New)+" and would become "+brief(f.New))
			}
		}
		left = slices.Delete(left, i, i+1)
	}
	for _, p := range left {
		if !partial(p.New) {
			out = append(out, p.Path+" needs no change any more")
		}
	}
	for _, name := range sortedKeys(planned.After) {
		after, ok := now.After[name]
		if ok && !s.Fulfils(planned.After[name], after) && !partial(after) {
			out = append(out, name+" was to be "+brief(planned.After[name])+" and would be "+brief(after))
		}
	}
	return out
}

// beyond says in what a change isn't what a planned one may turn out to be: what
// is wanted was known, and that it may delete something.
func (s Saver) beyond(planned, now SavedChange) []string {
	var out []string
	if (now.Change == Delete || now.Change == Replace) && planned.May != now.Change && !strings.HasSuffix(planned.Kind, ".delete") {
		out = append(out, "it would "+string(now.Change)+", which wasn't planned")
	}
	wanted := make(map[string][]json.RawMessage)
	for _, f := range planned.Fields {
		wanted[f.Path] = append(wanted[f.Path], f.New)
	}
	for _, f := range now.Fields {
		news, ok := wanted[f.Path]
		if ok && !slices.ContainsFunc(news, func(n json.RawMessage) bool { return s.Fulfils(n, f.New) }) {
			out = append(out, f.Path+" was to become "+brief(news[0])+" and would become "+brief(f.New))
		}
	}
	return out
}

// partial reports whether some of a value isn't known.
func partial(form json.RawMessage) bool {
	var x any
	return unmarshal(form, &x) == nil && holdsUnknown(x)
}

func holdsUnknown(x any) bool {
	switch x := x.(type) {
	case map[string]any:
		for k, v := range x {
			if k == "$unknown" || holdsUnknown(v) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(x, holdsUnknown)
	}
	return false
}

// brief writes a saved value for a message.
func brief(form json.RawMessage) string {
	var compact bytes.Buffer
	_ = json.Compact(&compact, form) // what isn't JSON stays empty, as what isn't there
	text := compact.String()
	if strings.Contains(text, `"$secret"`) || strings.Contains(text, `"$sealed"`) {
		return Mask
	}
	if len(text) > 120 {
		text = text[:120] + "…"
	}
	return orElse(text, "unset")
}

func orElse(s, other string) string {
	if s == "" || s == "null" {
		return other
	}
	return s
}

// Fulfils reports whether now is what was planned, in all that was known then.
func (s Saver) Fulfils(planned, now json.RawMessage) bool {
	if bytes.Equal(planned, now) {
		return true
	}
	var p, n any
	if unmarshal(planned, &p) != nil || unmarshal(now, &n) != nil {
		return false
	}
	return s.same(p, n)
}

func unmarshal(form json.RawMessage, x *any) error {
	if len(form) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(form))
	d.UseNumber()
	return d.Decode(x)
}

func (s Saver) same(planned, now any) bool {
	switch p := planned.(type) {
	case map[string]any:
		if _, unknown := p["$unknown"]; unknown && len(p) == 1 {
			return true
		}
		// A text that holds a secret shows as one only where that secret is known.
		if fp, ok := sealed(p); ok {
			if text, isText := now.(string); isText {
				return s.codec.Vault.(fingerprints).of(text) == fp
			}
		}
		n, ok := now.(map[string]any)
		if !ok || len(p) != len(n) {
			return false
		}
		for k := range p {
			x, ok := n[k]
			if !ok || !s.same(p[k], x) {
				return false
			}
		}
		return true
	case []any:
		n, ok := now.([]any)
		if !ok || len(p) != len(n) {
			return false
		}
		for i := range p {
			if !s.same(p[i], n[i]) {
				return false
			}
		}
		return true
	case string:
		if n, ok := now.(map[string]any); ok {
			fp, isSealed := sealed(n)
			return isSealed && s.codec.Vault.(fingerprints).of(p) == fp
		}
	}
	return reflect.DeepEqual(planned, now)
}

// sealed returns the digest of a text that holds a secret.
func sealed(m map[string]any) (string, bool) {
	fp, ok := m["$sealed"].(string)
	return fp, ok && len(m) == 1
}
