package debian

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"time"
)

// An entry is a line of the journal.
type entry struct {
	at   time.Time
	unit string
	tag  string
	text string
}

// journal adds a line.
func (m *services) journal(unit, tag, text string) {
	const keep = 2000
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log = append(m.log, entry{m.sys.Clock.Now(), unit, tag, text})
	if len(m.log) > keep {
		m.log = slices.Clone(m.log[len(m.log)-keep/2:])
	}
}

type journalWriter struct {
	m         *services
	unit, tag string
	mu        sync.Mutex
	buf       bytes.Buffer
}

func (w *journalWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(b)
	for {
		line, err := w.buf.ReadString('\n')
		if err != nil {
			w.buf.WriteString(line)
			return len(b), nil
		}
		w.m.journal(w.unit, w.tag, strings.TrimSuffix(line, "\n"))
	}
}

func (w *journalWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.buf.Len() > 0 {
		w.m.journal(w.unit, w.tag, w.buf.String())
		w.buf.Reset()
	}
}
