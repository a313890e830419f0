package apiserver

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// TestChoose looks for what to run where there is no source, as outside of a
// checkout.
func TestChoose(t *testing.T) {
	t.Setenv(SourceVariable, "")
	missing := func() (string, error) { return "", fault.Hinted(fault.NotFound, "get it", "no source") }
	cache := t.TempDir()
	old := time.Now().Add(-time.Hour)
	put := func(name string, used time.Time) string {
		path := filepath.Join(cache, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, used, used); err != nil {
			t.Fatal(err)
		}
		return path
	}
	put("kubernetes-c/kubernetes.part", time.Now()) // a build that was broken off
	if _, program, err := choose(missing, cache); fault.KindOf(err) != fault.NotFound || fault.HintOf(err) != "get it" {
		t.Errorf("nothing is built: %q, %v", program, err)
	}
	put("kubernetes-a/kubernetes", old.Add(-time.Hour))
	latest := put("kubernetes-b/kubernetes", old)
	if _, program, err := choose(missing, cache); err != nil || program != latest {
		t.Errorf("of two: %q, %v", program, err)
	}
	if info, err := os.Stat(latest); err != nil || !info.ModTime().After(old) {
		t.Errorf("used, but not noted: %v", err)
	}
	found := func() (string, error) { return "here", nil }
	if source, program, err := choose(found, cache); source != "here" || program != "" || err != nil {
		t.Errorf("with a source: %q, %q, %v", source, program, err)
	}
	t.Setenv(SourceVariable, "elsewhere")
	if _, program, err := choose(missing, cache); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a source was named: %q, %v", program, err)
	}
}
