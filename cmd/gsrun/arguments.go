package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// sayArguments makes each verb below c say in words which argument is missing
// or too much, with its usage.
func sayArguments(c *cobra.Command) {
	if check := c.Args; check != nil && c.HasParent() {
		c.Args = func(c *cobra.Command, args []string) error {
			if check(c, args) == nil {
				return nil
			}
			hint := "usage: " + c.UseLine() + "; see " + c.CommandPath() + " --help"
			names := strings.Fields(c.Use)[1:]
			if len(args) < len(names) {
				return fault.Hinted(fault.Invalid, hint, "%s: %s is missing", c.CommandPath(), strings.TrimSuffix(names[len(args)], "..."))
			}
			return fault.Hinted(fault.Invalid, hint, "%s: unexpected argument %q", c.CommandPath(), args[len(names)])
		}
	}
	for _, sub := range c.Commands() {
		sayArguments(sub)
	}
}

// readerGone reports whether err only says that whoever read the output has
// gone away, as head does: what it wanted it has.
func readerGone(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			if !readerGone(one) {
				return false
			}
		}
		return true
	}
	if pe, ok := err.(*fs.PathError); ok {
		return pe.Path == os.Stdout.Name() && errors.Is(pe.Err, syscall.EPIPE)
	}
	inner := errors.Unwrap(err)
	return inner != nil && readerGone(inner)
}
