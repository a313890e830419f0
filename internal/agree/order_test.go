package agree

import "fmt"

// overlapping returns statements whose changes and reads touch each other: what
// the plan observes isn't what the later one finds.
func (g *gen) overlapping(s *scope, d domain) string {
	if s.item {
		return "pass"
	}
	name := g.name("x")
	str := func() string { return g.str(s, 1, false).src }
	if d == onHost {
		g.touched = true
		return g.overlapsOnHost(name, str)
	}
	v := g.name("v")
	log := func(format string, args ...any) string { return fmt.Sprintf("ctx.log(str("+format+"))", args...) }
	switch g.r.IntN(11) {
	case 0:
		g.use("ensure otherwise")
		g.drifting = true
		return fmt.Sprintf("%s = cloud.network.ensure(%q, mtu = 1400)\nw%s = cloud.network.ensure(%q, mtu = 1450)\n%s", v, name, v, name, log("[w%s.mtu, w%s.name]", v, v))
	case 1:
		g.use("ensure more")
		if g.chance(60) && !g.branch {
			g.prior = append(g.prior, fmt.Sprintf("cloud.network.ensure(%q, mtu = 1300)", name))
		}
		return fmt.Sprintf("%s = cloud.network.ensure(%q, mtu = 1400)\nw%s = cloud.network.ensure(%q)\n%s", v, name, v, name, log("[w%s.mtu, w%s.id]", v, v))
	case 2:
		g.use("ensure and delete")
		g.drifting = true
		return fmt.Sprintf("%s = cloud.security_group.ensure(%q, rules = [])\ncloud.security_group.delete(%q)\n%s", v, name, name, log("cloud.security_group.get(%q)", name))
	case 3:
		g.use("delete and ensure")
		g.drifting = true
		if !g.branch {
			g.prior = append(g.prior, fmt.Sprintf("cloud.network.ensure(%q, mtu = 1300)", name))
		}
		return fmt.Sprintf("cloud.network.delete(%q)\n%s = cloud.network.ensure(%q)\n%s", name, v, name, log("[%s.id, %s.mtu]", v, v))
	case 4:
		g.use("get by id")
		if g.chance(60) && !g.branch {
			g.prior = append(g.prior, fmt.Sprintf("cloud.network.ensure(%q, mtu = 1300)", name))
		}
		return fmt.Sprintf("%s = cloud.network.ensure(%q, mtu = 1450)\n%s", v, name, log("cloud.network.get(%s.id).mtu", v))
	case 5:
		g.use("list of ports")
		g.drifting = true
		return fmt.Sprintf("%s = cloud.network.ensure(%q)\ncloud.subnet.ensure(%q, network = %s, cidr = \"10.29.0.0/24\")\ncloud.router.ensure(%q, external = \"public\", subnets = [cloud.subnet.ensure(%q, network = %s, cidr = \"10.29.0.0/24\")])\n%s\n%s",
			v, name, name, v, name, name, v, log("len(cloud.port.list())"), log("cloud.subnet.list(name = %q)", name))
	case 6:
		g.use("floating ip of port")
		p := fmt.Sprintf("%s = cloud.network.ensure(%q)\nsub%s = cloud.subnet.ensure(%q, network = %s, cidr = \"10.28.%d.0/24\")\ncloud.router.ensure(%q, external = \"public\", subnets = [sub%s])\np%s = cloud.port.ensure(%q, network = %s)\n",
			v, name, v, name, v, g.n%250, name, v, v, name, v)
		if g.chance(40) && !g.branch {
			g.prior = append(g.prior, p)
		}
		s.add("port", ex{src: "p" + v})
		return p + fmt.Sprintf("f%s = cloud.floating_ip.ensure(%q, network = \"public\", port = p%s)\n%s", v, name, v, log("[f%s.address, f%s.port, p%s.address, cloud.port.get(%q).address]", v, v, v, name))
	case 7:
		g.use("limits")
		g.drifting = true
		return fmt.Sprintf("%s = cloud.limits()[\"network\"][\"used\"]\ncloud.network.ensure(%q)\n%s\n%s", v, name, log("%s", v), log("cloud.limits()[\"network\"]"))
	case 8:
		g.use("rules otherwise")
		g.drifting = true
		return fmt.Sprintf("%s = cloud.security_group.ensure(%q, rules = %s)\nw%s = cloud.security_group.ensure(%q, rules = %s)\n%s", v, name, g.rules(&scope{}).src, v, name, g.rules(&scope{}).src, log("w%s.rules", v))
	case 9:
		g.use("by name of ensured")
		return fmt.Sprintf("%s = cloud.network.ensure(%q)\nw%s = cloud.subnet.ensure(%q, network = %q, cidr = \"10.27.%d.0/24\")\n%s", v, name, v, name, name, g.n%250, log("[w%s.network, w%s.cidr]", v, v))
	}
	g.use("wait for ensured")
	return fmt.Sprintf("cloud.network.ensure(%q)\n%s = wait(%q, until = lambda: cloud.network.get(%q), timeout = \"5s\", interval = \"2ms\")\n%s", name, v, name, name, log("%s.name", v))
}

func (g *gen) overlapsOnHost(name string, str func() string) string {
	prior := func(percent int, format string, args ...any) {
		if g.chance(percent) && !g.branch {
			g.prior = append(g.prior, fmt.Sprintf(format, args...))
		}
	}
	path := "/etc/" + name
	switch g.r.IntN(14) {
	case 0:
		g.use("run before file")
		g.drifting = true
		prior(60, "h.file.ensure(%q, content = \"x\\n\")", path)
		return fmt.Sprintf("h.run([\"rm\", \"-f\", %q])\nctx.log(h.file.ensure(%q, content = \"x\\n\").sha256)", path, path)
	case 1:
		g.use("user and home")
		prior(30, "h.user.ensure(%q)", name)
		return fmt.Sprintf("u = h.user.ensure(%q)\nd = h.directory.ensure(\"/home/%s\", owner = %q)\nh.authorized_key.ensure(%q, %q)\nctx.log(str([u.home, d.owner, d.mode]))", name, name, name, name, publicKeys[0])
	case 2:
		g.use("folder above")
		return fmt.Sprintf("h.directory.ensure(\"/srv/%s/a/b\")\nd = h.directory.ensure(\"/srv/%s/a\", mode = \"0750\")\nctx.log(d.mode)", name, name)
	case 3:
		g.use("folder and all in it")
		g.drifting = true
		prior(70, "h.directory.ensure(\"/srv/%s\")\nh.file.ensure(\"/srv/%s/f\", content = \"x\\n\")", name, name)
		return fmt.Sprintf("h.directory.delete(\"/srv/%s\", recursive = True)\nh.directory.ensure(\"/srv/%s\")\nh.file.ensure(\"/srv/%s/f\", content = \"x\\n\")", name, name, name)
	case 4:
		g.use("module and parameter")
		return "h.kernel_module.ensure(\"br_netfilter\")\ns = h.sysctl.ensure(\"net.bridge.bridge-nf-call-iptables\", 1)\nctx.log(s.value)"
	case 5:
		g.use("packages")
		prior(40, "h.package.ensure(%q)", pick(g, "jq", "containerd", "socat"))
		return "h.package.ensure(\"containerd\")\np = h.package.ensure([\"runc\", \"jq\"])\nctx.log(str(p.versions))\nh.package.ensure(\"socat\", hold = True)"
	case 6:
		g.use("lines")
		prior(60, "h.file.ensure(%q, content = \"a = 1\\nb = 2\\n\")", path)
		return fmt.Sprintf("h.line.ensure(%q, \"a = \" + %s, match = \"^a\", create = True)\nl = h.line.ensure(%q, \"c = 3\")\nh.line.delete(%q, match = \"^d\")\nctx.log(str([l.sha256, l.size]))", path, str(), path, path)
	case 7:
		g.use("file otherwise")
		g.drifting = true
		prior(50, "h.file.ensure(%q, content = \"two\\n\", mode = \"0600\")", path)
		return fmt.Sprintf("h.file.ensure(%q, content = \"one\\n\")\nf = h.file.ensure(%q, content = \"two\\n\", mode = \"0600\")\nctx.log(str([f.sha256, f.mode, f.group]))", path, path)
	case 8:
		g.use("file and line")
		g.drifting = true
		prior(50, "h.file.ensure(%q, content = \"one\\n\")", path)
		return fmt.Sprintf("h.file.ensure(%q, content = \"one\\n\")\nf = h.line.ensure(%q, \"two\")\nctx.log(f.sha256)", path, path)
	case 9:
		g.use("run creates what is ensured")
		return fmt.Sprintf("h.run(sh = \"echo hello > %s\", creates = %q)\nf = h.file.ensure(%q, content = \"hello\\n\")\nctx.log(str([f.sha256, f.path]))", path, path, path)
	case 10:
		g.use("deferred change")
		prior(70, "h.file.ensure(%q, content = \"x\\n\")", path)
		return fmt.Sprintf("ctx.defer(lambda: h.file.delete(%q))\nctx.log(%s)", path, str())
	case 11:
		g.use("service by unit")
		g.drifting = true
		unit := "/etc/systemd/system/" + name + ".service"
		return fmt.Sprintf("f = h.file.ensure(%q, content = \"[Service]\\nExecStart=/bin/sleep infinity\\n# %%s\\n[Install]\\nWantedBy=multi-user.target\\n\" %% %s)\ns = h.service.ensure(%q, restart_on = [f])\nctx.log(str([s.enabled, s.running]))", unit, str(), name)
	case 12:
		g.use("read after change")
		prior(60, "h.file.ensure(%q, content = \"old\\n\")", path)
		return fmt.Sprintf("h.file.ensure(%q, content = %s + \"\\n\")\nctx.log(str(h.read(%q)))\nctx.log(str(h.file.get(\"/etc/hostname\")))", path, str(), path)
	}
	g.use("unknown path")
	return fmt.Sprintf("u = h.user.ensure(%q)\nf = h.file.ensure(\"/etc/%s-%%s\" %% u.uid, content = \"x\\n\")\nctx.log(str(f))\nh.file.ensure(%q, content = \"y\\n\")", name, name, path)
}
