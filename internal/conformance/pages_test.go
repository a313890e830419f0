package conformance

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"go.starlark.net/starlark"
	"golang.org/x/sync/errgroup"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

// manyOf is how many of each kind are listed: more than any service puts on a
// page.
const manyOf = 1100

// many are kinds of which a project can have many: how one is made.
var many = []struct {
	noun string
	call client.Call
	key  string
	body func(i int, net string) client.Object
}{
	{"network", client.Call{Service: client.Network, Path: "/networks"}, "network", func(i int, _ string) client.Object {
		return client.Object{"name": fmt.Sprint("many-", i)}
	}},
	{"port", client.Call{Service: client.Network, Path: "/ports"}, "port", func(i int, net string) client.Object {
		return client.Object{"name": fmt.Sprint("many-", i), "network_id": net}
	}},
	{"security_group", client.Call{Service: client.Network, Path: "/security-groups"}, "security_group", func(i int, _ string) client.Object {
		return client.Object{"name": fmt.Sprint("many-", i)}
	}},
	{"router", client.Call{Service: client.Network, Path: "/routers"}, "router", func(i int, _ string) client.Object {
		return client.Object{"name": fmt.Sprint("many-", i)}
	}},
	{"keypair", client.Call{Service: client.Compute, Path: "/os-keypairs"}, "keypair", func(i int, _ string) client.Object {
		return client.Object{"name": fmt.Sprint("many-", i), "public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFEprDqY8tc7vJ3kGk0o2q8Xn3b8b2v1Xq0b0Yw3q0bq"}
	}},
	{"image", client.Call{Service: client.Image, Path: "/images"}, "", func(i int, _ string) client.Object {
		return client.Object{"name": fmt.Sprint("many-", i), "disk_format": "raw", "container_format": "bare"}
	}},
}

// TestPages lists more than a page of each kind.
func TestPages(t *testing.T) {
	for _, m := range many {
		t.Run(m.noun, func(t *testing.T) {
			t.Parallel()
			s := newScenario(t, simulator())
			ctx := context.Background()
			cl, admin := s.client("lab"), s.client("admin")
			for service, path := range map[client.Service]string{client.Network: "/quotas/", client.Compute: "/os-quota-sets/"} {
				key := map[client.Service]string{client.Network: "quota", client.Compute: "quota_set"}[service]
				quota := client.Object{"key_pairs": -1}
				if service == client.Network {
					quota = client.Object{"network": -1, "port": -1, "security_group": -1, "security_group_rule": -1, "router": -1}
				}
				if _, err := admin.Do(ctx, client.Call{Service: service, Method: http.MethodPut, Path: path + cl.Project(), Body: client.Object{key: quota}}); err != nil {
					t.Fatal(err)
				}
			}
			net, err := cl.One(ctx, client.Call{Service: client.Network, Method: http.MethodPost, Path: "/networks", Body: client.Object{"network": client.Object{"name": "base"}}}, "network")
			if err != nil {
				t.Fatal(err)
			}
			group := new(errgroup.Group)
			group.SetLimit(8)
			for i := range manyOf {
				group.Go(func() error {
					call := m.call
					call.Method, call.Body = http.MethodPost, m.body(i, net["id"].(string))
					if m.key != "" {
						call.Body = client.Object{m.key: call.Body}
					}
					_, err := cl.Do(ctx, call)
					return err
				})
			}
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
			list := startest.Load(t, "list.star", fmt.Sprintf("def run(cloud):\n    return len([x for x in cloud.%s.list() if x.name.startswith(\"many-\")])\n", m.noun), s.options(effect.Apply))
			v, _, err := s.run(list["run"].(starlark.Callable), "lab", effect.Apply)
			if err != nil {
				t.Fatal(startest.Explain(err))
			}
			if v != starlark.MakeInt(manyOf) {
				t.Errorf("%v of %d are listed", v, manyOf)
			}
		})
	}
}
