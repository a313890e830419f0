package openstack

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// networkRequest is one entry of a create's networks.
type networkRequest struct{ network, port, fixedIP, tag string }

func (c *Cloud) serverCreate(r *request) (answer, error) {
	whole, err := r.bodyAs(serverCreateSchema(r.version))
	if err != nil {
		return answer{}, err
	}
	in := object(whole, "server")
	if (has(in, "host") || has(in, "hypervisor_hostname")) && !r.token.admin {
		return answer{}, forbidden(r, "compute:servers:create:requested_destination")
	}
	s, err := c.newServer(r, in)
	if err != nil {
		return answer{}, err
	}
	hints := object(whole, "os:scheduler_hints")
	if hints == nil {
		hints = object(whole, "OS-SCH-HNT:scheduler_hints")
	}
	if s.serverGroup = str(hints, "group"); s.serverGroup != "" {
		if g := c.compute.groups[s.serverGroup]; g == nil || g.project != s.project {
			return answer{}, refuse(400, "Instance group %s could not be found.", s.serverGroup)
		}
	}
	count, err := c.countServers(in, s)
	if err != nil {
		return answer{}, err
	}
	s.shouldFail = r.fault != nil && r.fault.Outcome == "error"
	var first *server
	for i := range count {
		one := *s
		one.id = c.ids.uuid()
		one.metadata = map[string]string{}
		for k, v := range s.metadata {
			one.metadata[k] = v
		}
		if count > 1 {
			one.name = s.name + "-" + strconv.Itoa(i+1)
		}
		if one.hostname == "" {
			one.hostname = hostnameOf(one.name)
		}
		if first == nil {
			first = &one
		}
		if err := c.reserveDisks(&one); err != nil {
			return answer{}, err
		}
		c.compute.servers[one.id] = &one
		c.conceal(r, "server", one.id)
		c.noteEvent(r, &one, "create")
		c.boot(&one)
	}
	s = first
	if v, given := in["return_reservation_id"].(bool); given && v {
		return accepted(doc{"reservation_id": s.reservation})
	}
	groups := []any{}
	for _, g := range s.groups {
		groups = append(groups, doc{"name": g})
	}
	password := str(in, "adminPass")
	if password == "" {
		password = newSecret()[:12]
	}
	a, _ := accepted(doc{"server": doc{"id": s.id, "links": r.links("servers", s.id), "OS-DCF:diskConfig": "MANUAL", "security_groups": groups, "adminPass": password}})
	a.header = map[string][]string{"Location": {r.base + "/compute/v2.1/servers/" + s.id}}
	return a, nil
}

// countServers is how many servers a create makes: max_count if the quota allows it, else what it allows, as
// long as that is min_count or more.
func (c *Cloud) countServers(in doc, s *server) (int, error) {
	low := 1
	if n, given := integer(in["min_count"]); given {
		low = n
	}
	high := low
	if n, given := integer(in["max_count"]); given {
		high = n
	}
	if high < low {
		return 0, refuse(400, "min_count must be <= max_count")
	}
	for n := high; ; n-- {
		err := c.checkComputeQuota(s.project, n, s.flavor)
		if err == nil || n == low {
			return n, err
		}
	}
}

var notHostname = regexp.MustCompile(`[^a-z0-9-]+`)

func hostnameOf(name string) string {
	h := strings.Trim(notHostname.ReplaceAllString(strings.ToLower(strings.NewReplacer(" ", "-", "_", "-", ".", "-").Replace(name)), ""), "-")
	if h == "" {
		return "server"
	}
	return h[:min(len(h), 63)]
}

// newServer checks everything that Nova checks before it answers.
func (c *Cloud) newServer(r *request, in doc) (*server, error) {
	now := c.now()
	s := &server{project: r.token.project.id, user: r.token.user.id, created: now, updated: now, vmState: "building", taskState: "scheduling",
		reservation: "r-" + c.ids.hex()[:8], hostname: str(in, "hostname"), accessV4: str(in, "accessIPv4"), accessV6: str(in, "accessIPv6")}
	s.name = str(in, "name")
	if r.version >= 19 {
		s.description = in["description"]
	} else {
		s.description = s.name
	}
	s.metadata, _ = stringMap(in["metadata"])
	if limit := c.computeLimit(s.project, "metadata_items"); limit >= 0 && len(s.metadata) > limit {
		return nil, refuse(403, "Maximum number of metadata items exceeds %d", limit)
	}
	s.tags, _ = texts(in["tags"])
	slices.Sort(s.tags)
	s.tags = slices.Compact(s.tags)
	s.userData = str(in, "user_data")
	s.configDrive, _ = parseBool(in["config_drive"])
	if key := str(in, "key_name"); key != "" {
		k := c.compute.keypairs[s.user][key]
		if k == nil {
			return nil, refuse(400, "Invalid key_name provided.")
		}
		s.keyName, s.publicKey = key, k.publicKey
	}
	if s.zone = str(in, "availability_zone"); s.zone != "" {
		zone, _, _ := strings.Cut(s.zone, ":")
		if !c.zoneExists(zone) {
			return nil, refuse(400, "The requested availability zone is not available")
		}
		s.zone = zone
	}
	if err := c.checkFlavorAndImage(r, in, s); err != nil {
		return nil, err
	}
	if err := c.checkServerGroups(r, in, s); err != nil {
		return nil, err
	}
	return s, c.checkNetworks(r, in, s)
}

func (c *Cloud) zoneExists(zone string) bool {
	for _, h := range c.compute.hosts {
		if h.zone == zone {
			return true
		}
	}
	return false
}

func refID(v any) string {
	s := text(v)
	return s[strings.LastIndex(s, "/")+1:]
}

func (c *Cloud) checkFlavorAndImage(r *request, in doc, s *server) error {
	devices, err := readDevices(in)
	if err != nil {
		return err
	}
	s.image = refID(in["imageRef"])
	if s.image == "" && !devices.given {
		return refuse(400, "Missing imageRef attribute")
	}
	ref := refID(in["flavorRef"])
	f := c.compute.flavors[ref]
	if f == nil || !f.usableBy(r.token) {
		return refuse(400, "Flavor %s could not be found.", ref)
	}
	s.flavor = f.frozen()
	root := devices.root()
	s.onVolume = root != nil
	switch {
	case s.image != "":
		img, err := c.bootImage(r, s.image, s, root)
		if err != nil {
			return err
		}
		s.imageName = img.name()
	case root != nil:
		if err := c.checkRoot(r, s, root); err != nil {
			return err
		}
	}
	return c.checkDevices(r, in, s, devices)
}

// bootImage finds the image that a server is to run, on the host's disk or on root.
func (c *Cloud) bootImage(r *request, id string, s *server, root *disk) (*image, error) {
	img := c.image.all[id]
	if img == nil || !img.visibleTo(r.token) {
		return nil, refuse(400, "Can not find requested image")
	}
	if img.status != "active" {
		return nil, refuse(400, "Image %s is not active.", id)
	}
	return img, fitsServer(img, s, root)
}

// fitsServer checks an image against the flavor's memory, and the size of root, or of the flavor's disk without
// one.
func fitsServer(img *image, s *server, root *disk) error {
	switch {
	case img.minRAM > s.flavor.ram:
		return refuse(400, "Flavor's memory is too small for requested image.")
	case root != nil && root.size > 0 && img.minDisk > root.size:
		return refuse(400, "Volume is smaller than the minimum size specified in image metadata. Volume size is %d bytes, minimum size is %d bytes.", root.size<<30, img.minDisk<<30)
	case root != nil || s.flavor.disk == 0:
		return nil
	case int64(len(img.data)) > int64(s.flavor.disk)<<30:
		return refuse(400, "Flavor's disk is too small for requested image. Flavor disk is %d bytes, image is %d bytes.", s.flavor.disk<<30, len(img.data))
	case img.minDisk > s.flavor.disk:
		return refuse(400, "Flavor's disk is smaller than the minimum size specified in image metadata. Flavor disk is %d bytes, minimum size is %d bytes.", s.flavor.disk<<30, img.minDisk<<30)
	}
	return nil
}

func (c *Cloud) checkServerGroups(r *request, in doc, s *server) error {
	for _, x := range list(in, "security_groups") {
		g, _ := x.(doc)
		name := str(g, "name")
		var found []*thing
		c.each("security_group", func(t *thing) {
			if t.project == s.project && (str(t.doc, "name") == name || t.id == name) {
				found = append(found, t)
			}
		})
		switch len(found) {
		case 0:
			if name == "default" {
				found = append(found, c.defaultGroup(s.project))
				break
			}
			return refuse(400, "Unable to find security_group with name or id '%s'", name)
		case 1:
		default:
			return refuse(409, "Multiple security groups found matching '%s'. Use an ID to be more specific.", name)
		}
		s.groups, s.groupIDs = append(s.groups, name), append(s.groupIDs, found[0].id)
	}
	if s.groups == nil {
		s.groups = []string{"default"}
	}
	return nil
}

// checkNetworks resolves what the server is to be plugged into.
func (c *Cloud) checkNetworks(r *request, in doc, s *server) error {
	switch v := in["networks"].(type) {
	case string:
		if v == "none" {
			return nil
		}
		return c.pickNetwork(r, s, true)
	case []any:
		for _, x := range v {
			o, _ := x.(doc)
			n := networkRequest{str(o, "uuid"), str(o, "port"), str(o, "fixed_ip"), str(o, "tag")}
			if err := c.checkNetwork(r, n, s); err != nil {
				return err
			}
			s.requested = append(s.requested, n)
		}
		if len(v) == 0 {
			return c.pickNetwork(r, s, false)
		}
		return nil
	}
	return c.pickNetwork(r, s, false)
}

func (c *Cloud) checkNetwork(r *request, n networkRequest, s *server) error {
	if n.port != "" {
		p := c.thing("port", n.port)
		for _, other := range s.requested {
			if other.port == n.port {
				return refuse(400, "Port ID '%s' was specified twice: you cannot attach a port multiple times.", n.port)
			}
		}
		switch {
		case p == nil || !c.sees(r, p):
			return refuse(400, "Port id %s could not be found.", n.port)
		case str(p.doc, "device_id") != "":
			return refuse(409, "Port %s is still in use.", n.port)
		case len(fixedIPs(p)) == 0:
			return refuse(400, "Port %s requires a FixedIP in order to be used.", n.port)
		}
		return nil
	}
	switch {
	case n.network == "":
		return refuse(400, "Bad network format: missing 'uuid'")
	case !uuidPattern.MatchString(n.network):
		return refuse(400, "Bad networks format: network uuid is not in proper format (%s)", n.network)
	}
	net := c.thing("network", n.network)
	if net == nil || !c.sees(r, net) {
		return refuse(400, "Network %s could not be found.", n.network)
	}
	if net.doc["router:external"] == true && net.doc["shared"] != true && !r.token.admin {
		return refuse(403, "It is not allowed to create an interface on external network %s", n.network)
	}
	subnets := c.subnetsOf(net.id)
	if len(subnets) == 0 {
		return refuse(400, "Network %s requires a subnet in order to boot instances on.", n.network)
	}
	if n.fixedIP != "" {
		for _, sub := range subnets {
			if usable(sub, n.fixedIP) {
				if port := c.network.used[sub.id][n.fixedIP]; port != "" {
					return refuse(400, "Fixed IP address %s is already in use on instance %s.", n.fixedIP, str(c.thing("port", port).doc, "device_id"))
				}
			}
		}
	}
	return nil
}

// pickNetwork chooses the only network that the project can use.
func (c *Cloud) pickNetwork(r *request, s *server, must bool) error {
	var found []*thing
	c.each("network", func(t *thing) {
		if (t.project == s.project || t.doc["shared"] == true) && t.doc["router:external"] != true {
			found = append(found, t)
		}
	})
	switch {
	case len(found) == 0 && must:
		return refuse(400, "Unable to automatically allocate a network for project %s", s.project)
	case len(found) == 0:
		return nil
	case len(found) > 1:
		return refuse(409, "Multiple possible networks found, use a Network ID to be more specific.")
	}
	n := networkRequest{network: found[0].id}
	if err := c.checkNetwork(r, n, s); err != nil {
		return err
	}
	s.requested = []networkRequest{n}
	return nil
}
