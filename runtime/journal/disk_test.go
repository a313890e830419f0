package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// disk returns the folder of a file system of its own, of 64 KiB, and a
// function that makes it read-only.
func disk(t *testing.T) (dir string, readOnly func()) {
	t.Helper()
	dir = t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k")
	skip.Unless(t, err == nil, "a full or read-only disk", fmt.Sprintf("mounting one failed: %v", err))
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, func() {
		t.Helper()
		if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
	}
}

// fill leaves no space on the disk of dir.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "fill"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// thing is an op that counts how often it was made.
type thing struct {
	name string
	made *int
}

func (o thing) Target() effect.Target {
	return effect.Target{Scope: "box", Kind: "thing", Name: o.name}
}
func (thing) Observe(context.Context) (effect.State, error) { return effect.State{}, nil }
func (thing) Diff(effect.State) (effect.Change, error) {
	return effect.Change{Kind: effect.Create}, nil
}
func (o thing) Apply(context.Context, effect.Change) (effect.State, error) {
	*o.made++
	return effect.State{Exists: true, Attrs: map[string]any{"text": strings.Repeat("x", 100)}}, nil
}

// make makes things through a door that keeps the journal, until one fails.
func makeThings(t *testing.T, j *Journal) (made int, err error) {
	t.Helper()
	d := &effect.Door{Clock: effect.SystemClock{}, Recorder: j}
	ctx := effect.With(t.Context(), effect.NewScope(d, effect.Owner{}, "step", nil))
	for i := 0; err == nil; i++ {
		if i > 1000 {
			t.Fatal("nothing fails")
		}
		_, err = effect.Do(ctx, thing{fmt.Sprint("t", i), &made})
	}
	if d.Counts().Changed() != made {
		t.Errorf("the door counts %d changes, not %d", d.Counts().Changed(), made)
	}
	return made, err
}

// journalled checks that the journal has an intent for each of n changes, and
// at least all results but the last.
func journalled(t *testing.T, s *Store, run string, made int) []Entry {
	t.Helper()
	entries, torn, err := s.Read(run)
	if err != nil || torn {
		t.Fatalf("torn %v, %v", torn, err)
	}
	count := make(map[string]int)
	for _, e := range entries {
		count[e.Type]++
	}
	if count[TypeIntent] < made || count[TypeIntent] > made+1 || count[TypeResult] < made-1 || count[TypeResult] > made {
		t.Errorf("%d changes were made, the journal has %v", made, count)
	}
	return entries
}

func TestDiskThatFillsUp(t *testing.T) {
	dir, _ := disk(t)
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "fill"), make([]byte, 16<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	l := lock(t, s, "r1", time.Hour)
	j := start(t, s, "r1")
	made, err := makeThings(t, j)
	if fault.KindOf(err) != fault.Limit || !strings.Contains(err.Error(), "writing the journal "+s.path("r1")) || !strings.Contains(err.Error(), "no space left on device") ||
		fault.HintOf(err) != "free space in the state folder and run again: no change was begun after this" {
		t.Errorf("%v, hint %q", err, fault.HintOf(err))
	}
	if made < 10 {
		t.Errorf("only %d changes before that", made)
	}
	if again, err := makeThings(t, j); again != 0 || fault.KindOf(err) != fault.Limit {
		t.Errorf("%d changes after it: %v", again, err)
	}
	journalled(t, s, "r1", made)
	// Nothing else can begin.
	if _, err := s.Start(Entry{Run: "r2"}, Options{}); err == nil || !strings.Contains(fault.HintOf(err), "free space in the state folder") {
		t.Errorf("another run: %v", err)
	}
	if _, err := os.Stat(s.path("r2")); err == nil {
		t.Error("a run that didn't start is to be seen")
	}
	fill(t, dir)
	l.Release()
	_, err = s.Lock(l.holder)
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "no space left") || !strings.Contains(fault.HintOf(err), "free space in the state folder") {
		t.Errorf("a lock: %v", err)
	}
	if err := NewValues(filepath.Join(dir, "keys")).Put(t.Context(), "a", make([]byte, 100)); err == nil || !strings.Contains(fault.HintOf(err), "free space in the state folder") {
		t.Errorf("a value: %v", err)
	}
	// With space again, the end is recorded, and the next run goes on.
	if err := os.Remove(filepath.Join(dir, "fill")); err != nil {
		t.Fatal(err)
	}
	if err := j.End("failed", made, fault.New(fault.Limit, "full")); fault.KindOf(err) != fault.Limit {
		t.Errorf("the end: %v", err)
	}
	entries := journalled(t, s, "r1", made)
	if e := entries[len(entries)-1]; e.Type != TypeEnd || e.Error != "full" || e.Changed != made {
		t.Errorf("the last entry is %+v", e)
	}
	start(t, s, "r3")
	if h := lock(t, s, "r3", time.Hour).holder; h.Token != 2 {
		t.Errorf("a lock: token %d", h.Token)
	}
}

func TestReadOnlyDisk(t *testing.T) {
	dir, readOnly := disk(t)
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	j := start(t, s, "r1")
	if err := j.End("ok", 0, nil); err != nil {
		t.Fatal(err)
	}
	l := lock(t, s, "r1", time.Minute)
	l.Release()
	readOnly()
	want := func(what string, err error) {
		t.Helper()
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "read-only file system") || fault.HintOf(err) != "let state: in site.yaml name a folder that can be written" {
			t.Errorf("%s: %v, hint %q", what, err, fault.HintOf(err))
		}
	}
	_, err = Open(filepath.Join(dir, "new"))
	want("a new store", err)
	if s, err = Open(dir); err != nil {
		t.Fatalf("a store that is there: %v", err)
	}
	_, err = s.Lock(l.holder)
	want("a lock", err)
	_, err = s.Start(Entry{Run: "r2"}, Options{})
	want("a journal", err)
	_, err = s.Continue("r1", "a@b", Options{})
	want("going on", err)
	if runs, err := s.Runs(); err != nil || len(runs) != 1 || runs[0].Status != "ok" {
		t.Errorf("reading: %+v, %v", runs, err)
	}
}

func TestFolderThatIsNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file); fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.HintOf(err), "a folder that can be written") {
		t.Errorf("got %v", err)
	}
}

// Whatever fails in the middle of a run, no change begins after it, and what
// stands in the journal can be read.
func TestWritingFails(t *testing.T) {
	for name, tt := range map[string]struct {
		fail func(j *Journal, left *int)
		hint string
	}{
		"short write": {func(j *Journal, left *int) {
			j.write = func(b []byte) (int, error) {
				if *left--; *left > 0 {
					return j.file.Write(b)
				}
				n, _ := j.file.Write(b[:len(b)/2])
				return n, syscall.ENOSPC
			}
		}, "free space"},
		"flush": {func(j *Journal, left *int) {
			j.sync = func(f *os.File) error {
				if *left--; *left > 0 {
					return f.Sync()
				}
				return syscall.EIO
			}
		}, "see whether the disk of the state folder is sound"},
	} {
		for after := 1; after < 6; after++ {
			s := open(t)
			j := start(t, s, "r1")
			left := after
			tt.fail(j, &left)
			made, err := makeThings(t, j)
			if fault.KindOf(err) != fault.Limit || !strings.Contains(fault.HintOf(err), tt.hint) {
				t.Errorf("%s after %d: %v, hint %q", name, after, err, fault.HintOf(err))
			}
			if made != after/2 {
				t.Errorf("%s after %d writes: %d changes", name, after, made)
			}
			journalled(t, s, "r1", made)
		}
	}
}

// A journal is written only as long as its run has the lock: another one may go
// on with it.
func TestJournalOfALostLock(t *testing.T) {
	s := open(t)
	lost := false
	inside := 0
	j, err := s.Start(Entry{Run: "r1"}, Options{Guard: func(context.Context) (func(), error) {
		if lost {
			return nil, fault.New(fault.Locked, "taken over")
		}
		inside++
		return func() { inside-- }, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Intent(effect.Record{Target: "a", Kind: effect.Create}); err != nil {
		t.Fatal(err)
	}
	lost = true
	for range 2 {
		if err := j.Intent(effect.Record{Target: "b", Kind: effect.Create}); fault.KindOf(err) != fault.Locked {
			t.Errorf("an intent: %v", err)
		}
	}
	if err := j.End("failed", 1, nil); fault.KindOf(err) != fault.Locked {
		t.Errorf("the end: %v", err)
	}
	if entries, torn, err := s.Read("r1"); len(entries) != 2 || torn || err != nil || inside != 0 {
		t.Errorf("%d entries, torn %v, %v; inside %d", len(entries), torn, err, inside)
	}
}
