package openstack

import "sort"

var networkQuotaNames = []string{"floatingip", "network", "port", "rbac_policy", "router", "security_group", "security_group_rule", "subnet", "subnetpool"}

func (c *Cloud) networkLimit(project, name string) int {
	if n, own := c.network.quotas[project][name]; own {
		return n
	}
	return c.cfg.Quota[name]
}

func (c *Cloud) networkUsage(project, name string) int {
	used := 0
	for _, n := range c.network.nouns {
		if n.quota != name {
			continue
		}
		for _, t := range c.network.things[n.name] {
			if t.project == project {
				used++
			}
		}
	}
	return used
}

// checkQuota refuses what would exceed a project's limit.
func (c *Cloud) checkQuota(project, name string, more int) error {
	limit := c.networkLimit(project, name)
	if limit >= 0 && c.networkUsage(project, name)+more > limit {
		return refuseAs(409, "OverQuota", "Quota exceeded for resources: ['"+name+"'].")
	}
	return nil
}

func (c *Cloud) quotaProject(r *request) (string, error) {
	project := r.arg("project")
	if project != r.token.project.id && !r.token.admin {
		return "", forbidden(r, "get_quota")
	}
	return project, nil
}

func (c *Cloud) networkQuotaDoc(project string) doc {
	d := doc{}
	for _, name := range networkQuotaNames {
		d[name] = c.networkLimit(project, name)
	}
	return d
}

func (c *Cloud) networkQuotaShow(r *request) (answer, error) {
	project, err := c.quotaProject(r)
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"quota": c.networkQuotaDoc(project)})
}

func (c *Cloud) networkQuotaDefault(r *request) (answer, error) {
	if _, err := c.quotaProject(r); err != nil {
		return answer{}, err
	}
	return ok(doc{"quota": c.networkQuotaDoc("")})
}

func (c *Cloud) networkQuotaDetails(r *request) (answer, error) {
	project, err := c.quotaProject(r)
	if err != nil {
		return answer{}, err
	}
	if d := r.arg("details"); d != "details" && d != "details.json" {
		return answer{}, refuseAs(404, "HTTPNotFound", "The resource could not be found.")
	}
	d := doc{}
	for _, name := range networkQuotaNames {
		d[name] = doc{"limit": c.networkLimit(project, name), "used": c.networkUsage(project, name), "reserved": 0}
	}
	return ok(doc{"quota": d})
}

func (c *Cloud) networkQuotaUpdate(r *request) (answer, error) {
	if err := r.needAdmin("update_quota"); err != nil {
		return answer{}, err
	}
	whole, err := r.json()
	if err != nil {
		return answer{}, err
	}
	in, project := object(whole, "quota"), r.arg("project")
	at := map[string]int{}
	for k, v := range in {
		i := sort.SearchStrings(networkQuotaNames, k)
		n, valid := integer(v)
		switch {
		case i == len(networkQuotaNames) || networkQuotaNames[i] != k:
			return answer{}, refuseAs(400, "HTTPBadRequest", "Unrecognized attribute(s) '"+k+"'")
		case !valid:
			return answer{}, invalidInput("'" + pythonText(v) + "' is not an integer")
		case n < -1:
			return answer{}, plainBad("Invalid input for " + k + ". Reason: '" + text(n) + "' is too small - must be at least '-1'.")
		}
		at[k] = n
	}
	if c.network.quotas[project] == nil {
		c.network.quotas[project] = map[string]int{}
	}
	for k, n := range at {
		c.network.quotas[project][k] = n
	}
	return ok(doc{"quota": c.networkQuotaDoc(project)})
}

func (c *Cloud) networkQuotaReset(r *request) (answer, error) {
	if err := r.needAdmin("delete_quota"); err != nil {
		return answer{}, err
	}
	if c.network.quotas[r.arg("project")] == nil {
		return answer{}, refuseAs(404, "TenantQuotaNotFound", "Quota for tenant "+r.arg("project")+" could not be found.")
	}
	delete(c.network.quotas, r.arg("project"))
	return noContent()
}
