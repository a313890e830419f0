package openstack

import (
	"encoding/json"
	"strconv"
	"time"
)

// adminRoutes is the lab's own interface, for tests and recipes that run against the lab over HTTP.
func adminRoutes() []route {
	return []route{
		{method: "GET", pattern: "/requests", handle: (*Cloud).adminRequests, streams: true},
		{method: "GET", pattern: "/faults", handle: (*Cloud).adminFaults, streams: true},
		{method: "POST", pattern: "/faults", handle: (*Cloud).adminInject, streams: true},
		{method: "DELETE", pattern: "/faults", handle: (*Cloud).adminClear, streams: true},
		{method: "DELETE", pattern: "/faults/{id}", handle: (*Cloud).adminClear, streams: true},
		{method: "POST", pattern: "/lag", handle: (*Cloud).adminLag, streams: true},
		{method: "POST", pattern: "/tokens/expire", handle: (*Cloud).adminExpire, streams: true},
		{method: "GET", pattern: "/state", handle: (*Cloud).adminState, streams: true},
		{method: "GET", pattern: "/topology", handle: (*Cloud).adminTopology, streams: true},
	}
}

func (c *Cloud) adminRequests(r *request) (answer, error) {
	since := 0
	if s := r.query.Get("since"); s != "" {
		var err error
		if since, err = strconv.Atoi(s); err != nil {
			return answer{}, refuse(400, "since is a number, not %q", s)
		}
	}
	return ok(doc{"requests": c.Requests(since)})
}

func (c *Cloud) adminFaults(*request) (answer, error) { return ok(doc{"faults": c.Faults()}) }

func (c *Cloud) adminInject(r *request) (answer, error) {
	var f Fault
	d := json.NewDecoder(r.http.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return answer{}, refuse(400, "decoding the fault: %v", err)
	}
	id, err := c.Inject(f)
	if err != nil {
		return answer{}, refuse(400, "%v", err)
	}
	return created(doc{"id": id})
}

func (c *Cloud) adminClear(r *request) (answer, error) {
	removed := c.ClearFaults(r.arg("id"))
	if r.arg("id") != "" && removed == 0 {
		return answer{}, refuse(404, "there is no fault %q", r.arg("id"))
	}
	return ok(doc{"removed": removed})
}

func (c *Cloud) adminLag(r *request) (answer, error) {
	var in struct {
		Kind string `json:"kind"`
		MS   int    `json:"ms"`
	}
	if err := json.NewDecoder(r.http.Body).Decode(&in); err != nil {
		return answer{}, refuse(400, "decoding the lag: %v", err)
	}
	c.SetLag(in.Kind, time.Duration(in.MS)*time.Millisecond)
	return noContent()
}

func (c *Cloud) adminExpire(*request) (answer, error) {
	c.ExpireTokens()
	return noContent()
}

func (c *Cloud) adminState(r *request) (answer, error) {
	return ok(c.State(r.flag("normalize")))
}

func (c *Cloud) adminTopology(*request) (answer, error) { return ok(c.Topology()) }
