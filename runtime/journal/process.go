package journal

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// A process is one process on one machine. What the system doesn't tell stays
// empty, and then nobody can tell that the process is dead.
type process struct {
	Host  string `json:"host"`
	Boot  string `json:"boot,omitempty"`  // the machine's id of the time since it started
	Space string `json:"space,omitempty"` // the namespace of process ids: containers have their own
	PID   int    `json:"pid"`
	Start string `json:"start,omitempty"` // when it started: a process id is used again
}

// thisProcess returns the process that this code runs in.
var thisProcess = sync.OnceValue(func() process {
	p := process{PID: os.Getpid()}
	p.Host, _ = os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	p.Boot = strings.TrimSpace(string(boot))
	p.Space, _ = os.Readlink("/proc/self/ns/pid")
	_, p.Start, _ = procStat(p.PID)
	return p
})

// elsewhere reports whether nothing can be known here of p.
func (p process) elsewhere() bool {
	me := thisProcess()
	return p.Host != me.Host || p.Boot != me.Boot || p.Space != me.Space || p.Boot == "" || p.Space == "" || p.Start == ""
}

// dead reports whether p is known to have ended.
func (p process) dead() bool {
	if p.elsewhere() {
		return false
	}
	// Where /proc shows only one's own processes, kill still tells.
	if errors.Is(syscall.Kill(p.PID, 0), syscall.ESRCH) {
		return true
	}
	state, start, ok := procStat(p.PID)
	return ok && (start != p.Start || state == "Z" || state == "X")
}

// procStat returns the state of a process, a letter, and when it started.
func procStat(pid int) (state, start string, ok bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", "", false
	}
	// The second field is the program's name in parentheses, which may hold
	// anything. The others are numbered from the third.
	text := string(data)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return "", "", false
	}
	return fields[0], fields[19], true
}
