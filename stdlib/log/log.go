// Package log is the module through which recipes report lines.
package log

import (
	"context"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Config says what is logged.
type Config struct {
	Debug bool // report what log.debug is given, too
}

// A Logger is one run's instance of the module.
type Logger struct{ debug bool }

// Module returns the module.
func Module(c Config) *builtin.Module {
	return builtin.NewModule(builtin.Module{
		Name: "log",
		Doc:  "Lines for people, in the run's output and journal. Secrets show as `***`, and what isn't known yet as `(known after apply)`.",
		Recv: &Logger{debug: c.Debug},
		Funcs: []builtin.Func{
			line("info", "", "Log a line.", `log.info("the gateway answers")`),
			line("warn", "warning: ", "Log a warning: something that the reader should look at.", `log.warn("the image is older than 90 days")`),
			line("debug", "debug: ", "Log a line that only shows when debugging is asked for.", `log.debug("tried twice")`),
		},
	})
}

type lineArgs struct {
	Message effect.Text `star:"message,required" doc:"The line."`
}

func line(name, prefix, doc, example string) builtin.Func {
	return builtin.Of(builtin.Spec[*Logger, lineArgs]{
		Name:    name,
		Doc:     doc,
		Returns: "None",
		Example: example,
		Effect:  builtin.Reads,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, l *Logger, a lineArgs) (any, error) {
			if name == "debug" && (l == nil || !l.debug) {
				return nil, nil
			}
			effect.Logf(ctx, "%s%s", prefix, strings.TrimRight(a.Message.String(), "\n"))
			return nil, nil
		},
	})
}
