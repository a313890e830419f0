package journal

import (
	"errors"
	"syscall"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// unwritable returns err as a failure of op on a file in the state folder,
// before anything else was touched.
func unwritable(op, path string, err error) error {
	if kind := fault.KindOf(err); kind != fault.Internal {
		return err // it says so itself
	}
	return &fault.Error{Op: op, Target: path, Kind: fault.Invalid, Err: err, Hint: diskHint(err)}
}

// diskHint says what could help against an error of the system.
func diskHint(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "free space in the state folder"
	case errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOTDIR):
		return "let state: in site.yaml name a folder that can be written"
	case errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENOLCK):
		return "let state: in site.yaml name a folder on a file system that has locks"
	}
	return "see whether the disk of the state folder is sound"
}
