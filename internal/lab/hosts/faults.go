package hosts

import (
	"regexp"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// Faults are what is wrong with a host. The zero value is a healthy host.
type Faults struct {
	Refuse      bool          // nothing listens on the SSH port
	Mute        bool          // connections are accepted, but no banner comes
	Delay       time.Duration // before each packet, both ways
	NoSudo      bool          // sudo asks for a password
	FullDisk    bool          // no write fits
	ReadOnly    bool          // the disk can't be changed
	MaxSessions int           // per connection; 0 is sshd's default, 10
	Drops       []Drop        // commands that lose their connection
}

// A Moment of a command.
type Moment string

// The moments at which a connection can break.
const (
	BeforeEffect Moment = "before" // nothing of the command has run
	OnOutput     Moment = "output" // at its first output; what runs is killed
	AfterEffect  Moment = "after"  // all of it has run, the answer is lost
)

// A Drop breaks the connection of the next commands that match: those whose
// command line does, or that start a program which does, such as a line of the
// script that they read. The moment is then that program's, and the rest of the
// script is killed.
type Drop struct {
	Command string // a regular expression; "" is every command line
	When    Moment
	Count   int  // how many times; 0 is once
	Reboot  bool // the host reboots at that moment, too
}

// Faults returns what SetFaults said, less the drops that are used up.
func (h *Host) Faults() Faults {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.faults
}

// health returns all that is wrong with the host.
func (h *Host) health() Faults {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sick
}

// SetFaults replaces what is wrong with the host. Connections that stand feel
// Delay, NoSudo and the state of the disk at once. What Fleet.Inject says
// comes on top.
func (h *Host) SetFaults(f Faults) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = f
	h.feel()
}

// ills returns all that is wrong with the host; h.mu is held.
func (h *Host) ills() Faults {
	f := h.faults
	for _, r := range h.fleet.faults.List() {
		if !r.matches(h) {
			continue
		}
		f.Refuse = f.Refuse || r.Refuse
		f.Mute = f.Mute || r.Mute
		f.NoSudo = f.NoSudo || r.NoSudo
		f.FullDisk = f.FullDisk || r.FullDisk
		f.ReadOnly = f.ReadOnly || r.ReadOnly
		f.Delay = max(f.Delay, time.Duration(r.DelayMS)*time.Millisecond)
	}
	return f
}

// feel applies what is wrong with the host; h.mu is held.
func (h *Host) feel() {
	f := h.ills()
	h.sick = f
	h.sys.FS.SetFull(f.FullDisk)
	h.sys.FS.SetReadOnly(f.ReadOnly)
	if f.Refuse {
		for addr, l := range h.listeners {
			if l != nil {
				l.Close()
				h.listeners[addr] = nil
			}
		}
	} else if h.up {
		h.listen()
	}
}

// ChangeHostKeys gives the SSH server new keys, as if another server had
// taken the address. The console doesn't tell.
func (h *Host) ChangeHostKeys() error {
	keys, err := newHostKeys()
	if err != nil {
		return fault.Wrap("making host keys", h.target(), err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys = keys
	return nil
}

// takeDrop returns the drop that a command line or program falls under, and
// counts it. met holds the ids of the faults that the command has met before,
// at its command line or an earlier program: each decides on a command once.
func (h *Host) takeDrop(command string, met map[string]bool) *Drop {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, d := range h.faults.Drops {
		re, err := regexp.Compile(d.Command)
		if err != nil || !re.MatchString(command) {
			continue
		}
		drops := append([]Drop{}, h.faults.Drops...)
		if d.Count <= 1 {
			drops = append(drops[:i], drops[i+1:]...)
		} else {
			drops[i].Count--
		}
		h.faults.Drops = drops
		return &d
	}
	f := h.fleet.faults.Take(func(f *Fault) bool {
		if f.Drop == "" || met[f.ID] || !f.matches(h) || !f.command.MatchString(command) {
			return false
		}
		met[f.ID] = true
		return true
	})
	if f == nil {
		return nil
	}
	return &Drop{When: f.Drop, Reboot: f.Reboot}
}

// hit counts that an injected fault which lasts was felt.
func (h *Host) hit(which func(*Fault) bool) {
	h.fleet.faults.Take(func(f *Fault) bool { return which(f) && f.matches(h) })
}

// refuseSudo tells whether sudo asks for a password now, and counts it.
func (h *Host) refuseSudo() bool {
	if !h.health().NoSudo {
		return false
	}
	h.hit(func(f *Fault) bool { return f.NoSudo })
	return true
}
