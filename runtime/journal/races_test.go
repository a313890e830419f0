package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
)

const locked = "6" // what a process that is refused ends with

func world(t *testing.T, s *Store, recipe string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, recipe+".world"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // nobody came to write
		t.Fatal(err)
	}
	return slices.Collect(strings.Lines(string(data)))
}

func TestTwoRunsAtOnce(t *testing.T) {
	s := open(t)
	one, two := startWriter(t, s.dir, "r", "one", "1m", "1", "hold"), startWriter(t, s.dir, "r", "two", "1m", "1", "hold")
	// Whichever is first holds it; the other one waits for its turn.
	first, second := one, two
	for len(holders(t, s)) == 0 {
		time.Sleep(time.Millisecond)
	}
	if holders(t, s)[0] == "two" {
		first, second = two, one
	}
	first.says(t, "ready")
	if code, last := startWriter(t, s.dir, "r", "three", "1m", "1", "once").ends(t); fmt.Sprint(code) != locked || !strings.Contains(last, "is being run by ") {
		t.Errorf("a third one: exit code %d, %s", code, last)
	}
	if got := len(world(t, s, "r")); got != 2 {
		t.Errorf("%d lines in the world of one writer", got)
	}
	if err := first.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if code, last := first.ends(t); code != 0 {
		t.Errorf("the first one: exit code %d, %s", code, last)
	}
	if got := second.says(t, "holds"); got != "holds 2" {
		t.Errorf("the second one %s", got)
	}
}

// holders returns who holds the lock of recipe r.
func holders(t *testing.T, s *Store) (out []string) {
	t.Helper()
	if h, _, err := readHolder(filepath.Join(s.dir, "locks", "lab%2Fr.json")); err == nil {
		out = append(out, h.Run)
	}
	return out
}

func TestHolderIsKilled(t *testing.T) {
	s := open(t)
	// Its lock would last an hour without a heartbeat.
	w := startWriter(t, s.dir, "r", "one", "1h", "1", "hold")
	w.says(t, "ready")
	if err := w.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	w.ends(t)
	if code, last := startWriter(t, s.dir, "r", "two", "1h", "1", "once").ends(t); code != 0 {
		t.Errorf("the next one: exit code %d, %s", code, last)
	}
}

func TestHolderIsPausedBetweenChanges(t *testing.T) {
	s := open(t)
	w := startWriter(t, s.dir, "r", "one", "50ms", "2", "between")
	w.stopped(t)
	if code, last := startWriter(t, s.dir, "r", "two", "50ms", "2", "").ends(t); code != 0 {
		t.Fatalf("the next one: exit code %d, %s", code, last)
	}
	w.wake(t)
	if code, last := w.ends(t); fmt.Sprint(code) != locked || !strings.Contains(last, "was taken over by two (run two), which has ended") {
		t.Errorf("the one that was woken: exit code %d, %s", code, last)
	}
	want := "enter 1 one leave 1 one enter 2 two leave 2 two enter 2 two leave 2 two "
	if got := strings.ReplaceAll(strings.Join(world(t, s, "r"), ""), "\n", " "); got != want {
		t.Errorf("the world: %s\nwant %s", got, want)
	}
}

func TestHolderIsPausedWithinAChange(t *testing.T) {
	s := open(t)
	w := startWriter(t, s.dir, "r", "one", "20ms", "2", "within")
	w.stopped(t)
	for {
		_, beat, err := readHolder(filepath.Join(s.dir, "locks", "lab%2Fr.json"))
		if err != nil {
			t.Fatal(err)
		}
		if time.Since(beat) > 100*time.Millisecond {
			break // it has expired long ago
		}
		time.Sleep(time.Millisecond)
	}
	if code, last := startWriter(t, s.dir, "r", "two", "20ms", "1", "once").ends(t); fmt.Sprint(code) != locked || !strings.Contains(last, "can't be taken over in the middle of a change") {
		t.Errorf("the next one: exit code %d, %s", code, last)
	}
	w.wake(t)
	if code, last := w.ends(t); code != 0 {
		t.Errorf("the one that was woken: exit code %d, %s", code, last)
	}
	if code, last := startWriter(t, s.dir, "r", "three", "20ms", "1", "").ends(t); code != 0 {
		t.Errorf("the one after it: exit code %d, %s", code, last)
	}
	want := "enter 1 one leave 1 one enter 1 one leave 1 one enter 2 three leave 2 three "
	if got := strings.ReplaceAll(strings.Join(world(t, s, "r"), ""), "\n", " "); got != want {
		t.Errorf("the world: %s\nwant %s", got, want)
	}
}

// TestRaces lets processes race for a lock while they are killed, and paused for
// longer than the lock lasts, at any moment. There is never more than one
// writer, and none comes back after another.
func TestRaces(t *testing.T) {
	skip.Slow(t, "it starts hundreds of processes")
	s := open(t)
	const races, atOnce = 200, 4
	seed := uint64(time.Now().UnixNano())
	var sum tally
	var wg sync.WaitGroup
	next := make(chan int)
	for range atOnce {
		wg.Go(func() {
			for i := range next {
				sum.add(race(t, s, fmt.Sprint("race", i), rand.New(rand.NewPCG(seed, uint64(i)))))
			}
		})
	}
	for i := range races {
		next <- i
	}
	close(next)
	wg.Wait()
	t.Logf("%d double writers in %d races (seed %d): %d changes by %d holders, %d writers killed (%d in a change), %d pauses, %d holders refused after a takeover",
		sum.doubles, races, seed, sum.changes, sum.holders, sum.killed, sum.cut, sum.pauses, sum.refused)
	if sum.doubles > 0 {
		t.Errorf("%d double writers", sum.doubles)
	}
	if sum.killed == 0 || sum.pauses == 0 || sum.refused == 0 || sum.cut == 0 {
		t.Error("nothing of what should disturb the races came to pass")
	}
}

// A tally says what happened in races.
type tally struct {
	mu                                                      sync.Mutex
	doubles, changes, holders, killed, cut, pauses, refused int
}

func (a *tally) add(b *tally) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.doubles += b.doubles
	a.changes += b.changes
	a.holders += b.holders
	a.killed += b.killed
	a.cut += b.cut
	a.pauses += b.pauses
	a.refused += b.refused
}

// race lets three processes race and looks at what they did.
func race(t *testing.T, s *Store, recipe string, r *rand.Rand) *tally {
	sum := new(tally)
	const ttl = 30 * time.Millisecond
	points := []string{"", "", "within", "between"}
	writers := make([]*writer, 3)
	killed := make(map[string]bool)
	var wg sync.WaitGroup
	for i := range writers {
		run := fmt.Sprint("run", i)
		point := points[r.IntN(len(points))]
		w := startWriter(t, s.dir, recipe, run, ttl.String(), "6", point)
		writers[i] = w
		kill, stop := r.IntN(3) == 0, r.IntN(2) == 0
		at, long := time.Duration(r.Int64N(int64(80*time.Millisecond))), ttl+time.Duration(r.Int64N(int64(2*ttl)))
		if kill {
			killed[run] = true
		}
		if stop || point != "" {
			sum.pauses++
		}
		wg.Go(func() {
			// Moments within another process, whatever it does just then.
			time.Sleep(at)
			if stop {
				_ = w.Process.Signal(syscall.SIGSTOP)
			}
			time.Sleep(long)
			if kill {
				_ = w.Process.Kill()
			}
			for w.Process.Signal(syscall.SIGCONT) == nil { // it may pause itself later
				time.Sleep(ttl)
				if state, _, ok := procStat(w.Process.Pid); !ok || state == "Z" {
					return
				}
			}
		})
	}
	for _, w := range writers {
		code, last := w.ends(t)
		switch {
		case code == fault.Locked.ExitCode():
			sum.refused++
		case code == -1:
			sum.killed++
		case code != 0:
			t.Errorf("%s: a writer ended with %d: %s", recipe, code, last)
		}
	}
	wg.Wait()
	lines := world(t, s, recipe)
	if len(lines) == 0 && len(killed) < len(writers) {
		t.Errorf("%s: nobody wrote", recipe)
	}
	judge(t, recipe, lines, killed, sum)
	return sum
}

// judge finds the double writers in what was written.
func judge(t *testing.T, recipe string, lines []string, killed map[string]bool, sum *tally) {
	newest, holder, inside := 0, "", ""
	double := func(i int, why string) {
		sum.doubles++
		t.Errorf("%s: line %d: %s:\n%s", recipe, i+1, why, strings.Join(lines[:i+1], ""))
	}
	for i, line := range lines {
		var what, run string
		var token int
		if _, err := fmt.Sscan(line, &what, &token, &run); err != nil {
			t.Fatalf("%s: %q: %v", recipe, line, err)
		}
		switch {
		case token < newest:
			double(i, "a holder wrote after the next one did")
		case token > newest:
			sum.holders++
			newest, holder = token, run
		case run != holder:
			double(i, "two holders have one token")
		}
		switch {
		case what == "double":
			double(i, "another one was in a change")
		case what == "enter" && inside != "" && inside != run && killed[inside]:
			sum.cut++ // it died in there
			inside = run
		case what == "enter" && inside != "":
			double(i, "one entered before the other left")
		case what == "enter":
			inside = run
		case what == "leave" && inside != run:
			double(i, "one left that wasn't inside")
		default:
			sum.changes++
			inside = ""
		}
	}
}
