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
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Read returns the entries of a run's journal. A last line that was cut short
// by a crash is left out, and torn says so. If a line can't be read, the error
// names the first such line, and the entries are those that can.
func (s *Store) Read(run string) (entries []Entry, torn bool, err error) {
	path := s.path(run)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, fault.Hinted(fault.Invalid, "list them with gsrun runs list", "no run %s in %s", run, s.dir)
	}
	if err != nil {
		return nil, false, &fault.Error{Op: "reading journal", Target: path, Kind: fault.Invalid, Err: err, Hint: "see who may read the state folder"}
	}
	lines := bytes.Split(data, []byte("\n"))
	tail := lines[len(lines)-1]
	for i, line := range lines[:len(lines)-1] {
		var e Entry
		bad := json.Unmarshal(line, &e)
		if i == 0 && bad == nil && (e.Type != TypeRun || e.Version != Version) {
			return nil, false, fault.Hinted(fault.Invalid, "read it with the gsrun that wrote it, or run the recipe again",
				"journal %s has version %d; this gsrun reads %d", path, e.Version, Version)
		}
		if bad == nil {
			entries = append(entries, e)
		} else if err == nil {
			err = &fault.Error{Op: "reading journal", Target: fmt.Sprintf("%s line %d", path, i+1), Kind: fault.Invalid, Err: bad,
				Hint: "the file was damaged; run the recipe again: a run looks at everything anew"}
		}
	}
	return entries, len(tail) > 0 || len(data) == 0, err
}

// Ended reports whether nobody works at the run: it ended, or its process is
// gone.
func (s *Store) Ended(run string) bool {
	entries, _, err := s.Read(run)
	if err != nil || len(entries) == 0 {
		return true
	}
	return entries[len(entries)-1].Type == TypeEnd || !s.working()[run]
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
	Status  string    `json:"status"`       // "ok", "failed", "stopped"; "running"; "waiting" if a person is asked; "unfinished" if it was killed; "unreadable"
	Changed int       `json:"changed"`
	Error   string    `json:"error,omitempty"`
	Waits   []string  `json:"waits,omitempty"` // the questions that it waits with, if its status is "waiting"
}

// Runs lists the runs in the store, the newest first.
func (s *Store) Runs() ([]Summary, error) {
	files, err := os.ReadDir(filepath.Join(s.dir, "runs"))
	if err != nil {
		return nil, &fault.Error{Op: "reading", Target: s.dir, Kind: fault.Invalid, Err: err, Hint: "see who may read the state folder"}
	}
	working := s.working()
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
		if len(entries) > 0 { // a run that was killed before its first entry did nothing
			out = append(out, summarize(entries, time.Now(), working[id]))
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Start.After(out[j].Start) })
	return out, nil
}

func summarize(entries []Entry, now time.Time, working bool) Summary {
	first, last := entries[0], entries[len(entries)-1]
	s := Summary{Run: first.Run, Recipe: first.Recipe, Verb: first.Verb, Site: first.Site, Holder: first.Holder, Start: first.Time, Status: "unfinished"}
	if last.Type == TypeEnd {
		s.End, s.Status, s.Error = last.Time, last.Status, last.Error
	}
	if working && s.End.IsZero() {
		s.Status = "running"
	}
	for _, q := range Waiting(entries) {
		if working && now.Before(q.Until) {
			s.Status, s.Waits = "waiting", append(s.Waits, q.Text)
		}
	}
	for _, e := range entries {
		if e.Type == TypeResult && e.Change != string(effect.None) && e.Error == "" {
			s.Changed++
		}
	}
	return s
}
