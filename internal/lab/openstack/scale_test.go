package openstack_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"github.com/gophercloud/gophercloud/v2/pagination"
	"golang.org/x/sync/errgroup"

	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

var unlimited = map[string]int{"instances": -1, "cores": -1, "ram": -1, "port": -1, "network": -1, "floatingip": -1}

func TestPaginationOfPorts(t *testing.T) {
	l := newLab(t, func(cfg *openstack.Config) { cfg.Quota = unlimited })
	n, _ := l.newNetwork("n", "10.20.0.0/16")
	const count = 1100
	bulk := make([]map[string]any, count)
	for i := range bulk {
		bulk[i] = map[string]any{"network_id": n.ID, "name": fmt.Sprintf("p-%04d", i)}
	}
	if _, err := l.network.Post(l.ctx, l.network.ServiceURL("ports"), map[string]any{"ports": bulk}, nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{0, 100, 333, 550} {
		seen, pages := map[string]bool{}, 0
		err := ports.List(l.network, ports.ListOpts{NetworkID: n.ID, Limit: limit}).EachPage(l.ctx, func(_ ctxT, p pagination.Page) (bool, error) {
			pages++
			all, err := ports.ExtractPorts(p)
			for _, x := range all {
				if seen[x.ID] {
					t.Errorf("limit %d: port %s twice", limit, x.Name)
				}
				seen[x.ID] = true
			}
			return true, err
		})
		if err != nil || len(seen) != count || limit > 0 && pages < count/limit {
			t.Errorf("limit %d: %d ports on %d pages, %v", limit, len(seen), pages, err)
		}
	}
	var out struct {
		Ports []struct{ Name, ID string }
		Links []struct{ Rel, Href string } `json:"ports_links"`
	}
	get := func(query string) {
		t.Helper()
		out.Ports, out.Links = nil, nil
		if _, err := l.network.Get(l.ctx, l.network.ServiceURL("ports")+"?"+query, &out, nil); err != nil {
			t.Fatal(err)
		}
	}
	get("sort_key=name&sort_dir=desc&limit=2&fields=name&fields=id")
	if out.Ports[0].Name != "p-1099" || out.Ports[1].Name != "p-1098" || out.Links[0].Rel != "next" {
		t.Errorf("sorted: %+v", out)
	}
	marker := out.Ports[1].ID
	get("sort_key=name&sort_dir=desc&limit=2&page_reverse=True&marker=" + marker)
	if len(out.Ports) != 1 || out.Ports[0].Name != "p-1099" {
		t.Errorf("backwards: %+v", out)
	}
	_, err := l.network.Get(l.ctx, l.network.ServiceURL("ports")+"?limit=-1", nil, nil)
	wantStatus(t, err, 400, "Limit must be an integer 0 or greater")
	wantStatus(t, subnets.Delete(l.ctx, l.network, n.ID).ExtractErr(), 404, "SubnetNotFound")
}

func TestPaginationOfServers(t *testing.T) {
	l := newLab(t, func(cfg *openstack.Config) { cfg.Quota = unlimited })
	const count = 1050
	if _, err := servers.Create(l.ctx, at(l.compute, "2.37"), servers.CreateOpts{Name: "vm", FlavorRef: l.flavor("m1.nano"), ImageRef: l.imageID("lab-tiny"), Networks: "none", Min: count, Max: count}, nil).Extract(); err != nil {
		t.Fatal(err)
	}
	l.clock.Advance(time.Second)
	for _, limit := range []int{0, 100, 525} {
		seen, pages := map[string]bool{}, 0
		err := servers.List(l.compute, servers.ListOpts{Limit: limit, Status: "ACTIVE"}).EachPage(l.ctx, func(_ ctxT, p pagination.Page) (bool, error) {
			pages++
			all, err := servers.ExtractServers(p)
			for _, s := range all {
				seen[s.ID] = true
			}
			return true, err
		})
		if err != nil || len(seen) != count || pages < 2 {
			t.Errorf("limit %d: %d servers on %d pages, %v", limit, len(seen), pages, err)
		}
	}
}

func TestConcurrentRequests(t *testing.T) {
	l := newLab(t, func(cfg *openstack.Config) {
		cfg.Quota, cfg.Clock, cfg.BootDelay = unlimited, nil, 3*time.Millisecond
		cfg.OnServer = func(openstack.ServerEvent, openstack.ServerInfo) {}
		cfg.ConsoleLog = func(string) string { return "log" }
	})
	n, _ := l.newNetwork("n", "10.20.0.0/16")
	flavor, image := l.flavor("m1.nano"), l.imageID("lab-tiny")
	var g errgroup.Group
	for i := range 16 {
		g.Go(func() error {
			p, err := ports.Create(l.ctx, l.network, ports.CreateOpts{NetworkID: n.ID}).Extract()
			if err != nil {
				return err
			}
			s, err := servers.Create(l.ctx, l.compute, servers.CreateOpts{Name: fmt.Sprint("vm-", i), FlavorRef: flavor, ImageRef: image, Networks: []servers.Network{{Port: p.ID}}}, nil).Extract()
			if err != nil {
				return err
			}
			if err := servers.WaitForStatus(l.ctx, l.compute, s.ID, "ACTIVE"); err != nil {
				return err
			}
			if _, err := servers.ShowConsoleOutput(l.ctx, l.compute, s.ID, servers.ShowConsoleOutputOpts{}).Extract(); err != nil {
				return err
			}
			l.cloud.State(true)
			l.cloud.ReachesExternal(s.ID)
			if err := servers.Delete(l.ctx, l.compute, s.ID).ExtractErr(); err != nil {
				return err
			}
			return ports.Delete(l.ctx, l.network, p.ID).ExtractErr()
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	taken := map[string]bool{}
	for _, r := range l.cloud.Requests(0) {
		if taken[r.ID] {
			t.Fatalf("request id %s twice", r.ID)
		}
		taken[r.ID] = true
	}
}

func TestAddressesAreGivenOnce(t *testing.T) {
	l := newLab(t, func(cfg *openstack.Config) { cfg.Quota = unlimited })
	n, _ := l.newNetwork("n", "10.20.0.0/24")
	got := make(chan string, 100)
	var g errgroup.Group
	for range 100 {
		g.Go(func() error {
			p, err := ports.Create(l.ctx, l.network, ports.CreateOpts{NetworkID: n.ID}).Extract()
			if err == nil {
				got <- p.FixedIPs[0].IPAddress
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	close(got)
	seen := map[string]bool{}
	for a := range got {
		if seen[a] {
			t.Errorf("%s given twice", a)
		}
		seen[a] = true
	}
}

type ctxT = context.Context
