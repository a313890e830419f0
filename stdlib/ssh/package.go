package ssh

import (
	"cmp"
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
	Version effect.Text `star:"version" doc:"Version, the same for all of them; a * at its end stands for any rest: \"1.37.2-*\". An epoch is part of it: \"1:2.39-*\". None means whichever is there, or the newest if there is none."`
	Latest  bool        `star:"latest" doc:"Upgrade to the newest version that the host's package lists have. Without it, and without version, whichever is installed will do."`
	Hold    *bool       `star:"hold" doc:"Keep them from being upgraded by others (True), or not (False). None leaves it as it is, also where this changes the version of one that is held."`
}

type packageNameArgs struct {
	Name string `star:"name,required" doc:"Name of the package."`
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
			{Name: "candidate", Type: "str", Doc: "What would be installed now, as get sees it."},
			{Name: "held", Type: "bool", Doc: "Whether it is kept from being upgraded, as get sees it."},
		},
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, packageArgs]{
				Name: "ensure",
				Doc: "Make packages be installed, without what they only recommend. The package lists are fetched only when a package isn't found without. " +
					"Configuration files that somebody changed stay. Packages that were held before are held after, also where a run was killed between.",
				Returns: "object with versions, and version for a single package",
				Example: `host.package.ensure(["nftables", "wireguard-tools"])
host.package.ensure("kubeadm", version = "1.37.2-*", hold = True)`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.NotFound, fault.Failed, fault.Unavailable, fault.Conflict, fault.Denied, fault.Invalid}, Run: ensurePackage,
			}),
			builtin.Of(builtin.Spec[*Host, packageNameArgs]{
				Name: "get", Doc: "Read what is installed of a package, and what could be.",
				Returns: "object with version, candidate (None if there is none) and held; None if it isn't installed",
				Example: `host.package.get("openssh-server").version`,
				Effect:  builtin.Reads, Errors: []fault.Kind{fault.Failed, fault.Denied, fault.Invalid}, Run: getPackage,
			}),
			builtin.Of(builtin.Spec[*Host, deletePackageArgs]{
				Name: "delete", Doc: "Make packages not be installed, nor held. Those that need them go, too.",
				Returns: "None", Example: `host.package.delete("unattended-upgrades", purge = True)`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Failed, fault.Conflict, fault.Denied, fault.Invalid}, Run: deletePackage,
			}),
		},
	}
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
	if a.Latest && version != "" {
		return nil, invalid(fn, "%s: give one of version and latest", strings.Join(names, ", "))
	}
	w := wantedPackages{host: h, names: names, version: version, latest: a.Latest, hold: a.Hold}
	target := strings.Join(names, ",")
	if !a.Version.Known() {
		return effect.DoLater(ctx, effect.Target{Scope: h.scope(), Kind: "package", Name: target})
	}
	return (&act{host: h, kind: "package", name: target, lock: "package", reach: h.anything(), observe: w.observe, diff: w.diff, apply: w.apply}).do(ctx)
}

// wantedPackages are packages as a recipe wants them.
type wantedPackages struct {
	host    *Host
	names   []string
	version string
	latest  bool
	hold    *bool
}

func (w *wantedPackages) observe(ctx context.Context) (effect.State, error) {
	offers := whereNeeded
	if w.latest {
		offers = ofAll
	}
	in, err := w.host.observePackages(ctx, w.names, w.version, offers)
	return effect.State{Exists: len(in.version) == len(w.names), Attrs: packageAttrs(w.names, in.version), Raw: in}, err
}

// satisfied reports whether a package needs no other version.
func (w *wantedPackages) satisfied(in installed, name string) bool {
	have, is := in.version[name]
	if newest := in.offer(name, ""); w.latest && newest != "" {
		return is && have == newest
	}
	return is && fits(have, w.version)
}

func (w *wantedPackages) diff(s effect.State) (effect.Change, error) {
	in, _ := s.Raw.(installed)
	var fields []effect.Field
	after := make(map[string]any)
	for _, n := range w.names {
		have, is := in.version[n]
		after[n] = have
		if !w.satisfied(in, n) {
			f := effect.Field{Path: n}
			if v := cmp.Or(in.offer(n, w.version), w.version); v == "" || strings.HasSuffix(v, "*") {
				f.New = effect.Unknown{Of: w.host.scope() + "/package/" + n + " version"}
			} else {
				f.New = v
			}
			after[n] = f.New
			if is {
				f.Old = have
			}
			fields = append(fields, f)
		}
		if w.hold != nil && *w.hold != in.held[n] {
			fields = append(fields, effect.Field{Path: n + " hold", Old: in.held[n], New: *w.hold})
		}
	}
	if in.unfinished {
		fields = append(fields, effect.Field{Path: "holds", Old: "taken off by a run that ended", New: "as before"})
	}
	return change(s, fields, packageAttrs(w.names, after))
}

func (w *wantedPackages) apply(ctx context.Context, c effect.Change) (effect.State, error) {
	in, _ := c.Before.Raw.(installed)
	v := vars{"specs": "", "hold": "", "unhold": "", "flags": "", "changes": "", "holds": holdsFile}
	for _, n := range w.names {
		fit := w.satisfied(in, n)
		switch {
		case fit:
		case w.version == "":
			v["specs"] += n + " "
		default:
			v["specs"] += n + "=" + w.version + " "
			v["flags"] = "--allow-downgrades "
		}
		if !fit && in.held[n] {
			v["changes"] = "yes"
		}
		switch {
		case w.hold == nil:
		case *w.hold && (!in.held[n] || !fit):
			v["hold"] += n + " "
		case !*w.hold && (in.held[n] || in.unfinished):
			v["unhold"] += n + " "
		}
	}
	if v["changes"] != "" {
		v["flags"] += "--allow-change-held-packages"
	}
	// The names hold no characters that a shell would expand but the
	// * of a version.
	if _, err := w.host.ask(ctx, "set -f\n"+installScript, v, nil); err != nil {
		return effect.State{}, packageError(err)
	}
	return w.observe(ctx)
}

func getPackage(ctx context.Context, h *Host, a packageNameArgs) (any, error) {
	names, err := packageNames("ssh.host.package.get", a.Name)
	if err != nil {
		return nil, err
	}
	q := h.query("package", a.Name)
	q.Absent = true
	return effect.Read(ctx, q, func(ctx context.Context) (effect.State, error) {
		in, err := h.observePackages(ctx, names, "", ofAll)
		if err != nil {
			return effect.State{}, err
		}
		have, is := in.version[a.Name]
		if !is {
			return effect.State{}, fault.New(fault.NotFound, "%s isn't installed", a.Name)
		}
		var candidate any
		if v := in.offer(a.Name, ""); v != "" {
			candidate = v
		}
		return effect.State{Exists: true, Attrs: map[string]any{"version": have, "candidate": candidate, "held": in.held[a.Name]}}, nil
	})
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
			in, err := h.observePackages(ctx, names, "", noOffers)
			var there []string
			held := false
			for _, n := range names {
				_, is := in.version[n]
				if is || in.broken[n] || a.Purge && in.left[n] {
					there = append(there, n)
				}
				held = held || in.held[n]
			}
			return effect.State{Exists: len(there) > 0 || held, Attrs: packageAttrs(names, in.version), Raw: there}, err
		},
		diff: removal,
		apply: func(ctx context.Context, c effect.Change) (effect.State, error) {
			there, _ := c.Before.Raw.([]string)
			_, err := h.ask(ctx, uninstallScript, vars{"names": strings.Join(there, " "), "held": strings.Join(names, " "), "how": how}, nil)
			return effect.State{}, packageError(err)
		},
	})
	return nil, err
}
