// Package journal keeps the record of each run: what it was about to change,
// what came of it, and what each step returned.
//
// A journal is a file of JSON lines that is only appended to. A change's
// intent is on disk before the change is made, and its result before the next
// thing that depends on it. Changes that are made at the same time share one
// flush.
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/durable"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Version is the version of the journal's form that this code writes.
const Version = 1

// The types of entry.
const (
	TypeRun    = "run"    // the first one: what runs
	TypeIntent = "intent" // a change is about to be made
	TypeResult = "result" // an op ended
	TypeStep   = "step"   // a step, or one item of it, ended
	TypeValue  = "value"  // what a step got from the clock or by chance
	TypeResume = "resume" // the run goes on in another process
	TypeEnd    = "end"    // the run ended
)

// VerbDestroy is the verb of a run that deletes what other runs made.
const VerbDestroy = "destroy"

// An Entry is one line of a journal.
type Entry struct {
	Version int       `json:"v,omitempty"` // of TypeRun
	Type    string    `json:"type"`
	Time    time.Time `json:"time"`

	// Of TypeRun.
	Run    string          `json:"run,omitempty"`
	Recipe string          `json:"recipe,omitempty"`
	Site   string          `json:"site,omitempty"`
	Inputs json.RawMessage `json:"inputs,omitempty"`
	Source string          `json:"source,omitempty"` // what the recipe was called on the command line; a file's path is absolute
	Holder string          `json:"holder,omitempty"` // who ran it: user@host pid; of TypeResume too
	Verb   string          `json:"verb,omitempty"`   // empty for a run, or VerbDestroy
	Marks  []string        `json:"marks,omitempty"`  // of a destroy: what the owner marks of what it deletes begin with

	// Of TypeIntent, TypeResult and TypeStep.
	Step   string          `json:"step,omitempty"`
	Target string          `json:"target,omitempty"`
	Change string          `json:"change,omitempty"`
	Mark   string          `json:"mark,omitempty"`
	Pos    string          `json:"pos,omitempty"`
	Value  json.RawMessage `json:"value,omitempty"` // attributes of a target; a step's result

	// Of TypeStep: what its result depends on, and the files that it read, with
	// their digests.
	Key   string            `json:"key,omitempty"`
	Files map[string]string `json:"files,omitempty"`

	// Of TypeStep and TypeEnd: how it ended. Of TypeResult: the error.
	Status  string `json:"status,omitempty"`
	Error   string `json:"error,omitempty"`
	Kind    string `json:"kind,omitempty"` // of the error
	Elapsed string `json:"elapsed,omitempty"`
	Changed int    `json:"changed,omitempty"` // of TypeEnd: number of changes of this process
}

// A Store is a folder of journals.
type Store struct{ dir string }

// Open returns the store in the folder dir, which it makes if need be.
func Open(dir string) (*Store, error) {
	for _, d := range []string{filepath.Join(dir, "runs"), filepath.Join(dir, "locks")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, &fault.Error{Op: "opening the journal in", Target: dir, Kind: fault.Invalid, Err: err, Hint: stateHint}
		}
	}
	return &Store{dir: dir}, nil
}

// A Journal is the record of one run. Its methods may be called by several
// goroutines at once.
type Journal struct {
	codec effect.Codec
	now   func() time.Time
	sync  func(*os.File) error
	past  *Past // what earlier processes of the run did; nil if there were none

	mu   sync.Mutex // guards what follows
	file *os.File
	buf  bytes.Buffer
	n    uint64 // entries added
	err  error  // the first failure to write; the journal is lost then

	flushing sync.Mutex // held while writing
	flushed  uint64     // entries that are on disk; guarded by flushing
}

// Options say how a journal is kept.
type Options struct {
	Codec   effect.Codec // for what the entries hold
	NoFlush bool         // for measuring: don't wait for the disk
	Now     func() time.Time
}

// Start begins the journal of a run. The first entry is on disk when it
// returns.
func (s *Store) Start(first Entry, o Options) (*Journal, error) {
	path := s.path(first.Run)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, &fault.Error{Op: "starting journal", Target: path, Kind: fault.Invalid, Err: err, Hint: stateHint}
	}
	j := newJournal(f, o)
	first.Version, first.Type, first.Time = Version, TypeRun, j.now()
	if err := j.append(first, true); err != nil {
		return nil, err
	}
	if o.NoFlush {
		return j, nil
	}
	if err := durable.SyncDir(filepath.Dir(path)); err != nil {
		_ = f.Close()
		return nil, &fault.Error{Op: "flushing", Target: filepath.Dir(path), Kind: fault.Failed, Err: err}
	}
	return j, nil
}

func newJournal(f *os.File, o Options) *Journal {
	j := &Journal{codec: o.Codec, now: o.Now, file: f, sync: (*os.File).Sync}
	if j.now == nil {
		j.now = time.Now
	}
	if o.NoFlush {
		j.sync = func(*os.File) error { return nil }
	}
	return j
}

func (s *Store) path(run string) string { return filepath.Join(s.dir, "runs", run+".jsonl") }

// LogPath returns the file for what a run told.
func (s *Store) LogPath(run string) string { return filepath.Join(s.dir, "runs", run+".log") }

// PlanPath returns the file for the saved plan that a run does.
func (s *Store) PlanPath(run string) string { return filepath.Join(s.dir, "runs", run+".plan") }

// append adds an entry, and waits until it is on disk if flush is set.
func (j *Journal) append(e Entry, flush bool) error {
	line, err := json.Marshal(e)
	if err != nil {
		return &fault.Error{Op: "writing the journal", Kind: fault.Internal, Err: err}
	}
	j.mu.Lock()
	if j.err != nil {
		defer j.mu.Unlock()
		return j.err
	}
	j.buf.Write(line)
	j.buf.WriteByte('\n')
	j.n++
	n, full := j.n, j.buf.Len() > 64<<10
	j.mu.Unlock()
	if flush || full {
		return j.flush(n)
	}
	return nil
}

// flush returns once the first n entries are on disk. Entries that others add
// meanwhile go with the next one who flushes, together.
func (j *Journal) flush(n uint64) error {
	j.flushing.Lock()
	defer j.flushing.Unlock()
	if j.flushed >= n {
		return nil
	}
	j.mu.Lock()
	data, upTo, err := bytes.Clone(j.buf.Bytes()), j.n, j.err
	j.buf.Reset()
	j.mu.Unlock()
	if err != nil {
		return err
	}
	if _, err = j.file.Write(data); err == nil {
		err = j.sync(j.file)
	}
	if err != nil {
		err = &fault.Error{Op: "writing the journal", Target: j.file.Name(), Kind: fault.Failed, Err: err,
			Hint: "free space in the state folder and run again; nothing was changed after the last entry"}
		j.mu.Lock()
		j.err = err
		j.mu.Unlock()
		return err
	}
	j.flushed = upTo
	return nil
}

// Intent records a change that is about to be made.
func (j *Journal) Intent(r effect.Record) error {
	return j.append(Entry{Type: TypeIntent, Time: r.Time, Step: r.Step, Target: r.Target, Change: string(r.Kind), Mark: r.Mark, Pos: r.Pos}, true)
}

// Result records how an op ended.
func (j *Journal) Result(r effect.Record) error {
	e := Entry{Type: TypeResult, Time: r.Time, Step: r.Step, Target: r.Target, Change: string(r.Kind), Mark: r.Mark, Pos: r.Pos}
	if r.Err != nil {
		e.Error, e.Kind = r.Err.Error(), string(fault.KindOf(r.Err))
	} else if r.Kind != effect.None {
		form, err := j.codec.Encode(effect.ToStarlark(r.Attrs))
		if err != nil {
			return fault.Wrap("journalling", r.Target, err)
		}
		e.Value = form
	}
	return j.append(e, r.Kind != effect.None)
}

// Step records how a step ended; its type and time are set here.
func (j *Journal) Step(e Entry, elapsed time.Duration, stepErr error) error {
	e.Type, e.Time, e.Elapsed = TypeStep, j.now(), elapsed.Round(time.Millisecond).String()
	if stepErr != nil {
		e.Error, e.Kind = stepErr.Error(), string(fault.KindOf(stepErr))
	}
	return j.append(e, false)
}

// End records how the run ended and closes the journal.
func (j *Journal) End(status string, changed int, runErr error) error {
	e := Entry{Type: TypeEnd, Time: j.now(), Status: status, Changed: changed}
	if runErr != nil {
		e.Error, e.Kind = runErr.Error(), string(fault.KindOf(runErr))
	}
	err := j.append(e, true)
	return errors.Join(err, j.file.Close())
}

// Read returns the entries of a run's journal. A last line that was cut short
// by a crash is left out, and torn says so.
func (s *Store) Read(run string) (entries []Entry, torn bool, err error) {
	data, err := os.ReadFile(s.path(run))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, fault.Hinted(fault.NotFound, "list them with gsrun runs", "no run %s in %s", run, s.dir)
	}
	if err != nil {
		return nil, false, &fault.Error{Op: "reading journal", Target: run, Kind: fault.Invalid, Err: err}
	}
	lines := bytes.Split(data, []byte("\n"))
	for i, line := range lines {
		last := i == len(lines)-1
		if len(line) == 0 && last {
			break
		}
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			if last {
				return entries, true, nil
			}
			return nil, false, &fault.Error{Op: "reading journal", Target: fmt.Sprintf("%s line %d", s.path(run), i+1), Kind: fault.Invalid, Err: err}
		}
		if i == 0 && e.Version != Version {
			return nil, false, fault.Hinted(fault.Invalid, "read it with the gsrun that wrote it", "journal %s has version %d; this gsrun reads %d", run, e.Version, Version)
		}
		entries = append(entries, e)
	}
	return entries, false, nil
}

// Ended reports whether the run's last process ended it.
func (s *Store) Ended(run string) bool {
	entries, _, err := s.Read(run)
	if err != nil || len(entries) == 0 {
		return true
	}
	return entries[len(entries)-1].Type == TypeEnd
}

// A Summary is a run in a list of runs.
type Summary struct {
	Run     string    `json:"run"`
	Recipe  string    `json:"recipe"`
	Verb    string    `json:"verb,omitempty"` // as Entry.Verb
	Site    string    `json:"site"`
	Holder  string    `json:"holder"`
	Start   time.Time `json:"start"`
	End     time.Time `json:"end,omitzero"` // zero if the run didn't end by itself
	Status  string    `json:"status"`       // "ok", "failed", "stopped"; "unfinished" if it runs or was killed; "unreadable"
	Changed int       `json:"changed"`
	Error   string    `json:"error,omitempty"`
}

// Runs lists the runs in the store, the newest first.
func (s *Store) Runs() ([]Summary, error) {
	files, err := os.ReadDir(filepath.Join(s.dir, "runs"))
	if err != nil {
		return nil, &fault.Error{Op: "reading", Target: s.dir, Kind: fault.Invalid, Err: err}
	}
	var out []Summary
	for _, f := range files {
		id, ok := strings.CutSuffix(f.Name(), ".jsonl")
		if !ok {
			continue
		}
		entries, _, err := s.Read(id)
		if err != nil {
			// One that can't be read doesn't hide the others.
			out = append(out, Summary{Run: id, Status: "unreadable", Error: err.Error()})
			continue
		}
		if len(entries) > 0 {
			out = append(out, summarize(entries))
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Start.After(out[j].Start) })
	return out, nil
}

func summarize(entries []Entry) Summary {
	first, last := entries[0], entries[len(entries)-1]
	s := Summary{Run: first.Run, Recipe: first.Recipe, Verb: first.Verb, Site: first.Site, Holder: first.Holder, Start: first.Time, Status: "unfinished"}
	if last.Type == TypeEnd {
		s.End, s.Status, s.Error = last.Time, last.Status, last.Error
	}
	for _, e := range entries {
		if e.Type == TypeResult && e.Change != string(effect.None) && e.Error == "" {
			s.Changed++
		}
	}
	return s
}
