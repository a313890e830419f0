package outputs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/client/outputs"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// TestChange: of many that change a file at once no change is lost.
func TestChange(t *testing.T) {
	f := outputs.Folder(filepath.Join(t.TempDir(), "state", "lab"))
	if _, found, err := f.Read("n"); found || err != nil {
		t.Errorf("before: %v, %v", found, err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			err := f.Change("n", func(text []byte) ([]byte, error) {
				n := 0
				if text != nil {
					var err error
					if n, err = strconv.Atoi(string(text)); err != nil {
						return nil, err
					}
				}
				return fmt.Append(nil, n+1), nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if text, _, err := f.Read("n"); string(text) != "20" || err != nil {
		t.Errorf("20 changes made %q (%v)", text, err)
	}
	none := errors.New("no")
	if err := f.Change("n", func([]byte) ([]byte, error) { return nil, none }); !errors.Is(err, none) {
		t.Errorf("a change that fails: %v", err)
	}
	for range 2 {
		if err := f.Change("n", func([]byte) ([]byte, error) { return nil, nil }); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(string(f)); err != nil || len(left) != 0 {
		t.Errorf("left: %v (%v)", left, err)
	}
}

// TestInTheWay: what can't be read or written is named.
func TestInTheWay(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "state"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := outputs.Folder(filepath.Join(dir, "state")).Change("n", func([]byte) ([]byte, error) { return []byte("x"), nil })
	if fault.KindOf(err) != fault.Failed {
		t.Errorf("a file in place of the folder: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := outputs.Folder(dir).Read("n"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a folder in place of the file: %v", err)
	}
}
