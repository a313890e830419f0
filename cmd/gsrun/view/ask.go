package view

import (
	"slices"
	"sync"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// asked returns what to say of a question to a person, or of the answer.
func (t *teller) asked(e effect.Event) string {
	if e.Ask == nil {
		return ""
	}
	text := oneLine(t.cfg.Redactor.String(e.Ask.Text))
	if e.Kind == effect.Answered {
		color := green
		if e.Ask.Answer != "approved" {
			color = red
		}
		return t.line(e.Step, color, e.Ask.Answer+" by "+clean(e.Ask.By)+": "+text+" ("+took(e.Elapsed)+")")
	}
	if t.cfg.Verb == Planning {
		return t.line(e.Step, cyan, "would ask: "+text)
	}
	out := t.line(e.Step, yellow, "asks: "+text)
	if e.Ask.How != "" {
		out += t.line(e.Step, yellow, "to answer: "+oneLine(e.Ask.How))
	}
	return out
}

// ask takes a question, or the answer, into the model.
func (m *model) ask(e effect.Event) {
	n := m.node(e.Step, e.Time)
	if e.Kind == effect.Answered || e.Ask == nil || m.cfg.Verb == Planning {
		n.note = ""
		return
	}
	n.note, n.noteColor = "waits for approval: "+m.clean(e.Ask.Text), yellow
}

// An AskRecord is a question to a person, or the answer.
type AskRecord struct {
	Text   string `json:"text"`
	How    string `json:"how,omitempty"`    // of asked: how to answer
	Answer string `json:"answer,omitempty"` // of answered: "approved" or "denied"
	By     string `json:"by,omitempty"`     // of answered: user@host
}

func askRecord(a *effect.Ask, r *effect.Redactor) *AskRecord {
	if a == nil {
		return nil
	}
	return &AskRecord{Text: r.String(a.Text), How: r.String(a.How), Answer: a.Answer, By: r.String(a.By)}
}

// A Question is what a run would ask a person.
type Question struct {
	Step, Text, Pos string
}

// Questions collects what a plan would ask from its events. The zero value is
// ready for use, by several goroutines at once.
type Questions struct {
	mu  sync.Mutex
	all []Question
}

// Event keeps e if it is a question.
func (q *Questions) Event(e effect.Event) {
	if e.Kind != effect.Asked || e.Ask == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all = append(q.all, Question{Step: e.Step, Text: e.Ask.Text, Pos: e.Pos})
}

// All returns the questions so far.
func (q *Questions) All() []Question {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.all)
}

// A QuestionRecord is a question of a plan as PlanJSON writes it.
type QuestionRecord struct {
	Step string `json:"step"`
	Text string `json:"text"`
	Pos  string `json:"pos,omitempty"`
}
