package main

import (
	"encoding/json"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/durable"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// writeOutputs writes the outputs of a run to a file as JSON, for other
// programs. What is secret is left out. The file is replaced in one step.
func writeOutputs(file string, outputs starlark.Value) error {
	data, err := effect.FromStarlark(outputs)
	if err != nil {
		return fault.Wrap("writing outputs to", file, err)
	}
	text, err := json.MarshalIndent(public(data), "", "  ")
	if err == nil {
		err = durable.WriteFile(file, append(text, '\n'), 0o644)
	}
	if err != nil {
		return &fault.Error{Op: "writing outputs to", Target: file, Kind: fault.Failed, Err: err}
	}
	return nil
}

// public returns data without its secrets.
func public(x any) any {
	switch x := x.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, v := range x {
			if _, secret := v.(*effect.Secret); !secret {
				out[k] = public(v)
			}
		}
		return out
	case []any:
		out := make([]any, 0, len(x))
		for _, v := range x {
			if _, secret := v.(*effect.Secret); !secret {
				out = append(out, public(v))
			}
		}
		return out
	}
	return x
}
