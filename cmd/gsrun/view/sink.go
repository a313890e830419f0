package view

import (
	"io"
	"sync"
)

// maxPending is how far an output may fall behind, in bytes, before whoever
// writes to it has to wait: a terminal that is stopped for a while doesn't stop
// the run.
const maxPending = 8 << 20

// A sink writes to w in a goroutine of its own, in order.
type sink struct {
	w io.Writer

	mu     sync.Mutex
	cond   *sync.Cond
	buf    []byte
	busy   bool // a write is under way
	closed bool
	err    error
	done   chan struct{}
}

func newSink(w io.Writer) *sink {
	s := &sink{w: w, done: make(chan struct{})}
	s.cond = sync.NewCond(&s.mu)
	go s.run()
	return s
}

// write appends text to what is to be written. Texts of one call stay together.
func (s *sink) write(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.buf) > maxPending && !s.closed && s.err == nil {
		s.cond.Wait()
	}
	if s.closed || s.err != nil {
		return
	}
	s.buf = append(s.buf, text...)
	s.cond.Broadcast()
}

// idle reports whether all has been written.
func (s *sink) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.buf) == 0 && !s.busy
}

// close waits until all is written and returns the first error.
func (s *sink) close() error {
	s.mu.Lock()
	s.closed = true
	s.cond.Broadcast()
	s.mu.Unlock()
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *sink) run() {
	defer close(s.done)
	var spare []byte
	for {
		s.mu.Lock()
		for len(s.buf) == 0 && !s.closed {
			s.cond.Wait()
		}
		if len(s.buf) == 0 || s.err != nil {
			s.mu.Unlock()
			return
		}
		chunk := s.buf
		s.buf, s.busy = spare[:0], true
		s.cond.Broadcast()
		s.mu.Unlock()
		_, err := s.w.Write(chunk)
		spare = chunk
		s.mu.Lock()
		s.busy = false
		if err != nil {
			s.err, s.buf = err, nil
		}
		s.cond.Broadcast()
		s.mu.Unlock()
	}
}
