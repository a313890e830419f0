package openstack_test

import (
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/attributestags"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	nquotas "github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/quotas"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
)

func (l *lab) external() string {
	l.t.Helper()
	pages, err := networks.List(l.network, networks.ListOpts{Name: "public"}).AllPages(l.ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	found := must[[]networks.Network](l.t, "networks")(networks.ExtractNetworks(pages))
	if len(found) != 1 {
		l.t.Fatalf("%d networks named public", len(found))
	}
	return found[0].ID
}

func (l *lab) newRouter(name string, external bool, subnetIDs ...string) *routers.Router {
	l.t.Helper()
	o := routers.CreateOpts{Name: name}
	if external {
		o.GatewayInfo = &routers.GatewayInfo{NetworkID: l.external()}
	}
	r := must[*routers.Router](l.t, "router")(routers.Create(l.ctx, l.network, o).Extract())
	for _, id := range subnetIDs {
		must[*routers.InterfaceInfo](l.t, "interface")(routers.AddInterface(l.ctx, l.network, r.ID, routers.AddInterfaceOpts{SubnetID: id}).Extract())
	}
	return r
}

func (l *lab) newPort(o ports.CreateOpts) *ports.Port {
	l.t.Helper()
	return must[*ports.Port](l.t, "port")(ports.Create(l.ctx, l.network, o).Extract())
}

func TestSubnetRules(t *testing.T) {
	l := newLab(t, nil)
	n, s := l.newNetwork("n", "10.77.0.0/24")
	if s.GatewayIP != "10.77.0.1" || len(s.AllocationPools) != 1 || s.AllocationPools[0].Start != "10.77.0.2" || s.AllocationPools[0].End != "10.77.0.254" || !s.EnableDHCP {
		t.Errorf("defaults: %+v", s)
	}
	gw := func(s string) *string { return &s }
	for name, c := range map[string]struct {
		opts   subnets.CreateOpts
		status int
		text   string
	}{
		"overlap":         {subnets.CreateOpts{CIDR: "10.77.0.128/25"}, 400, "overlaps with another subnet"},
		"no cidr":         {subnets.CreateOpts{CIDR: "nonsense"}, 400, "is not in a CIDR format"},
		"version":         {subnets.CreateOpts{CIDR: "fd00::/64"}, 400, "does not match the ip_version"},
		"pool outside":    {subnets.CreateOpts{CIDR: "10.79.0.0/24", AllocationPools: []subnets.AllocationPool{{Start: "10.79.1.2", End: "10.79.1.9"}}}, 400, "OutOfBoundsAllocationPool"},
		"pool backwards":  {subnets.CreateOpts{CIDR: "10.79.0.0/24", AllocationPools: []subnets.AllocationPool{{Start: "10.79.0.9", End: "10.79.0.2"}}}, 400, "InvalidAllocationPool"},
		"gateway in pool": {subnets.CreateOpts{CIDR: "10.79.0.0/24", GatewayIP: gw("10.79.0.5"), AllocationPools: []subnets.AllocationPool{{Start: "10.79.0.2", End: "10.79.0.9"}}}, 409, "GatewayConflictWithAllocationPools"},
		"broadcast":       {subnets.CreateOpts{CIDR: "10.79.0.0/24", GatewayIP: gw("10.79.0.255")}, 400, "Gateway is not valid on subnet"},
		"loopback":        {subnets.CreateOpts{CIDR: "127.5.0.0/24"}, 400, "Loopback IP subnet is not supported"},
		"no network":      {subnets.CreateOpts{NetworkID: "00000000-0000-0000-0000-000000000000", CIDR: "10.79.0.0/24"}, 404, "NetworkNotFound"},
		"not our network": {subnets.CreateOpts{NetworkID: l.external(), CIDR: "10.79.0.0/24"}, 403, "not allowed to create subnet on this network"},
	} {
		t.Run(name, func(t *testing.T) {
			c.opts.IPVersion = gophercloud.IPv4
			if c.opts.NetworkID == "" {
				c.opts.NetworkID = n.ID
			}
			_, err := subnets.Create(l.ctx, l.network, c.opts).Extract()
			wantStatus(t, err, c.status, c.text)
		})
	}
	none := ""
	s2 := must[*subnets.Subnet](t, "no gateway")(subnets.Create(l.ctx, l.network, subnets.CreateOpts{NetworkID: n.ID, CIDR: "10.80.0.0/29", IPVersion: 4, GatewayIP: &none}).Extract())
	if s2.GatewayIP != "" || s2.AllocationPools[0].Start != "10.80.0.1" || s2.AllocationPools[0].End != "10.80.0.6" {
		t.Errorf("without gateway: %+v", s2)
	}
	names := []string{"192.0.2.1"}
	s3 := must[*subnets.Subnet](t, "update")(subnets.Update(l.ctx, l.network, s2.ID, subnets.UpdateOpts{DNSNameservers: &names}).Extract())
	if len(s3.DNSNameservers) != 1 || s3.RevisionNumber != s2.RevisionNumber+1 {
		t.Errorf("after update: %+v", s3)
	}
}

func TestPortAddresses(t *testing.T) {
	l := newLab(t, nil)
	n, s := l.newNetwork("n", "10.77.0.0/29")
	first := l.newPort(ports.CreateOpts{NetworkID: n.ID, Name: "a"})
	if first.FixedIPs[0].IPAddress != "10.77.0.2" || first.Status != "DOWN" || len(first.SecurityGroups) != 1 {
		t.Errorf("first port: %+v", first)
	}
	own := l.newPort(ports.CreateOpts{NetworkID: n.ID, Name: "b", FixedIPs: []ports.IP{{IPAddress: "10.77.0.5"}}, AllowedAddressPairs: []ports.AddressPair{{IPAddress: "10.77.0.6"}}})
	if own.FixedIPs[0].SubnetID != s.ID || own.AllowedAddressPairs[0].MACAddress != own.MACAddress {
		t.Errorf("own address: %+v", own)
	}
	create := func(o ports.CreateOpts) error {
		o.NetworkID = n.ID
		_, err := ports.Create(l.ctx, l.network, o).Extract()
		return err
	}
	wantStatus(t, create(ports.CreateOpts{FixedIPs: []ports.IP{{SubnetID: s.ID, IPAddress: "10.77.0.5"}}}), 409, `"type":"IpAddressAlreadyAllocated"`)
	wantStatus(t, create(ports.CreateOpts{FixedIPs: []ports.IP{{IPAddress: "10.99.0.5"}}}), 400, `"type":"InvalidIpForNetwork"`)
	wantStatus(t, create(ports.CreateOpts{FixedIPs: []ports.IP{{SubnetID: s.ID, IPAddress: "10.99.0.5"}}}), 400, `"type":"InvalidIpForSubnet"`)
	wantStatus(t, create(ports.CreateOpts{FixedIPs: []ports.IP{{SubnetID: "00000000-0000-0000-0000-000000000000"}}}), 404, `"type":"SubnetNotFound"`)
	wantStatus(t, create(ports.CreateOpts{MACAddress: own.MACAddress}), 409, `"type":"MacAddressInUse"`)
	wantStatus(t, create(ports.CreateOpts{SecurityGroups: &[]string{"00000000-0000-0000-0000-000000000000"}}), 404, `"type":"SecurityGroupNotFound"`)
	for range 3 {
		if err := create(ports.CreateOpts{}); err != nil {
			t.Fatal(err)
		}
	}
	wantStatus(t, create(ports.CreateOpts{}), 409, `"type":"IpAddressGenerationFailure"`)
	if err := ports.Delete(l.ctx, l.network, first.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	if err := create(ports.CreateOpts{}); err != nil {
		t.Errorf("after a port went: %v", err)
	}
	// An update that can't be done changes nothing.
	_, err := ports.Update(l.ctx, l.network, own.ID, ports.UpdateOpts{FixedIPs: []ports.IP{{IPAddress: "10.77.0.2"}}}).Extract()
	wantStatus(t, err, 409, "IpAddressAlreadyAllocated")
	if got := must[*ports.Port](t, "get")(ports.Get(l.ctx, l.network, own.ID).Extract()); got.FixedIPs[0].IPAddress != "10.77.0.5" {
		t.Errorf("after a refused update: %v", got.FixedIPs)
	}
	wantStatus(t, networks.Delete(l.ctx, l.network, n.ID).ExtractErr(), 409, `"type":"NetworkInUse"`)
	wantStatus(t, subnets.Delete(l.ctx, l.network, s.ID).ExtractErr(), 409, `"type":"SubnetInUse"`)
}

func TestPortSecurity(t *testing.T) {
	l := newLab(t, nil)
	n, _ := l.newNetwork("n", "10.77.0.0/24")
	p := l.newPort(ports.CreateOpts{NetworkID: n.ID})
	put := func(body map[string]any) error {
		_, err := l.network.Put(l.ctx, l.network.ServiceURL("ports", p.ID), map[string]any{"port": body}, nil, &gophercloud.RequestOpts{OkCodes: []int{200}})
		return err
	}
	wantStatus(t, put(map[string]any{"port_security_enabled": false}), 409, "PortSecurityPortHasSecurityGroup")
	if err := put(map[string]any{"port_security_enabled": false, "security_groups": []string{}}); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, put(map[string]any{"allowed_address_pairs": []map[string]any{{"ip_address": "10.77.0.9"}}}), 409, "AddressPairAndPortSecurityRequired")
	wantStatus(t, put(map[string]any{"nonsense": 1}), 400, "nonsense")
	wantStatus(t, put(map[string]any{"binding:host_id": "fake1"}), 403, "PolicyNotAuthorized")
}

func TestRouterRules(t *testing.T) {
	l := newLab(t, nil)
	n, s := l.newNetwork("n", "10.77.0.0/24")
	_, other := l.newNetwork("o", "10.77.0.0/25")
	r := l.newRouter("r", true, s.ID)
	add := func(o routers.AddInterfaceOpts) error {
		_, err := routers.AddInterface(l.ctx, l.network, r.ID, o).Extract()
		return err
	}
	wantStatus(t, add(routers.AddInterfaceOpts{SubnetID: s.ID}), 400, "Router already has a port on subnet")
	wantStatus(t, add(routers.AddInterfaceOpts{SubnetID: other.ID}), 400, "overlaps with cidr")
	_, err := routers.Create(l.ctx, l.network, routers.CreateOpts{Name: "bad", GatewayInfo: &routers.GatewayInfo{NetworkID: n.ID}}).Extract()
	wantStatus(t, err, 400, "is not an external network")
	r2 := l.newRouter("r2", false)
	_, err = routers.AddInterface(l.ctx, l.network, r2.ID, routers.AddInterfaceOpts{SubnetID: s.ID}).Extract()
	wantStatus(t, err, 409, "IpAddressAlreadyAllocated")
	p := l.newPort(ports.CreateOpts{NetworkID: n.ID})
	must[*routers.InterfaceInfo](t, "by port")(routers.AddInterface(l.ctx, l.network, r2.ID, routers.AddInterfaceOpts{PortID: p.ID}).Extract())
	wantStatus(t, ports.Delete(l.ctx, l.network, p.ID).ExtractErr(), 409, "ServicePortInUse")
	wantStatus(t, routers.Delete(l.ctx, l.network, r.ID).ExtractErr(), 409, `"message":"Router `+r.ID+` has ports still attached: `)
	must[*routers.InterfaceInfo](t, "remove")(routers.RemoveInterface(l.ctx, l.network, r.ID, routers.RemoveInterfaceOpts{SubnetID: s.ID}).Extract())
	_, err = routers.RemoveInterface(l.ctx, l.network, r.ID, routers.RemoveInterfaceOpts{SubnetID: s.ID}).Extract()
	wantStatus(t, err, 404, "RouterInterfaceNotFoundForSubnet")
	if err := routers.Delete(l.ctx, l.network, r.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	if _, err := ports.Get(l.ctx, l.network, p.ID).Extract(); err != nil {
		t.Errorf("the other router's port: %v", err)
	}
}

func TestFloatingIPRules(t *testing.T) {
	l := newLab(t, nil)
	n, s := l.newNetwork("n", "10.77.0.0/24")
	p := l.newPort(ports.CreateOpts{NetworkID: n.ID})
	ext := l.external()
	create := func(o floatingips.CreateOpts) (*floatingips.FloatingIP, error) {
		return floatingips.Create(l.ctx, l.network, o).Extract()
	}
	f := must[*floatingips.FloatingIP](t, "allocate")(create(floatingips.CreateOpts{FloatingNetworkID: ext, Description: "mark"}))
	if f.FloatingIP != "127.77.0.10" || f.Status != "DOWN" || f.Description != "mark" {
		t.Errorf("allocated: %+v", f)
	}
	associate := func(id string) error {
		_, err := floatingips.Update(l.ctx, l.network, f.ID, floatingips.UpdateOpts{PortID: &id}).Extract()
		return err
	}
	wantStatus(t, associate(p.ID), 404, "is not reachable from subnet "+s.ID)
	wantStatus(t, associate("00000000-0000-0000-0000-000000000000"), 404, "PortNotFound")
	_, err := create(floatingips.CreateOpts{FloatingNetworkID: n.ID})
	wantStatus(t, err, 400, "is not a valid external network")
	_, err = create(floatingips.CreateOpts{FloatingNetworkID: ext, FixedIP: "10.77.0.2"})
	wantStatus(t, err, 400, "fixed_ip_address cannot be specified without a port_id")
	_, err = create(floatingips.CreateOpts{FloatingNetworkID: ext, FloatingIP: "127.77.0.99"})
	wantStatus(t, err, 403, "PolicyNotAuthorized")

	r := l.newRouter("r", true, s.ID)
	if err := associate(p.ID); err != nil {
		t.Fatal(err)
	}
	got := must[*floatingips.FloatingIP](t, "get")(floatingips.Get(l.ctx, l.network, f.ID).Extract())
	if got.Status != "ACTIVE" || got.RouterID != r.ID || got.FixedIP != p.FixedIPs[0].IPAddress {
		t.Errorf("associated: %+v", got)
	}
	_, err = create(floatingips.CreateOpts{FloatingNetworkID: ext, PortID: p.ID})
	wantStatus(t, err, 409, "FloatingIPPortAlreadyAssociated")
	_, err = routers.RemoveInterface(l.ctx, l.network, r.ID, routers.RemoveInterfaceOpts{SubnetID: s.ID}).Extract()
	wantStatus(t, err, 409, "RouterInterfaceInUseByFloatingIP")
	_, err = routers.Update(l.ctx, l.network, r.ID, routers.UpdateOpts{GatewayInfo: &routers.GatewayInfo{}}).Extract()
	wantStatus(t, err, 409, "RouterExternalGatewayInUseByFloatingIp")

	if err := ports.Delete(l.ctx, l.network, p.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	got = must[*floatingips.FloatingIP](t, "get")(floatingips.Get(l.ctx, l.network, f.ID).Extract())
	if got.Status != "DOWN" || got.PortID != "" || got.FixedIP != "" {
		t.Errorf("after its port went: %+v", got)
	}
	if err := floatingips.Delete(l.ctx, l.network, f.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	again := must[*floatingips.FloatingIP](t, "again")(create(floatingips.CreateOpts{FloatingNetworkID: ext}))
	if again.FloatingIP != f.FloatingIP {
		t.Errorf("the address didn't come free: %s, then %s", f.FloatingIP, again.FloatingIP)
	}
}

func TestSecurityGroups(t *testing.T) {
	l := newLab(t, nil)
	sg := must[*groups.SecGroup](t, "group")(groups.Create(l.ctx, l.network, groups.CreateOpts{Name: "sg", Description: "mark"}).Extract())
	if len(sg.Rules) != 2 || sg.Rules[0].Direction != "egress" {
		t.Errorf("rules of a new group: %+v", sg.Rules)
	}
	create := func(o rules.CreateOpts) error {
		o.SecGroupID = sg.ID
		if o.Direction == "" {
			o.Direction, o.EtherType = rules.DirIngress, rules.EtherType4
		}
		_, err := rules.Create(l.ctx, l.network, o).Extract()
		return err
	}
	ssh := rules.CreateOpts{Protocol: rules.ProtocolTCP, PortRangeMin: 22, PortRangeMax: 22, RemoteIPPrefix: "10.0.0.0/8"}
	if err := create(ssh); err != nil {
		t.Fatal(err)
	}
	ssh.Description = "a description doesn't make it another"
	wantStatus(t, create(ssh), 409, `"type":"SecurityGroupRuleExists"`)
	wantStatus(t, create(rules.CreateOpts{PortRangeMin: 22, PortRangeMax: 22}), 400, "SecurityGroupProtocolRequiredWithPorts")
	wantStatus(t, create(rules.CreateOpts{Protocol: rules.ProtocolTCP, PortRangeMin: 23, PortRangeMax: 22}), 400, "SecurityGroupInvalidPortRange")
	wantStatus(t, create(rules.CreateOpts{Protocol: "nonsense"}), 400, "SecurityGroupRuleInvalidProtocol")
	wantStatus(t, create(rules.CreateOpts{RemoteIPPrefix: "fd00::/8"}), 400, "SecurityGroupRuleParameterConflict")
	wantStatus(t, create(rules.CreateOpts{RemoteIPPrefix: "10.0.0.0/8", RemoteGroupID: sg.ID}), 400, "SecurityGroupMultipleRemoteEntites")
	wantStatus(t, create(rules.CreateOpts{RemoteGroupID: "00000000-0000-0000-0000-000000000000"}), 404, "SecurityGroupNotFound")
	n, _ := l.newNetwork("n", "10.77.0.0/24")
	p := l.newPort(ports.CreateOpts{NetworkID: n.ID, SecurityGroups: &[]string{sg.ID}})
	wantStatus(t, groups.Delete(l.ctx, l.network, sg.ID).ExtractErr(), 409, `"type":"SecurityGroupInUse"`)
	ports.Delete(l.ctx, l.network, p.ID)
	if err := groups.Delete(l.ctx, l.network, sg.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	pages, err := groups.List(l.network, groups.ListOpts{Name: "default"}).AllPages(l.ctx)
	if err != nil {
		t.Fatal(err)
	}
	def := must[[]groups.SecGroup](t, "groups")(groups.ExtractGroups(pages))
	if len(def) != 1 || len(def[0].Rules) != 4 {
		t.Fatalf("default groups: %+v", def)
	}
	wantStatus(t, groups.Delete(l.ctx, l.network, def[0].ID).ExtractErr(), 409, "SecurityGroupCannotRemoveDefault")
	_, err = groups.Create(l.ctx, l.network, groups.CreateOpts{Name: "default"}).Extract()
	wantStatus(t, err, 409, "SecurityGroupDefaultAlreadyExists")
}

func TestNetworkQuotas(t *testing.T) {
	l := newLab(t, nil)
	n, _ := l.newNetwork("n", "10.77.0.0/24")
	zero, one := 0, 1
	project := must[map[string]any](t, "network")(rawNetwork(l, n.ID))["project_id"].(string)
	if _, err := nquotas.Update(l.ctx, l.networkAdmin, project, nquotas.UpdateOpts{Network: &one, Subnet: &one, Port: &zero, Router: &zero, FloatingIP: &zero, SecurityGroup: &one}).Extract(); err != nil {
		t.Fatal(err)
	}
	_, err := networks.Create(l.ctx, l.network, networks.CreateOpts{Name: "x"}).Extract()
	wantStatus(t, err, 409, `{"NeutronError":{"detail":"","message":"Quota exceeded for resources: ['network'].","type":"OverQuota"}}`)
	_, err = ports.Create(l.ctx, l.network, ports.CreateOpts{NetworkID: n.ID}).Extract()
	wantStatus(t, err, 409, "['port']")
	_, err = routers.Create(l.ctx, l.network, routers.CreateOpts{Name: "x"}).Extract()
	wantStatus(t, err, 409, "['router']")
	_, err = floatingips.Create(l.ctx, l.network, floatingips.CreateOpts{FloatingNetworkID: l.external()}).Extract()
	wantStatus(t, err, 409, "['floatingip']")
	_, err = groups.Create(l.ctx, l.network, groups.CreateOpts{Name: "x"}).Extract()
	wantStatus(t, err, 409, "['security_group']")
	q := must[*nquotas.Quota](t, "own quota")(nquotas.Get(l.ctx, l.network, project).Extract())
	if q.Network != 1 || q.SecurityGroupRule != 100 {
		t.Errorf("own quota: %+v", q)
	}
	if _, err := nquotas.Update(l.ctx, l.network, project, nquotas.UpdateOpts{Network: &one}).Extract(); err == nil {
		t.Error("a member changed quotas")
	}
	if err := nquotas.Delete(l.ctx, l.networkAdmin, project).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	if _, err = networks.Create(l.ctx, l.network, networks.CreateOpts{Name: "x"}).Extract(); err != nil {
		t.Errorf("after the quota's reset: %v", err)
	}
}

func rawNetwork(l *lab, id string) (map[string]any, error) {
	var out map[string]map[string]any
	_, err := l.network.Get(l.ctx, l.network.ServiceURL("networks", id), &out, nil)
	return out["network"], err
}

func TestTagsAndFilters(t *testing.T) {
	l := newLab(t, nil)
	a, _ := l.newNetwork("a", "10.1.0.0/24")
	b, _ := l.newNetwork("b", "10.2.0.0/24")
	for id, tags := range map[string][]string{a.ID: {"x", "y"}, b.ID: {"x"}} {
		must[[]string](t, "tags")(attributestags.ReplaceAll(l.ctx, l.network, "networks", id, attributestags.ReplaceAllOpts{Tags: tags}).Extract())
	}
	for query, want := range map[string]string{"tags=x,y": "a", "tags-any=x,z&name=b": "b", "not-tags=y&shared=False&router:external=False": "b", "not-tags-any=x,q&router:external=false": "",
		"name=a&name=b&tags=y": "a", "description=": "a b public", "colour=red&name=a": "a", "name=A": "a", "admin_state_up=true&mtu=1450": "a b", "status=DOWN": ""} {
		var out struct {
			Networks []struct{ Name string }
		}
		if _, err := l.network.Get(l.ctx, l.network.ServiceURL("networks")+"?fields=name&sort_key=name&sort_dir=asc&"+query, &out, nil); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, n := range out.Networks {
			if got != "" {
				got += " "
			}
			got += n.Name
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
	_, err := l.network.Post(l.ctx, l.network.ServiceURL("networks"), map[string]any{"network": map[string]any{"name": "c", "tags": []string{"x"}}}, nil, nil)
	wantStatus(t, err, 400, "Attribute 'tags' not allowed in POST")
}

func TestProjectIsolation(t *testing.T) {
	l := newLab(t, nil)
	n, s := l.newNetwork("n", "10.77.0.0/24")
	other := l.service(l.login(gophercloud.AuthOptions{Username: "other", Password: "secret", DomainName: "Default", TenantName: "other"}), "network")
	_, err := networks.Get(l.ctx, other, n.ID).Extract()
	wantStatus(t, err, 404, `"type":"NetworkNotFound"`)
	_, err = ports.Create(l.ctx, other, ports.CreateOpts{NetworkID: n.ID}).Extract()
	wantStatus(t, err, 404, "NetworkNotFound")
	wantStatus(t, subnets.Delete(l.ctx, other, s.ID).ExtractErr(), 404, "SubnetNotFound")
	pages, err := networks.List(other, nil).AllPages(l.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if seen := must[[]networks.Network](t, "list")(networks.ExtractNetworks(pages)); len(seen) != 1 || seen[0].Name != "public" {
		t.Errorf("the other project sees %+v", seen)
	}
	wantStatus(t, networks.Delete(l.ctx, other, l.external()).ExtractErr(), 403, "PolicyNotAuthorized")
	if _, err := networks.Get(l.ctx, l.networkAdmin, n.ID).Extract(); err != nil {
		t.Errorf("the admin: %v", err)
	}
}
