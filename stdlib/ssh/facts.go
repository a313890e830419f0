package ssh

import (
	"context"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type noArgs struct{}

func factsFunc() builtin.Func {
	return builtin.Of(builtin.Spec[*Host, noArgs]{
		Name: "facts",
		Doc:  "Read what the host is, in one round trip.",
		Returns: "object with os (\"debian\"), version (\"12\"), name (\"Debian GNU/Linux 12 (bookworm)\"), arch (\"x86_64\"), kernel, hostname, boot_id, " +
			"cpus (int), memory (bytes), interfaces: list of {name, mac, addresses: list of \"10.20.0.5/24\"}",
		Example: `host.facts().memory`,
		Effect:  builtin.Reads,
		Errors:  []fault.Kind{fault.Unreachable, fault.Failed},
		Run:     facts,
	})
}

const factsScript = `if [ -r /etc/os-release ]; then (
	. /etc/os-release
	echo "os $ID"; echo "version $VERSION_ID"; echo "name $PRETTY_NAME"
); fi
echo "arch $(uname -m)"; echo "kernel $(uname -r)"; echo "hostname $(uname -n)"
[ ! -r /proc/sys/kernel/random/boot_id ] || echo "boot_id $(cat /proc/sys/kernel/random/boot_id)"
echo "cpus $(nproc 2>/dev/null || grep -c ^processor /proc/cpuinfo)"
[ ! -r /proc/meminfo ] || while read -r k v _; do if [ "$k" = MemTotal: ]; then echo "memory $v"; break; fi; done </proc/meminfo
for d in /sys/class/net/*; do
	[ ! -r "$d/address" ] || echo "mac ${d##*/} $(cat "$d/address")"
done
if command -v ip >/dev/null 2>&1; then
	ip -o addr show 2>/dev/null | while read -r _ dev fam addr _; do
		case $fam in inet | inet6) echo "address ${dev%%@*} $addr" ;; esac
	done
fi
exit 0
`

func facts(ctx context.Context, h *Host, _ noArgs) (any, error) {
	return effect.Read(ctx, h.query("facts", ""), func(ctx context.Context) (effect.State, error) {
		got, err := h.look(ctx, factsScript, nil)
		if err != nil {
			return effect.State{}, err
		}
		m := make(map[string]any)
		for _, k := range []string{"os", "version", "name", "arch", "kernel", "hostname", "boot_id"} {
			m[k] = got.get(k)
		}
		cpus, _ := strconv.Atoi(got.get("cpus"))              // 0 where the host doesn't say
		kib, _ := strconv.ParseInt(got.get("memory"), 10, 64) // 0 where the host doesn't say
		m["cpus"], m["memory"], m["interfaces"] = cpus, kib<<10, interfaces(got)
		return effect.State{Exists: true, Attrs: m}, nil
	})
}

// interfaces returns the network interfaces in the order in which they were
// seen.
func interfaces(got answer) []any {
	type nic struct {
		mac   string
		addrs []any
	}
	seen := make(map[string]*nic)
	var order []string
	at := func(line string) (*nic, string) {
		name, value, _ := strings.Cut(line, " ")
		if seen[name] == nil {
			seen[name] = &nic{addrs: []any{}}
			order = append(order, name)
		}
		return seen[name], value
	}
	for _, line := range got.all("address") {
		n, addr := at(line)
		n.addrs = append(n.addrs, addr)
	}
	for _, line := range got.all("mac") {
		n, mac := at(line)
		n.mac = mac
	}
	out := make([]any, len(order))
	for i, name := range order {
		out[i] = map[string]any{"name": name, "mac": seen[name].mac, "addresses": seen[name].addrs}
	}
	return out
}
