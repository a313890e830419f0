package durable

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// renameNew renames a file unless there is one of the new name.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	switch {
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOSYS): // the file system can't, as NFS
		return os.Link(from, to)
	case err != nil:
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}
