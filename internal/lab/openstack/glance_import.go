package openstack

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"
)

func (c *Cloud) importInfo(*request) (answer, error) {
	return ok(doc{"import-methods": doc{"description": "Import methods available.", "type": "array", "value": anyOf(c.cfg.ImportMethods)}})
}

// imageStage takes data that an import is to make the image's own.
func (c *Cloud) imageStage(r *request) (answer, error) {
	data, err := io.ReadAll(r.http.Body)
	if err != nil {
		return answer{}, refuse(400, "The request body could not be read.")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance()
	if err := c.admit(r, route{}); err != nil {
		return answer{}, err
	}
	m, err := c.findImage(r, "stage_image", true)
	if err != nil {
		return answer{}, err
	}
	if m.status != "queued" {
		return answer{}, refuse(409, "Image status transition from %s to uploading is not allowed", m.status)
	}
	m.status, m.staged, m.updated = "uploading", data, c.now()
	return noContent()
}

// imageImport makes staged data, or what lies at a URL, the image's own.
func (c *Cloud) imageImport(r *request) (answer, error) {
	var in doc
	if json.Unmarshal(r.body, &in) != nil || object(in, "method") == nil {
		return answer{}, refuse(400, "Import request requires a 'method' field.")
	}
	method := object(in, "method")
	name := str(method, "name")
	if !slices.Contains(c.cfg.ImportMethods, name) {
		return answer{}, refuse(400, "Unknown import method name '%s'.", name)
	}
	m, err := c.findImage(r, "import_image", true)
	if err != nil {
		return answer{}, err
	}
	switch {
	case m.diskFormat == nil:
		return answer{}, refuse(400, "'disk_format' needs to be set before import")
	case m.containerFormat == nil:
		return answer{}, refuse(400, "'container_format' needs to be set before import")
	case name == "glance-direct" && m.status != "uploading":
		return answer{}, refuse(409, "Image needs to be staged before 'glance-direct' method can be used")
	case name == "web-download" && m.status != "queued":
		return answer{}, refuse(409, "Image needs to be in 'queued' state to use 'web-download' method")
	}
	m.props["os_glance_importing_to_stores"], m.props["os_glance_failed_import"] = "", ""
	m.status, m.updated = "importing", c.now()
	if name == "glance-direct" {
		c.after(c.cfg.BootDelay/3, func() { m.take(c, m.staged) })
		return answer{status: 202}, nil
	}
	from, err := url.Parse(str(method, "uri"))
	if err != nil || from.Scheme != "http" && from.Scheme != "https" {
		m.status = "queued"
		return answer{}, refuse(400, "URI for web-download does not pass filtering: %s", str(method, "uri"))
	}
	c.inFlight.Add(1)
	go func() {
		defer c.inFlight.Done()
		data, err := c.download(from)
		c.mu.Lock()
		defer c.mu.Unlock()
		if m.status != "importing" {
			return
		}
		if err != nil {
			m.status, m.updated = "queued", c.now() // why is in a task, which users can't always see
			return
		}
		m.take(c, data)
	}()
	return answer{status: 202}, nil
}

// take makes data the image's own.
func (m *image) take(c *Cloud, data []byte) {
	h := newHashes()
	h.Write(data)
	m.activate(data, h, c.now())
	m.staged = nil
}

// download fetches what is to be imported, from this machine only.
func (c *Cloud) download(from *url.URL) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
			return nil, fmt.Errorf("%s isn't on loopback", address)
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", from, resp.Status)
	}
	return io.ReadAll(resp.Body)
}
