package openstack

import (
	"fmt"
	"sort"
	"strings"
)

// State is every resource as plain JSON values, by kind, for comparing end states. With normalize, ids are
// replaced by kind and name ("network:mgmt"), times, MAC addresses, revisions and what else differs between
// equal runs are left out, so that two runs that end alike give equal states. Tokens, passwords, secrets and
// image data are never in it.
func (c *Cloud) State(normalize bool) map[string][]map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance()
	r := &request{service: "lab", token: &token{admin: true}, version: maxMicroversion}
	out := map[string][]map[string]any{}
	add := func(kind string, d doc) { out[kind] = append(out[kind], d) }
	for _, n := range c.network.nouns {
		c.each(n.name, func(t *thing) {
			d := doc{}
			for k, v := range c.thingDoc(r, t) {
				d[k] = v
			}
			delete(d, "security_group_rules")
			add(n.name, d)
		})
	}
	for _, id := range sortedKeys(c.compute.servers) {
		s := c.compute.servers[id]
		d := c.serverDoc(r, s)
		ports := []any{}
		for _, n := range s.nics {
			ports = append(ports, n.port)
		}
		d["ports"], d["image_name"], d["flavor_id"] = ports, s.imageName, s.flavor.id
		delete(d, "links")
		add("server", d)
	}
	for _, id := range sortedKeys(c.compute.flavors) {
		d := c.flavorDoc(r, c.compute.flavors[id])
		delete(d, "links")
		add("flavor", d)
	}
	for _, userID := range sortedKeys(c.compute.keypairs) {
		for _, name := range sortedKeys(c.compute.keypairs[userID]) {
			add("keypair", c.compute.keypairs[userID][name].doc(r, userID, true))
		}
	}
	for _, id := range sortedKeys(c.compute.groups) {
		add("server_group", c.groupDoc(r, c.compute.groups[id]))
	}
	for _, project := range sortedKeys(c.objects) {
		for _, name := range sortedKeys(c.objects[project]) {
			b := c.objects[project][name]
			d := doc{"id": project + "/" + name, "name": name, "project_id": project, "objects": len(b.objects)}
			for k := range b.header {
				d[k] = b.header.Get(k)
			}
			add("container", d)
		}
	}
	for _, k := range partKinds {
		c.eachPart(k, func(p *part) { add(k.name, c.partDoc(p, false)) })
	}
	for _, id := range sortedKeys(c.image.all) {
		add("image", imageDoc(c.image.all[id]))
	}
	for _, id := range sortedKeys(c.block.volumes) {
		d := without(c.volumeDoc(r, c.block.volumes[id]), "links")
		add("volume", without(d, "attachments"))
		for _, a := range c.block.volumes[id].attachments {
			add("volume_attachment", doc{"id": a.id, "name": nil, "volume": a.volume.id, "server": a.server, "device": a.device, "delete_on_termination": a.withServer})
		}
	}
	for _, id := range sortedKeys(c.block.snapshots) {
		add("volume_snapshot", snapshotFullDoc(r, c.block.snapshots[id]))
	}
	for _, id := range sortedKeys(c.identity.projects) {
		add("project", without(c.projectDoc(r, c.identity.projects[id]), "links"))
	}
	for _, id := range sortedKeys(c.identity.users) {
		add("user", without(c.userDoc(r, c.identity.users[id]), "links"))
	}
	for _, id := range sortedKeys(c.identity.credentials) {
		add("application_credential", without(c.credentialDoc(r, c.identity.credentials[id]), "links"))
	}
	for _, id := range sortedKeys(c.identity.groups) {
		add("group", without(c.usersGroupDoc(r, c.identity.groups[id]), "links"))
	}
	for _, id := range sortedKeys(c.identity.blobs) {
		b := c.identity.blobs[id]
		add("ec2_credential", doc{"id": b.id, "user_id": b.user, "project_id": b.project, "name": b.kind})
	}
	granted := map[string]doc{}
	for g := range c.identity.grants {
		granted[g.actor+g.target+g.role] = doc{"id": g.actor + g.target + g.role, "name": c.identity.roles[g.role], "actor": g.actor, "on": g.target}
	}
	for _, key := range sortedKeys(granted) {
		add("role_assignment", granted[key])
	}
	if normalize {
		normalizeState(out)
	}
	return out
}

func without(d doc, key string) doc {
	delete(d, key)
	return d
}

// volatile attributes differ between runs that end alike.
var volatile = map[string]bool{"id": true, "created_at": true, "updated_at": true, "created": true, "updated": true, "revision_number": true,
	"mac_address": true, "OS-EXT-IPS-MAC:mac_addr": true, "OS-SRV-USG:launched_at": true, "hostId": true, "links": true,
	"OS-EXT-SRV-ATTR:reservation_id": true, "OS-EXT-SRV-ATTR:instance_name": true, "OS-EXT-SRV-ATTR:host": true, "OS-EXT-AZ:availability_zone": true,
	"OS-EXT-SRV-ATTR:hypervisor_hostname": true, "binding:host_id": true, "provider:segmentation_id": true,
	"service_uuid": true, "volume_type_id": true,
	"self": true, "file": true, "fingerprint": true, "public_key": true}

// normalizeState replaces ids by names. Two things of a kind and name get the suffix #2, #3.
func normalizeState(state map[string][]map[string]any) {
	names := map[string]string{}
	seen := map[string]int{}
	kinds := sortedKeys(state)
	sort.SliceStable(kinds, func(i, j int) bool { return kinds[i] != "port" && kinds[j] == "port" }) // ports are called after their devices
	for _, kind := range kinds {
		for _, d := range state[kind] {
			id := text(d["id"])
			label := text(d["name"])
			if label == "" {
				label = text(d["floating_ip_address"])
			}
			if label == "" && kind == "port" {
				label = names[text(d["device_id"])] + "/" + names[text(d["network_id"])]
			}
			if label == "" {
				label = "-"
			}
			key := kind + ":" + label
			if seen[key]++; seen[key] > 1 {
				key += fmt.Sprintf("#%d", seen[key])
			}
			names[id] = key
		}
	}
	var replace func(v any) any
	replace = func(v any) any {
		switch x := v.(type) {
		case string:
			if n, known := names[x]; known {
				return n
			}
			if strings.HasPrefix(x, "compute:") { // a device owner with its zone
				return "compute"
			}
			return x
		case doc:
			o := doc{}
			for k, y := range x {
				if !volatile[k] {
					o[k] = replace(y)
				}
			}
			return o
		case []any:
			l := make([]any, len(x))
			for i, y := range x {
				l[i] = replace(y)
			}
			sort.SliceStable(l, func(i, j int) bool { return fmt.Sprint(l[i]) < fmt.Sprint(l[j]) })
			return l
		}
		return v
	}
	for kind, all := range state {
		for i, d := range all {
			o := replace(d).(doc)
			o["name"] = d["name"]
			all[i] = o
		}
		sort.SliceStable(all, func(i, j int) bool { return fmt.Sprint(all[i]) < fmt.Sprint(all[j]) })
		state[kind] = all
	}
}
