//go:build !linux

package durable

import "os"

// renameNew gives a file another name unless that is taken. The old one is
// removed by the caller.
func renameNew(from, to string) error { return os.Link(from, to) }
