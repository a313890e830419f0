package openstack_test

import (
	"context"
	"testing"

	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

// TestVolumeOfSeveralServers boots one server from a volume of a type that lets
// several have it, and gives it to a second: Nova takes both at a later microversion
// only.
func TestVolumeOfSeveralServers(t *testing.T) {
	w := newWorld(t, lab.Config{VolumeTypes: []lab.VolumeType{{Name: "many", ExtraSpecs: map[string]string{"multiattach": "<is> True"}}}})
	if err := w.run(context.Background(), w.newModule(), startest.NewDoor(effect.Apply), `
cloud = openstack.connect("lab")
net = cloud.network.ensure("n")
cloud.subnet.ensure("n", network = net, cidr = "10.9.0.0/24")
shared = cloud.volume.ensure("shared", size = 1, image = "lab-tiny")
cloud.server.ensure("a", volume = shared, flavor = "m1.nano", networks = [net])
b = cloud.server.ensure("b", image = "lab-tiny", flavor = "m1.nano", networks = [net])
cloud.volume_attachment.ensure(b, shared)`); err != nil {
		t.Fatal(startest.Explain(err))
	}
	if got := w.cloud.State(false)["volume_attachment"]; len(got) != 2 {
		t.Errorf("the volume's servers: %v", got)
	}
}
