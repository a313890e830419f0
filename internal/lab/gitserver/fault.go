package gitserver

import (
	"context"
	"fmt"
	"io"
	"path"
	"sync"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/inject"
)

// A Fault makes fetches or pushes go wrong. Each gets the first that matches
// and isn't used up.
type Fault struct {
	ID      string `json:"id" doc:"name to clear it by; made up if empty"`
	Repo    string `json:"repo,omitempty" doc:"pattern of the repository's name; any if empty"`
	Service string `json:"service,omitempty" doc:"fetch or push; both if empty"`
	Skip    int    `json:"skip,omitempty" doc:"matching ones to let pass first"`
	Count   int    `json:"count,omitempty" doc:"how often; 0 is once, -1 always"`
	Chance  int    `json:"chance,omitempty" doc:"at how many of 100 matching ones; 0 is all"`

	Race    string            `json:"race,omitempty" doc:"early or late: somebody else pushes just before the push begins, or after it was told where the branch is"`
	Files   map[string]string `json:"files,omitempty" doc:"what somebody else pushes: content by path; a file of its own by default"`
	Refuse  string            `json:"refuse,omitempty" doc:"text that the server refuses with"`
	Reset   string            `json:"reset,omitempty" doc:"before or after: when the connection of a push breaks, seen from its effect; that of a fetch breaks at its begin"`
	DelayMS int               `json:"delay_ms,omitempty" doc:"wait before anything else"`

	Hits int `json:"hits"` // how often it acted
}

func newFaults() *inject.Set[Fault] {
	return inject.New("git", func(f *Fault) inject.Turns {
		return inject.Turns{ID: &f.ID, Skip: &f.Skip, Count: &f.Count, Chance: &f.Chance, Hits: &f.Hits}
	})
}

// Inject adds a fault and returns its id. The error is of kind Invalid.
func (s *Server) Inject(f Fault) (string, error) {
	one := func(name, value string, of ...string) error {
		for _, v := range append(of, "") {
			if value == v {
				return nil
			}
		}
		return fault.New(fault.Invalid, "%s is %s or %s, not %q", name, of[0], of[1], value)
	}
	for _, err := range []error{one("service", f.Service, "fetch", "push"), one("race", f.Race, "early", "late"), one("reset", f.Reset, "before", "after")} {
		if err != nil {
			return "", err
		}
	}
	if _, err := path.Match(f.Repo, ""); err != nil {
		return "", fault.New(fault.Invalid, "repo: %q is no pattern", f.Repo)
	}
	switch {
	case f.Race != "" && f.Service == "fetch":
		return "", fault.New(fault.Invalid, "a fetch loses no race: service is push")
	case f.Race != "":
		f.Service = "push"
	case f.Refuse == "" && f.Reset == "" && f.DelayMS == 0:
		return "", fault.New(fault.Invalid, "the fault does nothing: give race, refuse, reset or delay_ms")
	}
	return s.faults.Add(f), nil
}

// Faults lists the faults with their hits.
func (s *Server) Faults() []Fault { return s.faults.List() }

// ClearFaults removes the faults of that id, or all for an empty one, and
// returns how many there were.
func (s *Server) ClearFaults(id string) int { return s.faults.Clear(id) }

// SeedFaults makes the chances of the faults repeatable.
func (s *Server) SeedFaults(seed uint64) { s.faults.Seed(seed) }

// spoiled returns the fault that a command gets; its zero value if there is none.
func (s *Server) spoiled(service, repo string) Fault {
	what := "fetch"
	if service == "git-receive-pack" {
		what = "push"
	}
	f := s.faults.Take(func(f *Fault) bool {
		ok, err := path.Match(f.Repo, repo)
		return (f.Service == "" || f.Service == what) && (f.Repo == "" || ok && err == nil)
	})
	if f == nil {
		return Fault{}
	}
	if what == "fetch" && f.Reset != "" {
		f.Reset = "before"
	}
	return *f
}

// compete pushes as somebody else would.
func (s *Server) compete(repo string, f Fault) error {
	files := f.Files
	if len(files) == 0 {
		s.mu.Lock()
		s.seq++
		files = map[string]string{fmt.Sprintf("others/%d", s.seq): "pushed by somebody else\n"}
		s.mu.Unlock()
	}
	return s.Commit(repo, "Change by somebody else", files)
}

// wait waits for d; false means that ctx has ended.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// late is a reader that does something before it hands on the first bytes.
type late struct {
	r    io.Reader
	once sync.Once
	do   func() error
	err  error
}

func (l *late) Read(b []byte) (int, error) {
	n, err := l.r.Read(b)
	if n > 0 {
		l.once.Do(func() { l.err = l.do() })
	}
	if l.err != nil {
		return 0, l.err
	}
	return n, err
}
