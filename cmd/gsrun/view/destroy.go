package view

import (
	"fmt"
	"io"
	"strings"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A DestroyData is what a destroy would delete, and what it meets.
type DestroyData struct {
	Recipe, Site string
	Undeclared   bool           // only what the recipe no longer declares
	Going        []effect.Owned // in the order of deletion
	With         []Along
	Left         []Leftover
	Uses         []string // what others made and is only used: that ends with the destroy
	Others       []effect.Other
	Notes        []string // what couldn't be looked at, and why
	Budget       int      // as effect.Door.Deletes
	Command      string   // what to type to delete it; empty if it is being deleted
}

// An Along is something that goes with what it lies on.
type Along struct {
	What string // "ssh/gw"
	Of   string // "openstack/lab/server/gw"
	N    int    // how many things the recipe made there
}

// A Leftover is something that a destroy leaves.
type Leftover struct {
	What string `json:"what"`
	Why  string `json:"why"`
	Hint string `json:"hint,omitempty"`
}

// exceeded reports whether the budget has too few deletions.
func (d *DestroyData) exceeded() bool { return d.Budget >= 0 && len(d.Going) > d.Budget }

// Destroy writes for people what a destroy would delete, in its order, and
// what it leaves.
func Destroy(w io.Writer, d DestroyData, o PlanOptions) error {
	pal := palette(o.Color)
	var b strings.Builder
	say := func(s string) string { return oneLine(o.Redactor.String(s)) }
	section := func(color, title string) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(pal.paint(color, title) + "\n")
	}
	minus := wordFor(effect.Delete, o.ASCII)
	if len(d.Going) > 0 {
		section(bold, "To delete, in this order:")
	}
	for _, g := range d.Going {
		b.WriteString("  " + pal.paint(minus.color, minus.sign) + " " + say(g.Target.String()))
		if g.ID != "" && g.ID != g.Target.Name {
			b.WriteString(pal.paint(dim, " ("+say(g.ID)+")"))
		}
		b.WriteByte('\n')
	}
	if len(d.With) > 0 {
		section(bold, "What lies on them goes with them:")
	}
	for _, a := range d.With {
		b.WriteString("  " + say(a.What) + pal.paint(dim, fmt.Sprintf(" (%s, on %s)", plural(a.N, "thing"), say(a.Of))) + "\n")
	}
	if len(d.Left) > 0 {
		section(bold, "Left as it is:")
	}
	for _, l := range d.Left {
		writeLeft(&b, l, say)
	}
	if len(d.Others) > 0 {
		section(yellow, "In the way:")
	}
	stands, orphans := d.split()
	for _, x := range stands {
		writeLeft(&b, Leftover{What: x.Text, Why: "needs " + x.Of.String(), Hint: x.Hint}, say)
	}
	for _, x := range orphans {
		writeLeft(&b, Leftover{What: x.Text, Why: Orphaned(x), Hint: x.Hint}, say)
	}
	if len(d.Notes) > 0 {
		section(yellow, "Not looked at:")
	}
	for _, n := range d.Notes {
		b.WriteString("  " + say(n) + "\n")
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(d.verdict(pal, say) + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func writeLeft(b *strings.Builder, l Leftover, say func(string) string) {
	b.WriteString("  " + say(l.What) + ": " + say(l.Why) + "\n")
	if l.Hint != "" {
		b.WriteString("    hint: " + say(l.Hint) + "\n")
	}
}

// Orphaned says what becomes of an orphan.
func Orphaned(x effect.Other) string {
	whose := "its"
	if x.Unasked {
		whose = "their"
	}
	return "without " + x.Of.String() + " nobody could delete " + whose + " machines"
}

// split parts what stands in the way from what would be orphaned.
func (d *DestroyData) split() (stands, orphans []effect.Other) {
	for _, x := range d.Others {
		if x.Orphan {
			orphans = append(orphans, x)
		} else {
			stands = append(stands, x)
		}
	}
	return stands, orphans
}

func (d *DestroyData) verdict(pal palette, say func(string) string) string {
	if len(d.Going) == 0 {
		if d.Undeclared {
			return "Nothing is owned and no longer declared."
		}
		return d.givenUp(say)
	}
	s := fmt.Sprintf("%d to delete, %d left.", len(d.Going), len(d.Left))
	if d.exceeded() {
		s += "\n" + pal.paint(yellow, fmt.Sprintf("The budget is %s: it needs --max-deletes %d.", plural(d.Budget, "deletion"), len(d.Going)))
	}
	stands, orphans := d.split()
	switch {
	case d.Command == "":
	case len(stands) > 0:
		s += "\nDelete what is in the way first."
	case len(orphans) > 0:
		s += "\nDelete what is in the way first; or delete its machines yourself later, and what is listed now: " + say(d.Command) + " --abandon-clusters"
	default:
		s += "\nTo delete them: " + say(d.Command)
	}
	return s
}

// givenUp says of a recipe of which nothing is to be deleted what it only used.
func (d *DestroyData) givenUp(say func(string) string) string {
	uses := say(strings.Join(d.Uses, ", "))
	switch {
	case uses == "":
		return "Nothing to destroy."
	case d.Command == "":
		return "Nothing to delete. From now on " + d.Recipe + " no longer counts as a user of " + uses + "."
	default:
		return "Nothing to delete. So that " + d.Recipe + " no longer counts as a user of " + uses + ": " + say(d.Command)
	}
}

// A DestroyRecord is a DestroyData as DestroyJSON writes it.
type DestroyRecord struct {
	Kind       string         `json:"kind"` // "destroy"
	Recipe     string         `json:"recipe"`
	Site       string         `json:"site"`
	Undeclared bool           `json:"undeclared"` // whether only what is no longer declared is meant
	Delete     []OwnedRecord  `json:"delete"`     // in this order
	With       []AlongRecord  `json:"with"`
	Left       []Leftover     `json:"left"`
	Uses       []string       `json:"uses"` // what it didn't make and no longer counts as a user of
	InTheWay   []OtherRecord  `json:"in_the_way"`
	Orphans    []OtherRecord  `json:"orphans"`
	Notes      []string       `json:"notes"`
	Deletions  DeletionRecord `json:"deletions"`
	Command    string         `json:"command,omitempty"`
}

// An OwnedRecord is a thing that bears an owner mark.
type OwnedRecord struct {
	Target     string `json:"target"`
	ID         string `json:"id,omitempty"`
	Mark       string `json:"mark,omitempty"`
	Credential bool   `json:"credential,omitempty"`
}

// An AlongRecord is something that goes with what it lies on.
type AlongRecord struct {
	What   string `json:"what"`
	On     string `json:"on"`
	Things int    `json:"things"`
}

// An OtherRecord is something of somebody else's.
type OtherRecord struct {
	Target string `json:"target"`
	Text   string `json:"text"`
	On     string `json:"on"`
	Hint   string `json:"hint,omitempty"`
}

// DestroyJSON writes what a destroy would delete as one line of JSON, a
// DestroyRecord.
func DestroyJSON(w io.Writer, d DestroyData, o PlanOptions) error {
	r := o.Redactor
	rec := DestroyRecord{Kind: "destroy", Recipe: d.Recipe, Site: d.Site, Undeclared: d.Undeclared, Delete: ownedRecords(d.Going, r), With: []AlongRecord{},
		Left: []Leftover{}, Uses: []string{}, InTheWay: []OtherRecord{}, Orphans: []OtherRecord{}, Notes: []string{}, Command: r.String(d.Command),
		Deletions: DeletionRecord{Planned: len(d.Going), Exceeded: d.exceeded()}}
	if d.Budget >= 0 {
		rec.Deletions.Budget = &d.Budget
	}
	for _, a := range d.With {
		rec.With = append(rec.With, AlongRecord{What: r.String(a.What), On: r.String(a.Of), Things: a.N})
	}
	for _, l := range d.Left {
		rec.Left = append(rec.Left, Leftover{What: r.String(l.What), Why: r.String(l.Why), Hint: r.String(l.Hint)})
	}
	for _, u := range d.Uses {
		rec.Uses = append(rec.Uses, r.String(u))
	}
	for _, x := range d.Others {
		other := OtherRecord{Target: r.String(x.Target.String()), Text: r.String(x.Text), On: r.String(x.Of.String()), Hint: r.String(x.Hint)}
		if x.Orphan {
			rec.Orphans = append(rec.Orphans, other)
		} else {
			rec.InTheWay = append(rec.InTheWay, other)
		}
	}
	for _, n := range d.Notes {
		rec.Notes = append(rec.Notes, r.String(n))
	}
	_, err := w.Write(jsonLine(rec))
	return err
}

func ownedRecords(all []effect.Owned, r *effect.Redactor) []OwnedRecord {
	out := make([]OwnedRecord, len(all))
	for i, o := range all {
		out[i] = OwnedRecord{Target: r.String(o.Target.String()), ID: r.String(o.ID), Mark: r.String(o.Mark), Credential: o.Credential}
	}
	return out
}

// An Undeclared is what a site owns and a recipe no longer declares.
type Undeclared struct {
	Things  []effect.Owned
	Unsure  int    // instead of Things: how many the plan didn't come to, since it stopped before
	Err     error  // instead of Things: why it isn't known
	Command string // what to type to delete them
}

// write adds to a plan what it says of them.
func (u *Undeclared) write(b *strings.Builder, pal palette, o PlanOptions) {
	say := func(s string) string { return oneLine(o.Redactor.String(s)) }
	if b.Len() > 0 && (len(u.Things) > 0 || u.Unsure > 0 || u.Err != nil) {
		b.WriteByte('\n')
	}
	switch {
	case u.Err != nil:
		b.WriteString(pal.paint(yellow, "What is owned and no longer declared isn't known: "+say(u.Err.Error())) + "\n")
	case u.Unsure > 0:
		b.WriteString(pal.paint(yellow, fmt.Sprintf("The plan stopped before it came to %s that the site owns: whether they are still declared isn't known.", plural(u.Unsure, "thing"))) + "\n")
	case len(u.Things) > 0:
		b.WriteString(pal.paint(bold, "Owned and no longer declared:") + "\n")
		for _, x := range u.Things {
			b.WriteString("  " + say(x.Target.String()))
			if x.ID != "" && x.ID != x.Target.Name {
				b.WriteString(pal.paint(dim, " ("+say(x.ID)+")"))
			}
			b.WriteByte('\n')
		}
		b.WriteString("  To delete them: " + say(u.Command) + "\n")
	}
}
