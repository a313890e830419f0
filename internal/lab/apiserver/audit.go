package apiserver

import (
	"bytes"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Request is one request that the API server answered, out of its audit log.
type Request struct {
	User        string
	Verb        string // get, list, watch, create, update, patch, delete, deletecollection
	URI         string
	Group       string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	Code        int
	DryRun      bool
}

// Writes reports whether the request was meant to change something.
func (r Request) Writes() bool {
	if r.DryRun {
		return false
	}
	switch r.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		// Asking what one may do is a create that stores nothing.
		return r.Group != "authorization.k8s.io" && r.Group != "authentication.k8s.io"
	}
	return false
}

// Requests returns what users other than the lab's own parts asked of the API server, in the
// order in which it answered. The last ones may come a moment after their answers.
func (c *Cluster) Requests() ([]Request, error) {
	text, err := os.ReadFile(filepath.Join(c.dir, "audit.log"))
	if err != nil {
		return nil, fault.Wrap("reading", "the audit log", err)
	}
	return parseAudit(text)
}

func parseAudit(text []byte) ([]Request, error) {
	var requests []Request
	for _, line := range bytes.Split(text, []byte("\n")) {
		var event struct {
			Stage      string
			RequestURI string
			Verb       string
			User       struct{ Username string }
			ObjectRef  struct{ APIGroup, Resource, Subresource, Namespace, Name string }
			Response   struct{ Code int } `json:"responseStatus"`
		}
		// The last line may be half written.
		if json.Unmarshal(line, &event) != nil || event.Stage != "ResponseComplete" {
			continue
		}
		switch event.User.Username {
		case ControlUser, managerUser, "system:apiserver":
			continue
		}
		requests = append(requests, Request{
			User: event.User.Username, Verb: event.Verb, URI: event.RequestURI,
			Group: event.ObjectRef.APIGroup, Resource: event.ObjectRef.Resource, Subresource: event.ObjectRef.Subresource,
			Namespace: event.ObjectRef.Namespace, Name: event.ObjectRef.Name,
			Code: event.Response.Code, DryRun: dryRun(event.RequestURI),
		})
	}
	return requests, nil
}

func dryRun(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && u.Query().Has("dryRun")
}
