package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

// A change that is made is recorded, also where nobody can be encrypted to who
// could read the secret in it.
func TestSecretThatNobodyCanRead(t *testing.T) {
	s := open(t)
	j := start(t, s, "r1")
	r := effect.Record{Step: "conf", Target: "ssh/gw/file/etc/a", Kind: effect.Create, Attrs: map[string]any{"path": "/etc/a", "sha256": effect.SecretOf("TOPSECRET", "")}}
	if err := j.Result(r); err != nil {
		t.Fatal(err)
	}
	if err := j.End("ok", 1, nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(s.dir, "runs", "r1.jsonl"))
	if err != nil || !strings.Contains(string(text), `"/etc/a"`) || strings.Contains(string(text), "TOPSECRET") {
		t.Errorf("the journal has %s, %v", text, err)
	}
}

// A folder that is made for journals keeps itself out of Git; one that is there
// stays as it is.
func TestOpenIgnores(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "state")
	for range 2 {
		if _, err := Open(dir); err != nil {
			t.Fatal(err)
		}
	}
	ignore := filepath.Join(dir, ".gitignore")
	if text, err := os.ReadFile(ignore); err != nil || string(text) != "*\n" {
		t.Errorf("it has %q, %v", text, err)
	}
	if err := os.Remove(ignore); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(ignore); !os.IsNotExist(err) {
		t.Errorf("a folder that was there has got one: %v", err)
	}
}
