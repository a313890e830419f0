package openstack

import "fmt"

// The provider attributes of a network.
const (
	netType     = "provider:network_type"
	netPhysical = "provider:physical_network"
	netSegment  = "provider:segmentation_id"
)

// What the cloud's networks consist of: one physical network, for a flat one
// and VLANs 100 to 200, and VXLAN tunnels 1 to 16000 between the hosts.
const (
	physicalNet  = "physnet1"
	physicalMTU  = 1500
	tunnelMTU    = 1450
	firstVLAN    = 100
	lastVLAN     = 200
	firstTunnel  = 1
	lastTunnel   = 16000
	highestVLAN  = 4094
	largestTunID = 1<<24 - 1
)

func checkSegment(v any) (any, error) {
	n, valid := integer(v)
	if !valid {
		return nil, invalidInput("'" + pythonText(v) + "' is not an integer")
	}
	return n, nil
}

// provide completes and checks what a network consists of.
func (c *Cloud) provide(d doc) error {
	kind, typed := d[netType].(string)
	physical, onNet := d[netPhysical].(string)
	id, numbered := d[netSegment].(int)
	if !typed {
		if onNet || numbered {
			return invalidInput("network_type required")
		}
		kind = "vxlan"
	}
	d[netType] = kind
	taken := c.segmentsOf(kind)
	switch kind {
	case "flat":
		switch {
		case !onNet:
			return invalidInput("physical_network required for flat provider network")
		case physical != physicalNet:
			return invalidInput("physical_network '" + physical + "' unknown for flat provider network")
		case numbered:
			return invalidInput("segmentation_id prohibited for flat provider network")
		case taken[0]:
			return refuseAs(409, "FlatNetworkInUse", "Unable to create the flat network. Physical network "+physical+" is in use.")
		}
		d[netSegment] = nil
	case "vlan":
		switch {
		case numbered && (id < 1 || id > highestVLAN):
			return invalidInput(fmt.Sprintf("segmentation_id out of range (1 through %d)", highestVLAN))
		case onNet && physical != physicalNet:
			return invalidInput("physical_network '" + physical + "' unknown for VLAN provider network")
		case numbered && !onNet:
			return invalidInput("segmentation_id requires physical_network for VLAN provider network")
		case numbered && taken[id]:
			return refuseAs(409, "VlanIdInUse", fmt.Sprintf("Unable to create the network. The VLAN %d on physical network %s is in use.", id, physical))
		}
		d[netPhysical] = physicalNet
		if !numbered {
			return number(d, taken, firstVLAN, lastVLAN)
		}
	case "vxlan":
		switch {
		case onNet:
			return invalidInput("provider:physical_network specified for vxlan network")
		case numbered && id > largestTunID:
			return refuseAs(500, "HTTPInternalServerError", "Request Failed: internal server error while processing your request.")
		case numbered && taken[id]:
			return refuseAs(409, "TunnelIdInUse", fmt.Sprintf("Unable to create the network. The tunnel ID %d is in use.", id))
		}
		d[netPhysical] = nil
		if !numbered {
			return number(d, taken, firstTunnel, lastTunnel)
		}
	default:
		return invalidInput("network_type value '" + kind + "' not supported")
	}
	return nil
}

// number gives a network the first free number.
func number(d doc, taken map[int]bool, first, last int) error {
	for id := first; id <= last; id++ {
		if !taken[id] {
			d[netSegment] = id
			return nil
		}
	}
	return refuseAs(503, "NoNetworkAvailable", "Unable to create the network. No tenant network is available for allocation.")
}

// segmentsOf returns the numbers that networks of that kind have; 0 stands for none.
func (c *Cloud) segmentsOf(kind string) map[int]bool {
	taken := map[int]bool{}
	c.each("network", func(o *thing) {
		if o.doc[netType] == kind {
			id, _ := o.doc[netSegment].(int)
			taken[id] = true
		}
	})
	return taken
}

// checkMTU refuses larger packets than the network's kind can carry; 0 stands for the largest.
func checkMTU(d doc, kind any) error {
	largest := tunnelMTU
	if kind != "vxlan" {
		largest = physicalMTU
	}
	switch n := d["mtu"].(int); {
	case n == 0:
		d["mtu"] = largest
	case n > largest:
		return invalidInput(fmt.Sprintf("Requested MTU is too big, maximum is %d", largest))
	}
	return nil
}
