package real

// entry is a service in Keystone's catalog.
type entry struct{ name, kind, url string }

// catalog lists what Keystone's catalog has.
func (l *Lab) catalog() []entry {
	return []entry{
		{"keystone", "identity", l.url("keystone") + "/v3"},
		{"glance", "image", l.url("glance")},
		{"placement", "placement", l.url("placement")},
		{"nova", "compute", l.url("nova") + "/v2.1"},
		{"neutron", "network", l.url("neutron")},
		{"cinderv3", "volumev3", l.url("cinder") + "/v3/%(project_id)s"},
		{"octavia", "load-balancer", l.url("octavia")},
		{"swift", "object-store", l.url("swift") + "/v1/AUTH_%(project_id)s"},
	}
}
