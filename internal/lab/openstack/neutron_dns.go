package openstack

import (
	"regexp"
	"strings"
)

var dnsLabel = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$`)

// checkDNS wants a name of DNS, whole or a part of one.
func checkDNS(v any) (any, error) {
	s, isText := v.(string)
	if !isText {
		return nil, invalidInput("Input value " + pythonText(v) + " must be string type")
	}
	if s == "" {
		return s, nil
	}
	for _, label := range strings.Split(strings.TrimSuffix(s, "."), ".") {
		if !dnsLabel.MatchString(label) {
			return nil, says("'%s' not a valid PQDN or FQDN. Reason: Name '%s' must be 1-63 characters long, each of which can only be alphanumeric or a hyphen", s, label)
		}
	}
	return s, nil
}

// dnsDomain is what the names of ports end in.
const dnsDomain = "lab.example."

// checkHostName wants the name of a port; a whole one has to lie in the cloud's domain.
func checkHostName(v any) (any, error) {
	s, err := checkDNS(v)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(s.(string), ".") && !strings.HasSuffix(s.(string), "."+dnsDomain) {
		return nil, says("The dns_name passed is a FQDN. Its higher level labels must be equal to the dns_domain option in neutron.conf, "+
			"that has been set to '%s'. It must also include one or more valid DNS labels to the left of '%s'", dnsDomain, dnsDomain)
	}
	return s, nil
}

// checkFQDN wants a whole name.
func checkFQDN(v any) (any, error) {
	s, err := checkDNS(v)
	if err == nil && s != "" && !strings.HasSuffix(s.(string), ".") {
		return nil, says("'%s' is not a FQDN", s)
	}
	return s, err
}
