package openstack

import (
	"net/url"
	"slices"
	"strings"
)

// A Service is an API of the cloud, by the name that the service types
// authority gives it: see https://service-types.openstack.org/
type Service string

// The services that calls can go to.
const (
	Identity      Service = "identity"
	Compute       Service = "compute"
	Network       Service = "network"
	Image         Service = "image"
	BlockStorage  Service = "block-storage"
	LoadBalancer  Service = "load-balancer"
	ObjectStorage Service = "object-store"
	S3            Service = "s3" // spoken by Buckets alone
)

// Services lists the services, in the order above.
func Services() []Service {
	return []Service{Identity, Compute, Network, Image, BlockStorage, LoadBalancer, ObjectStorage, S3}
}

// aliases are the other types under which catalogs list a service, the best
// first. Those of versions that are gone (volumev2, computev2) aren't among them.
func (s Service) aliases() []string {
	switch s {
	case BlockStorage:
		return []string{"volumev3", "volume", "block-store"}
	}
	return nil
}

// types are all types under which catalogs list the service, the best first.
func (s Service) types() []string { return append([]string{string(s)}, s.aliases()...) }

// OverrideField returns the field of clouds.yaml that sets the endpoint of a
// type of service; false if there is no such type.
func OverrideField(serviceType string) (string, bool) {
	return overrideField(serviceType), slices.Contains(ServiceTypes(), serviceType)
}

// ServiceTypes lists the types of services that are known, those beside the
// authority's included.
func ServiceTypes() []string {
	var out []string
	for _, s := range Services() {
		out = append(out, s.types()...)
	}
	return out
}

// versionPath is the version that calls to a service are made for; an
// endpoint may or may not end in it.
func (s Service) versionPath() string {
	switch s {
	case Identity, BlockStorage:
		return "v3"
	case Compute:
		return "v2.1"
	case Network, LoadBalancer:
		return "v2.0"
	case ObjectStorage:
		return "v1"
	}
	return "v2"
}

// serves reports whether an endpoint can be the service's: one that names
// another major version isn't, as a catalog's old "volume" may be.
func (s Service) serves(endpoint string) bool {
	v := versionIn(endpoint)
	return v == "" || s != BlockStorage || majorOf(v) == majorOf(s.versionPath())
}

// versionIn returns the version that an endpoint names, as in /compute/v2.1 or
// /v2/PROJECT; "" if it names none.
func versionIn(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	segments := strings.Split(u.Path, "/")
	i := slices.IndexFunc(segments, func(s string) bool {
		return len(s) > 1 && s[0] == 'v' && strings.Trim(s[1:], "0123456789.") == ""
	})
	if i < 0 {
		return ""
	}
	return segments[i]
}

func majorOf(version string) string {
	major, _, _ := strings.Cut(version, ".")
	return major
}

// title names a service as people do.
func title(s Service) string {
	switch s {
	case Identity:
		return "Keystone"
	case Compute:
		return "Nova"
	case Network:
		return "Neutron"
	case Image:
		return "Glance"
	case BlockStorage:
		return "Cinder"
	case LoadBalancer:
		return "Octavia"
	case ObjectStorage:
		return "Swift"
	case S3:
		return "S3"
	}
	return string(s)
}
