package main

import (
	"encoding/json"
	"os"
	"path/filepath"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/durable"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// writeOutputs writes the outputs of a run to a file as JSON, for other
// programs. What is secret is left out. The file is replaced in one step.
func writeOutputs(file string, outputs starlark.Value, r *effect.Redactor) error {
	data, err := effect.FromStarlark(outputs)
	if err != nil {
		return fault.Wrap("writing outputs to", file, err)
	}
	text, err := json.MarshalIndent(public(data, r), "", "  ")
	if err == nil {
		err = durable.WriteFile(file, append(text, '\n'), 0o644)
	}
	if err != nil {
		return &fault.Error{Op: "writing outputs to", Target: file, Kind: fault.Failed, Err: err}
	}
	return nil
}

// writable returns an error if a file that a flag names lies in no folder: what
// it is for would be lost at the end.
func writable(flag, file string) error {
	dir := filepath.Dir(file)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return fault.Hinted(fault.Invalid, "make it first", "%s %s: there is no folder %s", flag, file, dir)
	}
	return nil
}

// public returns data without its secrets, and without texts that hold one.
func public(x any, r *effect.Redactor) any {
	switch x := x.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, v := range x {
			if !isSecret(v, r) {
				out[k] = public(v, r)
			}
		}
		return out
	case []any:
		out := make([]any, 0, len(x))
		for _, v := range x {
			if !isSecret(v, r) {
				out = append(out, public(v, r))
			}
		}
		return out
	}
	return x
}

func isSecret(x any, r *effect.Redactor) bool {
	switch x := x.(type) {
	case *effect.Secret:
		return true
	case string:
		return r.String(x) != x
	}
	return false
}
