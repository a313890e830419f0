package openstack

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

// server is a Nova instance. Its status is made of vmState and taskState, as Nova's is.
type server struct {
	id, name, hostname          string
	description                 any // nil or a string
	project, user               string
	image, imageName            string // image is "" for a boot from volume
	flavor, oldFlavor           *flavor
	metadata                    map[string]string
	keyName, publicKey          string
	userData                    string // base64
	created, updated            time.Time
	launched                    time.Time
	vmState, taskState          string
	fault                       *serverFault
	zone                        string // asked for
	host, oldHost               *host  // oldHost while a resize waits to be confirmed
	nics                        []nic
	groups                      []string // names of security groups asked for
	groupIDs                    []string
	configDrive                 bool
	tags                        []string
	serverGroup                 string
	accessV4, accessV6          string
	locked                      bool
	onVolume                    bool // its root disk is a volume
	disks                       []*disk
	reservation                 string
	requested                   []networkRequest
	shouldFail                  bool // by an injected fault
	events                      []serverEvent
	turn                        int // changes whenever what was scheduled for the server is void
	everActive, resizeWasActive bool
}

type serverFault struct {
	code             int
	message, details string
	created          time.Time
}

// nic is a port of a server; made by Nova, it goes with the server.
type nic struct {
	port string
	made bool
}

func (s *server) status() string {
	switch s.vmState {
	case "building":
		return "BUILD"
	case "active", "stopped":
		switch s.taskState {
		case "rebooting", "reboot_pending", "reboot_started":
			return "REBOOT"
		case "rebooting_hard":
			return "HARD_REBOOT"
		case "rebuilding":
			return "REBUILD"
		case "resize_prep", "resize_migrating", "resize_finish":
			return "RESIZE"
		}
		if s.vmState == "active" {
			return "ACTIVE"
		}
		return "SHUTOFF"
	case "resized":
		if s.taskState == "resize_reverting" {
			return "REVERT_RESIZE"
		}
		return "VERIFY_RESIZE"
	case "paused":
		return "PAUSED"
	case "suspended":
		return "SUSPENDED"
	}
	return "ERROR"
}

func (s *server) power() int {
	switch s.vmState {
	case "active", "resized":
		return 1
	case "paused":
		return 3
	case "stopped", "suspended":
		return 4
	}
	return 0
}

func (c *Cloud) findServer(r *request, id string) (*server, error) {
	s := c.compute.servers[id]
	if s == nil || s.project != r.token.project.id && !r.token.admin {
		return nil, refuse(404, "Instance %s could not be found.", id)
	}
	return s, nil
}

func (c *Cloud) serverShow(r *request) (answer, error) {
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"server": c.serverDoc(r, s)})
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// serverDoc is the server as the request's microversion shows it.
func (c *Cloud) serverDoc(r *request, s *server) doc {
	d := doc{"id": s.id, "name": s.name, "status": s.status(), "tenant_id": s.project, "user_id": s.user, "metadata": s.metadata,
		"hostId": s.hostID(), "created": stamp(s.created), "updated": stamp(s.updated), "addresses": c.addressesDoc(s),
		"accessIPv4": s.accessV4, "accessIPv6": s.accessV6, "links": r.links("servers", s.id), "OS-DCF:diskConfig": "MANUAL",
		"OS-EXT-AZ:availability_zone": s.shownZone(), "config_drive": "", "key_name": orNil(s.keyName),
		"OS-SRV-USG:launched_at": isoOrNil(s.launched), "OS-SRV-USG:terminated_at": nil,
		"OS-EXT-STS:task_state": orNil(s.taskState), "OS-EXT-STS:vm_state": s.vmState, "OS-EXT-STS:power_state": s.power()}
	if s.configDrive {
		d["config_drive"] = "True"
	}
	if s.image == "" {
		d["image"] = ""
	} else {
		d["image"] = doc{"id": s.image, "links": r.links("images", s.image)[1:]}
	}
	if r.version >= 47 {
		d["flavor"] = doc{"vcpus": s.flavor.vcpus, "ram": s.flavor.ram, "disk": s.flavor.disk, "ephemeral": s.flavor.ephemeral, "swap": s.flavor.swap,
			"original_name": s.flavor.name, "extra_specs": s.flavor.specs}
	} else {
		d["flavor"] = doc{"id": s.flavor.id, "links": r.links("flavors", s.flavor.id)[1:]}
	}
	if groups := c.serverGroupNames(s); groups != nil {
		d["security_groups"] = groups
	}
	if st := d["status"]; st == "ERROR" && s.fault != nil {
		f := doc{"code": s.fault.code, "message": s.fault.message, "created": stamp(s.fault.created)}
		if r.token.admin || s.fault.code != 500 {
			f["details"] = s.fault.details
		}
		d["fault"] = f
	} else if st == "BUILD" || st == "ACTIVE" || st == "REBUILD" || st == "RESIZE" || st == "VERIFY_RESIZE" || st == "REVERT_RESIZE" {
		d["progress"] = 0
	}
	volumes := []any{}
	for _, a := range c.attachmentsOf(s.id) {
		o := doc{"id": a.volume.id}
		if r.version >= 3 {
			o["delete_on_termination"] = a.withServer
		}
		volumes = append(volumes, o)
	}
	d["os-extended-volumes:volumes_attached"] = volumes
	if r.token.admin {
		c.extendServer(r, s, d)
	} else if r.version >= 90 {
		d["OS-EXT-SRV-ATTR:hostname"] = s.hostname
	}
	if r.version >= 9 {
		d["locked"] = s.locked
	}
	if r.version >= 19 {
		d["description"] = s.description
	}
	if r.version >= 26 {
		d["tags"] = anyOf(s.tags)
	}
	if r.version >= 63 {
		d["trusted_image_certificates"] = nil
	}
	if r.version >= 71 {
		d["server_groups"] = []any{}
		if c.compute.groups[s.serverGroup] != nil {
			d["server_groups"] = []any{s.serverGroup}
		}
	}
	if r.version >= 73 {
		d["locked_reason"] = nil
	}
	return d
}

// extendServer adds what only an admin sees.
func (c *Cloud) extendServer(r *request, s *server, d doc) {
	name := ""
	if s.host != nil {
		name = s.host.name
	}
	d["OS-EXT-SRV-ATTR:host"], d["OS-EXT-SRV-ATTR:hypervisor_hostname"] = orNil(name), orNil(name)
	d["OS-EXT-SRV-ATTR:instance_name"] = "instance-" + s.id[:8]
	if r.version >= 3 {
		d["OS-EXT-SRV-ATTR:reservation_id"], d["OS-EXT-SRV-ATTR:launch_index"] = s.reservation, 0
		d["OS-EXT-SRV-ATTR:hostname"], d["OS-EXT-SRV-ATTR:user_data"] = s.hostname, orNil(s.userData)
		d["OS-EXT-SRV-ATTR:kernel_id"], d["OS-EXT-SRV-ATTR:ramdisk_id"], d["OS-EXT-SRV-ATTR:root_device_name"] = "", "", "/dev/sda"
	}
	if r.version >= 16 {
		d["host_status"] = ""
		if s.host != nil {
			d["host_status"] = "UP"
		}
	}
}

func (s *server) hostID() string {
	if s.host == nil {
		return ""
	}
	sum := sha256.Sum224([]byte(s.project + s.host.name))
	return hex.EncodeToString(sum[:])
}

func (s *server) shownZone() string {
	if s.host != nil {
		return s.host.zone
	}
	return s.zone
}

// serverGroupNames lists the security groups of a server's ports, or those asked for while it has none.
func (c *Cloud) serverGroupNames(s *server) []any {
	var names []string
	for _, n := range s.nics {
		if p := c.thing("port", n.port); p != nil {
			for _, id := range list(p.doc, "security_groups") {
				if g := c.thing("security_group", id.(string)); g != nil {
					names = append(names, str(g.doc, "name")) // once for each port
				}
			}
		}
	}
	if names == nil {
		return nil
	}
	var out []any
	for _, n := range names {
		out = append(out, doc{"name": n})
	}
	return out
}

// serverInfo is what hooks get.
func (c *Cloud) serverInfo(s *server) ServerInfo {
	data, _ := base64.StdEncoding.DecodeString(s.userData) // checked when it came
	meta := make(map[string]string, len(s.metadata))
	for k, v := range s.metadata {
		meta[k] = v
	}
	return ServerInfo{ID: s.id, Name: s.name, ProjectID: s.project, Addresses: c.addresses(s), UserData: data, KeyName: s.keyName, PublicKey: s.publicKey,
		Image: s.imageName, Flavor: s.flavor.name, Metadata: meta}
}

func (c *Cloud) serverSecurityGroups(r *request) (answer, error) {
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	out := []any{}
	seen := map[string]bool{}
	for _, n := range s.nics {
		if p := c.thing("port", n.port); p != nil {
			for _, id := range list(p.doc, "security_groups") {
				if g := c.thing("security_group", id.(string)); g != nil && !seen[g.id] {
					seen[g.id] = true
					out = append(out, doc{"id": g.id, "name": g.doc["name"], "description": g.doc["description"], "tenant_id": g.project, "rules": []any{}})
				}
			}
		}
	}
	return ok(doc{"security_groups": out})
}

func (c *Cloud) serverUpdate(r *request) (answer, error) {
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	whole, err := r.bodyAs(serverUpdateSchema(r.version))
	if err != nil {
		return answer{}, err
	}
	d := object(whole, "server")
	if has(d, "name") {
		s.name = str(d, "name")
	}
	if has(d, "hostname") {
		s.hostname = str(d, "hostname")
	}
	if has(d, "description") {
		s.description = d["description"]
	}
	if has(d, "accessIPv4") {
		s.accessV4 = str(d, "accessIPv4")
	}
	if has(d, "accessIPv6") {
		s.accessV6 = str(d, "accessIPv6")
	}
	s.updated = c.now()
	return ok(doc{"server": c.changedDoc(r, s)})
}

// changedDoc is what the answer to a change shows of a server: before 2.75 not
// much more than can be changed.
func (c *Cloud) changedDoc(r *request, s *server) doc {
	out := c.serverDoc(r, s)
	if r.version < 75 {
		for _, l := range object(out, "addresses") {
			for _, a := range l.([]any) {
				delete(a.(doc), "OS-EXT-IPS:type")
				delete(a.(doc), "OS-EXT-IPS-MAC:mac_addr")
			}
		}
		for k := range out {
			if strings.HasPrefix(k, "OS-EXT-") || strings.HasPrefix(k, "OS-SRV-") || slices.Contains([]string{"config_drive", "key_name", "os-extended-volumes:volumes_attached", "security_groups", "host_status"}, k) {
				delete(out, k)
			}
		}
	}
	return out
}
