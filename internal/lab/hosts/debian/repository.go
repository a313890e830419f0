package debian

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// A pkg is one package of the repository in one version.
type pkg struct {
	name     string
	version  string
	older    []string // other versions that the repository has, the newest first
	source   string   // main or kubernetes
	arch     string
	depends  []string
	programs []string          // executables, with their path
	files    map[string]string // configuration and unit files
	enable   []string          // units that the package enables and starts
}

func unitFile(desc, service, install string) string {
	return "[Unit]\nDescription=" + desc + "\n\n[Service]\n" + service + "\n\n[Install]\n" + install + "\n"
}

const wantedByUsers = "WantedBy=multi-user.target"

// catalogue lists what Debian's main archive has here.
func catalogue() map[string]pkg {
	sbin, bin := "/usr/sbin/", "/usr/bin/"
	list := []pkg{
		{name: "nftables", version: "1.0.6-2+deb12u2", programs: []string{sbin + "nft"}, files: map[string]string{
			"/etc/nftables.conf":                       "#!/usr/sbin/nft -f\n\nflush ruleset\n\ntable inet filter {\n\tchain input {\n\t\ttype filter hook input priority filter;\n\t}\n\tchain forward {\n\t\ttype filter hook forward priority filter;\n\t}\n\tchain output {\n\t\ttype filter hook output priority filter;\n\t}\n}\n",
			"/usr/lib/systemd/system/nftables.service": unitFile("nftables", "Type=oneshot\nRemainAfterExit=yes\nExecStart=/usr/sbin/nft -f /etc/nftables.conf\nExecReload=/usr/sbin/nft -f /etc/nftables.conf\nExecStop=/usr/sbin/nft flush ruleset", "WantedBy=sysinit.target"),
		}},
		{name: "wireguard-tools", version: "1.0.20210914-1+b1", programs: []string{bin + "wg", bin + "wg-quick"}, files: map[string]string{
			"/usr/lib/systemd/system/wg-quick@.service": unitFile("WireGuard via wg-quick(8) for %I", "Type=oneshot\nRemainAfterExit=yes\nExecStart=/usr/bin/wg-quick up %i\nExecStop=/usr/bin/wg-quick down %i\nExecReload=/bin/sh -c 'wg-quick strip %i | wg syncconf %i /dev/stdin'", wantedByUsers),
		}},
		{name: "wireguard", version: "1.0.20210914-1", arch: "all", depends: []string{"wireguard-tools"}},
		{name: "containerd", version: "1.6.20~ds1-1+deb12u1", depends: []string{"runc"}, programs: []string{bin + "containerd", bin + "ctr", bin + "containerd-shim-runc-v2"},
			files:  map[string]string{"/usr/lib/systemd/system/containerd.service": unitFile("containerd container runtime", "Type=notify\nExecStart=/usr/bin/containerd\nRestart=always\nRestartSec=5", wantedByUsers)},
			enable: []string{"containerd.service"}},
		{name: "runc", version: "1.1.5+ds1-1+deb12u1", programs: []string{sbin + "runc"}},
		{name: "containernetworking-plugins", version: "1.1.1+ds1-3+b10", programs: []string{"/usr/lib/cni/bridge", "/usr/lib/cni/loopback", "/usr/lib/cni/portmap"}},
		{name: "curl", version: "7.88.1-10+deb12u12", programs: []string{bin + "curl"}},
		{name: "wget", version: "1.21.3-1+deb12u1", programs: []string{bin + "wget"}},
		{name: "gnupg", version: "2.2.40-1.1+deb12u1", arch: "all", depends: []string{"gpg"}},
		{name: "gpg", version: "2.2.40-1.1+deb12u1", programs: []string{bin + "gpg"}},
		{name: "ca-certificates", version: "20230311+deb12u1", arch: "all", programs: []string{sbin + "update-ca-certificates"}},
		{name: "apt-transport-https", version: "2.6.1", arch: "all"},
		{name: "conntrack", version: "1:1.4.7-1+b2", programs: []string{sbin + "conntrack"}},
		{name: "socat", version: "1.7.4.4-2", programs: []string{bin + "socat"}},
		{name: "ethtool", version: "1:6.1-1", programs: []string{sbin + "ethtool"}},
		{name: "iptables", version: "1.8.9-2", programs: []string{sbin + "iptables", sbin + "ip6tables", sbin + "iptables-save"}},
		{name: "ebtables", version: "2.0.11-5", programs: []string{sbin + "ebtables"}},
		{name: "ipset", version: "7.17-1", programs: []string{sbin + "ipset"}},
		{name: "ipvsadm", version: "1:1.31-1+b1", programs: []string{sbin + "ipvsadm"}},
		{name: "chrony", version: "4.3-2+deb12u1", programs: []string{sbin + "chronyd", bin + "chronyc"}, files: map[string]string{
			"/etc/chrony/chrony.conf": "pool pool.lab.invalid iburst\n", "/usr/lib/systemd/system/chrony.service": unitFile("chrony, an NTP client/server", "Type=forking\nExecStart=/usr/sbin/chronyd", wantedByUsers+"\nAlias=chronyd.service")},
			enable: []string{"chrony.service"}},
		{name: "lab-demo", version: "1.1", older: []string{"1.0"}, arch: "all", programs: []string{bin + "lab-demo"}, files: map[string]string{"/etc/lab-demo.conf": "demo\n"}},
		{name: "jq", version: "1.6-2.1", programs: []string{bin + "jq"}},
		{name: "git", version: "1:2.39.5-0+deb12u2", programs: []string{bin + "git"}},
		{name: "netcat-openbsd", version: "1.219-1", programs: []string{bin + "nc"}},
		{name: "nginx", version: "1.22.1-9+deb12u1", programs: []string{sbin + "nginx"}, files: map[string]string{
			"/etc/nginx/nginx.conf": "events {}\n", "/usr/lib/systemd/system/nginx.service": unitFile("A high performance web server", "Type=exec\nExecStart=/usr/sbin/nginx -g 'daemon off;'\nExecReload=/bin/true", wantedByUsers)}, enable: []string{"nginx.service"}},
		{name: "haproxy", version: "2.6.12-1+deb12u2", programs: []string{sbin + "haproxy"}, files: map[string]string{
			"/etc/haproxy/haproxy.cfg": "global\n\tdaemon\n", "/usr/lib/systemd/system/haproxy.service": unitFile("HAProxy Load Balancer", "Type=exec\nExecStart=/usr/sbin/haproxy\nExecReload=/bin/true", wantedByUsers)}, enable: []string{"haproxy.service"}},
		{name: "open-iscsi", version: "2.1.8-1", programs: []string{sbin + "iscsid", sbin + "iscsiadm"}, files: map[string]string{
			"/usr/lib/systemd/system/iscsid.service": unitFile("iSCSI initiator daemon", "Type=exec\nExecStart=/usr/sbin/iscsid", wantedByUsers)}},
		{name: "qemu-guest-agent", version: "1:7.2+dfsg-7+deb12u12", programs: []string{sbin + "qemu-ga"}},
		{name: "tcpdump", version: "4.99.3-1", programs: []string{sbin + "tcpdump"}},
		{name: "dnsutils", version: "1:9.18.33-1~deb12u2", arch: "all"},
		{name: "rsync", version: "3.2.7-1+deb12u2", programs: []string{bin + "rsync"}},
		{name: "unzip", version: "6.0-28", programs: []string{bin + "unzip"}},
		{name: "python3", version: "3.11.2-1+b1", programs: []string{bin + "python3"}},
		{name: "nfs-common", version: "1:2.6.2-4+deb12u1"}, {name: "lvm2", version: "2.03.16-2"}, {name: "software-properties-common", version: "0.99.30-4.1", arch: "all"},
		{name: "bash-completion", version: "1:2.11-6", arch: "all"}, {name: "vim", version: "2:9.0.1378-2"}, {name: "htop", version: "3.2.2-2"}, {name: "less", version: "590-2.1~deb12u2"},
		{name: "debian-archive-keyring", version: "2023.3+deb12u2", arch: "all"}, {name: "lsb-release", version: "12.0-1", arch: "all"}, {name: "unattended-upgrades", version: "2.9.1+nmu3", arch: "all"},
	}
	out := map[string]pkg{}
	for _, p := range list {
		p.source = "main"
		p.arch = cmp.Or(p.arch, "amd64")
		out[p.name] = p
	}
	return out
}

// baseInstalled are the packages of the image.
const baseInstalled = "base-files=12.4+deb12u11 bash=5.2.15-2+b8 coreutils=9.1-1 dpkg=1.21.22 apt=2.6.1 systemd=252.38-1~deb12u1 openssh-server=1:9.2p1-2+deb12u5 " +
	"sudo=1.9.13p3-1+deb12u1 cloud-init=22.4.2-1+deb12u2 iproute2=6.1.0-3 procps=2:4.0.2-3 util-linux=2.38.1-5+deb12u3 mawk=1.3.4.20200120-3.1 sed=4.9-1 grep=3.8-5 " +
	"tar=1.34+dfsg-1.2+deb12u1 gzip=1.12-1 kmod=30+20221128-1 netbase=6.4 ca-certificates=20230311+deb12u1 linux-image-cloud-amd64=6.1.129-1 init=1.65.2 login=1:4.13+dfsg1-1+deb12u1"

// kubernetesRepo finds v1.37 in the URL of a community package repository.
func kubernetesRepo() *regexp.Regexp { return regexp.MustCompile(`/stable:/v(\d+)\.(\d+)/deb`) }

// kubernetesPackage makes one of the Kubernetes packages, in a version such as
// 1.37.2-1.1 of the minor release that the host's sources name.
func kubernetesPackage(name, version string) (pkg, bool) {
	p := pkg{name: name, version: version, source: "kubernetes", arch: "amd64"}
	switch name {
	case "kubeadm":
		p.depends = []string{"cri-tools"}
		p.programs = []string{"/usr/bin/kubeadm"}
	case "kubelet":
		p.depends = []string{"kubernetes-cni"}
		p.programs = []string{"/usr/bin/kubelet"}
		p.files = map[string]string{
			"/usr/lib/systemd/system/kubelet.service":                   unitFile("kubelet: The Kubernetes Node Agent", "ExecStart=/usr/bin/kubelet\nRestart=always\nRestartSec=10", wantedByUsers),
			"/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf": "[Service]\nEnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env\nEnvironmentFile=-/etc/default/kubelet\n",
		}
	case "kubectl":
		p.programs = []string{"/usr/bin/kubectl"}
	case "cri-tools":
		p.programs = []string{"/usr/bin/crictl"}
	case "kubernetes-cni":
		p.programs = []string{"/opt/cni/bin/bridge", "/opt/cni/bin/loopback", "/opt/cni/bin/host-local", "/opt/cni/bin/portmap"}
	default:
		return pkg{}, false
	}
	return p, true
}

// versionsOf lists the versions of a package that the lists fetched last have,
// the best first.
func (p *packages) versionsOf(name string) []pkg {
	p.mu.Lock()
	lists := maps.Clone(p.lists)
	p.mu.Unlock()
	var out []pkg
	if lists["main"] {
		if one, ok := p.main[name]; ok {
			out = append(out, one)
			for _, v := range one.older {
				one.version = v
				out = append(out, one)
			}
		}
	}
	for list := range lists {
		minor, ok := strings.CutPrefix(list, "kubernetes ")
		if !ok {
			continue
		}
		for patch := lastPatch; patch >= 0; patch-- {
			version := fmt.Sprintf("%s.%d-1.1", minor, patch)
			if one, ok := kubernetesPackage(name, version); ok {
				out = append(out, one)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b pkg) int { return -compareVersions(a.version, b.version) })
	return out
}

// lastPatch is the newest patch release of each Kubernetes minor release here.
const lastPatch = 9

// compareVersions orders dotted versions by their numbers.
func compareVersions(a, b string) int {
	split := func(s string) []string {
		return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(".-+~:", r) })
	}
	x, y := split(a), split(b)
	for i := range min(len(x), len(y)) {
		m, err1 := strconv.Atoi(x[i])
		n, err2 := strconv.Atoi(y[i])
		c := strings.Compare(x[i], y[i])
		if err1 == nil && err2 == nil {
			c = cmp.Compare(m, n)
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y))
}

// A source is one repository that the host's files name.
type source struct {
	url      string
	suite    string
	key      string // the keyring that signs it
	trusted  bool
	release  string // 1.37 for a Kubernetes repository
	fileName string
}

// sources reads sources.list and sources.list.d.
func (s *System) sources() []source {
	out := s.sourcesOf("/etc/apt/sources.list")
	for _, ext := range []string{".list", ".sources"} {
		for _, file := range s.listFiles("/etc/apt/sources.list.d", ext) {
			out = append(out, s.sourcesOf(file)...)
		}
	}
	return out
}

// sourcesOf reads one file of sources, in the form that its name says.
func (s *System) sourcesOf(file string) []source {
	var out []source
	if strings.HasSuffix(file, ".sources") {
		out = append(out, parseSource(file, s.Text(file)))
	} else {
		for line := range strings.Lines(s.Text(file)) {
			if src, ok := parseSourceLine(file, strings.TrimSpace(line)); ok {
				out = append(out, src)
			}
		}
	}
	re := kubernetesRepo()
	for i, src := range out {
		if m := re.FindStringSubmatch(src.url); m != nil {
			out[i].release = m[1] + "." + m[2]
		}
	}
	return out
}

func parseSourceLine(file, line string) (source, bool) {
	src := source{fileName: file}
	rest, ok := strings.CutPrefix(line, "deb ")
	if !ok {
		return src, false
	}
	if opts, after, ok := strings.Cut(rest, "]"); ok && strings.HasPrefix(strings.TrimSpace(opts), "[") {
		for opt := range strings.FieldsSeq(strings.Trim(strings.TrimSpace(opts), "[")) {
			name, value, _ := strings.Cut(opt, "=")
			switch name {
			case "signed-by":
				src.key = value
			case "trusted":
				src.trusted = value == "yes"
			}
		}
		rest = after
	}
	f := strings.Fields(rest)
	if len(f) < 2 {
		return src, false
	}
	src.url, src.suite = f[0], f[1]
	return src, true
}

func parseSource(file, text string) source {
	src := source{fileName: file}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch name {
		case "URIs":
			src.url = value
		case "Suites":
			src.suite = value
		case "Signed-By":
			src.key = value
		case "Trusted":
			src.trusted = value == "yes"
		}
	}
	return src
}

// signed reports whether the keyring that a source names is there.
func (s *System) signed(src source) bool {
	if src.trusted || src.release == "" {
		return src.trusted || !strings.HasPrefix(src.url, "file:") // the host's own is a folder without a signature
	}
	info, err := s.FS.Stat(tree.Root(), src.key, true)
	return src.key != "" && err == nil && info.Size() > 0
}
