package openstack_test

import (
	"testing"
	"time"

	gopenstack "github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

func (l *lab) balancing() *gophercloud.ServiceClient {
	l.t.Helper()
	return must[*gophercloud.ServiceClient](l.t, "load-balancer")(gopenstack.NewLoadBalancerV2(l.demo, gophercloud.EndpointOpts{Region: "RegionOne"}))
}

func TestBalancerLives(t *testing.T) {
	l := newLab(t, nil)
	lbs := l.balancing()
	_, sub := l.newNetwork("mgmt", "10.20.0.0/24")
	lb := must[*loadbalancers.LoadBalancer](t, "create")(loadbalancers.Create(l.ctx, lbs, loadbalancers.CreateOpts{Name: "api", VipSubnetID: sub.ID, Tags: []string{"t"}}).Extract())
	status := func(want string) {
		t.Helper()
		got := must[*loadbalancers.LoadBalancer](t, "get")(loadbalancers.Get(l.ctx, lbs, lb.ID).Extract())
		if got.ProvisioningStatus != want {
			t.Fatalf("%s, want %s", got.ProvisioningStatus, want)
		}
	}
	status("PENDING_CREATE")
	_, err := listeners.Create(l.ctx, lbs, listeners.CreateOpts{LoadbalancerID: lb.ID, Protocol: "TCP", ProtocolPort: 6443}).Extract()
	wantStatus(t, err, 409, "Load Balancer "+lb.ID+" is immutable and cannot be updated.")
	l.clock.Advance(time.Second)
	status("ACTIVE")

	listener := must[*listeners.Listener](t, "listener")(listeners.Create(l.ctx, lbs, listeners.CreateOpts{LoadbalancerID: lb.ID, Protocol: "TCP", ProtocolPort: 6443}).Extract())
	status("PENDING_UPDATE")
	l.clock.Advance(time.Second)
	pool := must[*pools.Pool](t, "pool")(pools.Create(l.ctx, lbs, pools.CreateOpts{ListenerID: listener.ID, Protocol: "TCP", LBMethod: "ROUND_ROBIN"}).Extract())
	l.clock.Advance(time.Second)
	must[*monitors.Monitor](t, "monitor")(monitors.Create(l.ctx, lbs, monitors.CreateOpts{PoolID: pool.ID, Type: "TCP", Delay: 5, Timeout: 3, MaxRetries: 2}).Extract())
	l.clock.Advance(time.Second)
	one, name := 1, "m"
	if err := pools.BatchUpdateMembers(l.ctx, lbs, pool.ID, []pools.BatchUpdateMemberOpts{{Address: "10.20.0.9", ProtocolPort: 6443, Weight: &one, Name: &name}}).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	l.clock.Advance(time.Second)
	tree := must[*loadbalancers.StatusTree](t, "statuses")(loadbalancers.GetStatuses(l.ctx, lbs, lb.ID).Extract())
	if got := tree.Loadbalancer.Listeners[0].Pools[0]; len(got.Members) != 1 || got.Members[0].Address != "10.20.0.9" {
		t.Fatalf("the tree has %+v", got)
	}

	wantStatus(t, loadbalancers.Delete(l.ctx, lbs, lb.ID, nil).ExtractErr(), 400, "it has children")
	if err := loadbalancers.Delete(l.ctx, lbs, lb.ID, loadbalancers.DeleteOpts{Cascade: true}).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	status("PENDING_DELETE")
	l.clock.Advance(time.Second)
	_, err = listeners.Get(l.ctx, lbs, listener.ID).Extract()
	wantStatus(t, err, 404, "Listener "+listener.ID+" not found.")
	_, err = ports.Get(l.ctx, l.network, lb.VipPortID).Extract()
	wantStatus(t, err, 404, "PortNotFound")
}

func TestBalancerFails(t *testing.T) {
	l := newLab(t, func(c *openstack.Config) { c.Quota = map[string]int{"load_balancer": 1} })
	lbs := l.balancing()
	_, sub := l.newNetwork("mgmt", "10.20.0.0/24")
	if _, err := l.cloud.Inject(openstack.Fault{Service: "load-balancer", Method: "POST", Outcome: "error"}); err != nil {
		t.Fatal(err)
	}
	opts := loadbalancers.CreateOpts{Name: "api", VipSubnetID: sub.ID}
	lb := must[*loadbalancers.LoadBalancer](t, "create")(loadbalancers.Create(l.ctx, lbs, opts).Extract())
	l.clock.Advance(time.Second)
	got := must[*loadbalancers.LoadBalancer](t, "get")(loadbalancers.Get(l.ctx, lbs, lb.ID).Extract())
	if got.ProvisioningStatus != "ERROR" {
		t.Fatalf("it ended in %s", got.ProvisioningStatus)
	}
	_, err := loadbalancers.Create(l.ctx, lbs, opts).Extract()
	wantStatus(t, err, 403, "Quota has been met for resources: Load Balancer")
}
