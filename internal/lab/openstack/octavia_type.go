package openstack

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// lbAttribute is one field of a part: who may send it when, its default and its check.
type lbAttribute struct {
	name      string
	post, put bool
	required  bool // in a POST
	fallback  any  // of a create that doesn't send it
	reset     any  // what a PUT of null makes of it, if that isn't null
	check     lbCheck
}

// lbCheck converts a value; the error's text is Octavia's reason. A badBody is about the whole body.
type lbCheck func(any) (any, error)

type badBody struct{ error }

func lbText(high int) lbCheck {
	return func(v any) (any, error) {
		s, isText := v.(string)
		if !isText {
			return nil, says("Value should be string")
		}
		if len(s) > high {
			return nil, says("Value should have a maximum character requirement of %d", high)
		}
		return s, nil
	}
}

func lbPattern(high int, pattern string) lbCheck {
	form := regexp.MustCompile(pattern)
	return func(v any) (any, error) {
		s, err := lbText(high)(v)
		if err == nil && !form.MatchString(s.(string)) {
			err = says("Value should match the pattern %s", pattern)
		}
		return s, err
	}
}

func lbInt(low, high int) lbCheck {
	return func(v any) (any, error) {
		n, valid := integer(v)
		switch {
		case !valid:
			return nil, badBody{fmt.Errorf("invalid literal for int() with base 10: %s", python(v))}
		case n < low:
			return nil, says("Value should be greater or equal to %d", low)
		case n > high:
			return nil, says("Value should be lower or equal to %d", high)
		}
		return n, nil
	}
}

func lbBool(v any) (any, error) {
	b, valid := parseBool(v)
	if !valid {
		return nil, badBody{says("Value not an unambiguous boolean: %v", v)}
	}
	return b, nil
}

func lbEnum(words ...string) lbCheck {
	return func(v any) (any, error) {
		if s, isText := v.(string); isText && slices.Contains(words, s) {
			return s, nil
		}
		return nil, says("Value should be one of: %s", strings.Join(words, ", "))
	}
}

func lbUUID(v any) (any, error) {
	if s, isText := v.(string); isText && uuidForm.MatchString(s) {
		return s, nil
	}
	return nil, says("Value should be UUID format")
}

func lbAddress(v any) (any, error) {
	s, _ := v.(string)
	if _, err := netip.ParseAddr(s); err != nil {
		return nil, says("Value should be IPv4 or IPv6 format")
	}
	return s, nil
}

func lbCIDR(v any) (any, error) {
	s, _ := v.(string)
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()).String(), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return nil, says("Value should be IPv4 or IPv6 CIDR format")
	}
	return p.Masked().String(), nil
}

func lbURLPath(v any) (any, error) {
	if s, isText := v.(string); isText && strings.HasPrefix(s, "/") {
		return s, nil
	}
	return nil, says("Value must be a valid URL Path string")
}

func lbVersion(v any) (any, error) {
	if n, isNumber := v.(float64); isNumber && (n == 1 || n == 1.1) {
		return n, nil
	}
	return nil, says("Value should be one of: 1.0, 1.1")
}

func lbList(each lbCheck) lbCheck {
	return func(v any) (any, error) {
		l, isList := v.([]any)
		if !isList {
			return nil, badBody{says("Value not a valid list: %v", v)}
		}
		out := []any{}
		for _, x := range l {
			y, err := each(x)
			if err != nil {
				return nil, err
			}
			out = append(out, y)
		}
		return out, nil
	}
}

func lbObject(v any) (any, error) {
	if o, isObject := v.(doc); isObject {
		return o, nil
	}
	return nil, badBody{says("Value not a valid dict: %v", v)}
}

// lbPersistence checks a pool's session persistence.
func lbPersistence(v any) (any, error) {
	o, isObject := v.(doc)
	if !isObject {
		return nil, badBody{says("Value not a valid dict: %v", v)}
	}
	whole := doc{"cookie_name": nil, "persistence_granularity": nil, "persistence_timeout": nil, "type": nil}
	for k, x := range o {
		if _, known := whole[k]; !known {
			return nil, badBody{says("Unknown attribute: %s", k)}
		}
		whole[k] = x
	}
	if kinds := []string{"SOURCE_IP", "HTTP_COOKIE", "APP_COOKIE"}; whole["type"] != nil {
		if _, err := lbEnum(kinds...)(whole["type"]); err != nil {
			return nil, refuse(400, "Invalid input for field/attribute type. Value: '%v'. %s", whole["type"], err.Error())
		}
	}
	return whole, nil
}

const lbMonth = 24 * 24 * 60 * 60 * 1000 // the longest time-out, in ms

var (
	lbName = lbText(255)
	lbTags = lbList(lbText(255))

	balancerAttributes = []lbAttribute{
		{name: "name", post: true, put: true, fallback: "", reset: "", check: lbName},
		{name: "description", post: true, put: true, fallback: "", reset: "", check: lbName},
		{name: "admin_state_up", post: true, put: true, fallback: true, reset: false, check: lbBool},
		{name: "vip_address", post: true, check: lbAddress},
		{name: "vip_port_id", post: true, check: lbUUID},
		{name: "vip_subnet_id", post: true, check: lbUUID},
		{name: "vip_network_id", post: true, check: lbUUID},
		{name: "vip_qos_policy_id", post: true, put: true, check: lbUUID},
		{name: "additional_vips", post: true, fallback: []any{}, check: lbList(lbObject)},
		{name: "project_id", post: true, check: lbText(36)}, {name: "tenant_id", post: true, check: lbText(36)},
		{name: "listeners", post: true, check: lbList(lbObject)},
		{name: "pools", post: true, check: lbList(lbObject)},
		{name: "provider", post: true, fallback: "amphora", check: lbText(64)},
		{name: "tags", post: true, put: true, check: lbTags},
		{name: "flavor_id", post: true, check: lbUUID},
		{name: "availability_zone", post: true, check: lbName},
	}
	listenerProtocols  = []string{"TCP", "HTTPS", "HTTP", "TERMINATED_HTTPS", "UDP", "SCTP", "PROMETHEUS"}
	listenerAttributes = []lbAttribute{
		{name: "name", post: true, put: true, fallback: "", reset: "", check: lbName},
		{name: "description", post: true, put: true, fallback: "", reset: "", check: lbName},
		{name: "admin_state_up", post: true, put: true, fallback: true, reset: false, check: lbBool},
		{name: "protocol", post: true, required: true, check: lbEnum(listenerProtocols...)},
		{name: "protocol_port", post: true, required: true, check: lbInt(1, 65535)},
		{name: "connection_limit", post: true, put: true, fallback: -1, reset: -1, check: lbInt(-1, 1<<31-1)},
		{name: "default_tls_container_ref", post: true, put: true, check: lbName},
		{name: "sni_container_refs", post: true, put: true, fallback: []any{}, reset: []any{}, check: lbList(lbName)},
		{name: "project_id", post: true, check: lbText(36)}, {name: "tenant_id", post: true, check: lbText(36)},
		{name: "default_pool_id", post: true, put: true, check: lbUUID},
		{name: "default_pool", post: true, check: lbObject},
		{name: "l7policies", post: true, check: lbList(lbObject)},
		{name: "insert_headers", post: true, put: true, fallback: doc{}, reset: doc{}, check: lbObject},
		{name: "loadbalancer_id", post: true, required: true, check: lbUUID},
		{name: "timeout_client_data", post: true, put: true, fallback: 50000, reset: 50000, check: lbInt(0, lbMonth)},
		{name: "timeout_member_connect", post: true, put: true, fallback: 5000, reset: 5000, check: lbInt(0, lbMonth)},
		{name: "timeout_member_data", post: true, put: true, fallback: 50000, reset: 50000, check: lbInt(0, lbMonth)},
		{name: "timeout_tcp_inspect", post: true, put: true, fallback: 0, reset: 0, check: lbInt(0, lbMonth)},
		{name: "tags", post: true, put: true, check: lbTags},
		{name: "client_ca_tls_container_ref", post: true, put: true, check: lbName},
		{name: "client_authentication", post: true, put: true, fallback: "NONE", reset: "NONE", check: lbEnum("NONE", "OPTIONAL", "MANDATORY")},
		{name: "client_crl_container_ref", post: true, put: true, check: lbName},
		{name: "allowed_cidrs", post: true, put: true, check: lbList(lbCIDR)},
		{name: "tls_ciphers", post: true, put: true, check: lbText(2048)},
		{name: "tls_versions", post: true, put: true, check: lbList(lbText(32))},
		{name: "alpn_protocols", post: true, put: true, check: lbList(lbEnum("h2", "http/1.1", "http/1.0"))},
	}
	poolAttributes = []lbAttribute{
		{name: "name", post: true, put: true, fallback: "", reset: "", check: lbName},
		{name: "description", post: true, put: true, fallback: "", reset: "", check: lbName},
		{name: "admin_state_up", post: true, put: true, fallback: true, reset: false, check: lbBool},
		{name: "listener_id", post: true, check: lbUUID},
		{name: "loadbalancer_id", post: true, check: lbUUID},
		{name: "protocol", post: true, required: true, check: lbEnum("TCP", "HTTP", "HTTPS", "PROXY", "PROXYV2", "UDP", "SCTP")},
		{name: "lb_algorithm", post: true, put: true, required: true, check: lbEnum("ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP", "SOURCE_IP_PORT")},
		{name: "session_persistence", post: true, put: true, check: lbPersistence},
		{name: "project_id", post: true, check: lbText(36)}, {name: "tenant_id", post: true, check: lbText(36)},
		{name: "healthmonitor", post: true, check: lbObject},
		{name: "members", post: true, check: lbList(lbObject)},
		{name: "tags", post: true, put: true, check: lbTags},
		{name: "tls_container_ref", post: true, put: true, check: lbName},
		{name: "ca_tls_container_ref", post: true, put: true, check: lbName},
		{name: "crl_container_ref", post: true, put: true, check: lbName},
		{name: "tls_enabled", post: true, put: true, fallback: false, reset: false, check: lbBool},
		{name: "tls_ciphers", post: true, put: true, check: lbText(2048)},
		{name: "tls_versions", post: true, put: true, check: lbList(lbText(32))},
		{name: "alpn_protocols", post: true, put: true, check: lbList(lbEnum("h2", "http/1.1", "http/1.0"))},
	}
	memberAttributes = []lbAttribute{
		{name: "name", post: true, put: true, fallback: "", reset: "", check: lbName},
		{name: "admin_state_up", post: true, put: true, fallback: true, reset: false, check: lbBool},
		{name: "address", post: true, required: true, check: lbAddress},
		{name: "protocol_port", post: true, required: true, check: lbInt(1, 65535)},
		{name: "weight", post: true, put: true, fallback: 1, reset: 1, check: lbInt(0, 256)},
		{name: "backup", post: true, put: true, fallback: false, reset: false, check: lbBool},
		{name: "subnet_id", post: true, check: lbUUID},
		{name: "project_id", post: true, check: lbText(36)}, {name: "tenant_id", post: true, check: lbText(36)},
		{name: "monitor_port", post: true, put: true, check: lbInt(1, 65535)},
		{name: "monitor_address", post: true, put: true, check: lbAddress},
		{name: "tags", post: true, put: true, check: lbTags},
	}
	lbCodes           = lbPattern(64, `^(\d{3}(\s*,\s*\d{3})*)$|^(\d{3}-\d{3})$`)
	monitorAttributes = []lbAttribute{
		{name: "name", post: true, put: true, fallback: "", reset: "", check: lbName},
		{name: "type", post: true, required: true, check: lbEnum("HTTP", "HTTPS", "PING", "TCP", "TLS-HELLO", "UDP-CONNECT", "SCTP")},
		{name: "delay", post: true, put: true, required: true, check: lbInt(0, 1<<31-1)},
		{name: "timeout", post: true, put: true, required: true, check: lbInt(0, 1<<31-1)},
		{name: "max_retries_down", post: true, put: true, fallback: 3, reset: 3, check: lbInt(1, 10)},
		{name: "max_retries", post: true, put: true, required: true, check: lbInt(1, 10)},
		{name: "http_method", post: true, put: true, reset: "GET", check: lbEnum("GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "OPTIONS", "PATCH", "CONNECT")},
		{name: "url_path", post: true, put: true, reset: "/", check: lbURLPath},
		{name: "expected_codes", post: true, put: true, reset: "200", check: lbCodes},
		{name: "admin_state_up", post: true, put: true, fallback: true, reset: false, check: lbBool},
		{name: "project_id", post: true, check: lbText(36)}, {name: "tenant_id", post: true, check: lbText(36)},
		{name: "pool_id", post: true, required: true, check: lbUUID},
		{name: "tags", post: true, put: true, check: lbTags},
		{name: "http_version", post: true, put: true, check: lbVersion},
		{name: "domain_name", post: true, put: true, check: lbPattern(255, `^[A-Za-z0-9._-]+$`)},
	}
)
