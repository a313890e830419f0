package openstack_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

// TestContradictionsAreTold ensures each thing twice in one run.
func TestContradictionsAreTold(t *testing.T) {
	server := `cloud.server.ensure("n", image = "lab-tiny", flavor = "m1.nano", networks = ["base"], `
	image := `cloud.image.ensure("n", file = file1, disk_format = "raw", `
	for source, want := range map[string]string{
		`cloud.network.ensure("n", mtu = 1400)
cloud.network.ensure("n", mtu = 1300)`: "network/n: mtu is to be 1400 at step.star:|, and 1300 at step.star:",
		`cloud.volume.ensure("n", size = 1, metadata = {"a": "1"})
cloud.volume.ensure("n", size = 1, metadata = {"a": "2"})`: "volume/n: metadata.a is to be 1 at step.star:|, and 2 at step.star:",
		server + `metadata = {"a": "1"})
` + server + `metadata = {"a": "2"})`: "server/n: metadata.a is to be 1 at step.star:|, and 2 at step.star:",
		image + `min_ram = 1)
` + image + `min_ram = 2)`: "image/n: min_ram is to be 1 at step.star:|, and 2 at step.star:",
		// What says the same, or something about other things, is fine.
		`cloud.network.ensure("n", mtu = 1400)
cloud.network.ensure("n", tags = ["a", "b"])
cloud.network.ensure("n", tags = ["b", "a"], mtu = 1400)
cloud.network.ensure("m", mtu = 1300)`: "",
		`cloud.volume.ensure("n", size = 1, metadata = {"a": "1"})
cloud.volume.ensure("n", size = 1, metadata = {"b": "2"})`: "",
		server + `metadata = {"a": "1"})
` + server + `metadata = {"b": "2"})`: "",
		`cloud.port.ensure("p", network = "base", fixed_ips = ["10.8.0.40"])
cloud.port.ensure("p", network = net, fixed_ips = [{"address": "10.8.0.40"}])`: "",
		`cloud.subnet.ensure("n", network = "base", cidr = "fd00::/64")
cloud.subnet.ensure("n", network = "base", cidr = "fd00:0::/64")`: "",
	} {
		for _, mode := range []effect.Mode{effect.Plan, effect.Apply} {
			w := newWorld(t, lab.Config{})
			w.must(base)
			door := startest.NewDoor(mode)
			var told []string
			door.Emit = func(e effect.Event) {
				if e.Kind == effect.Log {
					told = append(told, e.Message)
				}
			}
			if err := w.run(context.Background(), w.newModule(), door, base+source); err != nil {
				t.Errorf("%s: %v", source, err)
			}
			first, second, some := strings.Cut(want, "|")
			if !some && len(told) > 0 || some && (len(told) != 1 || !strings.Contains(told[0], first) || !strings.Contains(told[0], second)) {
				t.Errorf("%s (%v): told %q, want %q", source, mode, told, want)
			}
		}
	}
	// What failed wanted nothing that stays.
	w := newWorld(t, lab.Config{})
	door := startest.NewDoor(effect.Apply)
	door.Emit = func(e effect.Event) {
		if e.Kind == effect.Log {
			t.Errorf("told %q", e.Message)
		}
	}
	w.must(base)
	w.inject(lab.Fault{Service: "network", Method: "POST", Path: "/networks$", Status: 400, Count: 1})
	for _, mtu := range []int{1400, 1300} {
		err := w.run(context.Background(), w.newModule(), door, fmt.Sprintf(`cloud.network.ensure("n", mtu = %d)`, mtu))
		if mtu == 1300 && err != nil {
			t.Error(err)
		}
	}
}
