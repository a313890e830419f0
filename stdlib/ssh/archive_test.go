package ssh_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// fetched returns a builtin that gives tests an archive of the form that its
// name ends with, .tar, .tar.gz or .zip, with a program that says its name.
func fetched(t *testing.T) starlark.Value {
	return function("fetched", func(name string) starlark.Value {
		var buf bytes.Buffer
		files := map[string]string{"top/bin/tool": "#!/bin/sh\necho " + name + "\n", "top/" + name: ""}
		var err error
		switch {
		case strings.HasSuffix(name, ".zip"):
			w := zip.NewWriter(&buf)
			for _, p := range slices.Sorted(maps.Keys(files)) {
				f, ferr := w.Create(p)
				if ferr != nil {
					t.Fatal(ferr)
				}
				if _, err := f.Write([]byte(files[p])); err != nil {
					t.Fatal(err)
				}
			}
			err = w.Close()
		case strings.HasSuffix(name, ".cut.tar.gz"):
			buf.Write(gzipped(t, tarred(t, files)))
			buf.Truncate(buf.Len() / 2)
		case strings.HasSuffix(name, ".tar.gz"):
			buf.Write(gzipped(t, tarred(t, files)))
		case strings.HasSuffix(name, ".tar"):
			buf.Write(tarred(t, files))
		default:
			buf.WriteString(name)
		}
		file := filepath.Join(t.TempDir(), name)
		if err == nil {
			err = os.WriteFile(file, buf.Bytes(), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(buf.Bytes())
		return effect.NewObject("artifact", map[string]any{"path": file, "sha256": hex.EncodeToString(sum[:])})
	})
}

func tarred(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, p := range slices.Sorted(maps.Keys(files)) {
		text := files[p]
		if err := w.WriteHeader(&tar.Header{Name: p, Mode: 0o755, Size: int64(len(text)), Uid: 1234, Format: tar.FormatGNU}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func gzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}
