package openstack

import (
	"container/heap"
	"time"
)

// schedule holds what is to happen later: boots, deletions. Events run under the Cloud's lock, in the order
// of their times, either when a timer fires or when a request finds them due.
type schedule struct {
	events eventHeap
	seq    int
	timer  Stopper
	armed  time.Time
}

type event struct {
	due time.Time
	seq int
	run func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if h[i].due.Equal(h[j].due) {
		return h[i].seq < h[j].seq
	}
	return h[i].due.Before(h[j].due)
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	*h = (*h)[:last]
	return e
}

func (s *schedule) stopTimer() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// after arranges for run to be called, with the lock held, d from now.
func (c *Cloud) after(d time.Duration, run func()) {
	c.schedule.seq++
	heap.Push(&c.schedule.events, event{c.now().Add(d), c.schedule.seq, run})
	c.arm()
}

// arm sets the timer to the next event.
func (c *Cloud) arm() {
	s := &c.schedule
	if len(s.events) == 0 || c.closed {
		s.stopTimer()
		return
	}
	next := s.events[0].due
	if s.timer != nil && s.armed.Equal(next) {
		return
	}
	s.stopTimer()
	s.armed = next
	s.timer = c.clock.AfterFunc(next.Sub(c.now()), c.tick)
}

func (c *Cloud) tick() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.inFlight.Add(1)
	defer c.inFlight.Done()
	c.schedule.timer = nil
	c.advance()
	c.mu.Unlock()
}

// advance runs all events that are due. The lock is held.
func (c *Cloud) advance() {
	now := c.now()
	s := &c.schedule
	for len(s.events) > 0 && !s.events[0].due.After(now) && !c.closed {
		heap.Pop(&s.events).(event).run()
	}
	c.arm()
}
