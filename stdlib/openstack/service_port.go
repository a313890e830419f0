package openstack

import (
	"context"
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Octavia makes and deletes the ports of a load balancer: that of the virtual
// address, and those of the machines or switches that do the work. The first one
// says by its device_id whose it is. Of the others those on the same network do, by
// the address that they may use too.
const (
	balancerDevice = "lb-"         // comes before the load balancer's id in device_id
	amphoraName    = "octavia-lb-" // begins the names of Octavia's ports
	ovnBalancer    = "ovn-lb-"     // begins those of its OVN driver
	balancerOwner  = "octavia"     // begins their owner, in lower case
)

// ofBalancer reports whether a port is a load balancer's.
func ofBalancer(p client.Object) bool {
	name := str(p, "name")
	return strings.HasPrefix(strings.ToLower(str(p, "device_owner")), balancerOwner) || strings.HasPrefix(str(p, "device_owner"), ovnBalancer) ||
		strings.HasPrefix(str(p, "device_id"), balancerDevice) || strings.HasPrefix(name, amphoraName) || strings.HasPrefix(name, ovnBalancer)
}

// balancerOf returns the id of the load balancer whose virtual address a port
// has; "" if it doesn't say.
func balancerOf(p client.Object) string {
	if id, ok := strings.CutPrefix(str(p, "device_id"), balancerDevice); ok {
		return id
	}
	return ""
}

// goesWithBalancer reports whether a port goes with one of the load balancers.
// One that doesn't say whose it is counts as theirs.
func goesWithBalancer(p client.Object, going []effect.Owned) bool {
	if !ofBalancer(p) {
		return false
	}
	if id := balancerOf(p); id != "" {
		return slices.ContainsFunc(going, func(o effect.Owned) bool { return o.ID == id })
	}
	shared := objects(p, "allowed_address_pairs")
	return slices.ContainsFunc(going, func(o effect.Owned) bool {
		return len(shared) == 0 || slices.ContainsFunc(shared, func(a client.Object) bool { return slices.Contains(o.Addresses, str(a, "ip_address")) })
	})
}

// leavesWithBalancer reports whether a port of a load balancer is on its way
// out, as the load balancer is. What those ports belong to that name none
// nobody but administrators can ask.
func leavesWithBalancer(ctx context.Context, cl *client.Client, p client.Object) bool {
	id := balancerOf(p)
	if !ofBalancer(p) || id == "" || !cl.Offers(client.LoadBalancer) {
		return ofBalancer(p)
	}
	lb, err := balancerNoun().byID(ctx, cl, id)
	return fault.KindOf(err) == fault.NotFound || err == nil && (str(lb, "provisioning_status") == "PENDING_DELETE" || str(lb, "provisioning_status") == "DELETED")
}
