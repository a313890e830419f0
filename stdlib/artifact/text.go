package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"unicode/utf8"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
)

// maxText is the largest file, in bytes, that is given to a recipe as text.
const maxText = 64 << 20

type textArgs struct{}

func text() builtin.Func {
	return builtin.Of(builtin.Spec[*File, textArgs]{
		Name:    "text",
		Doc:     "Read the file as text. It must be UTF-8 and have at most 64 MiB.",
		Returns: "str",
		Example: `text = artifact.fetch("https://github.com/cert-manager/cert-manager/releases/download/v1.20.3/cert-manager.yaml").text()`,
		Effect:  builtin.Reads,
		Errors:  []fault.Kind{fault.Invalid, fault.Untrusted},
		Run: func(_ context.Context, f *File, _ textArgs) (any, error) {
			if f.Size > maxText {
				return nil, fault.Hinted(fault.Invalid, "pass the file itself to the primitive that uses it", "%s has %d bytes; at most %d are read as text", f.URL, f.Size, maxText)
			}
			data, err := os.ReadFile(f.Path)
			if err != nil {
				return nil, &fault.Error{Op: "reading", Target: f.URL, Kind: fault.Failed, Err: err}
			}
			// The copy may have been written to since it was fetched.
			if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != f.SHA256 {
				return nil, fault.Hinted(fault.Untrusted, "run it again: the copy is fetched anew", "the cached copy of %s at %s was changed", f.URL, f.Path)
			}
			if !utf8.Valid(data) {
				return nil, fault.Hinted(fault.Invalid, "pass the file itself to the primitive that uses it", "%s is not UTF-8 text", f.URL)
			}
			return string(data), nil
		},
	})
}
