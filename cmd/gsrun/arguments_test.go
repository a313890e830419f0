package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

// TestReaderGone: that the reader of the output went away is no error, unless
// something else went wrong as well.
func TestReaderGone(t *testing.T) {
	gone := &fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.EPIPE}
	other := errors.New("other")
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"it alone":            {gone, true},
		"wrapped and joined":  {errors.Join(nil, fmt.Errorf("writing: %w", gone)), true},
		"with something else": {errors.Join(gone, other), false},
		"a full disk":         {&fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.ENOSPC}, false},
		"a pipe of others":    {&fs.PathError{Op: "write", Path: "/x", Err: syscall.EPIPE}, false},
		"something else":      {other, false},
	} {
		if got := readerGone(tt.err); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if code := new(app).exit(gone); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
