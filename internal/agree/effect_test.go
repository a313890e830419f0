package agree

import (
	"fmt"
	"slices"
	"strings"
)

// effect returns a statement that changes the world.
func (g *gen) effect(s *scope, d domain) string {
	switch n := g.r.IntN(100); {
	case n < 8:
		return g.keep(s)
	case n < 22:
		return g.overlapping(s, d)
	case n < 40 && g.git && d == inCloud && !s.item && !g.branch:
		return g.push(s)
	}
	if d == onHost {
		return g.hostEffect(s)
	}
	kind := pick[typ](g, "network", "network", "network", "subnet", "subnet", "subnet", "router", "port", "port", "security_group", "security_group",
		"floating_ip", "keypair", "keypair", "server", "server", "image", "delete", "many")
	switch kind {
	case "delete":
		if s.item {
			return "pass" // the items would race
		}
		return g.deletion()
	case "many":
		return g.many(s)
	}
	plain := g.name("n")
	name := g.naming(s, plain)
	w, ok := g.cloudWish(s, kind, name)
	if !ok {
		return g.within(s, kind, name)
	}
	fixed := !s.item && !name.vague
	if fixed && !g.branch && g.chance(45) {
		g.before(w, fmt.Sprintf("%q", plain))
	} else if fixed && g.chance(4) && (w.kind == "network" || w.kind == "security_group" || w.kind == "router") {
		g.use("foreign")
		g.foreign = append(g.foreign, fmt.Sprintf("cloud.%s.ensure(%q)", w.kind, plain))
		if g.chance(60) {
			w.arg("adopt", ex{src: "True"})
		}
	}
	return g.made(s, w)
}

// within returns statements that make a network for what needs one, and that.
func (g *gen) within(s *scope, kind typ, name ex) string {
	own := &scope{item: s.item, vars: slices.DeleteFunc(slices.Clone(s.vars), func(v variable) bool { return v.t == "network" || v.t == "subnet" })}
	var lines []string
	for _, k := range []typ{"network", "subnet", kind} {
		n := name
		if k != kind {
			n = g.naming(s, g.name("n"))
		} else if k == "subnet" {
			break
		}
		w, ok := g.cloudWish(own, k, n)
		if !ok {
			return "pass"
		}
		if g.chance(30) && k != kind && !s.item && !n.vague && !g.branch {
			g.before(w, fmt.Sprintf("\"%s\"", strings.Trim(plainName(n.src), "\"")))
		}
		lines = append(lines, g.made(own, w))
	}
	for _, v := range own.vars {
		if !slices.ContainsFunc(s.vars, func(have variable) bool { return have.src == v.src }) {
			s.vars = append(s.vars, v)
		}
	}
	return strings.Join(lines, "\n")
}

// plainName returns the name that an expression of naming gives.
func plainName(src string) string {
	return strings.NewReplacer(`"%s" % `, "", `" + "`, "").Replace(src)
}

// made returns the statement of a wish, whose result the scope gets.
func (g *gen) made(s *scope, w wish) string {
	g.use("ensure " + string(w.kind))
	g.drifting = g.drifting || w.drifting || w.name.drifting
	o := g.name("o")
	if twin, ok := g.twins[w.name.src]; ok {
		g.twins[o] = twin
		delete(g.twins, w.name.src)
	}
	s.vars = append(s.vars, variable{ex: ex{src: o, vague: w.name.vague}, t: w.kind})
	stmt := o + " = " + w.src()
	if g.chance(8) && !s.item {
		g.use("ensure twice")
		stmt += "\n" + w.src()
	}
	return stmt
}

// before makes the world have what a wish is about already, as it is wanted or
// otherwise.
func (g *gen) before(w wish, name string) {
	have := &scope{}
	for _, p := range w.parents {
		twin, ok := g.twins[strings.TrimSuffix(p.src, ".id")]
		if !ok {
			return
		}
		have.vars = append(have.vars, twin)
	}
	sub := *g
	sub.used, sub.helpers = make(map[string]int), nil // it isn't the case's own
	if len(g.ranges) > 0 {
		sub.ranges[name] = g.ranges[w.name.src]
	}
	was, ok := sub.cloudWish(have, w.kind, ex{src: name})
	g.n = sub.n
	if !ok {
		return
	}
	g.use("prior " + string(w.kind))
	if w.kind == "port" {
		was.args = was.args[:1] // the rest depends on the network's settings
	}
	v := g.name("p")
	g.prior = append(g.prior, v+" = "+was.src())
	g.twins[w.name.src] = variable{ex: ex{src: v}, t: w.kind}
}

// deletion returns a statement that deletes what is there, or isn't.
func (g *gen) deletion() string {
	kind := pick(g, "network", "security_group", "keypair")
	name := g.name("d")
	g.use("delete " + kind)
	if g.chance(70) && !g.branch {
		args := ""
		if kind == "keypair" {
			args = fmt.Sprintf(", public_key = %q", publicKeys[0])
		}
		g.prior = append(g.prior, fmt.Sprintf("cloud.%s.ensure(%q%s)", kind, name, args))
	}
	stmt := fmt.Sprintf("cloud.%s.delete(%q)", kind, name)
	if g.chance(40) {
		g.use("get after delete")
		return stmt + fmt.Sprintf("\nctx.log(str(cloud.%s.get(%q)))", kind, name)
	}
	return stmt
}

// many returns a statement that makes several things alike.
func (g *gen) many(s *scope) string {
	name := g.name("m")
	if s.item {
		return "pass"
	}
	v := g.name("v")
	if g.chance(50) {
		g.use("parallel effects")
		s.add(texts, ex{src: v})
		return fmt.Sprintf("%s = parallel([\"a\", \"b\", \"c\"], lambda x: cloud.security_group.ensure(\"%s-\" + x, rules = %s).name)", v, name, g.rules(&scope{}).src)
	}
	g.use("effects in a loop")
	s.add(texts, ex{src: v, vague: true})
	return fmt.Sprintf("%s = [cloud.keypair.ensure(\"%s-%%d\" %% i, public_key = %q).fingerprint for i in range(2)]", v, name, publicKeys[1])
}

// keep returns a statement that makes a secret or a key, and keeps it.
func (g *gen) keep(s *scope) string {
	v, name := g.name("k"), g.name("key")
	if s.item {
		return "pass"
	}
	call := pick(g, "secret.generate(%q)", "crypto.password(%q)", "crypto.ssh_keypair(%q)")
	call = fmt.Sprintf(call, name)
	t := hidden
	if strings.Contains(call, "keypair") {
		t = "ssh_key"
	}
	g.use("keep " + string(t))
	if g.chance(40) && !g.branch {
		g.prior = append(g.prior, call)
	}
	s.add(t, ex{src: v, vague: true})
	return v + " = " + call
}

// push returns a statement that writes to the repository.
func (g *gen) push(s *scope) string {
	g.git = false
	g.use("push")
	v := g.name("v")
	s.add(text, ex{src: v, vague: true})
	path := pick(g, "a.txt", "dir/b.txt")
	return fmt.Sprintf("r = repo()\nctx.log(r.read(\"a.txt\"))\nr.write(%q, %s + \"\\n\")\nr.commit(\"Change\")\n%s = r.push().commit", path, g.str(s, 2, g.chance(70)).src, v)
}

func (g *gen) hostEffect(s *scope) string {
	defer func() { g.touched = true }()
	name := g.name("h")
	switch g.r.IntN(12) {
	case 0:
		if s.item {
			break
		}
		g.use("run creates")
		v := g.name("v")
		s.add(text, ex{src: v, vague: true, drifting: true})
		return fmt.Sprintf("%s = h.run([\"touch\", \"/tmp/%s\"], creates = \"/tmp/%s\").stdout", v, name, name)
	case 1:
		if s.item {
			break
		}
		g.use("run unless")
		return fmt.Sprintf("h.run(sh = \"echo x > /tmp/%s\", unless = \"test -f /tmp/%s\")", name, name)
	case 2:
		if s.item || !g.chance(30) {
			break
		}
		g.use("run")
		g.drifting = true
		s.add("command", ex{src: name, vague: true, drifting: true})
		return fmt.Sprintf("%s = h.run([\"echo\", %s])", name, g.str(s, 1, false).src)
	case 3:
		if s.item || g.branch {
			break
		}
		g.use("delete on host")
		if g.chance(70) {
			g.prior = append(g.prior, fmt.Sprintf("h.file.ensure(\"/etc/%s\", content = \"x\\n\")", name))
		}
		return fmt.Sprintf("h.file.delete(\"/etc/%s\")", name)
	case 4:
		if s.item || g.branch || g.service {
			break
		}
		g.service = true
		g.use("service")
		if g.chance(50) {
			g.prior = append(g.prior, "h.package.ensure(\"nftables\")")
			if g.chance(50) {
				g.prior = append(g.prior, "h.service.ensure(\"nftables\", reload_on = [h.file.ensure(\"/etc/nftables.conf\", content = \"flush ruleset\\n# old\\n\")])")
			}
		}
		s.add("service", ex{src: name})
		return fmt.Sprintf("h.package.ensure(\"nftables\")\n%s = h.service.ensure(\"nftables\", reload_on = [h.file.ensure(\"/etc/nftables.conf\", content = \"flush ruleset\\n# %%s\\n\" %% %s)])",
			name, g.str(s, 1, false).src)
	case 5:
		if u, ok := g.pick(s, text, false); ok && strings.HasSuffix(u.src, ".home") {
			g.use("authorized key")
			return fmt.Sprintf("h.authorized_key.ensure(%s.name, %q)", strings.TrimSuffix(u.src, ".home"), publicKeys[0])
		}
	}
	kind := pick[typ](g, "file", "file", "file", "directory", "line", "user", "sysctl")
	if kind == "sysctl" || kind == "user" {
		if s.item {
			kind = "file"
		} else if kind == "sysctl" {
			if g.sysctls == len(sysctls) {
				kind = "file"
			} else {
				name = sysctls[g.sysctls]
				g.sysctls++
			}
		}
	}
	w := g.hostWish(s, kind, name)
	if !s.item && !w.name.vague && !g.branch && g.chance(45) && !strings.Contains(w.name.src, ".path") {
		sub := *g
		sub.used, sub.helpers = make(map[string]int), nil
		was := sub.hostWish(&scope{}, kind, name)
		g.n = sub.n
		was.name = w.name
		g.use("prior " + string(kind))
		g.prior = append(g.prior, was.src())
	}
	return g.made(s, w)
}

var sysctls = []string{"net.ipv4.ip_forward", "net.ipv4.tcp_syncookies", "vm.overcommit_memory", "net.ipv4.ip_nonlocal_bind", "vm.panic_on_oom"}

// read returns a statement that reads the world.
func (g *gen) read(s *scope, d domain) string {
	v := g.name("v")
	if d == onHost {
		g.use("read on host")
		return g.assign(s, text, ex{src: pick(g, `h.run(["hostname"], readonly = True).stdout.strip()`, `h.user.get("debian").home`, `h.file.get("/etc/hostname").mode`,
			`h.sysctl.get("vm.swappiness").value`, `h.read("/etc/hostname").strip()`, `h.facts().hostname`), vague: g.touched || s.item})
	}
	switch g.r.IntN(6) {
	case 0:
		g.use("read flavor")
		s.add(number, ex{src: v})
		return v + " = cloud.flavor.get(\"m1.nano\").ram"
	case 1:
		g.use("read external")
		s.vars = append(s.vars, variable{ex: ex{src: v}, t: "external", there: true})
		return v + " = cloud.external_network()"
	case 2:
		g.use("get absent")
		s.add(truth, ex{src: v})
		return fmt.Sprintf("%s = cloud.network.get(\"none\") == None", v)
	case 3:
		if g.branch || s.item {
			break
		}
		g.use("get untouched")
		name := g.name("u")
		g.prior = append(g.prior, fmt.Sprintf("cloud.network.ensure(%q, mtu = %d)", name, pick(g, 1400, 1450)))
		s.vars = append(s.vars, variable{ex: ex{src: v}, t: "network", there: true})
		return fmt.Sprintf("%s = cloud.network.get(%q)", v, name)
	case 4:
		if s.item {
			break
		}
		g.use("list")
		s.add(texts, ex{src: v, vague: true, drifting: true})
		return fmt.Sprintf("%s = [x.name for x in cloud.%s.list()]", v, pick(g, "security_group", "keypair", "router"))
	}
	for _, x := range s.vars {
		if x.t == "network" && !x.there {
			g.use("get ensured")
			s.vars = append(s.vars, variable{ex: ex{src: v, vague: true, drifting: x.drifting}, t: "network"})
			return fmt.Sprintf("%s = cloud.network.get(%s.name)", v, x.src)
		}
	}
	return "pass"
}
