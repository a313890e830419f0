package journal_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
)

func TestUnsettled(t *testing.T) {
	store, err := journal.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.Start(journal.Entry{Run: "20261201-000000-aaaaaa", Recipe: "r", Site: "s"}, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	begin := func(target string, kind effect.ChangeKind, at time.Time) effect.Record {
		r := effect.Record{Time: at, Target: target, Kind: kind}
		if err := j.Intent(r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	end := func(r effect.Record, kind fault.Kind) {
		if kind != "" {
			r.Err = fault.New(kind, "it failed")
		}
		if err := j.Result(r); err != nil {
			t.Fatal(err)
		}
	}
	end(begin("done", effect.Create, now), "")
	end(begin("refused", effect.Create, now), fault.Invalid)
	end(begin("lost", effect.Create, now), fault.Unreachable)
	begin("old", effect.Create, now.Add(-time.Hour))
	begin("updated", effect.Update, now)
	begin("begun", effect.Create, now)
	begin("replaced", effect.Replace, now.Add(-time.Second))
	got := store.Unsettled(now.Add(-time.Minute))
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"begun", "lost", "replaced"}) {
		t.Errorf("got %q", names)
	}
	if !got["begun"].Equal(now) {
		t.Errorf("begun at %v, want %v", got["begun"], now)
	}
	if got := store.Unsettled(now.Add(time.Minute)); len(got) != 0 {
		t.Errorf("got %v of a time to come", got)
	}
}

func TestCreated(t *testing.T) {
	store, err := journal.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	run := func(id string, records ...effect.Record) {
		t.Helper()
		j, err := store.Start(journal.Entry{Run: id, Recipe: "r", Site: "s"}, journal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			r.Mark = "mark"
			if err := j.Result(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.End("ok", len(records), nil); err != nil {
			t.Fatal(err)
		}
	}
	at := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	run("20261201-000002-bbbbbb",
		effect.Record{Time: at(3), Target: "deleted", Kind: effect.Delete},
		effect.Record{Time: at(3), Target: "again", Kind: effect.Delete})
	run("20261201-000001-aaaaaa",
		effect.Record{Time: at(1), Target: "there", Kind: effect.Create},
		effect.Record{Time: at(1), Target: "anew", Kind: effect.Replace},
		effect.Record{Time: at(1), Target: "updated", Kind: effect.Update},
		effect.Record{Time: at(1), Target: "failed", Kind: effect.Create, Err: fault.New(fault.Unreachable, "it failed")},
		effect.Record{Time: at(-9), Target: "old", Kind: effect.Create},
		effect.Record{Time: at(1), Target: "deleted", Kind: effect.Create},
		effect.Record{Time: at(4), Target: "again", Kind: effect.Create})
	got := store.Created(now)
	want := map[effect.Made]int{{Target: "there", Mark: "mark"}: 1, {Target: "anew", Mark: "mark"}: 1, {Target: "again", Mark: "mark"}: 4}
	if !maps.EqualFunc(got, want, func(t time.Time, s int) bool { return t.Equal(at(s)) }) {
		t.Errorf("got %v", got)
	}
}
