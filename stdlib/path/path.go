// Package path is the module for slash-separated paths.
package path

import (
	"context"
	"path"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
)

// Module returns the module.
func Module() *builtin.Module {
	return builtin.NewModule(builtin.Module{
		Name: "path",
		Doc:  "Slash-separated paths, as texts: nothing is looked up. The names are those of Python's os.path.",
		Funcs: []builtin.Func{
			join(), relpath(), splitext(),
			of("basename", "Get the last part of a path.", "str", `name = path.basename("/etc/nftables.conf")`, func(p string) any {
				return p[strings.LastIndex(p, "/")+1:]
			}),
			of("dirname", "Get a path without its last part.", "str: empty if there is only one part", `dir = path.dirname("/etc/nftables.conf")`, dirname),
			of("normpath", "Resolve the . and .. in a path, and drop needless slashes.", "str", `p = path.normpath("/etc/../opt//app/")`, func(p string) any {
				return path.Clean(p)
			}),
			of("isabs", "Tell whether a path begins at the root.", "bool", `absolute = path.isabs("/etc")`, func(p string) any {
				return path.IsAbs(p)
			}),
		},
	})
}

func dirname(p string) any {
	dir := p[:strings.LastIndex(p, "/")+1]
	if trimmed := strings.TrimRight(dir, "/"); trimmed != "" {
		return trimmed
	}
	return dir
}

type pathArgs struct {
	Path string `star:"path,required" doc:"The path."`
}

func of(name, doc, returns, example string, f func(string) any) builtin.Func {
	return builtin.Of(builtin.Spec[any, pathArgs]{
		Name: name, Doc: doc, Returns: returns, Example: example, Effect: builtin.Pure,
		Run: func(_ context.Context, _ any, a pathArgs) (any, error) { return f(a.Path), nil },
	})
}

type joinArgs struct {
	Parts []string `star:"parts,required" doc:"The parts, in order. An absolute one begins anew."`
}

func join() builtin.Func {
	return builtin.Of(builtin.Spec[any, joinArgs]{
		Name: "join", Doc: "Join the parts of a path with slashes. Empty parts are left out.", Returns: "str",
		Example: `p = path.join(["gitops", "spokes", "eu-1", "cluster.yaml"])`, Effect: builtin.Pure,
		Run: func(_ context.Context, _ any, a joinArgs) (any, error) {
			out := ""
			for _, p := range a.Parts {
				switch {
				case path.IsAbs(p) || out == "":
					out = p
				case p == "":
				case strings.HasSuffix(out, "/"):
					out += p
				default:
					out += "/" + p
				}
			}
			return out, nil
		},
	})
}

type relpathArgs struct {
	Path  string `star:"path,required" doc:"The path."`
	Start string `star:"start,required" doc:"The folder to go from; like the path, absolute or not."`
}

func relpath() builtin.Func {
	return builtin.Of(builtin.Spec[any, relpathArgs]{
		Name: "relpath", Doc: "Get the way from a folder to a path.", Returns: "str",
		Example: `p = path.relpath("/etc/nft/rules", "/etc")`, Effect: builtin.Pure, Errors: []fault.Kind{fault.Invalid},
		Run: func(_ context.Context, _ any, a relpathArgs) (any, error) {
			to, from := path.Clean(a.Path), path.Clean(a.Start)
			if path.IsAbs(to) != path.IsAbs(from) {
				return nil, fault.New(fault.Invalid, "path.relpath: one of %q and %q is absolute, and one isn't", a.Path, a.Start)
			}
			t, f := parts(to), parts(from)
			for len(t) > 0 && len(f) > 0 && t[0] == f[0] {
				t, f = t[1:], f[1:]
			}
			var up []string
			for _, p := range f {
				if p == ".." {
					return nil, fault.New(fault.Invalid, "path.relpath: where %q is can't be told from its text", a.Start)
				}
				up = append(up, "..")
			}
			if all := append(up, t...); len(all) > 0 {
				return strings.Join(all, "/"), nil
			}
			return ".", nil
		},
	})
}

func parts(p string) []string {
	p = strings.Trim(p, "/")
	if p == "" || p == "." {
		return nil
	}
	return strings.Split(p, "/")
}

func splitext() builtin.Func {
	return of("splitext", "Split off the extension of a path.", "list[str]: the path without it, and the extension with its dot; empty if there is none",
		`root, ext = path.splitext("values.yaml")`, func(p string) any {
			base := p[strings.LastIndex(p, "/")+1:]
			i := strings.LastIndex(base, ".")
			if strings.Trim(base[:max(i, 0)], ".") == "" { // a dot that the name begins with is part of it
				return []string{p, ""}
			}
			return []string{p[:len(p)-len(base)+i], base[i:]}
		})
}
