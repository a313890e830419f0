package machine

import (
	"slices"
	"testing"
)

func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"":                             nil,
		" \n\t":                        nil,
		"a  b\tc\n":                    {"a", "b", "c"},
		`/bin/sh -c 'echo "a b"' x`:    {"/bin/sh", "-c", `echo "a b"`, "x"},
		`a"b c"d ''`:                   {"ab cd", ""},
		`a\ b \\ "no\t" é`:             {"a b", `\`, `no\t`, "é"},
		`ends with \`:                  {"ends", "with", `\`},
		"'the quote isn't closed here": {"the quote isnt", "closed", "here"},
	} {
		if got := Words(text); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
