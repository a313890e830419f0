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
