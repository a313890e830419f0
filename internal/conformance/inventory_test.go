package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// kinds are what an inventory has: where each kind is listed, and whether a
// list can have other projects' too.
var kinds = []struct {
	name    string
	service client.Service
	path    string
	key     string
	shared  bool
}{
	{"network", client.Network, "/networks", "networks", true},
	{"subnet", client.Network, "/subnets", "subnets", true},
	{"router", client.Network, "/routers", "routers", false},
	{"port", client.Network, "/ports", "ports", false},
	{"security_group", client.Network, "/security-groups", "security_groups", false},
	{"floating_ip", client.Network, "/floatingips", "floatingips", false},
	{"server", client.Compute, "/servers/detail", "servers", false},
	{"keypair", client.Compute, "/os-keypairs", "keypairs", false},
	{"server_group", client.Compute, "/os-server-groups", "server_groups", false},
	{"ec2_credential", client.Identity, "/credentials", "credentials", false},
	{"application_credential", client.Identity, "/users/ME/application_credentials", "application_credentials", false},
	{"volume", client.BlockStorage, "/volumes/detail", "volumes", false},
	{"volume_snapshot", client.BlockStorage, "/snapshots/detail", "snapshots", false},
	{"load_balancer", client.LoadBalancer, "/lbaas/loadbalancers", "loadbalancers", false},
	{"listener", client.LoadBalancer, "/lbaas/listeners", "listeners", false},
	{"pool", client.LoadBalancer, "/lbaas/pools", "pools", false},
	{"monitor", client.LoadBalancer, "/lbaas/healthmonitors", "healthmonitors", false},
	{"image", client.Image, "/images", "images", true},
}

// volatile are fields that differ from one making to the next.
var volatile = []string{"id", "created_at", "updated_at", "created", "updated", "revision_number", "links", "blob", "self", "file", "schema", "mac_address", "hostId",
	"user_id", "tenant_id", "project_id", "owner", "direct_url", "fingerprint", "public_key", "progress", "OS-EXT-SRV-ATTR:hypervisor_hostname",
	"OS-SRV-USG:launched_at", "OS-EXT-AZ:availability_zone", "OS-EXT-STS:power_state", "accessIPv4", "device_id", "addresses", "router_id", "binding:host_id",
	"dns_assignment", "dns_domain", "dns_name", "qos_policy_id", "qos_network_policy_id", "ipv4_address_scope", "ipv6_address_scope", "l2_adjacency", "standard_attr_id", "os-vol-host-attr:host", "attached_at", "attachment_id", "host_name", "vip_address"}

// An inventory is what a project has: each thing's fields, without what differs
// each time, by kind and name.
type inventory map[string]string

// client connects by the entry of that name of clouds.yaml.
func (s *scenario) client(name string) *client.Client {
	s.t.Helper()
	file, err := client.ReadClouds(s.clouds, func(string, []string) string { return "" })
	if err != nil {
		s.t.Fatal(err)
	}
	entry, err := file.Entry(name, client.Given{})
	if err != nil {
		s.t.Fatal(err)
	}
	cl, err := client.Connect(context.Background(), entry)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(cl.Close)
	return cl
}

// inventory returns what the scenario's project has.
func (s *scenario) inventory() inventory {
	s.t.Helper()
	ctx, cl := context.Background(), s.client("lab")
	me, err := cl.Principal()
	if err != nil {
		s.t.Fatal(err)
	}
	out := make(inventory)
	for _, kind := range kinds {
		all, err := cl.List(ctx, client.Call{Service: kind.service, Path: strings.Replace(kind.path, "ME", me.UserID, 1), Query: url.Values{}}, kind.key)
		if fault.KindOf(err) == fault.Invalid {
			continue // the cloud lacks the service
		}
		if err != nil {
			s.t.Fatal(err)
		}
		for _, o := range all {
			if inner, ok := o["keypair"].(client.Object); ok {
				o = inner
			}
			if kind.shared && o["project_id"] != cl.Project() && o["owner"] != cl.Project() {
				continue
			}
			out.add(kind.name, o)
		}
	}
	return out
}

// add adds a thing; of several of one name each gets a number.
func (v inventory) add(kind string, o client.Object) {
	name := fmt.Sprint(o["name"])
	if name == "" || o["name"] == nil {
		name = fmt.Sprint(o["device_owner"], o["description"])
	}
	for _, k := range volatile {
		delete(o, k)
	}
	text, err := json.Marshal(plain(o))
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	key := kind + " " + ids.ReplaceAllString(name, "ID")
	for n := 2; v[key] != ""; n++ {
		key = fmt.Sprintf("%s %s (%d)", kind, name, n)
	}
	v[key] = string(text)
}

// chosen is what a cloud chooses: floating IPs, addresses of ports that don't ask
// for one, and zones.
var chosen = regexp.MustCompile(`^203\.0\.113\.\d+$|^10\.19\.0\.\d\d+$|^compute:az\d$`)

// plain returns x with lists sorted, and with ids and addresses that a cloud
// chooses made alike.
func plain(x any) any {
	switch x := x.(type) {
	case string:
		if ids.MatchString(x) || chosen.MatchString(x) {
			return "…"
		}
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = plain(x[i])
		}
		slices.SortFunc(out, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		return out
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, v := range x {
			if !slices.Contains(volatile, k) {
				out[k] = plain(v)
			}
		}
		return out
	}
	return x
}

// differences says how got differs from want; "" if it doesn't.
func differences(want, got inventory) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if have, ok := got[key]; !ok {
			out = append(out, "missing: "+key)
		} else if have != want[key] {
			out = append(out, key+" is "+have+"\n\tnot "+want[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[key]; !ok {
			out = append(out, "too many: "+key+" "+got[key])
		}
	}
	return strings.Join(out, "\n")
}
