package effect

import "time"

// An EventKind says what an Event reports.
type EventKind string

// The kinds of event. A run emits them in the order in which things happen;
// events of steps that run at the same time are interleaved.
const (
	RunStart  EventKind = "run_start"
	RunEnd    EventKind = "run_end"
	StepStart EventKind = "step_start"
	StepEnd   EventKind = "step_end"
	StepSkip  EventKind = "step_skip"
	OpStart   EventKind = "op_start" // a change begins
	OpEnd     EventKind = "op_end"   // an op ended: unchanged, changed or failed
	OpPlan    EventKind = "op_plan"  // a change is planned
	OpRetry   EventKind = "op_retry" // an op failed and will be tried again
	Progress  EventKind = "progress" // what a step or op is doing now
	Log       EventKind = "log"      // a line that a recipe logged
	Waiting   EventKind = "waiting"  // what a wait saw last
	Deferred  EventKind = "deferred" // a step's plan stopped at a value not yet known
	Asked     EventKind = "asked"    // a person is asked; in a plan: would be
	Answered  EventKind = "answered" // the person answered
)

// An Event is something that happened in a run. Its texts are free of secrets.
type Event struct {
	Time    time.Time
	Kind    EventKind
	Step    string
	Target  string
	Change  *Change // of OpPlan, OpStart and OpEnd
	Message string
	Err     error // already redacted
	Elapsed time.Duration
	Pos     string
	Attempt bool // of OpEnd: Err is caught by an attempt of the recipe
	Try     int  // of OpRetry: how many tries have failed
	Ask     *Ask // of Asked and Answered
}

// An Ask is a question to a person, or the answer.
type Ask struct {
	Text   string
	How    string // of Asked: how to answer; empty in a plan
	Answer string // of Answered: "approved" or "denied"
	By     string // of Answered: who, as user@host
}
