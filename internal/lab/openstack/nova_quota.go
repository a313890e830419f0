package openstack

import (
	"fmt"
	"strings"
)

// computeQuotaNames are the resources of a quota set; the second list is gone from 2.57 on, the third from 2.36.
var (
	computeQuotaNames  = []string{"instances", "cores", "ram", "key_pairs", "metadata_items", "server_groups", "server_group_members"}
	injectedQuotaNames = []string{"injected_files", "injected_file_content_bytes", "injected_file_path_bytes"}
	oldQuotaNames      = []string{"fixed_ips", "floating_ips", "security_groups", "security_group_rules"}
)

func (c *Cloud) computeLimit(project, name string) int {
	if n, own := c.compute.quotas[project][name]; own {
		return n
	}
	if n, known := c.cfg.Quota[name]; known {
		return n
	}
	return -1
}

func (c *Cloud) computeUsage(project string) (instances, cores, ram int) {
	for _, s := range c.compute.servers {
		if s.project == project {
			instances++
			cores += s.flavor.vcpus
			ram += s.flavor.ram
		}
	}
	return
}

// checkComputeQuota refuses count more servers of a flavor, or with a count of 0 the flavor's size alone.
func (c *Cloud) checkComputeQuota(project string, count int, f *flavor) error {
	instances, cores, ram := c.computeUsage(project)
	n := max(count, 1)
	var overs, asked, used, allowed []string
	for _, q := range []struct {
		name       string
		want, have int
	}{{"cores", n * f.vcpus, cores}, {"instances", count, instances}, {"ram", n * f.ram, ram}} {
		limit := c.computeLimit(project, q.name)
		if limit >= 0 && q.want > 0 && q.have+q.want > limit {
			overs, asked = append(overs, q.name), append(asked, fmt.Sprint(q.want))
			used, allowed = append(used, fmt.Sprint(q.have)), append(allowed, fmt.Sprint(limit))
		}
	}
	if overs == nil {
		return nil
	}
	join := func(l []string) string { return strings.Join(l, ", ") }
	return refuse(403, "Quota exceeded for %s: Requested %s, but already used %s of %s %s", join(overs), join(asked), join(used), join(allowed), join(overs))
}

func (r *request) quotaNames() []string {
	names := append([]string(nil), computeQuotaNames...)
	if r.version < 57 {
		names = append(names, injectedQuotaNames...)
	}
	if r.version < 36 {
		names = append(names, oldQuotaNames...)
	}
	return names
}

func (c *Cloud) quotaSetDoc(r *request, project string) doc {
	d := doc{"id": project}
	for _, name := range r.quotaNames() {
		d[name] = c.computeLimit(project, name)
	}
	return d
}

func (c *Cloud) computeQuotaProject(r *request) (string, error) {
	project := r.arg("project")
	if project != r.token.project.id && !r.token.admin {
		return "", forbidden(r, "os_compute_api:os-quota-sets:show")
	}
	return project, nil
}

func (c *Cloud) quotaSetShow(r *request) (answer, error) {
	project, err := c.computeQuotaProject(r)
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"quota_set": c.quotaSetDoc(r, project)})
}

func (c *Cloud) quotaSetDefaults(r *request) (answer, error) {
	d := c.quotaSetDoc(r, "")
	d["id"] = r.arg("project")
	return ok(doc{"quota_set": d})
}

func (c *Cloud) quotaSetDetail(r *request) (answer, error) {
	project, err := c.computeQuotaProject(r)
	if err != nil {
		return answer{}, err
	}
	instances, cores, ram := c.computeUsage(project)
	groups := 0
	for _, g := range c.compute.groups {
		if g.project == project {
			groups++
		}
	}
	used := map[string]int{"instances": instances, "cores": cores, "ram": ram, "server_groups": groups}
	d := doc{"id": project}
	for _, name := range r.quotaNames() {
		d[name] = doc{"in_use": used[name], "limit": c.computeLimit(project, name), "reserved": 0}
	}
	return ok(doc{"quota_set": d})
}

func (c *Cloud) quotaSetUpdate(r *request) (answer, error) {
	if err := r.needAdmin("os_compute_api:os-quota-sets:update"); err != nil {
		return answer{}, err
	}
	in, err := r.object("quota_set")
	if err != nil {
		return answer{}, err
	}
	project := r.arg("project")
	known := map[string]bool{"force": true}
	for _, name := range r.quotaNames() {
		known[name] = true
	}
	limits := map[string]int{}
	for k, v := range in {
		n, valid := integer(v)
		switch {
		case !known[k]:
			return answer{}, refuse(400, "Invalid input for field/attribute quota_set. Additional properties are not allowed ('%s' was unexpected)", k)
		case k == "force":
		case !valid || n < -1:
			return answer{}, invalidField(k, v, "it is no number of -1 or more")
		default:
			limits[k] = n
		}
	}
	if c.compute.quotas[project] == nil {
		c.compute.quotas[project] = map[string]int{}
	}
	for k, n := range limits {
		c.compute.quotas[project][k] = n
	}
	d := c.quotaSetDoc(r, project)
	delete(d, "id")
	return ok(doc{"quota_set": d})
}

func (c *Cloud) quotaSetReset(r *request) (answer, error) {
	if err := r.needAdmin("os_compute_api:os-quota-sets:delete"); err != nil {
		return answer{}, err
	}
	delete(c.compute.quotas, r.arg("project"))
	return answer{status: 202}, nil
}

func (c *Cloud) computeLimits(r *request) (answer, error) {
	project := r.token.project.id
	if p := r.query.Get("tenant_id"); p != "" && p != project {
		if err := r.needAdmin("os_compute_api:limits:other_project"); err != nil {
			return answer{}, err
		}
		project = p
	}
	instances, cores, ram := c.computeUsage(project)
	groups := 0
	for _, g := range c.compute.groups {
		if g.project == project {
			groups++
		}
	}
	limit := func(name string) int { return c.computeLimit(project, name) }
	absolute := doc{"maxTotalInstances": limit("instances"), "maxTotalCores": limit("cores"), "maxTotalRAMSize": limit("ram"),
		"maxTotalKeypairs": limit("key_pairs"), "maxServerMeta": limit("metadata_items"), "maxServerGroups": limit("server_groups"),
		"maxServerGroupMembers": limit("server_group_members"), "totalInstancesUsed": instances, "totalCoresUsed": cores, "totalRAMUsed": ram,
		"totalServerGroupsUsed": groups}
	if r.version < 57 {
		absolute["maxPersonality"], absolute["maxPersonalitySize"], absolute["maxImageMeta"] = limit("injected_files"), limit("injected_file_content_bytes"), limit("metadata_items")
	}
	if r.version < 36 {
		absolute["maxTotalFloatingIps"], absolute["totalFloatingIpsUsed"], absolute["maxSecurityGroups"] = -1, 0, -1
		absolute["maxSecurityGroupRules"], absolute["totalSecurityGroupsUsed"] = -1, 0
	}
	return ok(doc{"limits": doc{"rate": []any{}, "absolute": absolute}})
}
