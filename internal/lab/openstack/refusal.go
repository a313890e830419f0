package openstack

import (
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"
)

// renderRefusal writes an error as the service that was asked writes it.
func renderRefusal(r *request, e *refusal) answer {
	if r.s3 {
		return s3Answer(r, e)
	}
	a := answer{status: e.status, header: e.header}
	if e.status == http.StatusUnauthorized {
		a.body = keystoneError(e)
		return a
	}
	switch r.service {
	case "identity":
		a.body = keystoneError(e)
	case "compute":
		a.body = novaError(e)
		a.header = a.header.Clone()
		if a.header == nil {
			a.header = http.Header{}
		}
		a.header.Set("Content-Type", "application/json; charset=UTF-8")
	case "volume":
		a = cinderError(a, e)
	case "network":
		kind := e.kind
		if kind == "" {
			kind = neutronKind(e.status)
		}
		a.body = doc{"NeutronError": doc{"type": kind, "message": e.message, "detail": ""}}
	case "image":
		a = glanceError(a, e, r.http.Header.Get("Accept"))
	case "object-store":
		page, kind := swiftError(e)
		a.body, a.header = page, http.Header{"Content-Type": {kind}}
	case "load-balancer":
		a.body = octaviaError(e)
		if _, isText := a.body.([]byte); isText {
			a.header = http.Header{"Content-Type": {"text/plain; charset=UTF-8"}}
		}
	default:
		a.body = doc{"error": e.message}
	}
	return a
}

func keystoneError(e *refusal) doc {
	return doc{"error": doc{"code": e.status, "message": e.message, "title": http.StatusText(e.status)}}
}

func novaError(e *refusal) doc {
	name := "computeFault"
	switch e.status {
	case 400:
		name = "badRequest"
	case 401:
		name = "unauthorized"
	case 403:
		name = "forbidden"
	case 404:
		name = "itemNotFound"
	case 405:
		name = "badMethod"
	case 409:
		name = "conflictingRequest"
	case 413, 429:
		name = "overLimit"
	case 415:
		name = "badMediaType"
	case 501:
		name = "notImplemented"
	case 503:
		name = "serviceUnavailable"
	}
	return doc{name: doc{"code": e.status, "message": e.message}}
}

// cinderError is Nova's form, but for a path that Cinder doesn't know, with the time to wait in it.
func cinderError(a answer, e *refusal) answer {
	if e.kind == "HTTPNotFound" || e.kind == "HTTPMethodNotAllowed" {
		a.status, a.body = 404, []byte("404 Not Found\n\nThe resource could not be found.\n\n   ")
		a.header = http.Header{"Content-Type": {"text/plain; charset=UTF-8"}}
		return a
	}
	body := novaError(e)
	if wait := e.header.Get("Retry-After"); wait != "" {
		for _, v := range body {
			v.(doc)["retryAfter"] = wait
		}
	}
	a.body = body
	return a
}

func neutronKind(status int) string {
	switch status {
	case 400:
		return "HTTPBadRequest"
	case 403:
		return "PolicyNotAuthorized"
	case 404:
		return "HTTPNotFound"
	case 405:
		return "HTTPMethodNotAllowed"
	case 409:
		return "Conflict"
	}
	return "HTTPInternalServerError"
}

// glanceError is what WebOb makes of an exception: JSON, a page or plain text, as is asked for.
func glanceError(a answer, e *refusal, accept string) answer {
	title := strconv.Itoa(e.status) + " " + http.StatusText(e.status)
	if a.header = a.header.Clone(); a.header == nil {
		a.header = http.Header{}
	}
	message := html.EscapeString(e.message)
	message = strings.ReplaceAll(message, html.EscapeString("<br /><br />"), "<br /><br />")
	switch {
	case strings.Contains(accept, "application/json"):
		a.body = doc{"message": message + "<br /><br />\n\n\n", "code": title, "title": http.StatusText(e.status)}
		a.header.Set("Content-Type", "application/json")
	case strings.Contains(accept, "html") || strings.Contains(accept, "*/*"):
		a.body = []byte("<html>\n <head>\n  <title>" + title + "</title>\n </head>\n <body>\n  <h1>" + title + "</h1>\n  " + message + "<br /><br />\n\n\n </body>\n</html>")
		a.header.Set("Content-Type", "text/html; charset=UTF-8")
	default:
		a.body = []byte(title + "\n\n" + strings.ReplaceAll(e.message, "<br /><br />", "\n") + "\n\n   ")
		a.header.Set("Content-Type", "text/plain; charset=UTF-8")
	}
	return a
}

// unauthorized is what the token middleware in front of each service answers.
func (c *Cloud) unauthorized(r *request) error {
	return &refusal{status: 401, message: "The request you have made requires authentication.",
		header: http.Header{"Www-Authenticate": {`Keystone uri="` + r.base + `/identity"`}}}
}

func forbidden(r *request, action string) error {
	switch r.service {
	case "identity":
		return refuse(403, "You are not authorized to perform the requested action: %s.", action)
	case "compute", "volume":
		return refuse(403, "Policy doesn't allow %s to be performed.", action)
	case "network":
		return &refusal{status: 403, kind: "PolicyNotAuthorized", message: "rule:" + action + " is disallowed by policy"}
	}
	return refuse(403, "You are not authorized to complete %s action.", action)
}

// forbiddenField refuses an attribute of Neutron's that the caller may not send.
func forbiddenField(action, attribute string) error {
	return refuseAs(403, "PolicyNotAuthorized", "(rule:"+action+" and rule:"+action+":"+attribute+") is disallowed by policy")
}

// said is a text of an API, in its own words.
type said string

func (s said) Error() string { return string(s) }

func says(format string, args ...any) error { return said(fmt.Sprintf(format, args...)) }
