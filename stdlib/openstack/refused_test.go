package openstack_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

// TestRefusedUnasked has arguments that can't be right: nothing is sent.
func TestRefusedUnasked(t *testing.T) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFEprDqY8tc7vJ3kGk0o2q8Xn3b8b2v1Xq0b0Yw3q0bq"
	for call, want := range map[string][2]string{
		`cloud.network.ensure("n", tags = [hidden])`:                                             {"argument tags: it can't be a secret", ""},
		`cloud.server.ensure("n", image = "i", flavor = "f", networks = ["n"], tags = [hidden])`: {"argument tags: it can't be a secret", ""},
		`cloud.volume.ensure("n", size = 1, metadata = {"a": hidden})`:                           {"argument metadata: it can't be a secret", ""},
		`cloud.container.ensure("n", metadata = {"a": hidden})`:                                  {"argument metadata: it can't be a secret", ""},
		`cloud.network.ensure("n", tags = ["a,b"])`:                                              {`the tag "a,b" has a comma`, ""},
		`cloud.server.ensure("n", image = "i", flavor = "f", networks = ["n"], tags = ["a,b"])`:  {`the tag "a,b" has a comma`, ""},
		`cloud.server.list(tags = ["a,b"])`:                                                      {`the tag "a,b" has a comma`, ""},
		`cloud.network.list(tags = ["a,b"])`:                                                     {`the tag "a,b" has a comma`, ""},
		`cloud.server.list(filters = {"bogus": "1"})`:                                            {`servers can't be filtered by "bogus"`, "known are"},
		`cloud.server.list(filters = {"statsu": "1"})`:                                           {`servers can't be filtered by "statsu"`, "did you mean status?"},
		`cloud.volume.list(filters = {"stauts": "x"})`:                                           {`volumes can't be filtered by "stauts"`, "did you mean status?"},
		`cloud.volume.list(filters = {"tag": "x"})`:                                              {`volumes can't be filtered by "tag"`, "known are"},
		`cloud.volume_snapshot.list(filters = {"volume": "x"})`:                                  {`volume snapshots can't be filtered by "volume"`, "volume_id"},
		`cloud.volume_type.list(filters = {"name": "x"})`:                                        {`volume types can't be filtered by "name"`, "known are"},
		`cloud.load_balancer.list(filters = {"vip": "x"})`:                                       {`load balancers can't be filtered by "vip"`, "vip_address"},
		`cloud.server_group.list(filters = {"policy": "x"})`:                                     {`server groups can't be filtered by "policy"`, "all_projects"},
		`cloud.ec2_credential.list(filters = {"access": "x"})`:                                   {`ec2 credentials can't be filtered by "access"`, "user_id"},
		`cloud.application_credential.list(filters = {"role": "x"})`:                             {`application credentials can't be filtered by "role"`, "known are name"},
		`cloud.project.list(filters = {"enable": "x"})`:                                          {`projects can't be filtered by "enable"`, "did you mean enabled?"},
		`cloud.user.list(filters = {"email": "x"})`:                                              {`users can't be filtered by "email"`, "known are"},
		`cloud.network.list(filters = {"nmae": "x"})`:                                            {`networks can't be filtered by "nmae"`, "did you mean name?"},
		`cloud.keypair.ensure("n", public_key = "` + key + ` " + hidden)`:                        {"the comment of public_key can't be a secret", "without a comment"},
		`cloud.load_balancer.ensure("n", subnet = "s", network = "n")`:                           {"leave network out", ""},
		`cloud.server.wait("n", status = "ACTIV")`:                                               {`there is no status "ACTIV"`, "did you mean ACTIVE?"},
		`cloud.volume.wait("n", status = "availabel")`:                                           {`there is no status "availabel"`, "did you mean available?"},
		`cloud.image.wait("n", status = "ACTIVE")`:                                               {`there is no status "ACTIVE"`, "did you mean active?"},
		`cloud.load_balancer.wait("n", operating_status = "ONLIN")`:                              {`there is no status "ONLIN"`, "did you mean ONLINE?"},
		`cloud.subnet.ensure("n", network = a_subnet, cidr = "10.0.0.0/24")`:                     {"argument network: got openstack.subnet, want openstack.network", ""},
		`cloud.router.ensure("n", subnets = [a_network])`:                                        {"argument subnets: got openstack.network, want openstack.subnet", ""},
		`cloud.server.ensure("n", image = "i", flavor = a_network, networks = ["n"])`:            {"argument flavor: got openstack.network, want openstack.flavor", ""},
	} {
		w := newWorld(t, lab.Config{})
		err := w.run(context.Background(), w.module, startest.NewDoor(effect.Apply), call)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fmt.Sprint(err), want[0]) || !strings.Contains(fault.HintOf(err), want[1]) {
			t.Errorf("%s: got %v (%s), hint %q; want %q", call, err, fault.KindOf(err), fault.HintOf(err), want)
		}
		for _, r := range w.cloud.Requests(0) {
			if r.Service != "identity" {
				t.Errorf("%s: sent %s %s", call, r.Method, r.Path)
			}
		}
	}
}

// TestHintSaysWhatAdoptDoes meets what is somebody else's.
func TestHintSaysWhatAdoptDoes(t *testing.T) {
	w := newWorld(t, lab.Config{})
	w.must("cloud = openstack.connect(\"lab\")\n" + base + `
cloud.server.ensure("vm", image = "lab-tiny", flavor = "m1.nano", networks = ["base"])
cloud.container.ensure("n")
openstack.connect("admin").user.ensure("u")`)
	for call, want := range map[string]string{
		`cloud.network.delete("base")`:                "adopt = True deletes it though it is somebody else's",
		`cloud.server.delete("vm")`:                   "adopt = True deletes it though it is somebody else's",
		`cloud.container.delete("n")`:                 "adopt = True deletes it though it is somebody else's",
		`openstack.connect("admin").user.delete("u")`: "adopt = True deletes it though it is somebody else's",
		`cloud.server.stop("vm")`:                     "adopt = True does it to the server though it is somebody else's",
		`cloud.server.reboot("vm")`:                   "adopt = True does it to the server though it is somebody else's",
		`cloud.network.ensure("base")`:                "adopt = True takes it over",
	} {
		err := w.runAs(context.Background(), effect.Owner{Site: "test", Recipe: "other"}, w.newModule(), startest.NewDoor(effect.Apply), call)
		if fault.KindOf(err) != fault.Exists || !strings.HasPrefix(fault.HintOf(err), want) {
			t.Errorf("%s: got %v, hint %q", call, err, fault.HintOf(err))
		}
	}
}
