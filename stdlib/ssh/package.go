package ssh

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type packageArgs struct {
	Names   effect.Data `star:"names,required" doc:"Name of a package, or a list of names."`
	Version effect.Text `star:"version" doc:"Version, the same for all of them; a * at its end stands for any rest: \"1.37.2-*\". None means whichever is there, or the newest if there is none."`
	Hold    bool        `star:"hold" doc:"Keep them from being upgraded by others."`
}

type deletePackageArgs struct {
	Names effect.Data `star:"names,required" doc:"Name of a package, or a list of names."`
	Purge bool        `star:"purge" doc:"Remove their configuration files, too."`
}

func packageNoun() builtin.Noun {
	return builtin.Noun{
		Name: "package", Doc: "Software packages on the host (apt)", Identity: builtin.NaturalKey,
		Attrs: []builtin.Attr{
			{Name: "versions", Type: "dict[str, str]", Doc: "Installed version by package."},
			{Name: "version", Type: "str", Doc: "Installed version, of a single package."},
		},
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, packageArgs]{
				Name: "ensure",
				Doc: "Make packages be installed, without what they only recommend. The package lists are fetched only when a package isn't found without. " +
					"Configuration files that somebody changed stay.",
				Returns: "object with versions, and version for a single package",
				Example: `host.package.ensure(["nftables", "wireguard-tools"])
host.package.ensure("kubeadm", version = "1.37.2-*", hold = True)`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.NotFound, fault.Failed, fault.Unavailable, fault.Conflict, fault.Denied, fault.Invalid}, Run: ensurePackage,
			}),
			builtin.Of(builtin.Spec[*Host, deletePackageArgs]{
				Name: "delete", Doc: "Make packages not be installed. Those that need them go, too.",
				Returns: "None", Example: `host.package.delete("unattended-upgrades", purge = True)`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Failed, fault.Conflict, fault.Denied, fault.Invalid}, Run: deletePackage,
			}),
		},
	}
}

const observePackageScript = `command -v dpkg-query >/dev/null 2>&1 || fail 84 "the host has no dpkg; only Debian and its relatives are supported"
for n in $names; do
	if s=$(dpkg-query -W -f '${Status} ${Version}\n' "$n" 2>/dev/null); then echo "package $n "$s; fi
done
for n in $(apt-mark showhold 2>/dev/null); do echo "hold $n"; done
`

const aptPrelude = `export DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=a
get() { apt-get -y -q --no-install-recommends -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold "$@" 2>&1; }
locked() { case $1 in *'Could not get lock'* | *'Unable to acquire the dpkg'* | *'Unable to lock directory'*) return 0 ;; esac; return 1; }
# apt waits for dpkg's lock, but not for that of the lists, which a host that boots takes.
update() {
	n=0
	until said=$(get update); do
		locked "$said" && [ "$n" -lt 60 ] || return 1
		n=$((n + 1))
		sleep 2
	done
}
refuse() {
	said=$(printf '%s\n' "$1" | tail -n 8)
	if locked "$1"; then fail 83 "$said"; fi
	case $1 in
	*'Unable to locate package'* | *'was not found'* | *'no installation candidate'*) fail 81 "$said" ;;
	*'Failed to fetch'* | *'Temporary failure'* | *'Could not resolve'* | *'Could not connect'*) fail 85 "$said" ;;
	*) fail 84 "$said" ;;
	esac
}
`

// Lists that are missing or too old show as a failed install.
const installScript = aptPrelude + `if [ -n "$specs" ]; then
	if ! said=$(get $flags install $specs); then
		if locked "$said"; then refuse "$said"; fi
		update || refuse "$said"
		said=$(get $flags install $specs) || refuse "$said"
	fi
fi
if [ -n "$hold" ]; then apt-mark hold $hold >/dev/null || exit 1; fi
`

// A package that is held back from upgrades may be removed by its name.
const uninstallScript = aptPrelude + `said=$(get --allow-change-held-packages $how $names) || refuse "$said"
`

// installed is what a host has of the packages asked for.
type installed struct {
	version map[string]string
	held    map[string]bool
}

func (h *Host) observePackages(ctx context.Context, names []string) (installed, error) {
	in := installed{version: make(map[string]string), held: make(map[string]bool)}
	got, err := h.look(ctx, observePackageScript, vars{"names": strings.Join(names, " ")})
	if err != nil {
		return in, err
	}
	for _, line := range got.all("package") { // NAME want flag state VERSION
		if f := strings.Fields(line); len(f) == 5 && f[3] == "installed" {
			in.version[f[0]] = f[4]
		}
	}
	for _, n := range got.all("hold") {
		in.held[n] = true
	}
	return in, nil
}

func packageNames(fn string, x any) ([]string, error) {
	list, ok := x.([]any)
	if !ok {
		list = []any{x}
	}
	var names []string
	for _, e := range list {
		s, ok := e.(string)
		if !ok || !regexp.MustCompile(`^[a-z0-9][a-z0-9+.:-]*$`).MatchString(s) {
			return nil, invalid(fn, "%v is no name of a package", e)
		}
		if !slices.Contains(names, s) {
			names = append(names, s)
		}
	}
	if len(names) == 0 {
		return nil, invalid(fn, "no package is named")
	}
	return names, nil
}

// fits reports whether an installed version is a wanted one.
func fits(have, want string) bool {
	if want == "" || have == want {
		return true
	}
	begin, any := strings.CutSuffix(want, "*")
	return any && strings.HasPrefix(have, begin)
}

func ensurePackage(ctx context.Context, h *Host, a packageArgs) (any, error) {
	const fn = "ssh.host.package.ensure"
	names, err := packageNames(fn, a.Names.V)
	if err != nil {
		return nil, err
	}
	version := a.Version.Reveal()
	if a.Version.IsSecret() || !regexp.MustCompile(`^[A-Za-z0-9.+:~-]*\*?$`).MatchString(version) {
		return nil, invalid(fn, "%s is no version of a package", a.Version)
	}
	target := strings.Join(names, ",")
	if !a.Version.Known() {
		return effect.DoLater(ctx, effect.Target{Scope: h.scope(), Kind: "package", Name: target})
	}
	observe := func(ctx context.Context) (effect.State, error) {
		in, err := h.observePackages(ctx, names)
		return effect.State{Exists: len(in.version) == len(names), Attrs: packageAttrs(names, in.version), Raw: in}, err
	}
	return (&act{host: h, kind: "package", name: target, lock: "package", reach: h.anything(),
		observe: observe,
		diff: func(s effect.State) (effect.Change, error) {
			in, _ := s.Raw.(installed)
			var fields []effect.Field
			after := make(map[string]any)
			for _, n := range names {
				have, is := in.version[n]
				after[n] = have
				if !is || !fits(have, version) {
					f := effect.Field{Path: n, New: "installed"}
					after[n] = effect.Unknown{Of: h.scope() + "/package/" + n + " version"}
					if version != "" {
						f.New = version
						if !strings.HasSuffix(version, "*") {
							after[n] = version
						}
					}
					if is {
						f.Old = have
					}
					fields = append(fields, f)
				}
				if a.Hold && !in.held[n] {
					fields = append(fields, effect.Field{Path: n + " hold", Old: false, New: true})
				}
			}
			return change(s, fields, packageAttrs(names, after))
		},
		apply: func(ctx context.Context, c effect.Change) (effect.State, error) {
			in, _ := c.Before.Raw.(installed)
			v := vars{"specs": "", "hold": "", "flags": ""}
			for _, n := range names {
				switch have, is := in.version[n]; {
				case is && fits(have, version):
				case version == "":
					v["specs"] += n + " "
				default:
					v["specs"] += n + "=" + version + " "
					v["flags"] = "--allow-downgrades --allow-change-held-packages"
				}
				if a.Hold && !in.held[n] {
					v["hold"] += n + " "
				}
			}
			// The names hold no characters that a shell would expand but the
			// * of a version.
			if _, err := h.ask(ctx, "set -f\n"+installScript, v, nil); err != nil {
				return effect.State{}, packageError(err)
			}
			return observe(ctx)
		},
	}).do(ctx)
}

func packageError(err error) error {
	switch fault.KindOf(err) {
	case fault.NotFound:
		return fault.Hinted(fault.NotFound, "check the name and the version, and that the repository that has it is among the host's sources", "%w", err)
	case fault.Unavailable:
		return fault.Hinted(fault.Unavailable, "can the host reach its package mirror? It may need a route, a proxy or DNS", "%w", err)
	case fault.Conflict:
		return fault.Hinted(fault.Conflict, "another package manager is at work; it is tried again", "%w", err)
	}
	return err
}

func packageAttrs[V any](names []string, versions map[string]V) map[string]any {
	all := make(map[string]any, len(versions))
	for n, v := range versions {
		all[n] = v
	}
	m := map[string]any{"versions": all}
	if len(names) == 1 {
		m["version"] = all[names[0]]
	}
	return m
}

func deletePackage(ctx context.Context, h *Host, a deletePackageArgs) (any, error) {
	names, err := packageNames("ssh.host.package.delete", a.Names.V)
	if err != nil {
		return nil, err
	}
	how := "remove"
	if a.Purge {
		how = "purge"
	}
	_, err = effect.Do(ctx, &act{host: h, kind: "package", name: strings.Join(names, ","), lock: "package", removes: true, reach: h.anything(),
		observe: func(ctx context.Context) (effect.State, error) {
			in, err := h.observePackages(ctx, names)
			return effect.State{Exists: len(in.version) > 0, Attrs: packageAttrs(names, in.version)}, err
		},
		diff: removal,
		apply: func(ctx context.Context, c effect.Change) (effect.State, error) {
			_, err := h.ask(ctx, uninstallScript, vars{"names": strings.Join(names, " "), "how": how}, nil)
			return effect.State{}, packageError(err)
		},
	})
	return nil, err
}
