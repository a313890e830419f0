// Package template is the module that fills templates.
package template

import (
	"context"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Module returns the module.
func Module() *builtin.Module {
	return builtin.NewModule(builtin.Module{
		Name: "template",
		Doc: "Templates in the language of Go's text/template: `{{.name}}` is a variable, `{{range .peers}}...{{end}}` a loop. " +
			"A variable that isn't given is an error. Text that a secret goes into is secret; where a variable isn't known yet, the text isn't either.",
		Funcs: []builtin.Func{render()},
	})
}

type renderArgs struct {
	Name string      `star:"name,positional" doc:"File of the recipes, such as files/nftables.conf.tmpl, found through the layers."`
	Text string      `star:"text" doc:"The template itself, instead of a file."`
	Vars effect.Data `star:"vars" doc:"Dict or struct of the variables."`
}

func render() builtin.Func {
	return builtin.Of(builtin.Spec[any, renderArgs]{
		Name:    "render",
		Doc:     "Fill a template: a file of the recipes, or a text.",
		Returns: "str",
		Example: `text = template.render(text = "net.ipv4.ip_forward = {{.forward}}\n", vars = {"forward": 1})`,
		Effect:  builtin.Pure,
		Errors:  []fault.Kind{fault.Invalid, fault.NotFound},
		Run: func(ctx context.Context, _ any, a renderArgs) (any, error) {
			if (a.Name == "") == (a.Text == "") {
				return nil, fault.New(fault.Invalid, "template.render: give either the name of a file or text")
			}
			var vars map[string]any
			switch v := a.Vars.V.(type) {
			case nil:
			case effect.Unknown:
				return v, nil
			case map[string]any:
				vars = v
			default:
				return nil, fault.New(fault.Invalid, "template.render: vars must be a dict or struct")
			}
			name, text := "text", a.Text
			if a.Name != "" {
				data, err := effect.ReadFile(ctx, a.Name)
				if err != nil {
					return nil, err
				}
				name, text = a.Name, string(data)
			}
			out, err := effect.Render(name, text, vars)
			if err != nil {
				return nil, err
			}
			return effect.OriginOf(out).Text(ctx, out.Reveal()), nil
		},
	})
}
