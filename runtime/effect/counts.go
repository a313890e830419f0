package effect

// Counts says what the ops of a run did, or would do.
type Counts struct {
	Created, Updated, Replaced, Deleted, Ran, Later, Unchanged, Failed int

	Partly int // failed after they had changed something
}

// Changed returns the number of changes.
func (c Counts) Changed() int {
	return c.Created + c.Updated + c.Replaced + c.Deleted + c.Ran + c.Partly
}

// Counts returns what the ops did so far.
func (d *Door) Counts() Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts
}

func (d *Door) count(k ChangeKind) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch k {
	case None:
		d.counts.Unchanged++
	case Create:
		d.counts.Created++
	case Update:
		d.counts.Updated++
	case Replace:
		d.counts.Replaced++
	case Delete:
		d.counts.Deleted++
	case Run:
		d.counts.Ran++
	case Later:
		d.counts.Later++
	}
}
