package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func start(t *testing.T, s *Store, run string) *Journal {
	t.Helper()
	j, err := s.Start(Entry{Run: run, Recipe: "gateway", Site: "lab", Inputs: []byte(`{"cidr":"10.0.0.0/8"}`)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestIntentIsOnDiskBeforeItReturns(t *testing.T) {
	s := open(t)
	j := start(t, s, "r1")
	if err := j.Intent(effect.Record{Step: "net", Target: "openstack/lab/network/mgmt", Kind: effect.Create, Mark: "m", Pos: "x.star:3"}); err != nil {
		t.Fatal(err)
	}
	// Nothing was closed: this is what a crash right now would leave.
	entries, torn, err := s.Read("r1")
	if err != nil || torn || len(entries) != 2 {
		t.Fatalf("%d entries, torn %v, %v", len(entries), torn, err)
	}
	if e := entries[1]; e.Type != TypeIntent || e.Target != "openstack/lab/network/mgmt" || e.Change != "create" || e.Mark != "m" || e.Pos != "x.star:3" {
		t.Errorf("intent: %+v", e)
	}
	runs, err := s.Runs()
	if err != nil || len(runs) != 1 || runs[0].Status != "unfinished" {
		t.Errorf("runs: %+v, %v", runs, err)
	}
}

func TestResultsStepsAndEnd(t *testing.T) {
	s := open(t)
	j := start(t, s, "r1")
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(j.Result(effect.Record{Step: "net", Target: "a", Kind: effect.Create, Attrs: map[string]any{"id": "1", "tags": []any{"x"}}}))
	check(j.Result(effect.Record{Step: "net", Target: "b", Kind: effect.None}))
	check(j.Result(effect.Record{Step: "net", Target: "c", Kind: effect.Update, Err: fault.New(fault.Quota, "no more")}))
	check(j.Step(Entry{Step: "net", Status: "ok", Value: []byte(`{"$struct":{"id":"1"}}`)}, 1500*time.Millisecond, nil))
	check(j.End("failed", 1, fault.New(fault.Quota, "no more")))
	entries, _, err := s.Read("r1")
	check(err)
	if got := string(entries[1].Value); got != `{"id":"1","tags":["x"]}` {
		t.Errorf("value %s", got)
	}
	if e := entries[3]; e.Kind != "quota" || e.Error != "no more" {
		t.Errorf("failed op: %+v", e)
	}
	if e := entries[4]; e.Status != "ok" || string(e.Value) != `{"$struct":{"id":"1"}}` || e.Elapsed != "1.5s" {
		t.Errorf("step: %+v", e)
	}
	runs, err := s.Runs()
	if err != nil || runs[0].Status != "failed" || runs[0].Changed != 1 || runs[0].Error != "no more" {
		t.Errorf("runs %+v %v", runs, err)
	}
}

func TestTornTailIsLeftOut(t *testing.T) {
	s := open(t)
	j := start(t, s, "r1")
	if err := j.End("ok", 0, nil); err != nil {
		t.Fatal(err)
	}
	path := s.path("r1")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first := strings.Index(string(data), "\n") + 1
	for cut := first; cut < len(data)-1; cut++ {
		if err := os.WriteFile(path, data[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		entries, torn, err := s.Read("r1")
		if err != nil || len(entries) != 1 || torn != (cut > first) {
			t.Fatalf("cut at %d of %d: %d entries, torn %v, %v", cut, len(data), len(entries), torn, err)
		}
	}
}

func TestOtherVersionAndGarbage(t *testing.T) {
	s := open(t)
	for name, text := range map[string]string{"v": `{"v":9,"type":"run","time":"2026-01-01T00:00:00Z"}` + "\n", "g": "{\"v\":1,\"type\":\"run\",\"time\":\"2026-01-01T00:00:00Z\"}\nnonsense\n{}\n"} {
		if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.Read("v"); err == nil || !strings.Contains(err.Error(), "has version 9; this gsrun reads 1") {
		t.Errorf("version: %v", err)
	}
	if _, _, err := s.Read("g"); err == nil || !strings.Contains(err.Error(), "g.jsonl line 2") {
		t.Errorf("garbage: %v", err)
	}
	start(t, s, "fine")
	runs, err := s.Runs()
	status := make(map[string]string)
	for _, r := range runs {
		status[r.Run] = r.Status
	}
	if err != nil || status["g"] != "unreadable" || status["v"] != "unreadable" || status["fine"] != "unfinished" {
		t.Errorf("runs: %v %v", status, err)
	}
	if _, _, err := s.Read("none"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("missing: %v", err)
	}
}

func TestConcurrentEntriesShareFlushes(t *testing.T) {
	s := open(t)
	j := start(t, s, "r1")
	syncs := 0
	slow := make(chan struct{})
	j.sync = func(f *os.File) error {
		if syncs++; syncs == 1 {
			<-slow // the first flush is slow: the others come meanwhile
		}
		return f.Sync()
	}
	const n = 50
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := j.Intent(effect.Record{Target: fmt.Sprint(i), Kind: effect.Create}); err != nil {
				t.Error(err)
			}
		})
	}
	for {
		j.mu.Lock()
		all := j.n == n+1
		j.mu.Unlock()
		if all {
			break
		}
		time.Sleep(time.Millisecond)
	}
	close(slow)
	wg.Wait()
	if syncs > 3 {
		t.Errorf("%d flushes for %d entries", syncs, n)
	}
	entries, _, err := s.Read("r1")
	if err != nil || len(entries) != n+1 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}

func TestDiskFullStopsTheRun(t *testing.T) {
	s := open(t)
	j := start(t, s, "r1")
	j.sync = func(*os.File) error { return syscall.ENOSPC }
	for range 2 { // and it stays so
		err := j.Intent(effect.Record{Target: "x", Kind: effect.Create})
		if err == nil || !strings.Contains(err.Error(), "no space left") || !strings.Contains(fault.HintOf(err), "free space") {
			t.Errorf("got %v", err)
		}
	}
}

func TestLock(t *testing.T) {
	s := open(t)
	l, err := s.Lock("spoke/scale", Holder{Run: "r1", Who: "a@b pid 1", Since: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Lock("spoke/scale", Holder{Run: "r2"})
	if fault.KindOf(err) != fault.Locked || !strings.Contains(err.Error(), "is being run by a@b pid 1 (run r1") {
		t.Errorf("second lock: %v", err)
	}
	if _, err := s.Lock("gateway", Holder{Run: "r3"}); err != nil {
		t.Errorf("another recipe: %v", err)
	}
	if _, err := l.Guard(t.Context()); err != nil {
		t.Error(err)
	}
	path := filepath.Join(s.dir, "locks", "spoke+scale.json")
	if err := os.WriteFile(path, []byte(`{"run":"r9","who":"x","token":2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Guard(t.Context()); fault.KindOf(err) != fault.Locked {
		t.Errorf("a lock that was taken over: %v", err)
	}
	l.Release()
	if l, err = s.Lock("spoke/scale", Holder{Run: "r4"}); err != nil || l.holder.Token != 3 {
		t.Errorf("after release: %+v %v", l, err)
	}
}

func TestValues(t *testing.T) {
	v := NewValues(filepath.Join(t.TempDir(), "keys"))
	ctx := t.Context()
	if _, found, err := v.Get(ctx, "a/b"); found || err != nil {
		t.Errorf("empty: %v %v", found, err)
	}
	for _, text := range []string{"one", "two"} {
		if err := v.Put(ctx, "a/b", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, found, err := v.Get(ctx, "a/b"); !found || err != nil || string(got) != text {
			t.Errorf("%q %v %v", got, found, err)
		}
	}
	if err := v.Put(ctx, "../x", nil); fault.KindOf(err) != fault.Invalid {
		t.Errorf("escape: %v", err)
	}
	if err := v.Delete(ctx, "a/b"); err != nil {
		t.Error(err)
	}
	if _, found, _ := v.Get(ctx, "a/b"); found {
		t.Error("still there")
	}
}

// Of several that create a value at once, one does, and all get it.
func TestValuesCreate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	const racers = 16
	stored, winners := make([]string, racers), make([]bool, racers)
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			v, created, err := NewValues(dir).Create(t.Context(), "hosts/gw", fmt.Appendf(nil, "key %d", i))
			if err != nil {
				t.Error(err)
			}
			stored[i], winners[i] = string(v), created
		})
	}
	wg.Wait()
	first := slices.Index(winners, true)
	if first < 0 || slices.Contains(winners[first+1:], true) {
		t.Fatalf("who created it: %v", winners)
	}
	for i, v := range stored {
		if v != fmt.Sprintf("key %d", first) {
			t.Errorf("%d got %q, created was that of %d", i, v, first)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "hosts")); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	if _, _, err := NewValues(dir).Create(t.Context(), "../x", nil); fault.KindOf(err) != fault.Invalid {
		t.Errorf("escape: %v", err)
	}
}

func TestReadOnlyFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file); err == nil || !strings.Contains(fault.HintOf(err), "a folder that can be written") {
		t.Errorf("got %v", err)
	}
}
