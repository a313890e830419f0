package openstack

import (
	"net/url"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// filters puts what a recipe filters by into a query. Names that the API
// doesn't know are refused: most APIs would ignore them, and list everything.
func filters(q url.Values, given map[string]string, label string, known []string) error {
	for name, value := range given {
		if known != nil && !slices.Contains(known, name) {
			return didYouMean(name, known, "%ss can't be filtered by %q", label, name)
		}
		q.Set(name, value)
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

// filterNames returns what a list of the noun can be filtered by; nil if that
// isn't known.
func (n *noun) filterNames() []string {
	own := map[string][]string{
		"network": {"admin_state_up", "availability_zone_hints", "dns_domain", "ipv4_address_scope", "ipv6_address_scope", "is_default", "mtu", "port_security_enabled", "provider:network_type", "provider:physical_network",
			"provider:segmentation_id", "router:external", "shared", "status", "vlan_transparent"},
		"subnet": {"cidr", "dns_publish_fixed_ip", "enable_dhcp", "gateway_ip", "ip_version", "ipv6_address_mode", "ipv6_ra_mode", "network_id", "segment_id", "shared", "subnetpool_id"},
		"port": {"admin_state_up", "binding:host_id", "binding:profile", "binding:vif_type", "binding:vnic_type", "device_id", "device_owner", "dns_domain", "dns_name", "fixed_ips", "ip_allocation", "mac_address", "network_id",
			"port_security_enabled", "qos_policy_id", "security_groups", "status"},
		"router":         {"admin_state_up", "distributed", "enable_ndp_proxy", "external_gateway_info", "flavor_id", "ha", "status"},
		"floating_ip":    {"dns_domain", "dns_name", "fixed_ip_address", "floating_ip_address", "floating_network_id", "port_id", "router_id", "status"},
		"security_group": {"shared", "stateful"},
	}[n.name]
	if own == nil {
		return nil
	}
	return append(append(byTags(), "id", "name", "description", "project_id", "tenant_id", "revision_number"), own...)
}
