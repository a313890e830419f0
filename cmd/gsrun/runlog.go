package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"git.vanillacore.net/govstack/gsrun/cmd/gsrun/view"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
)

// A runLog is a file with what a run told, a line each, with the time.
type runLog struct {
	file *os.File
	view view.View
	line bytes.Buffer
	now  func() time.Time
}

// openLog opens the log of a run to add to it. A log that can't be written
// doesn't hold up the run: the journal is what counts.
func openLog(store *journal.Store, run string, r *effect.Redactor) *runLog {
	f, err := os.OpenFile(store.LogPath(run), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil
	}
	l := &runLog{file: f, now: time.Now}
	l.view = view.New(view.Config{Kind: view.Plain, Out: io.Discard, Err: l, Verb: view.Running, Verbose: true, Redactor: r})
	return l
}

// Write adds what the view writes, which writes from one goroutine at a time.
func (l *runLog) Write(p []byte) (int, error) {
	l.line.Write(p)
	for {
		i := bytes.IndexByte(l.line.Bytes(), '\n')
		if i < 0 {
			return len(p), nil
		}
		text := l.line.Next(i + 1)
		if _, err := fmt.Fprintf(l.file, "%s %s", l.now().UTC().Format("2006-01-02T15:04:05.000Z"), text); err != nil {
			return len(p), nil // a full disk ends the log, not the run
		}
	}
}

// Event adds what an event tells.
func (l *runLog) Event(e effect.Event) {
	if l != nil {
		l.view.Event(e)
	}
}

// Close ends the log.
func (l *runLog) Close() {
	if l != nil {
		_ = l.view.Close() // it writes to l, which never fails
		_ = l.file.Close() // nothing depends on the last lines
	}
}

func (a *app) runLogsCmd(p *place) *cobra.Command {
	var step string
	var follow bool
	c := &cobra.Command{
		Use: "logs RUN", Short: "Show what a run told, with the time of each line", Args: cobra.ExactArgs(1),
		Example: "  gsrun runs logs 20260914-101502-a1b2c3 --step gateway/nat\n  gsrun runs logs 20260914-101502-a1b2c3 --follow",
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := a.runStore(cmd, *p)
			if err != nil {
				return err
			}
			if _, _, err := store.Read(args[0]); err != nil {
				return err
			}
			return showLog(cmd.Context(), cmd.OutOrStdout(), store, args[0], step, follow)
		},
	}
	c.Flags().StringVar(&step, "step", "", "show the lines of this `step`, and of those within it, only")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on showing lines until the run ends")
	return c
}

// showLog writes the lines of a run's log. With follow it waits for more until
// the run ends, or nobody works at it any more.
func showLog(ctx context.Context, w io.Writer, store *journal.Store, run, step string, follow bool) error {
	f, err := os.Open(store.LogPath(run))
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Hinted(fault.Invalid, "gsrun runs show has its journal", "run %s has no log", run)
	}
	if err != nil {
		return &fault.Error{Op: "reading the log of", Target: run, Kind: fault.Invalid, Err: err}
	}
	defer f.Close()
	r := bufio.NewReader(f)
	rest := ""
	for {
		ended := !follow || store.Ended(run)
		for {
			line, err := r.ReadString('\n')
			rest += line
			if err != nil {
				break
			}
			if inStep(rest, step) {
				if _, err := io.WriteString(w, rest); err != nil {
					return err
				}
			}
			rest = ""
		}
		if ended {
			return nil
		}
		if err := (effect.SystemClock{}).Sleep(ctx, 200*time.Millisecond); err != nil {
			return fault.FromContext(ctx)
		}
	}
}

// inStep reports whether a log line is of the step, or of one within it.
func inStep(line, step string) bool {
	if step == "" {
		return true
	}
	_, text, _ := strings.Cut(line, " ")
	rest, ok := strings.CutPrefix(text, step)
	return ok && rest != "" && strings.ContainsRune(":/[", rune(rest[0]))
}
