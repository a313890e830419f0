// Package outputs is the module that keeps what a recipe made known in files of
// the site: for other programs, and for recipes that run later.
package outputs

import (
	"context"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/outputs"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Config says where the files lie. The zero Config only gives the texts.
type Config struct {
	Dir string // their folder
}

// Outputs is one run's instance of the module.
type Outputs struct{ folder client.Folder }

// scope is what the targets of this module begin with.
const scope = "outputs"

// Module returns the module.
func Module(c Config) *builtin.Module {
	return builtin.NewModule(builtin.Module{
		Name: "outputs",
		Doc: "Facts for other programs and later recipes, as JSON files in the folder `state/SITE` of the site: `infrastructure-outputs.json` and the like. " +
			"Those of a recipe that is used with an instance lie in a folder of that name in it. A file is replaced in one step, so that no reader meets half of one; the same facts give the same bytes. None of them is secret: a secret is refused.",
		Recv:  &Outputs{folder: client.Folder(c.Dir)},
		Funcs: []builtin.Func{ensure(), get()},
	})
}

// check returns an error if there can be no facts of this name, and part.
func (o *Outputs) check(name, part string) error {
	if name == "" || !plain(name) || !plain(part) {
		return fault.Hinted(fault.Invalid, "use lower-case letters, digits, dashes and underscores", "outputs %s: that is no name", strings.TrimSuffix(name+"/"+part, "/"))
	}
	if o == nil || o.folder == "" {
		return fault.New(fault.Invalid, "outputs %s can't be kept: there is no site", name)
	}
	return nil
}

func plain(name string) bool {
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// file returns the file of the facts called name: each instance of a recipe has
// its own.
func file(ctx context.Context, name string) string {
	if s := effect.From(ctx); s != nil && s.Owner.Instance != "" {
		return s.Owner.Instance + "/" + name + extension
	}
	return name + extension
}

const extension = ".json"

// target names a file, or a part of one.
func target(file, part string) effect.Target {
	return effect.Target{Scope: scope, Kind: file, Name: part}
}

type getArgs struct {
	Name string `star:"name,required" doc:"Name of the file, without .json."`
}

func get() builtin.Func {
	return builtin.Of(builtin.Spec[*Outputs, getArgs]{
		Name:    "get",
		Doc:     "Return the facts of a file, whoever wrote it, or None if there is none.",
		Returns: "dict or None",
		Example: `image = outputs.get("capo-image")`,
		Effect:  builtin.Reads,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, o *Outputs, a getArgs) (any, error) {
			if err := o.check(a.Name, ""); err != nil {
				return nil, err
			}
			file := file(ctx, a.Name)
			t := target(file, "")
			return effect.Read(ctx, effect.Query{Target: t, Scope: t.String(), Absent: true}, func(context.Context) (any, error) {
				text, found, err := o.folder.Read(file)
				if err != nil {
					return nil, err
				}
				if !found {
					return nil, fault.New(fault.NotFound, "there is no %s", file)
				}
				return decode(text)
			})
		},
	})
}
