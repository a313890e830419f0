package journal

import (
	"os"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A run that was killed while it wrote loses what it wrote just then, and
// nothing else, however it goes on.
func TestTornTail(t *testing.T) {
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
	for cut := range len(data) {
		if err := os.WriteFile(path, data[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		want := 0
		if cut >= first {
			want = 1
		}
		entries, torn, err := s.Read("r1")
		if err != nil || len(entries) != want || torn != (cut != first) {
			t.Fatalf("cut at %d of %d: %d entries, torn %v, %v", cut, len(data), len(entries), torn, err)
		}
		if want == 0 {
			continue
		}
		j, err := s.Continue("r1", "a@b", Options{})
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		for _, target := range []string{"a", "b"} {
			if err := j.Intent(effect.Record{Target: target, Kind: effect.Create}); err != nil {
				t.Fatal(err)
			}
		}
		entries, torn, err = s.Read("r1")
		if err != nil || torn || len(entries) != 4 || entries[1].Type != TypeResume || entries[2].Target != "a" || entries[3].Target != "b" {
			t.Fatalf("cut at %d, then two more: %d entries, torn %v, %v", cut, len(entries), torn, err)
		}
		if err := j.End("ok", 2, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// What a power failure leaves of a line that wasn't flushed may be zeros.
func TestTailOfZeros(t *testing.T) {
	s := open(t)
	start(t, s, "r1")
	f, err := os.OpenFile(s.path("r1"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	if entries, torn, err := s.Read("r1"); err != nil || !torn || len(entries) != 1 {
		t.Errorf("%d entries, torn %v, %v", len(entries), torn, err)
	}
}

func TestJournalsThatCantBeRead(t *testing.T) {
	s := open(t)
	const first = `{"v":1,"type":"run","time":"2026-01-01T00:00:00Z","run":"x"}` + "\n"
	const end = `{"type":"end","time":"2026-01-01T00:00:01Z","status":"ok"}` + "\n"
	tests := map[string]struct {
		text, says, hint string
		entries          int
	}{
		"version": {`{"v":9,"type":"run","time":"2026-01-01T00:00:00Z"}` + "\n" + `{"other":"form"}` + "\n",
			"journal PATH has version 9; this gsrun reads 1", "read it with the gsrun that wrote it, or run the recipe again", 0},
		"beginning": {end, "journal PATH has version 0; this gsrun reads 1", "read it with", 0},
		"middle":    {first + "nonsense\n" + end, "reading journal PATH line 2: invalid character", "run the recipe again: a run looks at everything anew", 2},
		"several":   {first + "\x00\x00\n{\"type\"\n" + end, "reading journal PATH line 2: ", "the file was damaged", 2},
		"last":      {first + "nonsense\n", "reading journal PATH line 2: ", "the file was damaged", 1},
		"all":       {"nonsense\n", "reading journal PATH line 1: ", "the file was damaged", 0},
	}
	for name, tt := range tests {
		if err := os.WriteFile(s.path(name), []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		entries, _, err := s.Read(name)
		says := strings.ReplaceAll(tt.says, "PATH", s.path(name))
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), says) || !strings.Contains(fault.HintOf(err), tt.hint) || len(entries) != tt.entries {
			t.Errorf("%s: %d entries, %v, hint %q", name, len(entries), err, fault.HintOf(err))
		}
	}
	// One that can't be read doesn't hide the others.
	start(t, s, "fine")
	runs, err := s.Runs()
	if err != nil || len(runs) != len(tests)+1 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
	for _, r := range runs {
		want := "unreadable"
		if r.Run == "fine" {
			want = "unfinished"
		}
		if r.Status != want || (r.Error == "") != (r.Run == "fine") {
			t.Errorf("%+v", r)
		}
	}
	if _, _, err := s.Read("none"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("missing: %v", err)
	}
}
