package view

import "testing"

func TestUnified(t *testing.T) {
	if got := Unified("a", "b", "x\n", "x\n"); got != "" {
		t.Errorf("equal texts differ: %q", got)
	}
	got := Unified("was", "is", "one\n\ttwo\nthree", "one\n\t2\x1b[2J\nthree\n")
	want := "--- was\n+++ is\n@@ -1,3 +1,3 @@\n one\n-\ttwo\n-three\n\\ No newline at end of file\n+\t2\\x1b[2J\n+three\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
