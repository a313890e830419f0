package hosts

import (
	"path"
	"regexp"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/inject"
)

// A Fault makes hosts go wrong, those that are booted later included: either
// it breaks the connection of a command, or it lasts until it is cleared.
type Fault struct {
	ID   string `json:"id" doc:"name to clear it by; made up if empty"`
	Host string `json:"host,omitempty" doc:"pattern of the host's name, such as *-gateway; all hosts if empty"`

	Command string `json:"command,omitempty" doc:"regular expression, searched in the command line and in that of each program that it, or its script, starts; any command if empty"`
	Drop    Moment `json:"drop,omitempty" doc:"before, output or after: when the connection breaks: before what matches runs, at its first output, or once all of it has run; the rest of a script is killed"`
	Reboot  bool   `json:"reboot,omitempty" doc:"the host reboots at that moment"`
	Skip    int    `json:"skip,omitempty" doc:"matching commands to let pass first; one that starts several programs that match counts once"`
	Count   int    `json:"count,omitempty" doc:"how many commands; 0 is one, -1 all"`
	Chance  int    `json:"chance,omitempty" doc:"at how many of 100 matching commands; 0 is all"`

	Refuse   bool `json:"refuse,omitempty" doc:"until cleared: nothing listens on the SSH port"`
	Mute     bool `json:"mute,omitempty" doc:"until cleared: connections are accepted, but no banner comes"`
	NoSudo   bool `json:"no_sudo,omitempty" doc:"until cleared: sudo asks for a password"`
	FullDisk bool `json:"full_disk,omitempty" doc:"until cleared: no write fits"`
	ReadOnly bool `json:"read_only,omitempty" doc:"until cleared: the disk can't be changed"`
	DelayMS  int  `json:"delay_ms,omitempty" doc:"until cleared: wait before each packet, both ways"`

	Hits      int  `json:"hits"`                // how many commands it broke, connections it muted, calls of sudo it refused
	Uncounted bool `json:"uncounted,omitempty"` // it lasts, and nobody can say how often it was felt

	command *regexp.Regexp
}

func newFaults() *inject.Set[Fault] {
	return inject.New("host", func(f *Fault) inject.Turns {
		return inject.Turns{ID: &f.ID, Skip: &f.Skip, Count: &f.Count, Chance: &f.Chance, Hits: &f.Hits}
	})
}

func (f *Fault) matches(h *Host) bool {
	ok, err := path.Match(f.Host, h.spec.Name)
	return f.Host == "" || ok && err == nil
}

func (f *Fault) lasts() bool {
	return f.Refuse || f.Mute || f.NoSudo || f.FullDisk || f.ReadOnly || f.DelayMS > 0
}

// Inject adds a fault and returns its id. The error is of kind Invalid.
func (fl *Fleet) Inject(f Fault) (string, error) {
	var err error
	if f.command, err = regexp.Compile(f.Command); err != nil {
		return "", fault.New(fault.Invalid, "command: %v", err)
	}
	if _, err := path.Match(f.Host, ""); err != nil {
		return "", fault.New(fault.Invalid, "host: %q is no pattern", f.Host)
	}
	if f.Reboot && f.Drop == "" {
		f.Drop = BeforeEffect
	}
	switch {
	case f.Drop != "" && f.Drop != BeforeEffect && f.Drop != OnOutput && f.Drop != AfterEffect:
		return "", fault.New(fault.Invalid, "drop is before, output or after, not %q", f.Drop)
	case f.Drop != "" && f.lasts():
		return "", fault.New(fault.Invalid, "drop is about commands, and the rest lasts until it is cleared: give two faults")
	case f.Drop == "" && !f.lasts():
		return "", fault.New(fault.Invalid, "the fault does nothing: give drop, reboot, refuse, mute, no_sudo, full_disk, read_only or delay_ms")
	}
	if f.lasts() {
		if f.Command != "" || f.Skip != 0 || f.Count > 0 || f.Chance != 0 {
			return "", fault.New(fault.Invalid, "command, skip, count and chance are about drop; the rest lasts until it is cleared")
		}
		f.Count = -1
		f.Uncounted = !f.Mute && !f.NoSudo
	}
	id := fl.faults.Add(f)
	fl.feel()
	return id, nil
}

// Faults lists the faults with their hits.
func (fl *Fleet) Faults() []Fault { return fl.faults.List() }

// ClearFaults removes the faults of that id, or all for an empty one, and
// returns how many there were. What SetFaults said of a host stays.
func (fl *Fleet) ClearFaults(id string) int {
	n := fl.faults.Clear(id)
	fl.feel()
	return n
}

// SeedFaults makes the chances of the faults repeatable.
func (fl *Fleet) SeedFaults(seed uint64) { fl.faults.Seed(seed) }

// feel applies the faults to all hosts.
func (fl *Fleet) feel() {
	for _, h := range fl.Hosts() {
		h.mu.Lock()
		h.feel()
		h.mu.Unlock()
	}
}
