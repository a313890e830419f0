package openstack

import (
	"fmt"
	"net/http"
	"slices"
)

// volumeQuotaNames are the resources of a quota set; each volume type adds three of its own.
var volumeQuotaNames = []string{"volumes", "per_volume_gigabytes", "snapshots", "gigabytes", "backups", "backup_gigabytes", "groups"}

func (c *Cloud) allVolumeQuotas() []string {
	names := slices.Clone(volumeQuotaNames)
	for _, k := range c.block.kinds {
		names = append(names, "volumes_"+k.name, "gigabytes_"+k.name, "snapshots_"+k.name)
	}
	return names
}

func (c *Cloud) volumeLimit(project, name string) int {
	if n, own := c.block.quotas[project][name]; own {
		return n
	}
	if n, known := c.cfg.Quota[name]; known && slices.Contains(volumeQuotaNames, name) {
		return n
	}
	return -1
}

func (c *Cloud) volumeUsage(project string) map[string]int {
	used := map[string]int{}
	for _, v := range c.block.volumes {
		if v.project == project {
			used["volumes"]++
			used["gigabytes"] += v.size
			used["volumes_"+v.kind.name]++
			used["gigabytes_"+v.kind.name] += v.size
		}
	}
	for _, s := range c.block.snapshots {
		if s.project == project {
			used["snapshots"]++
			used["gigabytes"] += s.size
		}
	}
	return used
}

// overVolumeQuota is what Cinder answers where a quota is used up.
func overVolumeQuota(format string, args ...any) *refusal {
	return &refusal{status: 413, message: fmt.Sprintf(format, args...), header: http.Header{"Retry-After": {"0"}}}
}

// checkVolumeQuota refuses so many more volumes, which take so much more, or one of that size.
func (c *Cloud) checkVolumeQuota(project string, count, grow, size int) error {
	if limit := c.volumeLimit(project, "per_volume_gigabytes"); limit >= 0 && size > limit {
		return overVolumeQuota("VolumeSizeExceedsLimit: Requested volume size %dG is larger than maximum allowed limit %dG.", size, limit)
	}
	used := c.volumeUsage(project)
	if limit := c.volumeLimit(project, "gigabytes"); limit >= 0 && used["gigabytes"]+grow > limit {
		return overVolumeQuota("VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. Requested %dG, quota is %dG and %dG has been consumed.",
			grow, limit, used["gigabytes"])
	}
	if limit := c.volumeLimit(project, "volumes"); limit >= 0 && used["volumes"]+count > limit {
		return overVolumeQuota("VolumeLimitExceeded: Maximum number of volumes allowed (%d) exceeded for quota 'volumes'.", limit)
	}
	return nil
}

func (c *Cloud) checkSnapshotQuota(v *volume) error {
	used := c.volumeUsage(v.project)
	if limit := c.volumeLimit(v.project, "gigabytes"); limit >= 0 && used["gigabytes"]+v.size > limit {
		return overVolumeQuota("VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. Requested %dG, quota is %dG and %dG has been consumed.",
			v.size, limit, used["gigabytes"])
	}
	if limit := c.volumeLimit(v.project, "snapshots"); limit >= 0 && used["snapshots"] >= limit {
		return overVolumeQuota("SnapshotLimitExceeded: Maximum number of snapshots allowed (%d) exceeded", limit)
	}
	return nil
}

func (c *Cloud) volumeLimits(r *request) (answer, error) {
	project := r.token.project.id
	used := c.volumeUsage(project)
	limit := func(name string) int { return c.volumeLimit(project, name) }
	return ok(doc{"limits": doc{"rate": []any{}, "absolute": doc{"maxTotalVolumes": limit("volumes"), "maxTotalSnapshots": limit("snapshots"),
		"maxTotalVolumeGigabytes": limit("gigabytes"), "maxTotalBackups": limit("backups"), "maxTotalBackupGigabytes": limit("backup_gigabytes"),
		"totalVolumesUsed": used["volumes"], "totalGigabytesUsed": used["gigabytes"], "totalSnapshotsUsed": used["snapshots"],
		"totalBackupsUsed": 0, "totalBackupGigabytesUsed": 0}}})
}

func (c *Cloud) volumeQuotaShow(r *request) (answer, error) {
	project := r.arg("project")
	if project != r.token.project.id {
		if err := r.needAdmin("volume_extension:quotas:show"); err != nil {
			return answer{}, err
		}
	}
	used := c.volumeUsage(project)
	d := doc{"id": project}
	for _, name := range c.allVolumeQuotas() {
		if r.flag("usage") {
			d[name] = doc{"limit": c.volumeLimit(project, name), "in_use": used[name], "reserved": 0}
		} else {
			d[name] = c.volumeLimit(project, name)
		}
	}
	return ok(doc{"quota_set": d})
}

func (c *Cloud) volumeQuotaDefaults(r *request) (answer, error) {
	d := doc{"id": r.arg("project")}
	for _, name := range c.allVolumeQuotas() {
		d[name] = c.volumeLimit("", name)
	}
	return ok(doc{"quota_set": d})
}

func (c *Cloud) volumeQuotaUpdate(r *request) (answer, error) {
	if err := r.needAdmin("volume_extension:quotas:update"); err != nil {
		return answer{}, err
	}
	in, err := r.cinderBody(wrapped("quota_set", schema{types: []string{"object"}, each: &schema{types: []string{"integer", "string"}, min: bound(-1)}}), "quota_set")
	if err != nil {
		return answer{}, err
	}
	limits := map[string]int{}
	for _, k := range sortedKeys(in) {
		if !slices.Contains(c.allVolumeQuotas(), k) {
			return answer{}, refuse(400, "Bad key(s) in quota set: %s", k)
		}
		limits[k], _ = integer(in[k])
	}
	project := r.arg("project")
	if c.block.quotas[project] == nil {
		c.block.quotas[project] = map[string]int{}
	}
	for k, n := range limits {
		c.block.quotas[project][k] = n
	}
	d := doc{}
	for _, name := range c.allVolumeQuotas() {
		d[name] = c.volumeLimit(project, name)
	}
	return ok(doc{"quota_set": d})
}

func (c *Cloud) volumeQuotaReset(r *request) (answer, error) {
	if err := r.needAdmin("volume_extension:quotas:delete"); err != nil {
		return answer{}, err
	}
	delete(c.block.quotas, r.arg("project"))
	return answer{status: 200}, nil
}
