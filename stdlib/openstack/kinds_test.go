package openstack_test

import (
	"context"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

// nouns are calls of ensure that don't depend on each other beyond base.
func nouns() map[string]string {
	return map[string]string{
		"network":        `cloud.network.ensure("n")`,
		"subnet":         `cloud.subnet.ensure("n", network = "base", cidr = "10.9.0.0/24")`,
		"router":         `cloud.router.ensure("n")`,
		"port":           `cloud.port.ensure("n", network = "base")`,
		"security_group": `cloud.security_group.ensure("n")`,
		"floating_ip":    `cloud.floating_ip.ensure("n", port = "base")`,
		"image":          `cloud.image.ensure("n", file = file1, disk_format = "raw")`,
		"server":         `cloud.server.ensure("n", image = "lab-tiny", flavor = "m1.nano", networks = ["base"])`,
		"volume":         `cloud.volume.ensure("n", size = 1)`,
		"keypair":        `cloud.keypair.ensure("n", public_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFEprDqY8tc7vJ3kGk0o2q8Xn3b8b2v1Xq0b0Yw3q0bq")`,
	}
}

const base = `
net = cloud.network.ensure("base")
sub = cloud.subnet.ensure("base", network = net, cidr = "10.8.0.0/24")
cloud.router.ensure("base", external = "public", subnets = [sub])
cloud.port.ensure("base", network = net)
`

// TestQuotasAreNamed has each noun refused for a quota.
func TestQuotasAreNamed(t *testing.T) {
	w := newWorld(t, lab.Config{Quota: map[string]int{"network": 1, "subnet": 1, "router": 1, "port": 2, "security_group": 1, "floatingip": 0, "instances": 0, "key_pairs": 0, "volumes": 0}})
	if err := w.run(context.Background(), w.module, startest.NewDoor(effect.Apply), base); err != nil {
		t.Fatal(startest.Explain(err))
	}
	if _, err := w.cloud.Inject(lab.Fault{Service: "image", Method: "PUT", Status: 413, Body: "Denying attempt to upload image because it exceeds the quota"}); err != nil {
		t.Fatal(err)
	}
	text := map[string]string{"floating_ip": "floatingip", "image": "exceeds the quota", "server": "instances", "volume": "VolumeLimitExceeded", "keypair": "key pairs"}
	for noun, call := range nouns() {
		err := w.run(context.Background(), w.module, startest.NewDoor(effect.Apply), call)
		want := text[noun]
		if want == "" {
			want = noun
		}
		if fault.KindOf(err) != fault.Quota || !strings.Contains(err.Error(), want) || !strings.Contains(fault.HintOf(err), "limits()") {
			t.Errorf("%s: got %v (%s), hint %q", noun, err, fault.KindOf(err), fault.HintOf(err))
		}
	}
}

// TestOthersAreRefusedAndAdopted has each marked noun made by another recipe.
func TestOthersAreRefusedAndAdopted(t *testing.T) {
	w := newWorld(t, lab.Config{})
	other := effect.Owner{Site: "other", Recipe: "gateway"}
	if err := w.runAs(context.Background(), other, w.module, startest.NewDoor(effect.Apply), base); err != nil {
		t.Fatal(startest.Explain(err))
	}
	for noun, call := range nouns() {
		if noun == "keypair" {
			continue // it has no owner
		}
		t.Run(noun, func(t *testing.T) {
			if err := w.runAs(context.Background(), other, w.module, startest.NewDoor(effect.Apply), call); err != nil {
				t.Fatal(startest.Explain(err))
			}
			since := len(w.cloud.Requests(0))
			err := w.run(context.Background(), w.module, startest.NewDoor(effect.Apply), call)
			if fault.KindOf(err) != fault.Exists || !strings.Contains(err.Error(), "is owned by gsrun:other/gateway/n, ours would be gsrun:test/test/n") {
				t.Errorf("got %v (%s)", err, fault.KindOf(err))
			}
			adopted := strings.TrimSuffix(call, ")") + ", adopt = True)"
			if err := w.run(context.Background(), w.module, startest.NewDoor(effect.Apply), adopted); err != nil {
				t.Error(startest.Explain(err))
			}
			if noun != "floating_ip" { // a name of ours means nothing to somebody else's address
				err = w.run(context.Background(), w.module, startest.NewDoor(effect.Apply), "cloud."+noun+`.delete("n")`)
				if fault.KindOf(err) != fault.Exists {
					t.Errorf("deleting: got %v (%s)", err, fault.KindOf(err))
				}
			}
			if writes := w.writes(since); len(writes) > 0 {
				t.Errorf("wrote %q", writes)
			}
			if err := w.runAs(context.Background(), other, w.module, startest.NewDoor(effect.Apply), "cloud."+noun+`.delete("n")`); err != nil {
				t.Error(startest.Explain(err))
			}
		})
	}
}

// TestOtherRecipesFindThings looks for what another recipe made, as a recipe
// that builds on it does.
func TestOtherRecipesFindThings(t *testing.T) {
	w := newWorld(t, lab.Config{})
	gateway := effect.Owner{Site: "site", Recipe: "gateway"}
	for noun, call := range nouns() {
		if err := w.runAs(context.Background(), gateway, w.module, startest.NewDoor(effect.Apply), base+call); err != nil {
			t.Fatal(startest.Explain(err))
		}
		for _, mode := range []effect.Mode{effect.Apply, effect.Plan} {
			err := w.runAs(context.Background(), effect.Owner{Site: "site", Recipe: "seed"}, w.module, startest.NewDoor(mode), `
found = cloud.`+noun+`.get("n")
if found == None or found.id == "":
    fail("not found")
if cloud.`+noun+`.get("m") != None:
    fail("found what isn't there")`)
			if err != nil {
				t.Errorf("%s: %s", noun, startest.Explain(err))
			}
		}
	}
	for _, recipe := range []string{"one", "two"} {
		if err := w.runAs(context.Background(), effect.Owner{Site: "site", Recipe: recipe}, w.module, startest.NewDoor(effect.Apply), `cloud.floating_ip.ensure("shared")`); err != nil {
			t.Fatal(startest.Explain(err))
		}
	}
	if err := w.runAs(context.Background(), effect.Owner{Site: "site", Recipe: "two"}, w.module, startest.NewDoor(effect.Apply), `cloud.floating_ip.get("shared").id`); err != nil {
		t.Error(startest.Explain(err))
	}
	err := w.run(context.Background(), w.module, startest.NewDoor(effect.Apply), `cloud.floating_ip.get("shared")`)
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), `2 floating ips bear a mark for "shared"`) {
		t.Errorf("got %v", err)
	}
}
