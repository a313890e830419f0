package openstack

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxVolumeVersion is the highest microversion that Zed's Cinder speaks: 3.70.
const maxVolumeVersion = 70

// blocks is Cinder's data.
type blocks struct {
	volumes   map[string]*volume
	snapshots map[string]*snapshot
	kinds     []*volumeKind             // the first is the default
	quotas    map[string]map[string]int // by project, where it isn't the default
	messages  []*volumeMessage          // the oldest first
	service   string                    // id of the service that keeps the volumes
}

// volumeKind is a volume type.
type volumeKind struct {
	id, name    string
	description any // nil or a string
	specs       map[string]string
}

// multiattach tells whether several servers may have a volume of that type.
func (k *volumeKind) multiattach() bool { return k.specs["multiattach"] == "<is> True" }

// volumeMessage is what Cinder tells users of a failure.
type volumeMessage struct {
	id, project, event, text, request, resource string
	created                                     time.Time
}

func newBlocks() blocks {
	return blocks{volumes: map[string]*volume{}, snapshots: map[string]*snapshot{}, quotas: map[string]map[string]int{}}
}

func (c *Cloud) seedBlocks() {
	c.block.service = c.ids.uuid()
	for _, t := range c.cfg.VolumeTypes {
		k := &volumeKind{id: c.ids.uuid(), name: t.Name, specs: map[string]string{}}
		if t.Description != "" {
			k.description = t.Description
		}
		for key, v := range t.ExtraSpecs {
			k.specs[key] = v
		}
		c.block.kinds = append(c.block.kinds, k)
	}
}

func volumeRoutes() []route {
	routes := []route{
		{method: "GET", pattern: "/", handle: (*Cloud).volumeVersions, open: true},
		{method: "GET", pattern: "/v3", handle: (*Cloud).volumeVersions, open: true},
		{method: "GET", pattern: "/volumes", handle: (*Cloud).volumeList},
		{method: "POST", pattern: "/volumes", handle: (*Cloud).volumeCreate},
		{method: "GET", pattern: "/volumes/detail", handle: (*Cloud).volumeDetail},
		{method: "GET", pattern: "/volumes/summary", handle: (*Cloud).volumeSummary},
		{method: "GET", pattern: "/volumes/{id}", handle: (*Cloud).volumeShow},
		{method: "PUT", pattern: "/volumes/{id}", handle: (*Cloud).volumeUpdate},
		{method: "DELETE", pattern: "/volumes/{id}", handle: (*Cloud).volumeDelete},
		{method: "POST", pattern: "/volumes/{id}/action", handle: (*Cloud).volumeAction},
		{method: "GET", pattern: "/volumes/{id}/metadata", handle: (*Cloud).volumeMetadata},
		{method: "POST", pattern: "/volumes/{id}/metadata", handle: (*Cloud).volumeMetadataAdd},
		{method: "PUT", pattern: "/volumes/{id}/metadata", handle: (*Cloud).volumeMetadataReplace},
		{method: "GET", pattern: "/volumes/{id}/metadata/{key}", handle: (*Cloud).volumeMetadatum},
		{method: "PUT", pattern: "/volumes/{id}/metadata/{key}", handle: (*Cloud).volumeMetadatumSet},
		{method: "DELETE", pattern: "/volumes/{id}/metadata/{key}", handle: (*Cloud).volumeMetadatumDelete},
		{method: "GET", pattern: "/snapshots", handle: (*Cloud).snapshotList},
		{method: "POST", pattern: "/snapshots", handle: (*Cloud).snapshotCreate},
		{method: "GET", pattern: "/snapshots/detail", handle: (*Cloud).snapshotDetail},
		{method: "GET", pattern: "/snapshots/{id}", handle: (*Cloud).snapshotShow},
		{method: "PUT", pattern: "/snapshots/{id}", handle: (*Cloud).snapshotUpdate},
		{method: "DELETE", pattern: "/snapshots/{id}", handle: (*Cloud).snapshotDelete},
		{method: "POST", pattern: "/snapshots/{id}/metadata", handle: (*Cloud).snapshotMetadataAdd},
		{method: "PUT", pattern: "/snapshots/{id}/metadata", handle: (*Cloud).snapshotMetadataReplace},
		{method: "GET", pattern: "/types", handle: (*Cloud).volumeTypeList},
		{method: "GET", pattern: "/types/{id}", handle: (*Cloud).volumeTypeShow},
		{method: "GET", pattern: "/attachments", handle: (*Cloud).attachmentList},
		{method: "GET", pattern: "/messages", handle: (*Cloud).volumeMessages},
		{method: "GET", pattern: "/messages/{id}", handle: (*Cloud).volumeMessage},
		{method: "GET", pattern: "/limits", handle: (*Cloud).volumeLimits},
		{method: "GET", pattern: "/os-quota-sets/{project}", handle: (*Cloud).volumeQuotaShow},
		{method: "GET", pattern: "/os-quota-sets/{project}/defaults", handle: (*Cloud).volumeQuotaDefaults},
		{method: "PUT", pattern: "/os-quota-sets/{project}", handle: (*Cloud).volumeQuotaUpdate},
		{method: "DELETE", pattern: "/os-quota-sets/{project}", handle: (*Cloud).volumeQuotaReset},
		{method: "GET", pattern: "/os-availability-zone", handle: (*Cloud).volumeZones},
	}
	for i := range routes {
		if !routes[i].open {
			routes[i].pattern = "/v3" + routes[i].pattern
		}
	}
	return routes
}

var projectSegment = regexp.MustCompile(`^/v3/([0-9a-f-]+)(/.*)$`)

// scopeVolumePath takes the project out of a path of Cinder, which may name it or not.
func (r *request) scopeVolumePath() {
	if m := projectSegment.FindStringSubmatch(r.path); m != nil {
		r.path, r.scope = "/v3"+m[2], m[1]
	}
}

// errMalformed is what Cinder says of a request that it can't make sense of.
var errMalformed = &refusal{status: 400, message: "The server could not comply with the request since it is either malformed or otherwise incorrect."}

// admitVolume checks what Cinder asks of each request beyond a token.
func (c *Cloud) admitVolume(r *request, rt route) error {
	if h := r.http.Header.Get("OpenStack-API-Version"); h != "" && !strings.Contains(h, "volume") {
		return errMalformed
	}
	if err := r.speak("volume", "", 3, 0, maxVolumeVersion); err != nil {
		return err
	}
	if !rt.open && r.scope != "" && r.scope != r.token.project.id {
		return refuse(400, "Malformed request url")
	}
	return nil
}

func (c *Cloud) volumeVersions(r *request) (answer, error) {
	status := http.StatusMultipleChoices
	if r.path == "/v3" {
		status = http.StatusOK
	}
	return answer{status: status, body: doc{"versions": []any{doc{"id": "v3.0", "status": "CURRENT", "version": "3.70", "min_version": "3.0", "updated": "2022-08-31T00:00:00Z",
		"links":       []any{doc{"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/"}, doc{"rel": "self", "href": r.base + "/volume/v3/"}},
		"media-types": []any{doc{"base": "application/json", "type": "application/vnd.openstack.volume+json;version=3"}}}}}}, nil
}

func (r *request) volumeLinks(kind, id string) []any {
	path := r.token.projectID() + "/" + kind + "/" + id
	return []any{doc{"rel": "self", "href": r.base + "/volume/v3/" + path}, doc{"rel": "bookmark", "href": r.base + "/volume/" + path}}
}

// projectID is the project that the token is for; empty without one.
func (t *token) projectID() string {
	if t.project == nil {
		return ""
	}
	return t.project.id
}

// stampV is a time as Cinder writes it, nil for none.
func stampV(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000")
}

func (c *Cloud) kindNamed(ref string) *volumeKind {
	i := slices.IndexFunc(c.block.kinds, func(k *volumeKind) bool { return k.id == ref || k.name == ref })
	if i < 0 {
		return nil
	}
	return c.block.kinds[i]
}

func volumeTypeDoc(k *volumeKind, access bool) doc {
	d := doc{"id": k.id, "name": k.name, "is_public": true, "description": k.description, "extra_specs": k.specs}
	if access {
		d["os-volume-type-access:is_public"] = true
	}
	return d
}

func (c *Cloud) volumeTypeList(r *request) (answer, error) {
	kinds := slices.Clone(c.block.kinds)
	ids := make([]string, len(kinds))
	for i, k := range kinds {
		ids[i] = k.id
	}
	from, to, next, err := r.volumePage(ids, "Volume type")
	if err != nil {
		return answer{}, err
	}
	items := []any{}
	for _, k := range kinds[from:to] {
		items = append(items, volumeTypeDoc(k, true))
	}
	out := doc{"volume_types": items}
	if next != nil {
		out["volume_type_links"] = next
	}
	return ok(out)
}

func (c *Cloud) volumeTypeShow(r *request) (answer, error) {
	id := r.arg("id")
	if id == "default" {
		return ok(doc{"volume_type": volumeTypeDoc(c.block.kinds[0], false)})
	}
	k := c.kindNamed(id)
	if k == nil || k.id != id {
		return answer{}, refuse(404, "Volume type %s could not be found.", id)
	}
	return ok(doc{"volume_type": volumeTypeDoc(k, true)})
}

func (c *Cloud) volumeZones(*request) (answer, error) {
	return ok(doc{"availabilityZoneInfo": []any{doc{"zoneName": volumeZone, "zoneState": doc{"available": true}}}})
}

// volumeZone is Cinder's only availability zone.
const volumeZone = "nova"

// tellUser leaves a message about a resource.
func (c *Cloud) tellUser(project, resource, request, event, text string) {
	c.block.messages = append(c.block.messages, &volumeMessage{id: c.ids.uuid(), project: project, resource: resource, event: event, text: text, request: request, created: c.now()})
}

func (r *request) messageDoc(m *volumeMessage) doc {
	return doc{"id": m.id, "event_id": m.event, "user_message": m.text, "message_level": "ERROR", "created_at": stampV(m.created),
		"guaranteed_until": stampV(m.created.Add(30 * 24 * time.Hour)), "request_id": m.request, "links": r.volumeLinks("messages", m.id),
		"resource_type": "VOLUME", "resource_uuid": m.resource}
}

func (c *Cloud) volumeMessages(r *request) (answer, error) {
	if r.version < 3 {
		return answer{}, tooOld()
	}
	out := []any{}
	for _, m := range slices.Backward(c.block.messages) {
		if want := r.query.Get("resource_uuid"); m.project == r.token.project.id && (r.version < 5 || want == "" || want == m.resource) {
			out = append(out, r.messageDoc(m))
		}
	}
	return ok(doc{"messages": out})
}

func (c *Cloud) volumeMessage(r *request) (answer, error) {
	if r.version < 3 {
		return answer{}, tooOld()
	}
	for _, m := range c.block.messages {
		if m.id == r.arg("id") && m.project == r.token.project.id {
			return ok(doc{"message": r.messageDoc(m)})
		}
	}
	return answer{}, refuse(404, "Message %s could not be found.", r.arg("id"))
}

// volumePage cuts a sorted list as Cinder does.
func (r *request) volumePage(ids []string, noun string) (from, to int, next []any, err error) {
	limit := 1000
	limited := r.query.Has("limit")
	for _, name := range []string{"limit", "offset"} {
		s := r.query.Get(name)
		if !r.query.Has(name) {
			continue
		}
		n, convErr := strconv.Atoi(s)
		switch {
		case convErr != nil:
			return 0, 0, nil, refuse(400, "%s param must be an integer", name)
		case n < 0:
			return 0, 0, nil, refuse(400, "%s param must be positive", name)
		case name == "limit":
			limit = min(limit, n)
		default:
			from = n
		}
	}
	if marker := r.query.Get("marker"); marker != "" {
		at := slices.Index(ids, marker)
		if at < 0 {
			return 0, 0, nil, refuse(404, "%s %s could not be found.", noun, marker)
		}
		from += at + 1
	}
	from = min(from, len(ids))
	to = min(from+limit, len(ids))
	if to-from == limit && to > from && (limited || to < len(ids)) {
		q := r.http.URL.Query()
		q.Set("marker", ids[to-1])
		next = []any{doc{"rel": "next", "href": r.base + strings.TrimRight(r.http.URL.Path, "/") + "?" + q.Encode()}}
	}
	return from, to, next, nil
}
