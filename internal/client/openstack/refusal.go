package openstack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// translate returns err, which a call to s ended with, as a fault:
//
//	400, 405, 406, 415, 422, 501   Invalid; Conflict for a volume whose state doesn't allow it
//	401, 403                       Denied; Quota where the text speaks of one; Unavailable for a token just renewed
//	404, 410                       NotFound
//	409, 423                       Conflict; Quota for OverQuota and used-up address ranges; Exists, Invalid or Denied for
//	                               what won't go away by itself: see lasting
//	413                            Quota
//	429, 503, other 5xx            Unavailable, with the Retry-After asked for
//	a certificate                  Untrusted
//	no connection, a broken one    Unreachable
//	the end of ctx                 its cause's kind, else Timeout or Cancelled
//
// The text holds the API's own message and the request's id.
func translate(ctx context.Context, s Service, err error) *fault.Error {
	if cerr := fault.FromContext(ctx); cerr != nil {
		var f *fault.Error
		if errors.As(cerr, &f) {
			return f
		}
	}
	var f *fault.Error
	if errors.As(err, &f) {
		return f
	}
	var code gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &code) {
		return refusal(s, code)
	}
	return broken(s, err)
}

// refusal translates an answer that says no.
func refusal(s Service, e gophercloud.ErrUnexpectedResponseCode) *fault.Error {
	kindName, message := apiMessage(e.Body)
	if message == "" {
		message = http.StatusText(e.Actual)
	}
	f := &fault.Error{Kind: kindOf(s, e.Actual, kindName, message)}
	if s == Identity && e.Actual == http.StatusNotFound && e.Method == http.MethodPost && strings.Contains(e.URL, "/auth/tokens") && strings.HasPrefix(message, "Could not find") {
		f.Kind = fault.Denied // an application credential, or its project, that has gone
	}
	id := e.ResponseHeader.Get("X-Openstack-Request-Id")
	if id == "" {
		id = e.ResponseHeader.Get("X-Compute-Request-Id")
	}
	where := e.Method
	if u, err := url.Parse(e.URL); err == nil {
		where += " " + u.Path
	}
	if id != "" {
		where += ", request " + id
	}
	f.Err = fmt.Errorf("%s answered %d: %s (%s)", title(s), e.Actual, message, where)
	f.After = fault.RetryAfter(e.ResponseHeader.Get("Retry-After"), e.ResponseHeader.Get("Date"))
	if e.Actual == http.StatusTooManyRequests {
		f.Err = notDone{f.Err}
	}
	switch {
	case f.Kind == fault.Quota:
		f.Hint = "see what is used and allowed with cloud.limits() or `openstack quota show --usage`; delete what isn't needed, or ask for more"
		if strings.Contains(kindName, "IpAddress") {
			f.Hint = "the address range is used up: release addresses, or widen the subnet's pools"
		}
	case e.Actual == http.StatusUnauthorized:
		f.Hint = "the login isn't accepted any more: renew the credentials"
	case e.Actual == http.StatusForbidden:
		f.Hint = "the login's roles don't allow it: ask for a role that does"
	case isLocked(s, message):
		f.Hint = "`openstack server unlock` lets it be changed again, unless whoever locked it had a reason"
	case e.Actual == http.StatusNotAcceptable:
		f.Hint = "the cloud is older than this call needs; see the microversions of the module"
	}
	return f
}

// kindOf returns the kind for a service's status, the exception's name (Neutron)
// and the message.
func kindOf(s Service, status int, name, message string) fault.Kind {
	quota := name == "OverQuota" || strings.Contains(strings.ToLower(message), "quota exceeded") || strings.HasPrefix(message, "Quota has been met") ||
		strings.Contains(message, "exceeded its quota") || strings.Contains(strings.ToLower(message), "exceeds quota")
	switch status {
	case http.StatusUnauthorized:
		return fault.Denied
	case http.StatusBadRequest:
		// Cinder's way of saying that the state of a volume doesn't allow it now; Nova passes it on.
		message = strings.TrimPrefix(message, "Invalid input received: ")
		if strings.HasPrefix(message, "Invalid volume: ") || strings.HasPrefix(message, "Invalid snapshot: ") {
			return fault.Conflict
		}
	case http.StatusForbidden:
		if quota {
			return fault.Quota
		}
		return fault.Denied
	case http.StatusNotFound, http.StatusGone:
		return fault.NotFound
	case http.StatusConflict, http.StatusLocked:
		if quota || name == "IpAddressGenerationFailure" || name == "ExternalIpAddressExhausted" {
			return fault.Quota
		}
		if k := lasting(s, name, message); k != "" {
			return k
		}
		return fault.Conflict
	case http.StatusRequestEntityTooLarge:
		return fault.Quota
	case http.StatusTooManyRequests:
		return fault.Unavailable
	case http.StatusNotImplemented:
		return fault.Invalid
	}
	if status >= 500 {
		return fault.Unavailable
	}
	return fault.Invalid
}

// lasting returns the kind of a conflict that stays one however often it is
// tried: something of the name is there, or what is asked for contradicts itself
// or what is there. It is "" where something is in use or being changed.
func lasting(s Service, name, message string) fault.Kind {
	switch name {
	case "OverlappingAllocationPools", "GatewayConflictWithAllocationPools", "AddressPairAndPortSecurityRequired", "PortSecurityPortHasSecurityGroup",
		"SecurityGroupCannotRemoveDefault", "SecurityGroupCannotUpdateDefault", "DuplicateSecurityGroupRuleInPost", "UnsupportedPortDeviceOwner", "DeviceIDNotOwnedByTenant",
		"InvalidSharedSetting", "InvalidQuotaValue", "AddressScopePrefixConflict", "AddressScopeConflict", "PortUnreachableRouter":
		return fault.Invalid
	case "SecurityGroupRuleExists", "SecurityGroupDefaultAlreadyExists":
		return fault.Exists
	}
	switch {
	case s == Identity: // it knows no other conflict than a name that is taken
		return fault.Exists
	case isLocked(s, message):
		return fault.Denied
	case s == Compute && strings.HasSuffix(message, "already exists."), s == LoadBalancer && strings.Contains(strings.ToLower(message), "already "):
		return fault.Exists
	case s == Compute && (strings.HasPrefix(message, "Multiple security groups found") || strings.HasPrefix(message, "More than one possible network found") ||
		strings.HasPrefix(message, "Can not add access to a public flavor")):
		return fault.Invalid
	}
	return ""
}

// isLocked reports whether somebody locked a server.
func isLocked(s Service, message string) bool {
	return s == Compute && strings.HasPrefix(message, "Instance ") && strings.HasSuffix(message, " is locked")
}

var (
	htmlTag    = regexp.MustCompile(`(?s)<(head|title|h1)>.*?</(head|title|h1)>|<[^>]*>`)
	whitespace = regexp.MustCompile(`\s+`)
)

// apiMessage returns the message of an error's body, and the exception's name
// where the API gives it. The forms are {"badRequest": {"message": ...}}
// (Nova), {"faultstring": ...} (Octavia), {"error": {"message": ...}} (Keystone), {"NeutronError": {"type":
// ..., "message": ...}} or a text, and a page of HTML (Glance).
func apiMessage(body []byte) (name, message string) {
	var obj map[string]any
	if err := json.Unmarshal(body, &obj); err == nil {
		for _, key := range []string{"message", "faultstring"} {
			if s, ok := obj[key].(string); ok {
				return "", plain(s) // Glance puts what is for a page into it
			}
		}
		for _, v := range obj {
			switch v := v.(type) {
			case string:
				message = v
			case map[string]any:
				if s, ok := v["message"].(string); ok {
					message = s
					name, _ = v["type"].(string)
					if d, _ := v["detail"].(string); d != "" && !strings.HasPrefix(d, "Traceback") {
						message += " " + d
					}
				}
			}
		}
		return name, clip(message)
	}
	return "", plain(string(body))
}

// plain makes a page, or a part of one, a message.
func plain(s string) string { return clip(html.UnescapeString(htmlTag.ReplaceAllString(s, " "))) }

// clip makes a message one line of bearable length.
func clip(s string) string {
	s = strings.TrimSpace(whitespace.ReplaceAllString(s, " "))
	if r := []rune(s); len(r) > 500 {
		s = string(r[:500]) + "..."
	}
	return s
}

// notDone marks the error of a call that certainly changed nothing.
type notDone struct{ error }

func (n notDone) Unwrap() error { return n.error }

// Lost reports whether a call that ended with err may have taken effect all
// the same: the connection broke after it was sent, no answer came in time, or
// the service failed in the middle of it. What a rate limit stopped didn't,
// nor did what was never sent.
func Lost(err error) bool {
	switch fault.KindOf(err) {
	case fault.Unreachable, fault.Unavailable:
		var n notDone
		return !errors.As(err, &n)
	}
	return false
}

// tooSlow is the fault of a service that doesn't answer a call in time.
func tooSlow(s Service, limit time.Duration) error {
	return fault.Hinted(fault.Unavailable, "api_timeout of the cloud's entry in clouds.yaml gives it more seconds", "%s didn't answer within %s", title(s), limit)
}

// broken translates the failure of a connection.
func broken(s Service, err error) *fault.Error {
	f := &fault.Error{Kind: fault.Unreachable}
	var cert *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var ue *url.Error
	cause := err
	where := ""
	if errors.As(err, &ue) {
		cause = ue.Err
		if u, perr := url.Parse(ue.URL); perr == nil {
			where = " at " + u.Host
		}
	}
	switch {
	case errors.As(err, &cert) || errors.As(err, &authority) || errors.As(err, &host):
		f.Kind = fault.Untrusted
		f.Hint = "name the cloud's certificate authority in cacert of clouds.yaml"
	case strings.Contains(cause.Error(), "server gave HTTP response to HTTPS client"):
		f.Kind = fault.Invalid
		f.Hint = "the address says https, and the service speaks http"
	}
	f.Err = fmt.Errorf("calling %s%s: %w", title(s), where, cause)
	var dial *net.OpError
	if errors.As(cause, &dial) && dial.Op == "dial" {
		f.Err = notDone{f.Err}
	}
	return f
}
