package main

import (
	"slices"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
	"git.vanillacore.net/govstack/gsrun/stdlib"
)

// write keeps the journal of one run.
func write(t *testing.T, s *journal.Store, first journal.Entry, records ...effect.Record) {
	t.Helper()
	at := time.Unix(0, 0).Add(time.Hour * time.Duration(first.Run[0]))
	now := func() time.Time {
		at = at.Add(time.Second)
		return at
	}
	j, err := s.Start(first, journal.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		r.Time = now()
		if err := j.Intent(r); err != nil {
			t.Fatal(err)
		}
		if r.Step == "killed" {
			return
		}
		if err := j.Result(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.End("ok", len(records), nil); err != nil {
		t.Fatal(err)
	}
}

func TestLedger(t *testing.T) {
	s, err := journal.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	gw, nested := effect.Owner{Site: "lab", Recipe: "gateway"}, effect.Owner{Site: "lab", Recipe: "gateway/more"}
	record := func(o effect.Owner, step, target, name string, kind effect.ChangeKind) effect.Record {
		return effect.Record{Step: step, Target: target + name, Mark: o.Mark(name), Kind: kind}
	}
	write(t, s, journal.Entry{Run: "1", Recipe: "bootstrap", Site: "lab"},
		record(gw, "key", "crypto/ssh_keypair/", "operator", effect.Create),
		record(gw, "nat", "ssh/gw/file", "/etc/x", effect.Update),
		record(nested, "more", "openstack/o/network/", "x", effect.Create))
	write(t, s, journal.Entry{Run: "2", Recipe: "seed", Site: "lab"},
		record(effect.Owner{Site: "lab", Recipe: "seed"}, "key", "crypto/ssh_keypair/", "operator", effect.None))
	write(t, s, journal.Entry{Run: "3", Recipe: "gateway", Site: "other"}, record(effect.Owner{Site: "other", Recipe: "gateway"}, "a", "crypto/password/", "p", effect.Create))
	write(t, s, journal.Entry{Run: "4", Recipe: "gateway", Site: "lab"}, record(gw, "killed", "crypto/password/", "late", effect.Create))

	look := func(want ...string) *ledger {
		t.Helper()
		l, err := readLedger(s, "lab")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range l.of([]string{gw.Prefix()}) {
			text := m.target
			if m.created || m.maybe {
				text += " created"
			}
			got = append(got, text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		return l
	}
	// What a nested recipe made isn't the gateway's, though its mark begins so.
	l := look("crypto/ssh_keypair/operator created", "ssh/gw/file/etc/x", "crypto/password/late created")
	if got := l.others("crypto/ssh_keypair/operator", []string{gw.Prefix()}, "gateway"); !slices.Equal(got, []string{"seed"}) {
		t.Errorf("who uses it, too: %q", got)
	}

	// A destroy that was killed: what it deleted is gone, the rest isn't forgotten.
	destroy := journal.Entry{Run: "5", Recipe: "gateway", Site: "lab", Verb: journal.VerbDestroy, Marks: []string{gw.Prefix()}}
	write(t, s, destroy, record(gw, "password", "crypto/password/", "late", effect.Delete), record(gw, "killed", "crypto/ssh_keypair/", "operator", effect.Delete))
	l = look("crypto/ssh_keypair/operator created", "ssh/gw/file/etc/x", "crypto/password/late")
	if !slices.Equal(l.begun, []string{"gateway"}) {
		t.Errorf("destroys that were begun: %q", l.begun)
	}
	destroy.Run = "6"
	write(t, s, destroy, record(gw, "ssh_keypair", "crypto/ssh_keypair/", "operator", effect.Delete))
	look()

	write(t, s, journal.Entry{Run: "7", Recipe: "gateway", Site: "lab"}, record(gw, "key", "crypto/ssh_keypair/", "operator", effect.Create))
	if l = look("crypto/ssh_keypair/operator created"); len(l.begun) > 0 {
		t.Errorf("after another run, destroys that were begun: %q", l.begun)
	}
}

// What the store keeps is one recipe's, who made it last, and is used by others
// until they are destroyed. A destroy is no use, whatever its entries say.
func TestLedgerKept(t *testing.T) {
	s, err := journal.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const target = "secret/pw"
	record := func(recipe string, kind effect.ChangeKind) effect.Record {
		return effect.Record{Step: "s", Target: target, Mark: effect.Owner{Site: "lab", Recipe: recipe}.Mark("pw"), Kind: kind}
	}
	n := byte('0')
	run := func(recipe, verb string, marks []string, records ...effect.Record) {
		n++
		write(t, s, journal.Entry{Run: string(n), Recipe: recipe, Site: "lab", Verb: verb, Marks: marks}, records...)
	}
	prefixes := func(recipe string) []string { return []string{effect.Owner{Site: "lab", Recipe: recipe}.Prefix()} }
	look := func(what, maker string, users ...string) {
		t.Helper()
		l, err := readLedger(s, "lab")
		if err != nil {
			t.Fatal(err)
		}
		if got := l.makerOf(target); got != maker {
			t.Errorf("%s: made by %q, want %q", what, got, maker)
		}
		if got := l.others(target, prefixes(maker), maker); !slices.Equal(got, users) {
			t.Errorf("%s: used by %q, want %q", what, got, users)
		}
	}
	run("a", "", nil, record("a", effect.Create))
	run("b", "", nil, record("b", effect.None))
	look("two recipes", "a", "b")
	run("a", journal.VerbDestroy, prefixes("a"))
	look("left for another", "a", "b")
	run("b", journal.VerbDestroy, nil)
	look("a part of the other destroyed", "a", "b")
	run("b", journal.VerbDestroy, prefixes("b"))
	look("the other destroyed", "a")
	run("a", journal.VerbDestroy, prefixes("a"), effect.Record{Step: "s", Target: target, Mark: "gsrun://pw", Kind: effect.Delete})
	look("deleted", "")
	run("a", "", nil, record("a", effect.Create))
	look("made again", "a")
	// It was deleted by hand, and is made by another.
	run("b", "", nil, record("b", effect.Create))
	look("made by the other", "b", "a")
	// A recipe that was part of another's run, and no longer is.
	run("b", "", nil, record("old", effect.None))
	look("used by an earlier form of itself", "b", "a")
}

// The ledger knows what the modules keep.
func TestKept(t *testing.T) {
	for _, m := range stdlib.Modules(stdlib.Env{}) {
		_, safe := m.Recv.(effect.Safe)
		if kept(m.Name+"/x") != safe {
			t.Errorf("%s: kept is %v, the module says %v", m.Name, !safe, safe)
		}
	}
}
