package openstack

func (c *Cloud) zoneList(*request) (answer, error) {
	out := []any{}
	for _, z := range c.cfg.Zones {
		out = append(out, doc{"zoneName": z, "zoneState": doc{"available": true}, "hosts": nil})
	}
	return ok(doc{"availabilityZoneInfo": out})
}

func (c *Cloud) zoneDetail(r *request) (answer, error) {
	if err := r.needAdmin("os_compute_api:os-availability-zone:detail"); err != nil {
		return answer{}, err
	}
	out := []any{}
	for _, z := range c.cfg.Zones {
		hosts := doc{}
		for _, h := range c.compute.hosts {
			if h.zone == z {
				hosts[h.name] = doc{"nova-compute": doc{"available": true, "active": true, "updated_at": isoOrNil(c.now())}}
			}
		}
		out = append(out, doc{"zoneName": z, "zoneState": doc{"available": true}, "hosts": hosts})
	}
	return ok(doc{"availabilityZoneInfo": out})
}

// reservedRAM is what Nova keeps of a hypervisor for the host, in MiB.
const reservedRAM = 512

func (c *Cloud) hypervisorDoc(r *request, i int, detail bool) doc {
	h := c.compute.hosts[i]
	d := doc{"hypervisor_hostname": h.name, "state": "up", "status": "enabled"}
	if r.version >= 53 {
		d["id"] = h.id
	} else {
		d["id"] = i + 1
	}
	if !detail {
		return d
	}
	d["hypervisor_type"], d["hypervisor_version"], d["host_ip"] = "fake", 1000, "127.0.0.1"
	service := doc{"host": h.name, "id": d["id"], "disabled_reason": nil}
	d["service"] = service
	if r.version < 88 {
		vcpus, ram, disk := c.load(h)
		ram += reservedRAM
		running := 0
		for _, s := range c.compute.servers {
			if s.host == h {
				running++
			}
		}
		info := any(doc{"arch": "x86_64", "model": "Nehalem", "vendor": "Intel", "features": []any{"pge", "clflush"}, "topology": doc{"cores": 1, "threads": 1, "sockets": 4}})
		if r.version < 28 {
			info = `{"arch": "x86_64", "model": "Nehalem", "vendor": "Intel", "features": ["pge", "clflush"], "topology": {"cores": 1, "threads": 1, "sockets": 4}}`
		}
		d["cpu_info"] = info
		d["vcpus"], d["memory_mb"], d["local_gb"] = h.vcpus, h.ram, h.disk
		d["vcpus_used"], d["memory_mb_used"], d["local_gb_used"] = vcpus, ram, disk
		d["free_ram_mb"], d["free_disk_gb"], d["disk_available_least"] = h.ram-ram, h.disk-disk, 0
		d["current_workload"], d["running_vms"] = 0, running
	} else {
		d["uptime"] = nil
	}
	return d
}

func (c *Cloud) listHypervisors(r *request, detail bool) (answer, error) {
	rule := "list"
	if detail {
		rule = "list-detail"
	}
	if err := r.needAdmin("os_compute_api:os-hypervisors:" + rule); err != nil {
		return answer{}, err
	}
	out := []any{}
	for i := range c.compute.hosts {
		out = append(out, c.hypervisorDoc(r, i, detail))
	}
	return ok(doc{"hypervisors": out})
}

func (c *Cloud) hypervisorList(r *request) (answer, error)   { return c.listHypervisors(r, false) }
func (c *Cloud) hypervisorDetail(r *request) (answer, error) { return c.listHypervisors(r, true) }

func (c *Cloud) hypervisorShow(r *request) (answer, error) {
	if err := r.needAdmin("os_compute_api:os-hypervisors:show"); err != nil {
		return answer{}, err
	}
	for i := range c.compute.hosts {
		if d := c.hypervisorDoc(r, i, true); text(d["id"]) == r.arg("id") {
			return ok(doc{"hypervisor": d})
		}
	}
	return answer{}, refuse(404, "Compute host %s could not be found.", r.arg("id"))
}

func (c *Cloud) hypervisorStatistics(r *request) (answer, error) {
	if r.version >= 88 {
		return answer{}, tooOld()
	}
	if err := r.needAdmin("os_compute_api:os-hypervisors:statistics"); err != nil {
		return answer{}, err
	}
	sum := map[string]int{}
	for i := range c.compute.hosts {
		d := c.hypervisorDoc(r, i, true)
		for _, k := range []string{"vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "local_gb", "local_gb_used", "free_ram_mb", "free_disk_gb",
			"disk_available_least", "current_workload", "running_vms"} {
			n, _ := integer(d[k])
			sum[k] += n
		}
	}
	sum["count"] = len(c.compute.hosts)
	return ok(doc{"hypervisor_statistics": sum})
}
