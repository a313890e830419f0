package view

import (
	"io"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A PlanRecord is a plan as PlanJSON writes it.
type PlanRecord struct {
	Kind      string           `json:"kind"` // "plan"
	Recipe    string           `json:"recipe,omitempty"`
	Status    string           `json:"status"`  // "ok", "failed" or "stopped"; unless it is "ok", there may be more changes than these
	Changes   []PlannedRecord  `json:"changes"` // in the order of the steps, within one in that of its ops
	Stops     []StopRecord     `json:"stops"`
	Questions []QuestionRecord `json:"questions,omitempty"` // what a person would be asked
	Counts    PlanCounts       `json:"counts"`
	Deletions DeletionRecord   `json:"deletions"`
	// Undeclared is what the site owns and the recipe no longer declares; null
	// if that isn't known.
	Undeclared []OwnedRecord `json:"undeclared"`
	Error      *ErrorRecord  `json:"error,omitempty"` // what the plan failed with
}

// A DeletionRecord says whether the run may make the deletions that are planned,
// those by replacing included.
type DeletionRecord struct {
	Planned  int  `json:"planned"`
	Budget   *int `json:"budget"` // how many the run may make; null means no limit
	Exceeded bool `json:"exceeded"`
}

// A PlannedRecord is one change of a plan.
type PlannedRecord struct {
	Step   string       `json:"step"`
	Target string       `json:"target"`
	Change ChangeRecord `json:"change"`
	Pos    string       `json:"pos,omitempty"`
}

// A StopRecord says where the plan of a step stopped, and why.
type StopRecord struct {
	Step   string `json:"step"`
	Reason string `json:"reason"`
	Pos    string `json:"pos,omitempty"`
}

// PlanCounts are the numbers of changes by kind.
type PlanCounts struct {
	Create    int `json:"create"`
	Update    int `json:"update"`
	Replace   int `json:"replace"`
	Delete    int `json:"delete"`
	Run       int `json:"run"`
	Later     int `json:"later"` // known only after apply
	Unchanged int `json:"unchanged"`
}

// PlanJSON writes a plan as one line of JSON, a PlanRecord.
func PlanJSON(w io.Writer, p PlanData, o PlanOptions) error {
	r := o.Redactor
	c := countsOf(p.Changes)
	rec := PlanRecord{Kind: "plan", Recipe: r.String(p.Recipe), Status: statusOf(p.Err), Error: errorRecord(p.Err, r), Changes: []PlannedRecord{}, Stops: []StopRecord{},
		Counts: PlanCounts{Create: c.Created, Update: c.Updated, Replace: c.Replaced, Delete: c.Deleted, Run: c.Ran, Later: c.Later, Unchanged: p.Unchanged}}
	rec.Deletions.Planned, rec.Deletions.Exceeded = p.deletions()
	if u := p.Undeclared; p.Err == nil && u.Err == nil && u.Unsure == 0 {
		rec.Undeclared = ownedRecords(u.Things, r)
	}
	if p.Budget >= 0 {
		rec.Deletions.Budget = &p.Budget
	}
	add := func(_ int, b *branch) {
		for _, ch := range b.changes {
			cr := changeRecord(ch.Change, r)
			cr.After = afterRecord(ch.Change, r)
			rec.Changes = append(rec.Changes, PlannedRecord{Step: r.String(ch.Step), Target: r.String(ch.Target.String()), Change: *cr, Pos: r.String(ch.Pos)})
		}
		for _, q := range b.questions {
			rec.Questions = append(rec.Questions, QuestionRecord{Step: r.String(q.Step), Text: r.String(q.Text), Pos: r.String(q.Pos)})
		}
		for _, s := range b.stops {
			rec.Stops = append(rec.Stops, stopRecord(s, r))
		}
	}
	root := p.tree()
	add(0, root)
	root.walk(0, add)
	_, err := w.Write(jsonLine(rec))
	return err
}

func stopRecord(s Stop, r *effect.Redactor) StopRecord {
	rec := StopRecord{Step: r.String(s.Step), Pos: r.String(s.Pos)}
	if s.Err != nil {
		rec.Reason, rec.Pos = stopReason(s.Err, s.Pos, r)
	}
	return rec
}
