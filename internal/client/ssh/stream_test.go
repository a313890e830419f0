package ssh

import (
	"fmt"
	"testing"
)

// TestStreamInPieces cuts what a shell writes at each place, and into single
// bytes: where the network cuts it is chance.
func TestStreamInPieces(t *testing.T) {
	one, two := newLook(&Command{Script: "one"}), newLook(&Command{Script: "two"})
	out := fmt.Sprintf("first\n\n\n%s 0\nsecond\n%s 12\n", one.mark, two.mark)
	errOut := fmt.Sprintf("\n%s\nwrong\n\n%s\n", one.mark, two.mark)
	for cut := range len(out) + 1 {
		a, b := &look{mark: one.mark, limit: 100, done: make(chan struct{})}, &look{mark: two.mark, limit: 100, done: make(chan struct{})}
		sh := &shell{queue: []*look{a, b}}
		sh.out, sh.errOut = stream{sh: sh}, stream{sh: sh, second: true}
		pieces := []string{out[:cut], out[cut:]}
		if cut == len(out) {
			pieces = nil
			for i := range out {
				pieces = append(pieces, out[i:i+1])
			}
		}
		for _, p := range pieces {
			if n, err := sh.out.Write([]byte(p)); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
		}
		if _, err := sh.errOut.Write([]byte(errOut)); err != nil {
			t.Fatal(err)
		}
		for i, l := range []*look{a, b} {
			select {
			case <-l.done:
			default:
				t.Fatalf("cut at %d: the end of look %d isn't seen", cut, i)
			}
		}
		got := fmt.Sprintf("%q %q %d, %q %q %d", a.stdout, a.stderr, a.code, b.stdout, b.stderr, b.code)
		if want := `"first\n\n" "" 0, "second" "wrong\n" 12`; got != want {
			t.Errorf("cut at %d: got %s, want %s", cut, got, want)
		}
	}
}
