package runtime

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated page")

// TestGenerated compares the reference of the language with the declarations
// that it is made from.
func TestGenerated(t *testing.T) {
	var b strings.Builder
	for _, m := range Language() {
		b.WriteString(m.Markdown() + "\n")
	}
	if *update {
		if err := os.WriteFile("LANGUAGE.md", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have, err := os.ReadFile("LANGUAGE.md"); err != nil || string(have) != b.String() {
		t.Errorf("LANGUAGE.md isn't what the declarations say; run make generate (%v)", err)
	}
}
