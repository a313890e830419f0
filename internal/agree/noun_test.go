package agree

import (
	"fmt"
	"strings"
)

// A wish is a call of ensure: of which object, with which arguments.
type wish struct {
	kind     typ
	call     string // "cloud.network.ensure"
	name     ex     // the first argument
	args     []string
	parents  []ex // objects that it is made in
	drifting bool
}

func (w wish) src() string {
	return w.call + "(" + strings.Join(append([]string{w.name.src}, w.args...), ", ") + ")"
}

func (w *wish) arg(name string, e ex) {
	w.args = append(w.args, name+" = "+e.src)
	w.drifting = w.drifting || e.drifting
}

// naming returns an expression of a fixed name, or now and then one of a name
// that isn't known yet.
func (g *gen) naming(s *scope, name string) ex {
	if s.item {
		return g.mk("name of item", "\""+name+"-\" + %s", ex{src: "ctx.item"})
	}
	switch g.r.IntN(12) {
	case 0:
		return g.mk("name by +", "\"%s\" + \"%s\"", ex{src: name[:1]}, ex{src: name[1:]})
	case 1:
		return g.mk("name by %", "\"%%s\" %% %s", ex{src: fmt.Sprintf("%q", name)})
	case 2:
		if id, ok := g.pick(s, text, false); ok && id.vague && strings.HasSuffix(id.src, ".id") {
			return g.mk("unknown name", "\""+name+"-\" + %s[:4]", id)
		}
	}
	return ex{src: fmt.Sprintf("%q", name)}
}

// cloudWish returns a wish for something in the cloud, whose name is given. Of
// what it refers to it takes what the scope has.
func (g *gen) cloudWish(s *scope, kind typ, name ex) (wish, bool) {
	w := wish{kind: kind, call: "cloud." + string(kind) + ".ensure", name: name}
	maybe := func(percent int, arg string, e func() ex) {
		if g.chance(percent) {
			w.arg(arg, e())
		}
	}
	object := func(kind typ) (ex, bool) {
		var found []ex
		for _, v := range s.vars {
			if v.t == kind {
				found = append(found, v.ex)
			}
		}
		if len(found) == 0 {
			return ex{}, false
		}
		e := found[g.r.IntN(len(found))]
		if g.chance(30) {
			return ex{e.src + ".id", true, e.drifting}, true
		}
		return e, true
	}
	literal := func(list ...string) func() ex { return func() ex { return ex{src: pick(g, list...)} } }
	switch kind {
	case "network":
		maybe(50, "mtu", func() ex { return g.mk("computed int", "1350 + 50 * (abs(%s) %% 3)", g.num(s, 1, true)) })
		maybe(30, "port_security", literal("True", "False"))
	case "subnet":
		net, ok := object("network")
		if !ok {
			return w, false
		}
		w.arg("network", net)
		w.parents = []ex{net}
		cidr := g.ranges[name.src]
		if cidr == "" || g.chance(15) {
			g.n++
			cidr = fmt.Sprintf("\"10.%d.0.0/24\"", 30+g.n%200)
		}
		g.ranges[name.src] = cidr
		w.arg("cidr", ex{src: cidr})
		g.subnets[strings.TrimSuffix(net.src, ".id")] = true
		maybe(25, "enable_dhcp", literal("True", "False"))
		maybe(25, "dns_nameservers", literal(`["9.9.9.9"]`, `["1.1.1.1", "9.9.9.9"]`, `[]`))
		maybe(15, "gateway_ip", literal(`"none"`))
		maybe(20, "replace", literal("True"))
	case "router":
		maybe(50, "external", literal(`"public"`, `cloud.external_network()`))
		if sub, ok := object("subnet"); ok && g.chance(60) {
			w.arg("subnets", g.mk("list of objects", "[%s]", sub))
			maybe(25, "exact", literal("True"))
		}
	case "port":
		net, ok := object("network")
		if !ok {
			return w, false
		}
		w.arg("network", net)
		w.parents = []ex{net}
		if sg, ok := object("security_group"); ok && g.chance(40) {
			w.arg("security_groups", g.mk("list of objects", "[%s]", sg))
		}
		maybe(25, "allowed_address_pairs", literal(`["10.77.0.1"]`, `[]`))
	case "security_group":
		w.arg("rules", g.rules(s))
		maybe(20, "exact", literal("True"))
	case "floating_ip":
		w.arg("network", ex{src: `"public"`})
	case "keypair":
		key := ex{src: fmt.Sprintf("%q", pick(g, publicKeys...))}
		if made, ok := g.pick(s, "ssh_key", false); ok && g.chance(70) {
			key = ex{made.src + ".public_key", true, false}
		}
		w.arg("public_key", key)
		maybe(40, "replace", literal("True"))
	case "server":
		net, ok := object("network")
		if !ok || !g.subnets[strings.TrimSuffix(net.src, ".id")] {
			return w, false
		}
		w.arg("image", ex{src: `"lab-tiny"`})
		w.arg("flavor", ex{src: `"m1.nano"`})
		w.parents = []ex{net}
		w.arg("networks", g.mk("list of objects", "[%s]", net))
		maybe(40, "metadata", func() ex { return g.mk("metadata", "{\"role\": %s}", g.str(s, 1, false)) })
		maybe(20, "user_data", func() ex { return g.mk("user_data", "\"#cloud-config\\n# %%s\\n\" %% %s", g.str(s, 1, false)) })
		maybe(30, "replace", literal("True"))
		if key, ok := object("keypair"); ok && !strings.HasSuffix(key.src, ".id") && g.chance(40) {
			w.arg("key_name", key)
		}
	case "image":
		w.arg("file", ex{src: "IMAGE"})
		w.arg("disk_format", ex{src: `"raw"`})
		maybe(30, "min_disk", literal("1", "2"))
		maybe(30, "properties", func() ex { return g.mk("properties", "{\"hw\": %s}", g.str(s, 1, false)) })
	}
	return w, true
}

var publicKeys = []string{
	"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2cS0a9a0dDZ6F7g0u0z7jX9zA0u7c3w1mV4m8o1XyB one",
	"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl two",
}

// rules returns a list of rules of a security group.
func (g *gen) rules(s *scope) ex {
	g.use("rules")
	rule := func() ex {
		return g.mk("", "{\"protocol\": \""+pick(g, "tcp", "udp")+"\", \"port\": 22 + abs(%s) %% 3, \"remote\": \""+pick(g, "10.0.0.0/8", "0.0.0.0/0")+"\"}", g.num(s, 1, true))
	}
	switch g.r.IntN(4) {
	case 0:
		return ex{src: "[]"}
	case 1:
		return g.mk("", "[%s]", rule())
	case 2:
		return g.mk("", "[%s, %s]", rule(), rule())
	}
	return ex{src: "[{\"protocol\": p, \"port\": 53} for p in [\"tcp\", \"udp\"]]"}
}

// hostWish returns a wish for something on the host.
func (g *gen) hostWish(s *scope, kind typ, name string) wish {
	w := wish{kind: kind, call: "h." + string(kind) + ".ensure", name: g.naming(s, name)}
	switch kind {
	case "file":
		dir := "/etc/"
		if e, ok := g.pick(s, "directory", false); ok && g.chance(40) {
			w.name = g.mk("path in folder", "%s.path + \"/\" + %s", e, w.name)
		} else {
			w.name = g.mk("path", "\""+dir+"\" + %s", w.name)
		}
		switch {
		case g.chance(20):
			w.arg("template", ex{src: `"files/t.tmpl"`})
			w.arg("vars", g.mk("template file", "{\"a\": %s, \"n\": %s}", g.str(s, 1, false), g.num(s, 1, false)))
		case g.chance(45):
			e, ok := g.pick(s, hidden, false)
			if !ok && !s.item {
				e, ok = ex{fmt.Sprintf("secret.generate(%q)", g.name("key")), true, false}, g.chance(50)
			}
			if ok && g.chance(60) {
				w.arg("content", g.mk("secret in text", pick(g, "\"pw=\" + %s", "\"pw=%%s\\n\" %% %s", "\"{}!\".format(%s)", "%s"), e))
				break
			}
			fallthrough
		default:
			w.arg("content", g.mk("content", "%s + \"\\n\"", g.str(s, 2, false)))
		}
		if g.chance(40) {
			w.arg("mode", ex{src: pick(g, `"0600"`, `"0644"`, `"0640"`)})
		}
		if g.chance(20) {
			w.arg("owner", ex{src: pick(g, `"debian"`, `"root"`)})
		}
		if g.chance(15) {
			w.arg("group", ex{src: `"adm"`})
		}
	case "directory":
		w.name = g.mk("path", "\"/srv/\" + %s", w.name)
		if g.chance(50) {
			w.arg("mode", ex{src: pick(g, `"0700"`, `"0755"`)})
		}
		if g.chance(20) {
			w.arg("owner", ex{src: `"debian"`})
		}
	case "line":
		w.kind = "file"
		w.name = g.mk("path", "\"/etc/lines-\" + %s", w.name)
		w.arg("line", g.mk("line", "\"key = \" + %s", g.str(s, 1, false)))
		w.arg("create", ex{src: "True"})
		if g.chance(70) {
			w.arg("match", ex{src: `"^key = "`})
		}
	case "user":
		if g.chance(50) {
			w.arg("shell", ex{src: pick(g, `"/bin/sh"`, `"/bin/bash"`)})
		}
		if g.chance(50) {
			w.arg("groups", ex{src: `["adm"]`})
		}
	case "sysctl":
		w.name = ex{src: fmt.Sprintf("%q", name)}
		w.arg("value", g.mk("sysctl value", pick(g, "abs(%s) %% 2", "str(abs(%s) %% 2)"), g.num(s, 1, false)))
	}
	return w
}
