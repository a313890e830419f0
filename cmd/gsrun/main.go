// Command gsrun runs recipes: plans and applies what they say of OpenStack
// projects, hosts, Kubernetes clusters and Git repositories.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run runs gsrun with the given arguments and returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return (&app{stdin: stdin, stdout: stdout, stderr: stderr, getenv: os.Getenv}).run(args)
}

func (a *app) run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal lets what runs end in order; the next one ends it at once.
	context.AfterFunc(ctx, stop)
	// A reader of the output that goes away ends the output, not the run.
	signal.Ignore(syscall.SIGPIPE)
	root := a.root()
	root.SetArgs(a.shorthand(root, args))
	return a.exit(root.ExecuteContext(ctx))
}

// app is one call of gsrun.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	watch          func(*effect.Door) // tests see the door of a run before it begins
}

// exitCode ends gsrun with a code that isn't that of an error's kind, or
// without a message.
type exitCode struct {
	code int
	err  error // nil if everything was said already
}

func (e *exitCode) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// exit says what went wrong, if something did and it wasn't said yet, and
// returns the exit code.
func (a *app) exit(err error) int {
	if err == nil || readerGone(err) {
		return 0
	}
	var code *exitCode
	if errors.As(err, &code) {
		if code.err != nil {
			a.complain(code.err)
		}
		return code.code
	}
	a.complain(err)
	if kind := fault.KindOf(err); kind != fault.Internal {
		return kind.ExitCode()
	}
	return fault.Invalid.ExitCode() // cobra's own: a wrong verb or flag
}

func (a *app) complain(err error) {
	if r, ok := asReported(err); ok {
		fmt.Fprint(a.stderr, r.report)
		return
	}
	fmt.Fprintf(a.stderr, "gsrun: error: %s\n", strings.ReplaceAll(err.Error(), "\n", "\n  "))
	if h := fault.HintOf(err); h != "" {
		fmt.Fprintf(a.stderr, "gsrun: hint: %s\n", h)
	}
}
