package cloudproxy

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

// describe begins the log's entry of a request.
func (p *Proxy) describe(c *call, start time.Time) openstack.Request {
	q := openstack.Request{Time: start.UTC(), Service: c.to.name, Method: c.http.Method, Path: c.http.URL.RequestURI(), Microversion: microversion(c)}
	p.mu.Lock()
	who := p.tokens[c.http.Header.Get("X-Auth-Token")]
	p.mu.Unlock()
	q.User, q.Project = who.user, who.project
	if c.http.Method == http.MethodPost && strings.HasSuffix(c.path, "/action") {
		var body map[string]json.RawMessage
		if json.Unmarshal(c.body, &body) == nil && len(body) == 1 {
			for action := range body {
				q.Action = action
			}
		}
	}
	return q
}

// microversion is the one that the request asks for.
func microversion(c *call) string {
	if v := c.http.Header.Get("X-Openstack-Nova-Api-Version"); v != "" && c.to.name == "compute" {
		return v
	}
	_, v, _ := strings.Cut(c.http.Header.Get("Openstack-Api-Version"), " ")
	return v
}

// learn takes from an answer what later requests need, and takes out of it
// what isn't to be seen.
func (p *Proxy) learn(c *call, a *reply) {
	switch {
	case a.status >= 300 || a.body == nil && a.stream == nil:
	case c.to.name == "identity" && c.path == "/v3/auth/tokens" && c.http.Method == http.MethodPost:
		p.learnToken(a)
	case c.http.Method == http.MethodPost:
		p.conceal(c, a)
	case c.http.Method == http.MethodGet:
		p.leaveOut(a)
	}
}

func (p *Proxy) learnToken(a *reply) {
	var in struct {
		Token struct{ User, Project struct{ Name string } }
	}
	if json.Unmarshal(a.body, &in) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tokens[a.header.Get("X-Subject-Token")] = caller{in.Token.User.Name, in.Token.Project.Name}
}

// expire makes a token invalid.
func (p *Proxy) expire(token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.tokens, token)
	p.lost[token] = true
}

func (p *Proxy) isLost(token string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return token != "" && p.lost[token]
}

// conceal hides what a request has created from lists, if a fault or a lag
// says so.
func (p *Proxy) conceal(c *call, a *reply) {
	var out map[string]any
	if json.Unmarshal(a.body, &out) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	lag := p.lag[""]
	if c.fault != nil {
		lag = max(lag, time.Duration(c.fault.HideMS)*time.Millisecond)
	}
	hide := func(kind string, made map[string]any) {
		id, ok := made["id"].(string)
		if lag := max(lag, p.lag[kind]); ok && lag > 0 {
			p.hidden[id] = time.Now().Add(lag)
		}
	}
	if c.to.name == "image" {
		hide("image", out)
		return
	}
	for kind, v := range out {
		switch v := v.(type) {
		case map[string]any:
			hide(kind, v)
		case []any: // several at once
			for _, one := range v {
				if made, ok := one.(map[string]any); ok {
					hide(strings.TrimSuffix(kind, "s"), made)
				}
			}
		}
	}
}

// leaveOut takes hidden resources out of a list.
func (p *Proxy) leaveOut(a *reply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, until := range p.hidden {
		if time.Now().After(until) {
			delete(p.hidden, id)
		}
	}
	if len(p.hidden) == 0 {
		return
	}
	var out map[string]any
	numbers := json.NewDecoder(bytes.NewReader(a.body))
	numbers.UseNumber()
	if numbers.Decode(&out) != nil {
		return
	}
	changed := false
	for kind, v := range out {
		list, ok := v.([]any)
		if !ok {
			continue
		}
		shown := []any{}
		for _, one := range list {
			if d, ok := one.(map[string]any); ok {
				if id, ok := d["id"].(string); ok && !p.hidden[id].IsZero() {
					changed = true
					continue
				}
			}
			shown = append(shown, one)
		}
		out[kind] = shown
	}
	if body, err := json.Marshal(out); err == nil && changed {
		a.body = body
	}
}

// spoil has the server that the request creates end in ERROR: the lab's fake
// hypervisors and volumes look for that in the metadata.
func (c *call) spoil() {
	fail := map[string]string{"server": "spawn", "volume": "create"}
	var in map[string]map[string]any
	if json.Unmarshal(c.body, &in) != nil {
		return
	}
	for kind, how := range fail {
		made := in[kind]
		if made == nil {
			continue
		}
		metadata, _ := made["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
		}
		metadata["lab_fail"] = how
		made["metadata"] = metadata
		if body, err := json.Marshal(in); err == nil {
			c.body = body
		}
	}
}
