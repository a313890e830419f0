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
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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
	TypeAsk    = "ask"    // the run waits for a person
	TypeAnswer = "answer" // a person answered
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
	Holder string          `json:"holder,omitempty"` // who ran it: user@host pid; of TypeResume too; of TypeAnswer who answered
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

	// Of TypeAsk and TypeAnswer.
	Ask   string    `json:"ask,omitempty"` // the question's id
	Text  string    `json:"text,omitempty"`
	Until time.Time `json:"until,omitzero"` // of TypeAsk: nobody waits after that

	// Of TypeAnswer: "approved" or "denied". Of TypeStep and TypeEnd: how it ended. Of TypeResult: the error.
	Status  string `json:"status,omitempty"`
	Error   string `json:"error,omitempty"`
	Kind    string `json:"kind,omitempty"` // of the error
	Elapsed string `json:"elapsed,omitempty"`
	Changed int    `json:"changed,omitempty"` // of TypeEnd: number of changes of this process
}

// A Store is a folder of journals.
type Store struct {
	dir      string
	patience time.Duration // with a lock file that somebody is busy with
}

// Open returns the store in the folder dir, which it makes if need be.
//
// A folder that it makes keeps itself out of Git: journals name what a site has,
// and it may lie in the folder of a site, which is committed.
func Open(dir string) (*Store, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		err := os.MkdirAll(dir, 0o700)
		if err == nil {
			_, _, err = durable.CreateFile(filepath.Join(dir, ".gitignore"), []byte("*\n"), 0o600)
		}
		if err != nil {
			return nil, unwritable("opening the journal in", dir, err)
		}
	}
	for _, d := range []string{filepath.Join(dir, "runs"), filepath.Join(dir, "locks")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, unwritable("opening the journal in", dir, err)
		}
	}
	return &Store{dir: dir, patience: patience}, nil
}

// A Journal is the record of one run. Its methods may be called by several
// goroutines at once.
type Journal struct {
	codec effect.Codec
	now   func() time.Time
	guard effect.Guard
	file  *os.File
	write func([]byte) (int, error) // into file
	sync  func(*os.File) error
	past  *Past // what earlier processes of the run did; nil if there were none

	mu  sync.Mutex // guards what follows
	buf bytes.Buffer
	n   uint64 // entries added
	err error  // the first failure to write; the journal is lost then

	flushing sync.Mutex // held while writing
	flushed  uint64     // entries that are on disk; guarded by flushing
	size     int64      // bytes of the file that are whole entries; guarded by flushing
}

// Options say how a journal is kept.
type Options struct {
	Codec   effect.Codec // for what the entries hold
	NoFlush bool         // for measuring: don't wait for the disk
	Now     func() time.Time
	// Guard is asked before each write whether the run still holds its lock:
	// another one may go on with the journal otherwise. Nil allows all.
	Guard effect.Guard
}

// Start begins the journal of a run. The first entry is on disk when it
// returns.
func (s *Store) Start(first Entry, o Options) (*Journal, error) {
	path := s.path(first.Run)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, unwritable("starting journal", path, err)
	}
	j := newJournal(f, 0, o)
	first.Version, first.Type, first.Time = Version, TypeRun, j.now()
	if err = j.append(first, true); err == nil && !o.NoFlush {
		err = durable.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		// Nothing has begun: no run is to be seen.
		return nil, errors.Join(unwritable("starting journal", path, err), f.Close(), os.Remove(path))
	}
	return j, nil
}

// newJournal returns the journal in f, of which size bytes are whole entries.
func newJournal(f *os.File, size int64, o Options) *Journal {
	j := &Journal{codec: o.Codec, now: o.Now, guard: o.Guard, file: f, write: f.Write, sync: (*os.File).Sync, size: size}
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

// RunsOfPlans lists the runs that do a saved plan.
func (s *Store) RunsOfPlans() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(s.dir, "runs", "*.plan"))
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".plan")
	}
	return files, err
}

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
	if err = j.put(data); err != nil {
		j.mu.Lock()
		j.err = err
		j.mu.Unlock()
		return err
	}
	j.flushed = upTo
	return nil
}

// put writes lines and waits until they are on disk. The caller holds flushing.
func (j *Journal) put(lines []byte) error {
	if j.guard != nil {
		leave, err := j.guard(context.Background())
		if err != nil {
			return err
		}
		defer leave()
	}
	_, err := j.write(lines)
	if err != nil {
		err = errors.Join(err, j.file.Truncate(j.size)) // no piece of a line stays
	} else {
		j.size += int64(len(lines))
		err = j.sync(j.file)
	}
	if err == nil {
		return nil
	}
	// No recipe may take this for a failure of its own, nor try again.
	return &fault.Error{Op: "writing the journal", Target: j.file.Name(), Kind: fault.Limit, Err: err,
		Hint: diskHint(err) + " and run again: no change was begun after this"}
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
		codec := j.codec
		codec.Vault = noted{codec.Vault}
		form, err := codec.Encode(effect.ToStarlark(r.Attrs))
		if err != nil {
			return fault.Wrap("journalling", r.Target, err)
		}
		e.Value = form
	}
	return j.append(e, r.Kind != effect.None)
}

// noted is the vault of what is only noted, and never opened again: a secret
// that can't be kept is left out. The change is made by then.
type noted struct{ effect.Vault }

func (n noted) Seal(s *effect.Secret) (string, error) {
	if n.Vault == nil {
		return "", nil
	}
	sealed, err := n.Vault.Seal(s)
	if fault.KindOf(err) == fault.Invalid {
		return "", nil
	}
	return sealed, err
}

// Step records how a step ended; its type and time are set here.
func (j *Journal) Step(e Entry, elapsed time.Duration, stepErr error) error {
	e.Type, e.Time, e.Elapsed = TypeStep, j.now(), elapsed.Round(time.Millisecond).String()
	if stepErr != nil {
		e.Error, e.Kind = stepErr.Error(), string(fault.KindOf(stepErr))
	}
	return j.append(e, false)
}

// End records how the run ended and closes the journal. A journal that couldn't
// be written gets at least this entry if it can be.
func (j *Journal) End(status string, changed int, runErr error) error {
	e := Entry{Type: TypeEnd, Time: j.now(), Status: status, Changed: changed}
	if runErr != nil {
		e.Error, e.Kind = runErr.Error(), string(fault.KindOf(runErr))
	}
	err := j.append(e, true)
	if fault.KindOf(err) == fault.Limit {
		if line, merr := json.Marshal(e); merr == nil {
			j.flushing.Lock()
			_ = j.put(append(line, '\n')) // err says it already
			j.flushing.Unlock()
		}
	}
	if cerr := j.file.Close(); err == nil {
		err = cerr
	}
	return err
}
