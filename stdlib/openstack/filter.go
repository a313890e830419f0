package openstack

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// filters puts what a recipe filters by into a query. Names that the API
// doesn't know are refused: most APIs would ignore them, and list everything.
func filters(q url.Values, given map[string]string, label string, known []string) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(known, name) {
			return didYouMean(name, known, "%ss can't be filtered by %q", label, name)
		}
		q.Set(name, given[name])
	}
	return nil
}

// plainTags refuses what the APIs take for several tags.
func plainTags(tags []string) error {
	for _, t := range tags {
		if strings.Contains(t, ",") {
			return fault.New(fault.Invalid, "the tag %q has a comma", t)
		}
	}
	return nil
}

// byTags are the filters that each API with tags has.
func byTags() []string { return []string{"tags", "tags-any", "not-tags", "not-tags-any"} }

// serverFilters are those of Nova, which ignores others for who isn't an
// administrator.
func serverFilters() []string {
	return append(byTags(), "status", "flavor", "image", "ip", "ip6", "name", "changes-since", "changes-before", "availability_zone", "config_drive", "created_at", "deleted",
		"description", "host", "hostname", "key_name", "kernel_id", "launch_index", "launched_at", "locked", "locked_by", "node", "power_state", "progress", "project_id", "ramdisk_id",
		"reservation_id", "root_device_name", "access_ip_v4", "access_ip_v6", "auto_disk_config", "soft_deleted", "task_state", "tenant_id", "terminated_at", "user_id", "uuid", "vm_state",
		"all_tenants", "sort_key", "sort_dir")
}

// byName are the filters that Keystone makes of a name.
func byName() []string {
	return []string{"name", "name__contains", "name__icontains", "name__startswith", "name__istartswith", "name__endswith", "name__iendswith"}
}

// filterNames returns what a list of the noun can be filtered by, for
// whoever lists: what only administrators can filter by is ignored for
// others.
func (n *noun) filterNames() []string {
	switch n.api() {
	case client.Network:
		return slices.Concat(byTags(), []string{"id", "name", "description", "project_id", "tenant_id", "revision_number", "sort_key", "sort_dir"}, networkFilters(n.name))
	case client.BlockStorage:
		own := map[string][]string{
			"volume":          {"name", "status", "metadata", "bootable", "migration_status", "availability_zone", "group_id", "size", "created_at", "updated_at", "consumes_quota"},
			"volume_snapshot": {"name", "status", "volume_id", "metadata", "availability_zone", "consumes_quota"},
			"volume_type":     {"is_public", "extra_specs"},
		}[n.name]
		return append(own, "all_tenants", "project_id", "sort", "sort_key", "sort_dir")
	case client.LoadBalancer:
		return append(byTags(), "id", "name", "description", "project_id", "admin_state_up", "provisioning_status", "operating_status", "provider", "flavor_id", "availability_zone",
			"vip_address", "vip_port_id", "vip_subnet_id", "vip_network_id", "vip_qos_policy_id", "created_at", "updated_at", "sort", "sort_key", "sort_dir")
	}
	switch n.name {
	case "project":
		return slices.Concat(byName(), byTags(), []string{"domain_id", "enabled", "parent_id", "is_domain"})
	case "user":
		return append(byName(), "domain_id", "enabled", "idp_id", "protocol_id", "unique_id", "password_expires_at")
	case "application_credential":
		return byName()
	case "ec2_credential":
		return []string{"user_id"}
	case "server_group":
		return []string{"all_projects"}
	}
	return nil
}

// networkFilters are those of a kind of Neutron's, beside those of all.
func networkFilters(kind string) []string {
	return map[string][]string{
		"network": {"admin_state_up", "availability_zone_hints", "dns_domain", "ipv4_address_scope", "ipv6_address_scope", "is_default", "mtu", "port_security_enabled", "provider:network_type", "provider:physical_network",
			"provider:segmentation_id", "router:external", "shared", "status", "vlan_transparent"},
		"subnet": {"cidr", "dns_publish_fixed_ip", "enable_dhcp", "gateway_ip", "ip_version", "ipv6_address_mode", "ipv6_ra_mode", "network_id", "segment_id", "shared", "subnetpool_id"},
		"port": {"admin_state_up", "binding:host_id", "binding:profile", "binding:vif_type", "binding:vnic_type", "device_id", "device_owner", "dns_domain", "dns_name", "fixed_ips", "ip_allocation", "mac_address", "network_id",
			"port_security_enabled", "qos_policy_id", "security_groups", "status"},
		"router":         {"admin_state_up", "distributed", "enable_ndp_proxy", "external_gateway_info", "flavor_id", "ha", "status"},
		"floating_ip":    {"dns_domain", "dns_name", "fixed_ip_address", "floating_ip_address", "floating_network_id", "port_id", "router_id", "status"},
		"security_group": {"shared", "stateful"},
	}[kind]
}
