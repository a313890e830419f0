package real

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
)

// makeIdentity makes the catalog, the services' users, and the roles.
func (l *Lab) makeIdentity(ctx context.Context) error {
	c := l.admin
	project, err := c.made(ctx, "identity", "/projects", "project", doc{"name": "service", "domain_id": "default"})
	if err != nil {
		return err
	}
	roles := map[string]string{}
	have, err := c.listed(ctx, "identity", "/roles", "roles")
	if err != nil {
		return err
	}
	for _, r := range have {
		roles[fmt.Sprint(r["name"])] = fmt.Sprint(r["id"])
	}
	for _, name := range []string{"service", "member", "load-balancer_member", "load-balancer_admin"} {
		if roles[name] != "" {
			continue
		}
		if roles[name], err = c.made(ctx, "identity", "/roles", "role", doc{"name": name}); err != nil {
			return err
		}
	}
	for _, name := range []string{"glance", "placement", "nova", "neutron", "cinder", "octavia", "swift"} {
		user, err := c.made(ctx, "identity", "/users", "user", doc{"name": name, "domain_id": "default", "password": secret, "default_project_id": project})
		if err != nil {
			return err
		}
		for _, role := range []string{"admin", "service"} {
			if err := c.grant(ctx, project, user, roles[role]); err != nil {
				return err
			}
		}
	}
	if err := c.grant(ctx, c.projectID, c.userID, roles["load-balancer_admin"]); err != nil {
		return err
	}
	for _, e := range l.catalog() {
		if e.kind == "identity" {
			continue // keystone-manage has made it
		}
		id, err := c.made(ctx, "identity", "/services", "service", doc{"name": e.name, "type": e.kind})
		if err != nil {
			return err
		}
		for _, face := range []string{"public", "internal"} {
			_, err := c.made(ctx, "identity", "/endpoints", "endpoint", doc{"service_id": id, "interface": face, "region_id": region, "url": e.url})
			if err != nil {
				return err
			}
		}
	}
	return c.login(ctx) // for the catalog
}

func (c *client) grant(ctx context.Context, project, user, role string) error {
	return c.call(ctx, http.MethodPut, "identity", "/projects/"+project+"/users/"+user+"/roles/"+role, nil, nil)
}

// makeResources makes what any cloud has: an external network, flavors, an
// image, availability zones and a volume type.
func (l *Lab) makeResources(ctx context.Context) error {
	c := l.admin
	network, err := c.made(ctx, "network", "/v2.0/networks", "network", doc{"name": "public", "router:external": true,
		"provider:network_type": "flat", "provider:physical_network": "physnet1"})
	if err != nil {
		return err
	}
	_, err = c.made(ctx, "network", "/v2.0/subnets", "subnet", doc{"name": "public", "network_id": network, "ip_version": 4, "cidr": "203.0.113.0/24",
		"gateway_ip": "203.0.113.1", "enable_dhcp": false, "allocation_pools": []doc{{"start": "203.0.113.10", "end": "203.0.113.250"}}})
	if err != nil {
		return err
	}
	for _, f := range []doc{
		{"name": "m1.nano", "ram": 64, "vcpus": 1, "disk": 1},
		{"name": "m1.small", "ram": 512, "vcpus": 1, "disk": 5},
		{"name": "m1.medium", "ram": 2048, "vcpus": 2, "disk": 10},
		{"name": "m1.huge", "ram": 900000, "vcpus": 2000, "disk": 10}, // fits nowhere
	} {
		if _, err := c.made(ctx, "compute", "/flavors", "flavor", f); err != nil {
			return err
		}
	}
	if err := l.makeImage(ctx); err != nil {
		return err
	}
	if err := l.makeZones(ctx); err != nil {
		return err
	}
	_, err = c.made(ctx, "volumev3", "/types", "volume_type", doc{"name": "fake", "extra_specs": doc{"volume_backend_name": "fake"}})
	return err
}

func (l *Lab) makeImage(ctx context.Context) error {
	c := l.admin
	var image struct{ ID string }
	err := c.call(ctx, http.MethodPost, "image", "/v2/images", doc{"name": "lab-tiny", "disk_format": "raw", "container_format": "bare", "visibility": "public",
		"os_distro": "lab"}, &image)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodPut, "image", "/v2/images/"+image.ID+"/file", bytes.Repeat([]byte("the lab's tiny image\n"), 64), nil)
}

// makeZones maps the hypervisors to their cell and gives each a zone.
func (l *Lab) makeZones(ctx context.Context) error {
	if err := l.manage(ctx, "discover", "nova-manage", "--config-file", l.path("etc/nova/nova.conf"), "cell_v2", "discover_hosts"); err != nil {
		return err
	}
	for i, name := range computes {
		zone := fmt.Sprintf("az%d", i+1)
		id, err := l.admin.made(ctx, "compute", "/os-aggregates", "aggregate", doc{"name": zone, "availability_zone": zone})
		if err != nil {
			return err
		}
		if err := l.admin.call(ctx, http.MethodPost, "compute", "/os-aggregates/"+id+"/action", doc{"add_host": doc{"host": name}}, nil); err != nil {
			return err
		}
	}
	limit, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return until(limit, nil, "Nova's hypervisors", l.path("log/nova-compute-fake1.log"), func() bool {
		n, err := l.sql(limit, "select count(distinct resource_provider_id) from placement.inventories")
		return err == nil && n == fmt.Sprint(len(computes))
	})
}
