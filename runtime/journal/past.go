package journal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/durable"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A Past is what earlier processes of a run did, or what a saved plan saw: what
// a process that goes on from there takes over.
type Past struct {
	Steps  map[string]Entry  // that ended well, and nothing has come of them since; by path
	Values map[string]string // from the clock and from chance, by place (see effect.Once)
	// Approved are the questions that a person approved, by their IDs.
	Approved map[string]effect.Answer
}

// PastOf returns what the entries of a run's journal tell.
func PastOf(ctx context.Context, entries []Entry, c effect.Codec) (*Past, error) {
	p := &Past{Steps: make(map[string]Entry), Values: make(map[string]string), Approved: make(map[string]effect.Answer)}
	for _, e := range entries {
		switch e.Type {
		case TypeAnswer:
			if e.Status == approved {
				p.Approved[e.Ask] = effect.Answer{Approved: true, By: e.Holder, At: e.Time}
			}
		case TypeStep:
			delete(p.Steps, e.Step)
			if e.Status == "ok" && e.Key != "" {
				p.Steps[e.Step] = e
			}
		case TypeValue:
			v, err := c.Decode(ctx, e.Value)
			if err != nil {
				return nil, fault.Wrap("reading the journal's value", e.Step, err)
			}
			text, ok := starlark.AsString(v)
			if !ok {
				return nil, fault.New(fault.Invalid, "the journal's value %s is a %s, not a text", e.Step, v.Type())
			}
			p.Values[e.Step] = text
		}
	}
	return p, nil
}

// Remember makes the journal an effect.Memory that knows what p does.
func (j *Journal) Remember(p *Past) { j.past = p }

// Past returns what Remember was given, or nil.
func (j *Journal) Past() *Past { return j.past }

// Recall returns what was kept under key by an earlier process of the run.
func (j *Journal) Recall(key string) (string, bool) {
	if j.past == nil {
		return "", false
	}
	v, ok := j.past.Values[key]
	return v, ok
}

// Keep keeps a value; it is on disk before the next change is made.
func (j *Journal) Keep(key, value string) error {
	form, err := j.codec.Encode(starlark.String(value))
	if err != nil {
		return fault.Wrap("journalling", key, err)
	}
	return j.append(Entry{Type: TypeValue, Time: j.now(), Step: key, Value: form}, false)
}

// Continue opens the journal of a run that goes on. An entry that was cut short
// is cut off: nothing was done that depends on it.
func (s *Store) Continue(run, holder string, o Options) (*Journal, error) {
	path := s.path(run)
	failed := func(err error) error { return unwritable("continuing journal", path, err) }
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, failed(err)
	}
	data, err := io.ReadAll(f)
	whole := int64(bytes.LastIndexByte(data, '\n') + 1)
	if err == nil && whole < int64(len(data)) {
		err = f.Truncate(whole)
	}
	if err != nil {
		return nil, errors.Join(failed(err), f.Close())
	}
	j := newJournal(f, whole, o)
	if err := j.append(Entry{Type: TypeResume, Time: j.now(), Holder: holder}, true); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// keySize is the length of the store's key in bytes.
const keySize = 32

// Key returns the store's own random key, which is made at the first call.
func (s *Store) Key(random func([]byte) (int, error)) ([]byte, error) {
	fresh := make([]byte, keySize)
	if _, err := random(fresh); err != nil {
		return nil, &fault.Error{Op: "making the journal's key", Kind: fault.Internal, Err: err}
	}
	path := filepath.Join(s.dir, "key")
	key, _, err := durable.CreateFile(path, fresh, 0o600)
	if err == nil && len(key) != keySize {
		err = fault.Hinted(fault.Invalid, "remove it; then runs before can't be resumed", "%s has %d bytes, not %d", path, len(key), keySize)
	}
	if err != nil {
		return nil, unwritable("making", path, err)
	}
	return key, nil
}
