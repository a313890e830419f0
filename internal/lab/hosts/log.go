package hosts

import (
	"encoding/json"
	"io"
	"strings"
	"sync"
	"time"
)

// A Command is one thing that a client ran on a host. What it sent to the
// command's standard input isn't kept.
type Command struct {
	Seq     int       `json:"seq"`
	At      time.Time `json:"at"`
	Host    string    `json:"host"`
	User    string    `json:"user"`
	Kind    string    `json:"kind"` // exec, shell or sftp
	Command string    `json:"command"`
	Exit    int       `json:"exit"`
	Signal  string    `json:"signal,omitempty"`
	Dropped bool      `json:"dropped,omitempty"` // by a fault
	Writes  int64     `json:"writes,omitempty"`  // of an SFTP session
	Millis  int64     `json:"ms"`
}

type journal struct {
	mu   sync.Mutex
	w    io.Writer
	all  []Command
	fail error
}

func (j *journal) add(c Command) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c.Seq = len(j.all) + 1
	j.all = append(j.all, c)
	if j.w == nil || j.fail != nil {
		return
	}
	line, err := json.Marshal(c)
	if err == nil {
		_, err = j.w.Write(append(line, '\n'))
	}
	j.fail = err
}

// Commands lists what was run on all hosts after the command with the number
// since, in the order in which it ended.
func (f *Fleet) Commands(since int) []Command {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	if since >= len(f.log.all) {
		return nil
	}
	return append([]Command{}, f.log.all[max(0, since):]...)
}

// LogError is why the log can't be written, if so.
func (f *Fleet) LogError() error {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	return f.log.fail
}

// headOf is the beginning of a command line, on one line.
func headOf(command string) string {
	const limit = 300
	command = strings.TrimSpace(command)
	line, _, more := strings.Cut(command, "\n")
	if len(line) > limit {
		line, more = line[:limit], true
	}
	if more {
		line += " …"
	}
	return line
}
