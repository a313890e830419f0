package ssh

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"sync"
)

// noiseLimit bounds what is kept of the output before the mark.
const noiseLimit = 16 << 10

// An output takes what a command writes to one stream. What comes before the
// mark's line isn't the command's.
type output struct {
	mark  []byte
	limit int64
	tee   io.Writer
	full  chan<- struct{} // gets a value when the limit is passed
	begun chan struct{}   // closed when the mark has come

	mu      sync.Mutex
	noise   []byte
	started bool
	over    bool
	pid     int
	data    bytes.Buffer
}

// Write never fails: a command isn't to be blocked by a reader that has
// enough.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(p)
	if !o.started {
		o.noise = append(o.noise, p...)
		if p = o.begin(); p == nil {
			return n, nil
		}
	}
	if o.over {
		return n, nil
	}
	if o.tee != nil {
		_, _ = o.tee.Write(p) // whoever watches doesn't stop the command
	}
	if room := o.limit - int64(o.data.Len()); int64(len(p)) > room {
		o.data.Write(p[:room])
		o.over = true
		select {
		case o.full <- struct{}{}:
		default: // the other stream said so already
		}
		return n, nil
	}
	o.data.Write(p)
	return n, nil
}

// begin looks for the mark in the noise, and returns what follows its line, or
// nil.
func (o *output) begin() []byte {
	i := bytes.Index(o.noise, o.mark)
	if i < 0 {
		if len(o.noise) > 2*noiseLimit { // a mark that is split stays whole
			o.noise = append([]byte(nil), o.noise[len(o.noise)-noiseLimit:]...)
		}
		return nil
	}
	end := bytes.IndexByte(o.noise[i:], '\n')
	if end < 0 {
		return nil
	}
	o.started = true
	close(o.begun)
	o.pid, _ = strconv.Atoi(strings.TrimSpace(string(o.noise[i+len(o.mark) : i+end]))) // stays 0 if there is none
	rest := o.noise[i+end+1:]
	o.noise = o.noise[:i]
	return rest
}

// state returns whether the mark came, and the process id with it.
func (o *output) state() (started bool, pid int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.started, o.pid
}

// bytes returns the command's output.
func (o *output) bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.data.Bytes()
}

// before returns what came instead of the mark, or before it.
func (o *output) before() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.TrimSpace(string(o.noise))
}
