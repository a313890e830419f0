package journal

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/durable"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// How a question was answered, as the entries say it.
const (
	approved = "approved"
	denied   = "denied"
)

// Ask records a question that the run waits with. Others can see it when Ask
// returns.
func (j *Journal) Ask(q effect.Question) error {
	return j.append(Entry{Type: TypeAsk, Time: q.Asked, Step: q.Step, Ask: q.ID, Text: q.Text, Pos: q.Pos, Until: q.Until}, true)
}

// Answer records how a question was answered. It is on disk when Answer
// returns.
func (j *Journal) Answer(q effect.Question, a effect.Answer) error {
	return j.append(Entry{Type: TypeAnswer, Time: j.now(), Step: q.Step, Ask: q.ID, Text: q.Text, Status: status(a), Holder: a.By}, true)
}

func status(a effect.Answer) string {
	if a.Approved {
		return approved
	}
	return denied
}

// Waiting returns the questions that a run with these entries waits with.
func Waiting(entries []Entry) []effect.Question {
	var open []effect.Question
	for _, e := range entries {
		switch e.Type {
		case TypeResume, TypeEnd: // the process that asked is gone
			open = nil
		case TypeAsk:
			open = append(open, effect.Question{ID: e.Ask, Step: e.Step, Text: e.Text, Pos: e.Pos, Asked: e.Time, Until: e.Until})
		case TypeAnswer, TypeStep:
			kept := open[:0]
			for _, q := range open {
				answered := e.Type == TypeAnswer && q.ID == e.Ask
				given := e.Type == TypeStep && q.Step == e.Step // the step ended without an answer
				if !answered && !given {
					kept = append(kept, q)
				}
			}
			open = kept
		}
	}
	return open
}

// answerFile is the form of an answer that another process gives.
type answerFile struct {
	Answer string    `json:"answer"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}

func (s *Store) answerPath(run, id string) string {
	return filepath.Join(s.dir, "runs", run+"."+id+".answer")
}

// GiveAnswer answers a question of a run that another process works at. It
// returns the answer that counts and whether that is this one: of several, the
// first does.
func (s *Store) GiveAnswer(run, id string, a effect.Answer) (effect.Answer, bool, error) {
	path := s.answerPath(run, id)
	failed := func(err error) (effect.Answer, bool, error) {
		return effect.Answer{}, false, unwritable("answering in", path, err)
	}
	data, err := json.Marshal(answerFile{Answer: status(a), By: a.By, At: a.At})
	if err != nil {
		return failed(err)
	}
	stored, created, err := durable.CreateFile(path, append(data, '\n'), 0o600)
	if err != nil {
		return failed(err)
	}
	if a, err = readAnswer(stored); err != nil {
		return failed(err)
	}
	return a, created, nil
}

// GivenAnswer returns the answer that another process gave to a question, and
// whether there is one.
func (s *Store) GivenAnswer(run, id string) (effect.Answer, bool, error) {
	path := s.answerPath(run, id)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return effect.Answer{}, false, nil
	}
	var a effect.Answer
	if err == nil {
		a, err = readAnswer(data)
	}
	if err != nil {
		return a, false, &fault.Error{Op: "reading the answer in", Target: path, Kind: fault.Invalid, Err: err, Hint: "remove it and answer by gsrun approve"}
	}
	return a, true, nil
}

// ForgetAnswer removes the answer that another process gave: the journal has
// it now.
func (s *Store) ForgetAnswer(run, id string) error {
	path := s.answerPath(run, id)
	if err := durable.Remove(path); err != nil {
		return &fault.Error{Op: "removing", Target: path, Kind: fault.Failed, Err: err}
	}
	return nil
}

func readAnswer(data []byte) (effect.Answer, error) {
	var f answerFile
	if err := json.Unmarshal(data, &f); err != nil {
		return effect.Answer{}, err
	}
	if f.Answer != approved && f.Answer != denied || f.By == "" {
		return effect.Answer{}, errors.New("it says neither who nor whether it is approved or denied")
	}
	return effect.Answer{Approved: f.Answer == approved, By: f.By, At: f.At}, nil
}
