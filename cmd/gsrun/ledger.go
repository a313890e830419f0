package main

import (
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
)

// A ledger is what the journals of a site say of what its recipes made. It
// adds to what bears owner marks, and is never needed for that.
type ledger struct {
	entries []made   // in the order in which they were made
	begun   []string // recipes whose last run is a destroy that deleted something
	unread  []string // journals that can't be read
}

// made is a target that a run worked on.
type made struct {
	target, mark string
	root         string // the recipe that was run
	created      bool
	maybe        bool // its creation was begun
	changed      bool
	used         bool // by a run that no destroy came after
}

// claimed reports whether m was made by its owner, as far as is known.
func (m made) claimed() bool { return m.created || m.maybe }

// kept reports whether a target is in the site's own folders. Nothing there bears a
// mark: the journals alone tell whose it is, and who uses it.
func kept(target string) bool {
	module, _, _ := strings.Cut(target, "/")
	return module == "crypto" || module == "outputs" || module == "secret"
}

// readLedger reads the journals of a store; nil has none.
func readLedger(store *journal.Store, site string) (*ledger, error) {
	l := &ledger{}
	if store == nil {
		return l, nil
	}
	runs, err := store.Runs()
	if err != nil {
		return nil, err
	}
	var all []event
	for _, r := range runs {
		entries, _, err := store.Read(r.Run)
		if err != nil {
			l.unread = append(l.unread, r.Run) // what can be read of it counts
		}
		if len(entries) == 0 || entries[0].Site != site {
			continue
		}
		for i := range entries {
			all = append(all, event{&entries[0], &entries[i]})
		}
	}
	// A run may have been gone on with after a later one.
	slices.SortStableFunc(all, func(x, y event) int { return x.Time.Compare(y.Time) })
	at := make(map[string]int)
	for _, e := range all {
		l.add(e, at)
	}
	return l, nil
}

// An event is an entry of a journal, and the first of that journal.
type event struct {
	first *journal.Entry
	*journal.Entry
}

// add takes in one entry. at has the index of what was made by mark and target.
func (l *ledger) add(e event, at map[string]int) {
	root, destroys := e.first.Recipe, e.first.Verb == journal.VerbDestroy
	switch {
	case e.Type == journal.TypeRun || e.Type == journal.TypeResume:
		l.begun = slices.DeleteFunc(l.begun, func(r string) bool { return r == root })
		return
	case e.Type == journal.TypeEnd && destroys && e.Status == "ok":
		l.forget(e, at)
		return
	case e.Type != journal.TypeIntent && e.Type != journal.TypeResult || e.Target == "":
		return
	case destroys:
		l.delete(e)
		return
	}
	key := e.Mark + " " + e.Target
	i, known := at[key]
	if !known {
		i = len(l.entries)
		at[key] = i
		l.entries = append(l.entries, made{target: e.Target, mark: e.Mark})
	}
	m := &l.entries[i]
	m.root, m.used = root, true
	switch effect.ChangeKind(e.Change) {
	case effect.Create, effect.Replace:
		m.changed = true
		switch {
		case e.Error != "" && !fault.Kind(e.Kind).Retryable():
			m.maybe = false
		case e.Type == journal.TypeResult && e.Error == "":
			m.created = true
		default: // it was begun, and nobody knows what came of it
			m.maybe = true
		}
		if m.claimed() && kept(m.target) {
			l.claim(i)
		}
	case effect.Update, effect.Run:
		m.changed = true
	case effect.Delete:
		if e.Type == journal.TypeResult && e.Error == "" {
			m.created, m.maybe, m.changed = false, false, false
		}
	}
}

// claim makes entry i the only one that made what the store keeps: what others
// made under that name was gone before.
func (l *ledger) claim(i int) {
	for k := range l.entries {
		if m := &l.entries[k]; k != i && m.target == l.entries[i].target {
			m.created, m.maybe = false, false
		}
	}
}

// delete takes in what a destroy did. It only ever deletes: what it works on
// isn't a use.
func (l *ledger) delete(e event) {
	if root := e.first.Recipe; len(e.first.Marks) > 0 && !slices.Contains(l.begun, root) {
		l.begun = append(l.begun, root)
	}
	if e.Type != journal.TypeResult || e.Error != "" || effect.ChangeKind(e.Change) != effect.Delete {
		return
	}
	for i := range l.entries {
		if m := &l.entries[i]; m.target == e.Target && (m.mark == e.Mark || kept(m.target)) {
			m.created, m.maybe, m.changed, m.used = false, false, false, false
		}
	}
}

// forget drops what a destroy that came to its end was about: what its owners
// worked on, but for what they made and left for others who use it. One that
// changed nothing only gives up what they used.
func (l *ledger) forget(e event, at map[string]int) {
	prefixes, root := e.first.Marks, e.first.Recipe
	if len(prefixes) == 0 { // it was about a part of the recipe only
		return
	}
	var still []made
	for _, m := range l.entries {
		ours := ownerIn(prefixes, m)
		switch {
		case kept(m.target) && m.claimed() && len(l.others(m.target, prefixes, root)) > 0:
			m.used = m.used && !ours
		case kept(m.target) && !m.claimed() && (ours || m.root == root), ours && (e.Changed > 0 || kept(m.target)):
			continue
		}
		still = append(still, m)
	}
	l.entries = still
	clear(at)
	for i, m := range l.entries {
		at[m.mark+" "+m.target] = i
	}
}

// ownerIn reports whether m is the work of an owner with one of the prefixes.
// The mark of recipe a/b's x begins as that of recipe a's b/x does: the target
// tells them apart.
func ownerIn(prefixes []string, m made) bool {
	for _, p := range prefixes {
		if name, ok := strings.CutPrefix(m.mark, p); ok && name != "" && strings.HasSuffix(m.target, name) {
			return true
		}
	}
	return false
}

// of returns what the owners with the prefixes worked on.
func (l *ledger) of(prefixes []string) []made {
	var out []made
	for _, m := range l.entries {
		if ownerIn(prefixes, m) {
			out = append(out, m)
		}
	}
	return out
}

// others returns the recipes beside root, and those with the prefixes, that use
// a target, too.
func (l *ledger) others(target string, prefixes []string, root string) []string {
	var out []string
	for _, m := range l.entries {
		if m.target == target && m.used && m.root != root && !ownerIn(prefixes, m) && !slices.Contains(out, m.root) {
			out = append(out, m.root)
		}
	}
	return out
}

// uses returns what the store keeps that root, or an owner with one of the
// prefixes, uses and didn't make.
func (l *ledger) uses(prefixes []string, root string) []string {
	var out []string
	for _, m := range l.entries {
		if kept(m.target) && m.used && !m.claimed() && (m.root == root || ownerIn(prefixes, m)) && !slices.Contains(out, m.target) {
			out = append(out, m.target)
		}
	}
	return out
}

// makerOf returns the recipe whose run made a target; "" for none.
func (l *ledger) makerOf(target string) string {
	for _, m := range l.entries {
		if m.target == target && m.claimed() {
			return m.root
		}
	}
	return ""
}

// systemOf returns the system that a target of a journal is part of:
// "openstack/lab" of "openstack/lab/network/mgmt".
func systemOf(target string) string {
	module, rest, _ := strings.Cut(target, "/")
	name, _, _ := strings.Cut(rest, "/")
	return module + "/" + name
}
