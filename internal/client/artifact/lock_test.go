package artifact_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/client/artifact"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

func pin(kind, source string, fill byte) artifact.Pin {
	return artifact.Pin{Kind: kind, Source: source, SHA256: strings.Repeat(string(fill), 64)}
}

func TestLockBytes(t *testing.T) {
	l := artifact.NewLock("x")
	for _, p := range []artifact.Pin{pin("oci", "registry.example.org/app:v1", 'b'), pin("file", "https://b/<x>&y", 'c'), pin("file", "https://a/x", 'a')} {
		if err := l.Set(p); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"gsrun.lock":1}
{"kind":"file","source":"https://a/x","sha256":"` + strings.Repeat("a", 64) + `"}
{"kind":"file","source":"https://b/<x>&y","sha256":"` + strings.Repeat("c", 64) + `"}
{"kind":"oci","source":"registry.example.org/app:v1","sha256":"` + strings.Repeat("b", 64) + `"}
`
	if got := string(l.Bytes()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	path := filepath.Join(t.TempDir(), "gsrun.lock")
	for range 2 {
		if err := l.Write(path); err != nil {
			t.Fatal(err)
		}
	}
	again, err := artifact.ReadLock(path)
	if err != nil || !bytes.Equal(again.Bytes(), l.Bytes()) || again.Name() != path {
		t.Errorf("read back %v (%v)", again, err)
	}
	again.Remove("oci", "registry.example.org/app:v1")
	if n := len(again.Pins()); n != 2 {
		t.Errorf("%d pins are left", n)
	}
	if err := again.Set(artifact.Pin{Kind: "file", Source: "x", SHA256: "short"}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a bad pin: %v", err)
	}
	none, err := artifact.ReadLock(path + "x")
	if err != nil || len(none.Pins()) != 0 {
		t.Errorf("a lock that isn't there: %v", err)
	}
	if _, err := artifact.ReadLock(filepath.Dir(path)); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a folder: %v", err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestParseLockRefuses(t *testing.T) {
	const head = "{\"gsrun.lock\":1}\n"
	good := `{"kind":"file","source":"https://a/x","sha256":"` + strings.Repeat("a", 64) + `"}`
	for name, text := range map[string]string{
		"no header":      good,
		"later version":  `{"gsrun.lock":2}`,
		"no JSON":        head + "x",
		"two values":     head + good + good,
		"unknown field":  head + strings.Replace(good, `"kind"`, `"a":1,"kind"`, 1),
		"unknown kind":   head + strings.Replace(good, "file", "floppy", 1),
		"no source":      head + strings.Replace(good, "https://a/x", "", 1),
		"short digest":   head + strings.Replace(good, "aaaa", "", 1),
		"upper case":     head + strings.Replace(good, "aaaa", "AAAA", 1),
		"negative size":  head + strings.Replace(good, `"kind"`, `"size":-1,"kind"`, 1),
		"pinned twice":   head + good + "\n" + strings.Replace(good, "aaaa", "bbbb", 1),
		"conflict marks": head + "<<<<<<< HEAD\n" + good,
	} {
		_, err := artifact.ParseLock("l", []byte(text))
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "l:") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{"empty": "", "header": head, "blank lines": "\n" + head + "\n" + good + "\n\n", "same twice": head + good + "\n" + good} {
		if _, err := artifact.ParseLock("l", []byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParseLock(f *testing.F) {
	f.Add([]byte("{\"gsrun.lock\":1}\n{\"kind\":\"file\",\"source\":\"https://a/x\",\"sha256\":\"" + strings.Repeat("a", 64) + "\"}\n"))
	f.Add([]byte("{\"gsrun.lock\":1}"))
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := artifact.ParseLock("l", data)
		if err != nil {
			if fault.KindOf(err) != fault.Invalid {
				t.Errorf("error of kind %s: %v", fault.KindOf(err), err)
			}
			return
		}
		again, err := artifact.ParseLock("l", l.Bytes())
		if err != nil {
			t.Fatalf("what was written can't be read: %v", err)
		}
		if !bytes.Equal(again.Bytes(), l.Bytes()) {
			t.Errorf("not stable:\n%s\n%s", l.Bytes(), again.Bytes())
		}
	})
}
