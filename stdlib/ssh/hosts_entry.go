package ssh

import (
	"context"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

const hostsFile = "/etc/hosts"

type hostsEntryArgs struct {
	Address effect.Text `star:"address,required" doc:"IP address."`
	Names   []string    `star:"names,required" doc:"Names that lead to it. Further names of the address stay."`
}

type hostsAddressArgs struct {
	Address string `star:"address,required" doc:"IP address."`
}

type deleteHostsEntryArgs struct {
	Address string   `star:"address,required" doc:"IP address."`
	Names   []string `star:"names" doc:"Names that must not lead to it. None means all."`
}

func hostsEntryNoun() builtin.Noun {
	return builtin.Noun{
		Name: "hosts_entry", Doc: "Names of an address in /etc/hosts", Identity: builtin.PartOf,
		Attrs: []builtin.Attr{
			{Name: "address", Type: "str", Doc: "IP address."},
			{Name: "names", Type: "list[str]", Doc: "The names as given; all of them, from get."},
		},
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, hostsEntryArgs]{
				Name: "ensure", Doc: "Make names lead to an address, and to no other of its kind (IPv4 or IPv6), in /etc/hosts. Comments and other entries stay.",
				Returns: "object with address and names", Example: `host.hosts_entry.ensure("10.20.0.10", ["seed.lab.example", "seed"])`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Denied, fault.Invalid, fault.Limit}, Run: ensureHostsEntry,
			}),
			builtin.Of(builtin.Spec[*Host, hostsAddressArgs]{
				Name: "get", Doc: "Read the names of an address in /etc/hosts.", Returns: "object with address and names; None if it has none",
				Example: `host.hosts_entry.get("127.0.0.1")`,
				Effect:  builtin.Reads, Errors: []fault.Kind{fault.Invalid, fault.Limit}, Run: getHostsEntry,
			}),
			builtin.Of(builtin.Spec[*Host, deleteHostsEntryArgs]{
				Name: "delete", Doc: "Make names not lead to an address in /etc/hosts.",
				Returns: "None", Example: `host.hosts_entry.delete("10.20.0.10", names = ["seed"])`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Denied, fault.Invalid, fault.Limit}, Run: deleteHostsEntry,
			}),
		},
	}
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?)*$`)

func checkHostsEntry(fn, address string, names []string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return addr, invalid(fn, "%q is no IP address", address)
	}
	for _, n := range names {
		if !hostName.MatchString(n) || len(n) > 253 {
			return addr, invalid(fn, "%q is no name of a host", n)
		}
	}
	return addr, nil
}

// hostsLine reads a line of /etc/hosts. Without an address it is no entry.
func hostsLine(line string) (addr netip.Addr, names []string, comment string) {
	text, comment, has := strings.Cut(strings.TrimSuffix(line, "\n"), "#")
	if has {
		comment = "#" + comment
	}
	f := strings.Fields(text)
	if len(f) == 0 {
		return netip.Addr{}, nil, comment
	}
	addr, err := netip.ParseAddr(f[0])
	if err != nil {
		return netip.Addr{}, nil, comment
	}
	return addr, f[1:], comment
}

// editHosts returns text with each entry's names as keep says; add are put to
// the address's first entry, or to a new one.
func editHosts(text string, addr netip.Addr, add []string, keep func(netip.Addr, string) bool) string {
	lines := slices.Collect(strings.Lines(text))
	missing := slices.DeleteFunc(slices.Clone(add), func(n string) bool { return slices.Contains(namesOf(text, addr), n) })
	var out strings.Builder
	for _, line := range lines {
		at, names, comment := hostsLine(line)
		kept := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !keep(at, n) })
		more := kept
		if at == addr && at.IsValid() {
			more, missing = append(kept, missing...), nil
		}
		switch {
		case !at.IsValid() || slices.Equal(more, names):
			out.WriteString(line)
		case len(more) > 0:
			out.WriteString(strings.TrimRight(at.String()+" "+strings.Join(more, " ")+" "+comment, " ") + "\n")
		case comment != "":
			out.WriteString(comment + "\n")
		}
	}
	if len(missing) > 0 {
		if s := out.String(); s != "" && !strings.HasSuffix(s, "\n") {
			out.WriteString("\n")
		}
		out.WriteString(addr.String() + " " + strings.Join(missing, " ") + "\n")
	}
	return out.String()
}

// namesOf returns all names of an address.
func namesOf(text string, addr netip.Addr) []string {
	var all []string
	for line := range strings.Lines(text) {
		if at, names, _ := hostsLine(line); at == addr {
			all = append(all, names...)
		}
	}
	return all
}

func ensureHostsEntry(ctx context.Context, h *Host, a hostsEntryArgs) (any, error) {
	const fn = "ssh.host.hosts_entry.ensure"
	if !a.Address.Known() {
		if _, err := checkHostsEntry(fn, "::", a.Names); err != nil {
			return nil, err
		}
		return effect.DoLater(ctx, effect.Target{Scope: h.scope(), Kind: "file", Name: hostsFile})
	}
	addr, err := checkHostsEntry(fn, a.Address.Reveal(), a.Names)
	if err != nil {
		return nil, err
	}
	if len(a.Names) == 0 {
		return nil, invalid(fn, "names is empty")
	}
	e := &edit{host: h, path: hostsFile, create: &wantedFile{mode: 0o644, owner: h.as()}, text: func(old string) string {
		return editHosts(old, addr, a.Names, func(at netip.Addr, name string) bool {
			return at == addr || at.Is4() != addr.Is4() || !slices.Contains(a.Names, name)
		})
	}}
	return e.act().as("hosts_entry", addr.String(), hostsFile, map[string]any{"address": addr.String(), "names": a.Names}).do(ctx)
}

func getHostsEntry(ctx context.Context, h *Host, a hostsAddressArgs) (any, error) {
	addr, err := checkHostsEntry("ssh.host.hosts_entry.get", a.Address, nil)
	if err != nil {
		return nil, err
	}
	q := h.query("hosts_entry", addr.String())
	q.Absent = true
	return effect.Read(ctx, q, func(ctx context.Context) (effect.State, error) {
		s, err := (&edit{host: h, path: hostsFile}).observe(ctx)
		if err != nil {
			return effect.State{}, err
		}
		var names []string
		if s.Exists {
			names = namesOf(*s.Raw.(fileRaw).text, addr)
		}
		if len(names) == 0 {
			return effect.State{}, fault.New(fault.NotFound, "%s has no entry of %s", hostsFile, addr)
		}
		return effect.State{Exists: true, Attrs: map[string]any{"address": addr.String(), "names": names}}, nil
	})
}

func deleteHostsEntry(ctx context.Context, h *Host, a deleteHostsEntryArgs) (any, error) {
	const fn = "ssh.host.hosts_entry.delete"
	addr, err := checkHostsEntry(fn, a.Address, a.Names)
	if err != nil {
		return nil, err
	}
	if addr.IsLoopback() && len(a.Names) == 0 {
		return nil, fault.Hinted(fault.Invalid, "give names", "%s: the host needs names of %s, such as localhost", fn, addr)
	}
	e := &edit{host: h, path: hostsFile, text: func(old string) string {
		return editHosts(old, addr, nil, func(at netip.Addr, name string) bool {
			return at != addr || len(a.Names) > 0 && !slices.Contains(a.Names, name)
		})
	}}
	return nil, e.remove(ctx)
}
