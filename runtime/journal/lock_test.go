package journal

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

func lock(t *testing.T, s *Store, run string, ttl time.Duration) *Lock {
	t.Helper()
	l, err := s.Lock(Holder{Site: "lab", Recipe: "spoke/scale", Run: run, Who: "a@b", Since: time.Now(), TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Release)
	return l
}

// age makes the last heartbeat of a lock's holder older.
func age(t *testing.T, l *Lock, by time.Duration) {
	t.Helper()
	past := time.Now().Add(-by)
	if err := os.Chtimes(l.path, past, past); err != nil {
		t.Fatal(err)
	}
}

func record(t *testing.T, l *Lock) Holder {
	t.Helper()
	h, _, err := readHolder(l.path)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestLockIsOfOneRun(t *testing.T) {
	s := open(t)
	l := lock(t, s, "r1", 0)
	_, err := s.Lock(Holder{Site: "lab", Recipe: "spoke/scale", Run: "r2"})
	if fault.KindOf(err) != fault.Locked || !strings.Contains(err.Error(), "recipe spoke/scale of site lab is being run by a@b (run r1, since ") ||
		!strings.Contains(err.Error(), "last heartbeat 0s ago") || fault.HintOf(err) != "wait until it ends" {
		t.Errorf("second lock: %v, hint %q", err, fault.HintOf(err))
	}
	for _, other := range []Holder{{Site: "lab", Recipe: "spoke"}, {Site: "lab2", Recipe: "spoke/scale"}, {Site: "lab", Recipe: "spoke+scale"}} {
		o, err := s.Lock(other)
		if err != nil {
			t.Fatalf("another lock: %v", err)
		}
		o.Release()
	}
	leave, err := l.Guard(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	leave()
	l.Release()
	l.Release()
	if h := record(t, l); !h.Released || h.Token != 1 || h.Run != "r1" {
		t.Errorf("after release: %+v", h)
	}
	if _, err := l.Guard(t.Context()); fault.KindOf(err) != fault.Internal {
		t.Errorf("a guard of a released lock: %v", err)
	}
	if h := lock(t, s, "r3", 0).holder; h.Token != 2 {
		t.Errorf("the next holder: %+v", h)
	}
}

func TestLockWithoutHeartbeatIsTakenOver(t *testing.T) {
	s := open(t)
	l := lock(t, s, "r1", time.Minute)
	ctx, cancel := l.Context(t.Context())
	defer cancel()
	age(t, l, 59*time.Second)
	if _, err := s.Lock(Holder{Site: "lab", Recipe: "spoke/scale"}); fault.KindOf(err) != fault.Locked {
		t.Fatalf("before it expired: %v", err)
	}
	age(t, l, 61*time.Second)
	next := lock(t, s, "r2", time.Minute)
	if _, err := l.Guard(t.Context()); fault.KindOf(err) != fault.Locked || !strings.Contains(err.Error(), "the lock of recipe spoke/scale of site lab was taken over by a@b (run r2)") ||
		fault.HintOf(err) != "run again once that one has ended" {
		t.Errorf("the first one goes on: %v, hint %q", err, fault.HintOf(err))
	}
	<-ctx.Done()
	if err := fault.FromContext(ctx); fault.KindOf(err) != fault.Locked || !strings.Contains(err.Error(), "run r2") {
		t.Errorf("its run ended with %v", err)
	}
	l.Release()
	if h := record(t, l); h.Run != "r2" || h.Released {
		t.Errorf("its release changed the record: %+v", h)
	}
	leave, err := next.Guard(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	leave()
	next.Release()
	if _, err := l.Guard(t.Context()); err == nil {
		t.Error("it may change things again")
	}
}

// The heart of a holder that was taken over beats for nobody, and it finds out
// by itself that its lock is lost.
func TestHeartbeat(t *testing.T) {
	s := open(t)
	l := lock(t, s, "r1", 30*time.Millisecond)
	ctx, cancel := l.Context(t.Context())
	defer cancel()
	age(t, l, time.Hour)
	for {
		if _, beat, err := readHolder(l.path); err == nil && time.Since(beat) < time.Minute {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if ctx.Err() != nil {
		t.Fatalf("the lock was lost: %v", context.Cause(ctx))
	}
	// What another process does that takes it over.
	h := l.holder
	h.Token, h.Run = 7, "r2"
	data, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(filepath.Dir(l.path), "fresh")
	if err := os.WriteFile(fresh, data, 0o600); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(fresh, past, past); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(fresh, l.path); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if err := fault.FromContext(ctx); fault.KindOf(err) != fault.Locked {
		t.Errorf("its run ended with %v", err)
	}
	if _, beat, err := readHolder(l.path); err != nil || time.Since(beat) < time.Minute {
		t.Errorf("it beat for the next holder: %v", err)
	}
}

func TestNoTakeoverWithinAChange(t *testing.T) {
	s := open(t)
	s.patience = 10 * time.Millisecond
	l := lock(t, s, "r1", time.Minute)
	var leaves []func()
	for range 3 { // several at once
		leave, err := l.Guard(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
	}
	for _, leave := range leaves {
		age(t, l, time.Hour)
		_, err := s.Lock(Holder{Site: "lab", Recipe: "spoke/scale", Run: "r2"})
		if fault.KindOf(err) != fault.Locked || !strings.Contains(err.Error(), "can't be taken over in the middle of a change; its last holder is a@b (run r1, since ") ||
			!strings.Contains(fault.HintOf(err), "let it go on, or end it (pid ") {
			t.Fatalf("taken: %v, hint %q", err, fault.HintOf(err))
		}
		leave()
		leave() // and once more does nothing
	}
	lock(t, s, "r2", time.Minute)
}

// A run that ends while something that it began is still changed keeps its lock
// until that is done.
func TestReleaseWithinAChange(t *testing.T) {
	s := open(t)
	s.patience = 10 * time.Millisecond
	l := lock(t, s, "r1", time.Minute)
	leave, err := l.Guard(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
	if _, err := s.Lock(Holder{Site: "lab", Recipe: "spoke/scale", Run: "r2"}); fault.KindOf(err) != fault.Locked {
		t.Errorf("taken: %v", err)
	}
	leave()
	lock(t, s, "r2", time.Minute)
}

// Who looks at the lock file for a moment doesn't disturb the holder, and one
// who never lets go of it doesn't hang it.
func TestGuardWaits(t *testing.T) {
	s := open(t)
	l := lock(t, s, "r1", time.Minute)
	f, err := os.Open(l.gate.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := flock(f, syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fault.New(fault.Cancelled, "stop"))
	if _, err := l.Guard(ctx); fault.KindOf(err) != fault.Cancelled {
		t.Errorf("a run that is stopped: %v", err)
	}
	if err := l.enter(t.Context(), syscall.LOCK_SH, 0); fault.KindOf(err) != fault.Locked {
		t.Errorf("a file that stays locked: %v", err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			leave, err := l.Guard(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			leave()
		})
	}
	if err := flock(f, syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
}

func TestHolderIsKnownToBeDead(t *testing.T) {
	s := open(t)
	me := thisProcess()
	gone := exited(t)
	for name, tt := range map[string]struct {
		p    process
		free bool
	}{
		"lives":                    {me, false},
		"is gone":                  {process{me.Host, me.Boot, me.Space, gone, "1"}, true},
		"its id has another now":   {process{me.Host, me.Boot, me.Space, me.PID, "1"}, true},
		"on another host":          {process{"elsewhere", me.Boot, me.Space, gone, "1"}, false},
		"before the last boot":     {process{me.Host, "other", me.Space, gone, "1"}, false},
		"in another container":     {process{me.Host, me.Boot, "pid:[1]", gone, "1"}, false},
		"where there is no /proc":  {process{Host: me.Host, PID: gone}, false},
		"a zombie":                 {zombie(t), true},
		"gone, but start unknown":  {process{me.Host, me.Boot, me.Space, gone, ""}, false},
		"has a name with brackets": {process{me.Host, me.Boot, me.Space, gone, "x) R"}, true},
	} {
		h := Holder{Site: "lab", Recipe: name, Run: "r1", Who: "a@b", TTL: time.Hour, Token: 4, process: tt.p}
		data, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		l, err := s.Lock(Holder{Site: "lab", Recipe: name})
		if err != nil {
			t.Fatal(err)
		}
		l.Release()
		if err := os.WriteFile(l.path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err = s.Lock(Holder{Site: "lab", Recipe: name, Run: "r2"})
		if free := err == nil; free != tt.free {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			if l.holder.Token != 5 {
				t.Errorf("%s: token %d", name, l.holder.Token)
			}
			l.Release()
		} else if there := strings.Contains(fault.HintOf(err), "is free 1h0m0s after the last heartbeat"); there != (tt.p != me) {
			t.Errorf("%s: hint %q", name, fault.HintOf(err))
		}
	}
}

func TestLockFilesThatCantBeUsed(t *testing.T) {
	s := open(t)
	l := lock(t, s, "r1", time.Minute)
	if err := os.Remove(l.path); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Guard(t.Context()); fault.KindOf(err) != fault.Locked || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("removed: %v", err)
	}
	l.Release()
	if err := os.WriteFile(l.path, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Lock(Holder{Site: "lab", Recipe: "spoke/scale"}); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), l.path) ||
		!strings.Contains(fault.HintOf(err), "remove it if nobody runs this recipe") {
		t.Errorf("nonsense: %v, hint %q", err, fault.HintOf(err))
	}
}
