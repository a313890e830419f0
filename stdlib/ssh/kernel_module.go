package ssh

import (
	"context"
	"regexp"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type moduleArgs struct {
	Name string `star:"name,required" doc:"Name of the kernel module, such as \"br_netfilter\"."`
}

func kernelModuleNoun() builtin.Noun {
	return builtin.Noun{
		Name: "kernel_module", Doc: "A kernel module, now and after the next boot", Identity: builtin.NaturalKey,
		Attrs: []builtin.Attr{
			{Name: "name", Type: "str", Doc: "Name of the module."},
			{Name: "loaded", Type: "bool", Doc: "Whether it is loaded, or part of the kernel."},
			{Name: "persistent", Type: "bool", Doc: "Whether gsrun's file in /etc/modules-load.d names it."},
		},
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, moduleArgs]{
				Name: "ensure", Doc: "Load a kernel module now, and by /etc/modules-load.d/gsrun-NAME.conf at the next boot.",
				Returns: "object with name, loaded and persistent", Example: `host.kernel_module.ensure("br_netfilter")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.NotFound, fault.Failed, fault.Denied, fault.Invalid}, Run: ensureKernelModule,
			}),
			builtin.Of(builtin.Spec[*Host, moduleArgs]{
				Name: "delete", Doc: "Remove gsrun's file for a module. The module stays loaded until the next boot.",
				Returns: "None", Example: `host.kernel_module.delete("br_netfilter")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Denied, fault.Invalid}, Run: deleteKernelModule,
			}),
		},
	}
}

// A module that is part of the kernel may have no folder in /sys/module;
// modprobe knows it all the same and then has nothing to do.
const observeModuleScript = `if [ -d "/sys/module/$m" ] || grep -q "^$m " /proc/modules 2>/dev/null ||
	grep -q "/$m\.ko" "/lib/modules/$(uname -r)/modules.builtin" 2>/dev/null; then echo 'loaded yes'; fi
if [ -f "$f" ] && [ "$(cat "$f")" = "$m" ]; then echo 'persistent yes'; fi
`

const applyModuleScript = `said=$(modprobe "$m" 2>&1) || case $said in
*'not found'*) fail 81 "$said" ;;
*) fail 84 "$said" ;;
esac
umask 022
mkdir -p /etc/modules-load.d || exit 1
rm -f "$f.gsrun-"??????
t=$(mktemp "$f.gsrun-XXXXXX") && echo "$m" >"$t" && chmod 0644 "$t" && mv -f "$t" "$f" || { rm -f "$t"; exit 1; }
`

func kernelModuleVars(fn, name string) (vars, error) {
	if !regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]*$`).MatchString(name) {
		return nil, invalid(fn, "%q is no name of a kernel module", name)
	}
	m := strings.ReplaceAll(name, "-", "_") // as the kernel calls it
	return vars{"m": m, "f": "/etc/modules-load.d/gsrun-" + m + ".conf"}, nil
}

func ensureKernelModule(ctx context.Context, h *Host, a moduleArgs) (any, error) {
	v, err := kernelModuleVars("ssh.host.kernel_module.ensure", a.Name)
	if err != nil {
		return nil, err
	}
	want := map[string]any{"name": a.Name, "loaded": true, "persistent": true}
	return (&act{host: h, kind: "kernel_module", name: v["m"], reach: []string{h.scope() + "/sysctl/"},
		observe: func(ctx context.Context) (effect.State, error) {
			got, err := h.look(ctx, observeModuleScript, v)
			loaded, persistent := got.get("loaded") != "", got.get("persistent") != ""
			return effect.State{Exists: loaded || persistent, Attrs: map[string]any{"name": a.Name, "loaded": loaded, "persistent": persistent}}, err
		},
		diff: func(s effect.State) (effect.Change, error) { return change(s, effect.Compare(want, s.Attrs), want) },
		apply: func(ctx context.Context, _ effect.Change) (effect.State, error) {
			_, err := h.ask(ctx, applyModuleScript, v, nil)
			if fault.KindOf(err) == fault.NotFound {
				err = fault.Hinted(fault.NotFound, "check its name, and that the modules of the running kernel are installed", "%w", err)
			}
			return effect.State{Exists: true, Attrs: want}, err
		},
	}).do(ctx)
}

func deleteKernelModule(ctx context.Context, h *Host, a moduleArgs) (any, error) {
	v, err := kernelModuleVars("ssh.host.kernel_module.delete", a.Name)
	if err != nil {
		return nil, err
	}
	return nil, h.deleteFileAt(ctx, "kernel_module", v["m"], v["f"])
}
