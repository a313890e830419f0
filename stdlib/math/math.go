// Package math is the module for arithmetic beyond the operators.
package math

import (
	"context"
	"math"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Module returns the module.
func Module() *builtin.Module {
	return builtin.NewModule(builtin.Module{
		Name: "math",
		Doc:  "Arithmetic. A result that isn't a number is an error.",
		Funcs: []builtin.Func{
			rounding("ceil", "Round up to an int.", "n = math.ceil(2.1)", math.Ceil),
			rounding("floor", "Round down to an int.", "n = math.floor(2.9)", math.Floor),
			rounding("round", "Round to the nearest int; halves to the even one, as in Python.", "n = math.round(2.5)", math.RoundToEven),
			rounding("trunc", "Drop the fraction.", "n = math.trunc(-2.9)", math.Trunc),
			one("sqrt", "Compute the square root.", "x = math.sqrt(16)", math.Sqrt),
			one("exp", "Raise e to a power.", "x = math.exp(1)", math.Exp),
			one("log2", "Compute the logarithm to base 2.", "x = math.log2(1024)", math.Log2),
			one("log10", "Compute the logarithm to base 10.", "x = math.log10(1000)", math.Log10),
			one("fabs", "Compute the absolute value, as a float.", "x = math.fabs(-2)", math.Abs),
			logarithm(),
			two("pow", "Raise x to the power y.", "x = math.pow(2, 10)", math.Pow),
			two("fmod", "Compute the remainder of x / y, with the sign of x.", "x = math.fmod(7, 3)", math.Mod),
		},
	})
}

type roundingArgs struct {
	X starlark.Value `star:"x,required" doc:"An int or float."`
}

func rounding(name, doc, example string, f func(float64) float64) builtin.Func {
	return builtin.Of(builtin.Spec[any, roundingArgs]{
		Name: name, Doc: doc, Returns: "int", Example: example, Effect: builtin.Pure, Errors: []fault.Kind{fault.Invalid},
		Run: func(_ context.Context, _ any, a roundingArgs) (any, error) {
			switch x := a.X.(type) {
			case effect.Unknown, starlark.Int:
				return x, nil
			case starlark.Float:
				n, err := starlark.NumberToInt(starlark.Float(f(float64(x))))
				if err != nil {
					return nil, fault.New(fault.Invalid, "math.%s: %v", name, err)
				}
				return n, nil
			}
			return nil, fault.New(fault.Invalid, "math.%s: got %s, want number", name, a.X.Type())
		},
	})
}

type oneArgs struct {
	X float64 `star:"x,required" doc:"A number."`
}

func one(name, doc, example string, f func(float64) float64) builtin.Func {
	return builtin.Of(builtin.Spec[any, oneArgs]{
		Name: name, Doc: doc, Returns: "float", Example: example, Effect: builtin.Pure, Errors: []fault.Kind{fault.Invalid},
		Run: func(_ context.Context, _ any, a oneArgs) (any, error) {
			return finite(name, f(a.X))
		},
	})
}

type twoArgs struct {
	X float64 `star:"x,required" doc:"A number."`
	Y float64 `star:"y,required" doc:"A number."`
}

func two(name, doc, example string, f func(x, y float64) float64) builtin.Func {
	return builtin.Of(builtin.Spec[any, twoArgs]{
		Name: name, Doc: doc, Returns: "float", Example: example, Effect: builtin.Pure, Errors: []fault.Kind{fault.Invalid},
		Run: func(_ context.Context, _ any, a twoArgs) (any, error) {
			return finite(name, f(a.X, a.Y))
		},
	})
}

type logArgs struct {
	X    float64 `star:"x,required" doc:"A number above 0."`
	Base float64 `star:"base,positional" doc:"The base; e if not given."`
}

func logarithm() builtin.Func {
	return builtin.Of(builtin.Spec[any, logArgs]{
		Name: "log", Doc: "Compute the logarithm to a base.", Returns: "float", Example: "x = math.log(8, 2)", Effect: builtin.Pure,
		Errors: []fault.Kind{fault.Invalid}, Defaults: logArgs{Base: math.E},
		Run: func(_ context.Context, _ any, a logArgs) (any, error) {
			switch a.Base {
			case math.E:
				return finite("log", math.Log(a.X))
			case 2:
				return finite("log", math.Log2(a.X))
			case 10:
				return finite("log", math.Log10(a.X))
			}
			return finite("log", math.Log(a.X)/math.Log(a.Base))
		},
	})
}

func finite(name string, x float64) (any, error) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil, fault.New(fault.Invalid, "math.%s: the result is not a finite number", name)
	}
	return x, nil
}
