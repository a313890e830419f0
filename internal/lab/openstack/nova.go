package openstack

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxMicroversion is the highest that Zed's Nova speaks: 2.93.
const maxMicroversion = 93

// compute is Nova's data.
type compute struct {
	servers  map[string]*server
	flavors  map[string]*flavor
	keypairs map[string]map[string]*keypair // by user and name
	groups   map[string]*serverGroup
	quotas   map[string]map[string]int // by project, where it isn't the default
	hosts    []*host
}

// host is a hypervisor, as big as Nova's fake ones.
type host struct {
	id, name, zone   string
	vcpus, ram, disk int // MiB, GiB
}

func newCompute() compute {
	return compute{servers: map[string]*server{}, flavors: map[string]*flavor{}, keypairs: map[string]map[string]*keypair{},
		groups: map[string]*serverGroup{}, quotas: map[string]map[string]int{}}
}

func (c *Cloud) seedCompute() {
	for i, zone := range c.cfg.Zones {
		c.compute.hosts = append(c.compute.hosts, &host{id: c.ids.uuid(), name: "fake" + strconv.Itoa(i+1), zone: zone, vcpus: 1000, ram: 800000, disk: 600000})
	}
	for _, f := range c.cfg.Flavors {
		id := f.ID
		if id == "" {
			id = c.ids.uuid()
		}
		specs := map[string]string{}
		for k, v := range f.ExtraSpecs {
			specs[k] = v
		}
		c.addFlavor(&flavor{id: id, name: f.Name, vcpus: f.VCPUs, ram: f.RAM, disk: f.Disk, ephemeral: f.Ephemeral, rxtx: 1, public: !f.Private, specs: specs})
	}
}

func computeRoutes() []route {
	routes := []route{
		{method: "GET", pattern: "/", handle: (*Cloud).computeVersions, open: true},
		{method: "GET", pattern: "/v2.1", handle: (*Cloud).computeVersion, open: true},
		{method: "GET", pattern: "/servers", handle: (*Cloud).serverList},
		{method: "POST", pattern: "/servers", handle: (*Cloud).serverCreate},
		{method: "GET", pattern: "/servers/detail", handle: (*Cloud).serverDetail},
		{method: "GET", pattern: "/servers/{id}", handle: (*Cloud).serverShow},
		{method: "PUT", pattern: "/servers/{id}", handle: (*Cloud).serverUpdate},
		{method: "DELETE", pattern: "/servers/{id}", handle: (*Cloud).serverDelete},
		{method: "POST", pattern: "/servers/{id}/action", handle: (*Cloud).serverAction},
		{method: "GET", pattern: "/servers/{id}/ips", handle: (*Cloud).serverIPs},
		{method: "GET", pattern: "/servers/{id}/ips/{network}", handle: (*Cloud).serverIPsOf},
		{method: "GET", pattern: "/servers/{id}/os-instance-actions", handle: (*Cloud).actionList},
		{method: "GET", pattern: "/servers/{id}/os-instance-actions/{request}", handle: (*Cloud).actionShow},
		{method: "GET", pattern: "/servers/{id}/metadata", handle: (*Cloud).metadataShow},
		{method: "POST", pattern: "/servers/{id}/metadata", handle: (*Cloud).metadataUpdate},
		{method: "PUT", pattern: "/servers/{id}/metadata", handle: (*Cloud).metadataReplace},
		{method: "GET", pattern: "/servers/{id}/metadata/{key}", handle: (*Cloud).metadatumShow},
		{method: "PUT", pattern: "/servers/{id}/metadata/{key}", handle: (*Cloud).metadatumSet},
		{method: "DELETE", pattern: "/servers/{id}/metadata/{key}", handle: (*Cloud).metadatumDelete},
		{method: "GET", pattern: "/servers/{id}/tags", handle: (*Cloud).serverTags},
		{method: "PUT", pattern: "/servers/{id}/tags", handle: (*Cloud).serverTagsReplace},
		{method: "DELETE", pattern: "/servers/{id}/tags", handle: (*Cloud).serverTagsClear},
		{method: "GET", pattern: "/servers/{id}/tags/{tag}", handle: (*Cloud).serverTagShow},
		{method: "PUT", pattern: "/servers/{id}/tags/{tag}", handle: (*Cloud).serverTagAdd},
		{method: "DELETE", pattern: "/servers/{id}/tags/{tag}", handle: (*Cloud).serverTagRemove},
		{method: "GET", pattern: "/servers/{id}/os-interface", handle: (*Cloud).interfaceList},
		{method: "POST", pattern: "/servers/{id}/os-interface", handle: (*Cloud).interfaceAttach},
		{method: "GET", pattern: "/servers/{id}/os-interface/{port}", handle: (*Cloud).interfaceShow},
		{method: "DELETE", pattern: "/servers/{id}/os-interface/{port}", handle: (*Cloud).interfaceDetach},
		{method: "GET", pattern: "/servers/{id}/os-security-groups", handle: (*Cloud).serverSecurityGroups},
		{method: "GET", pattern: "/servers/{id}/os-volume_attachments", handle: (*Cloud).volumeAttachments},
		{method: "POST", pattern: "/servers/{id}/os-volume_attachments", handle: (*Cloud).volumeAttach},
		{method: "GET", pattern: "/servers/{id}/os-volume_attachments/{volume}", handle: (*Cloud).volumeAttachment},
		{method: "PUT", pattern: "/servers/{id}/os-volume_attachments/{volume}", handle: (*Cloud).volumeAttachmentUpdate},
		{method: "DELETE", pattern: "/servers/{id}/os-volume_attachments/{volume}", handle: (*Cloud).volumeDetach},
		{method: "POST", pattern: "/servers/{id}/remote-consoles", handle: (*Cloud).remoteConsole},
		{method: "GET", pattern: "/flavors", handle: (*Cloud).flavorList},
		{method: "POST", pattern: "/flavors", handle: (*Cloud).flavorCreate},
		{method: "GET", pattern: "/flavors/detail", handle: (*Cloud).flavorDetail},
		{method: "GET", pattern: "/flavors/{id}", handle: (*Cloud).flavorShow},
		{method: "PUT", pattern: "/flavors/{id}", handle: (*Cloud).flavorUpdate},
		{method: "DELETE", pattern: "/flavors/{id}", handle: (*Cloud).flavorDelete},
		{method: "GET", pattern: "/flavors/{id}/os-flavor-access", handle: (*Cloud).flavorAccessList},
		{method: "POST", pattern: "/flavors/{id}/action", handle: (*Cloud).flavorAccessChange},
		{method: "GET", pattern: "/flavors/{id}/os-extra_specs", handle: (*Cloud).extraSpecs},
		{method: "POST", pattern: "/flavors/{id}/os-extra_specs", handle: (*Cloud).extraSpecsAdd},
		{method: "GET", pattern: "/flavors/{id}/os-extra_specs/{key}", handle: (*Cloud).extraSpecShow},
		{method: "PUT", pattern: "/flavors/{id}/os-extra_specs/{key}", handle: (*Cloud).extraSpecSet},
		{method: "DELETE", pattern: "/flavors/{id}/os-extra_specs/{key}", handle: (*Cloud).extraSpecDelete},
		{method: "GET", pattern: "/os-keypairs", handle: (*Cloud).keypairList},
		{method: "POST", pattern: "/os-keypairs", handle: (*Cloud).keypairCreate},
		{method: "GET", pattern: "/os-keypairs/{name}", handle: (*Cloud).keypairShow},
		{method: "DELETE", pattern: "/os-keypairs/{name}", handle: (*Cloud).keypairDelete},
		{method: "GET", pattern: "/limits", handle: (*Cloud).computeLimits},
		{method: "GET", pattern: "/os-quota-sets/{project}", handle: (*Cloud).quotaSetShow},
		{method: "GET", pattern: "/os-quota-sets/{project}/defaults", handle: (*Cloud).quotaSetDefaults},
		{method: "GET", pattern: "/os-quota-sets/{project}/detail", handle: (*Cloud).quotaSetDetail},
		{method: "PUT", pattern: "/os-quota-sets/{project}", handle: (*Cloud).quotaSetUpdate},
		{method: "DELETE", pattern: "/os-quota-sets/{project}", handle: (*Cloud).quotaSetReset},
		{method: "GET", pattern: "/os-server-groups", handle: (*Cloud).groupList},
		{method: "POST", pattern: "/os-server-groups", handle: (*Cloud).groupCreate},
		{method: "GET", pattern: "/os-server-groups/{id}", handle: (*Cloud).groupShow},
		{method: "DELETE", pattern: "/os-server-groups/{id}", handle: (*Cloud).groupDelete},
		{method: "GET", pattern: "/os-availability-zone", handle: (*Cloud).zoneList},
		{method: "GET", pattern: "/os-availability-zone/detail", handle: (*Cloud).zoneDetail},
		{method: "GET", pattern: "/os-hypervisors", handle: (*Cloud).hypervisorList},
		{method: "GET", pattern: "/os-hypervisors/detail", handle: (*Cloud).hypervisorDetail},
		{method: "GET", pattern: "/os-hypervisors/statistics", handle: (*Cloud).hypervisorStatistics},
		{method: "GET", pattern: "/os-hypervisors/{id}", handle: (*Cloud).hypervisorShow},
	}
	for i := range routes {
		if !routes[i].open {
			routes[i].pattern = "/v2.1" + routes[i].pattern
		}
	}
	return routes
}

func (r *request) computeVersionDoc() doc {
	return doc{"id": "v2.1", "status": "CURRENT", "version": "2.93", "min_version": "2.1", "updated": "2013-07-23T11:33:21Z",
		"links": []any{doc{"rel": "self", "href": r.base + "/compute/v2.1/"}}}
}

func (c *Cloud) computeVersions(r *request) (answer, error) {
	return ok(doc{"versions": []any{r.computeVersionDoc()}})
}

func (c *Cloud) computeVersion(r *request) (answer, error) {
	return ok(doc{"version": r.computeVersionDoc()})
}

// speak reads the microversion that the caller of a service wants; the lowest without one.
func (r *request) speak(service, oldHeader string, major, lowest, highest int) error {
	r.version = lowest
	want := ""
	for _, h := range r.http.Header.Values("OpenStack-API-Version") {
		for _, part := range strings.Split(h, ",") {
			if name, v, found := strings.Cut(strings.TrimSpace(part), " "); found && name == service {
				want = strings.TrimSpace(v)
			}
		}
	}
	if want == "" && oldHeader != "" {
		want = r.http.Header.Get(oldHeader)
	}
	switch want {
	case "":
		return nil
	case "latest":
		r.version = highest
		return nil
	}
	first, second, found := strings.Cut(want, ".")
	n, err := strconv.Atoi(second)
	m, err2 := strconv.Atoi(first)
	if !found || err != nil || err2 != nil || m < 0 || n < 0 {
		return refuse(400, "API Version String %s is of invalid format. Must be of format MajorNum.MinorNum.", want)
	}
	if m != major || n < lowest || n > highest {
		return refuse(406, "Version %s is not supported by the API. Minimum is %d.%d and maximum is %d.%d.", want, major, lowest, major, highest)
	}
	r.version = n
	return nil
}

// tooOld is what a method answers below the microversion that brought it.
func tooOld() error { return refuse(404, "The resource could not be found.") }

func invalidQuery(name, value, why string) error {
	return refuse(400, "Invalid input for query parameters %s. Value: %s. %s", name, value, why)
}

func invalidField(name string, value any, why string) error {
	return refuse(400, "Invalid input for field/attribute %s. Value: %s. %s", name, text(value), why)
}

func (r *request) links(kind, id string) []any {
	return []any{doc{"rel": "self", "href": r.base + "/compute/v2.1/" + kind + "/" + id}, doc{"rel": "bookmark", "href": r.base + "/compute/" + kind + "/" + id}}
}

// page cuts a sorted list as Nova does: after the marker, at most limit (1000 if none is given). It answers
// the bounds and, when the page is full, the link to the next.
func (r *request) page(kind string, ids []string, limited bool) (from, to int, next []any, err error) {
	limit := 1000
	if s := r.query.Get("limit"); s != "" {
		n, convErr := strconv.Atoi(s)
		if convErr != nil || n < 0 {
			return 0, 0, nil, invalidQuery("limit", s, "'"+s+"' does not match '^[0-9]*$'")
		}
		if n > 0 {
			limit = min(limit, n)
			limited = true
		}
	}
	if marker := r.query.Get("marker"); marker != "" {
		from = -1
		for i, id := range ids {
			if id == marker {
				from = i + 1
			}
		}
		if from < 0 {
			return 0, 0, nil, refuse(400, "marker [%s] not found", marker)
		}
	}
	to = len(ids)
	if limited && to-from > limit {
		to = from + limit
	}
	if limited && to-from == limit && to > from {
		q := url.Values{}
		for k, v := range r.query {
			q[k] = v
		}
		q.Set("marker", ids[to-1])
		next = []any{doc{"rel": "next", "href": r.base + r.http.URL.Path + "?" + q.Encode()}}
	}
	return from, to, next, nil
}

func isoOrNil(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000")
}
