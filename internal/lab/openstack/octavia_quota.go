package openstack

import "slices"

// lbQuotaNames are the resources with a limit, and under which names a request may set it.
var lbQuotaNames = []string{"health_monitor", "l7policy", "l7rule", "listener", "load_balancer", "member", "pool"}

// lbLimit is a project's limit; -1 is unlimited.
func (c *Cloud) lbLimit(project, name string) int {
	if n, own := c.balancing.quotas[project][name]; own {
		return n
	}
	if n, set := c.cfg.Quota[name]; set {
		return n
	}
	return -1
}

// checkLBQuota refuses what would exceed a project's limit.
func (c *Cloud) checkLBQuota(k *partKind, project string, more int) error {
	used := len(c.partsOf(k, func(p *part) bool { return p.project == project }))
	if limit := c.lbLimit(project, k.quota); more > 0 && limit >= 0 && used+more > limit {
		return refuse(403, "Quota has been met for resources: %s", k.label)
	}
	return nil
}

func (c *Cloud) lbQuotaDoc(project string) doc {
	d := doc{}
	for _, name := range lbQuotaNames {
		d[name] = c.lbLimit(project, name)
	}
	return doc{"quota": d}
}

func (c *Cloud) lbQuotaShow(r *request) (answer, error) {
	if !r.token.admin && r.arg("project") != r.token.project.id {
		return answer{}, lbForbidden
	}
	return ok(c.lbQuotaDoc(r.arg("project")))
}

func (c *Cloud) lbQuotaDefault(r *request) (answer, error) {
	if !r.token.admin && r.arg("project") != r.token.project.id {
		return answer{}, lbForbidden
	}
	return ok(c.lbQuotaDoc(""))
}

func (c *Cloud) lbQuotaList(r *request) (answer, error) {
	all := []any{}
	for _, project := range sortedKeys(c.balancing.quotas) {
		if r.token.admin || project == r.token.project.id {
			d := c.lbQuotaDoc(project)["quota"].(doc)
			d["project_id"], d["tenant_id"], d["loadbalancer"], d["healthmonitor"] = project, project, d["load_balancer"], d["health_monitor"]
			all = append(all, d)
		}
	}
	return ok(doc{"quotas": all, "quotas_links": []any{}})
}

func (c *Cloud) lbQuotaUpdate(r *request) (answer, error) {
	if !r.token.admin {
		return answer{}, lbForbidden
	}
	in, err := r.lbBody("quota", "quotas")
	if err != nil {
		return answer{}, err
	}
	at := map[string]int{}
	for k, v := range in {
		name := map[string]string{"loadbalancer": "load_balancer", "healthmonitor": "health_monitor"}[k]
		if name == "" {
			name = k
		}
		if !slices.Contains(lbQuotaNames, name) {
			return answer{}, refuse(400, "Unknown attribute for argument quotas.quota: %s", k)
		}
		n, err := lbInt(-1, 2000000000)(v)
		if err != nil {
			return answer{}, refuse(400, "Invalid input for field/attribute %s. Value: '%v'. %s", k, v, err.Error())
		}
		at[name] = n.(int)
	}
	project := r.arg("project")
	if c.balancing.quotas[project] == nil {
		c.balancing.quotas[project] = map[string]int{}
	}
	for name, n := range at {
		c.balancing.quotas[project][name] = n
	}
	return accepted(c.lbQuotaDoc(project))
}

func (c *Cloud) lbQuotaReset(r *request) (answer, error) {
	if !r.token.admin {
		return answer{}, lbForbidden
	}
	delete(c.balancing.quotas, r.arg("project"))
	return answer{status: 202}, nil
}
