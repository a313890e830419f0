package debian

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// DiskBytes is how large the host's disk says it is.
const DiskBytes = 20 << 30

// kernel is what a reboot resets: parameters, modules, interfaces, packet
// filter, WireGuard devices, swap.
//
// Its lock is taken inside of the tree's, so nothing here may use the tree
// while holding it.
type kernel struct {
	sys *System

	mu      sync.Mutex
	params  map[string]string
	modules map[string]bool
	links   []*link
	rules   *ruleset
	swaps   map[string]bool
	tunnels map[string]*tunnel
	booted  int // how often
}

// A link is one network interface.
type link struct {
	name  string
	kind  string // loopback, ether or wireguard
	mac   string
	up    bool
	addrs []netip.Prefix
	mtu   int
}

func newKernel(s *System) *kernel { return &kernel{sys: s} }

// parameters are the kernel's own values.
func (k *kernel) parameters() map[string]string {
	p := map[string]string{
		"net.ipv4.ip_forward": "0", "net.ipv4.ip_nonlocal_bind": "0", "net.ipv4.tcp_syncookies": "1", "net.ipv4.ip_local_port_range": "32768\t60999",
		"net.ipv4.tcp_keepalive_time": "7200", "net.ipv4.tcp_congestion_control": "cubic", "net.ipv4.neigh.default.gc_thresh1": "128",
		"net.ipv4.neigh.default.gc_thresh2": "512", "net.ipv4.neigh.default.gc_thresh3": "1024", "net.ipv4.icmp_echo_ignore_broadcasts": "1",
		"net.ipv4.ping_group_range": "0\t2147483647", "net.ipv4.tcp_fin_timeout": "60", "net.ipv4.tcp_tw_reuse": "2",
		"net.core.somaxconn": "4096", "net.core.rmem_max": "212992", "net.core.wmem_max": "212992", "net.core.default_qdisc": "pfifo_fast",
		"net.core.netdev_max_backlog": "1000", "net.core.bpf_jit_enable": "1",
		"kernel.panic": "0", "kernel.panic_on_oops": "0", "kernel.pid_max": "4194304", "kernel.keys.root_maxkeys": "1000000",
		"kernel.keys.root_maxbytes": "25000000", "kernel.dmesg_restrict": "1", "kernel.kptr_restrict": "0", "kernel.ostype": "Linux",
		"kernel.osrelease": kernelRelease, "kernel.unprivileged_bpf_disabled": "2", "kernel.sysrq": "438", "kernel.randomize_va_space": "2",
		"kernel.threads-max": "31731", "kernel.yama.ptrace_scope": "0",
		"vm.swappiness": "60", "vm.overcommit_memory": "0", "vm.panic_on_oom": "0", "vm.max_map_count": "65530", "vm.dirty_ratio": "20",
		"vm.min_free_kbytes": "67584", "vm.nr_hugepages": "0",
		"fs.inotify.max_user_instances": "128", "fs.inotify.max_user_watches": "29500", "fs.file-max": "9223372036854775807", "fs.nr_open": "1048576",
		"fs.protected_hardlinks": "1", "fs.protected_symlinks": "1", "fs.may_detach_mounts": "1",
	}
	devices := []string{"all", "default", "lo"}
	for _, a := range k.sys.Config.Addresses {
		if !slices.Contains(devices, a.Device) {
			devices = append(devices, a.Device)
		}
	}
	for _, dev := range devices {
		for name, value := range map[string]string{"forwarding": "0", "rp_filter": "2", "accept_redirects": "1", "send_redirects": "1",
			"accept_source_route": "0", "proxy_arp": "0", "arp_ignore": "0", "arp_announce": "0", "log_martians": "0", "route_localnet": "0", "src_valid_mark": "0"} {
			p["net.ipv4.conf."+dev+"."+name] = value
		}
		for name, value := range map[string]string{"forwarding": "0", "disable_ipv6": "0", "accept_ra": "1", "accept_redirects": "1", "autoconf": "1"} {
			p["net.ipv6.conf."+dev+"."+name] = value
		}
	}
	return p
}

// moduleParameters appear when a module is loaded.
func moduleParameters() map[string]map[string]string {
	return map[string]map[string]string{
		"br_netfilter": {"net.bridge.bridge-nf-call-iptables": "1", "net.bridge.bridge-nf-call-ip6tables": "1", "net.bridge.bridge-nf-call-arptables": "1"},
		"nf_conntrack": {"net.netfilter.nf_conntrack_max": "131072", "net.netfilter.nf_conntrack_buckets": "32768",
			"net.netfilter.nf_conntrack_tcp_timeout_established": "432000"},
	}
}

// knownModules can be loaded; the value is what a module needs.
func knownModules() map[string][]string {
	return map[string][]string{
		"overlay": nil, "bridge": nil, "br_netfilter": {"bridge"}, "nf_conntrack": nil, "nf_tables": nil, "nft_masq": {"nf_tables", "nf_conntrack"},
		"nft_chain_nat": {"nf_tables", "nf_conntrack"}, "nf_nat": {"nf_conntrack"}, "wireguard": nil, "ip_vs": {"nf_conntrack"}, "ip_vs_rr": {"ip_vs"}, "ip_vs_wrr": {"ip_vs"},
		"ip_vs_sh": {"ip_vs"}, "vxlan": nil, "ip_tables": nil, "iptable_nat": {"ip_tables", "nf_nat"}, "iptable_filter": {"ip_tables"}, "xt_conntrack": {"nf_conntrack"},
		"dm_crypt": nil, "dm_mod": nil, "iscsi_tcp": nil, "nfs": nil, "dummy": nil, "tun": nil, "8021q": nil, "veth": nil, "loop": nil, "configfs": nil, "nbd": nil,
		"rbd": nil, "ipip": nil, "geneve": nil, "sch_fq": nil, "tcp_bbr": nil,
	}
}

// install lays out /proc and /sys.
func (k *kernel) install() error {
	s := k.sys
	mem := max(256, s.Config.MemoryMB)
	text := map[string]func() []byte{
		"/proc/cpuinfo": func() []byte {
			var sb strings.Builder
			for i := range max(1, s.Config.CPUs) {
				fmt.Fprintf(&sb, "processor\t: %d\nvendor_id\t: GenuineIntel\nmodel name\t: Intel Xeon Processor\ncpu cores\t: 1\n\n", i)
			}
			return []byte(sb.String())
		},
		"/proc/meminfo": func() []byte {
			return fmt.Appendf(nil, "MemTotal:       %8d kB\nMemFree:        %8d kB\nMemAvailable:   %8d kB\nSwapTotal:      %8d kB\nSwapFree:       %8d kB\n",
				mem*1024, mem*512, mem*768, k.swapKB(), k.swapKB())
		},
		"/proc/uptime":      func() []byte { return []byte("42.00 80.00\n") },
		"/proc/loadavg":     func() []byte { return []byte("0.00 0.01 0.05 1/97 700\n") },
		"/proc/version":     func() []byte { return []byte("Linux version " + kernelRelease + "\n") },
		"/proc/cmdline":     func() []byte { return []byte("BOOT_IMAGE=/boot/vmlinuz-" + kernelRelease + " root=/dev/vda1 ro\n") },
		"/proc/filesystems": func() []byte { return []byte("nodev\tproc\nnodev\ttmpfs\nnodev\toverlay\n\text4\n") },
		"/proc/mounts":      func() []byte { return []byte(mounts) },
		"/proc/self/mounts": func() []byte { return []byte(mounts) },
		"/proc/1/comm":      func() []byte { return []byte("systemd\n") },
		"/proc/swaps": func() []byte {
			k.mu.Lock()
			defer k.mu.Unlock()
			out := "Filename\t\t\t\tType\t\tSize\tUsed\tPriority\n"
			for _, name := range slices.Sorted(maps.Keys(k.swaps)) {
				out += fmt.Sprintf("%-40s file\t\t1048576\t0\t-2\n", name)
			}
			return []byte(out)
		},
		"/proc/modules": func() []byte {
			k.mu.Lock()
			defer k.mu.Unlock()
			var out string
			for _, name := range slices.Sorted(maps.Keys(k.modules)) {
				out += name + " 32768 0 - Live 0x0000000000000000\n"
			}
			return []byte(out)
		},
		"/proc/sys/kernel/random/boot_id": func() []byte {
			k.mu.Lock()
			defer k.mu.Unlock()
			return fmt.Appendf(nil, "%s-%012d\n", "8c7e6a52-1f0d-4b39-9f5e", k.booted)
		},
		"/proc/sys/kernel/random/uuid":      func() []byte { return []byte("8c7e6a52-1f0d-4b39-9f5e-0c5d1be0a9ff\n") },
		"/sys/fs/cgroup/cgroup.controllers": func() []byte { return []byte("cpuset cpu io memory hugetlb pids rdma misc\n") },
		"/sys/class/dmi/id/sys_vendor":      func() []byte { return []byte("OpenStack Foundation\n") },
		"/sys/class/dmi/id/product_name":    func() []byte { return []byte("OpenStack Nova\n") },
		"/sys/class/dmi/id/product_uuid":    func() []byte { return []byte(s.Config.ID + "\n") },
	}
	for file, read := range text {
		if err := s.FS.Virtual(file, 0o444, read, nil); err != nil {
			return err
		}
	}
	for name := range k.parameters() {
		if err := k.publish(name); err != nil {
			return err
		}
	}
	if err := s.FS.Virtual("/proc/sys/kernel/hostname", 0o644, func() []byte { return []byte(s.Hostname() + "\n") }, func(v []byte) error {
		s.setHostname(string(v))
		return nil
	}); err != nil {
		return err
	}
	for i, dev := range k.devices() {
		mac := macOf(s.Config.ID, i)
		for name, value := range map[string]string{"address": mac, "mtu": "1450", "operstate": "up"} {
			if err := s.FS.Virtual("/sys/class/net/"+dev+"/"+name, 0o444, func() []byte { return []byte(value + "\n") }, nil); err != nil {
				return err
			}
		}
	}
	if err := s.FS.Seal("/proc", tree.Process); err != nil {
		return err
	}
	return s.FS.Seal("/sys", tree.System)
}

const mounts = "/dev/vda1 / ext4 rw,relatime,discard,errors=remount-ro 0 0\nproc /proc proc rw,nosuid,nodev,noexec,relatime 0 0\n" +
	"sysfs /sys sysfs rw,nosuid,nodev,noexec,relatime 0 0\ntmpfs /run tmpfs rw,nosuid,nodev,size=400000k,mode=755 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime 0 0\n"

func macOf(id string, i int) string {
	sum := uint32(2166136261)
	for _, c := range id {
		sum = (sum ^ uint32(c)) * 16777619
	}
	return fmt.Sprintf("fa:16:3e:%02x:%02x:%02x", byte(sum>>16), byte(sum>>8), byte(sum)+byte(i))
}

func (k *kernel) devices() []string {
	var out []string
	for _, a := range k.sys.Config.Addresses {
		if !slices.Contains(out, a.Device) {
			out = append(out, a.Device)
		}
	}
	return out
}

// publish puts a parameter into /proc/sys.
func (k *kernel) publish(name string) error {
	perm := tree.PermOf(0o644)
	if name == "kernel.osrelease" || name == "kernel.ostype" {
		perm = 0o444
	}
	return k.sys.FS.Virtual(paramPath(name), perm, func() []byte {
		k.mu.Lock()
		defer k.mu.Unlock()
		return []byte(k.params[name] + "\n")
	}, func(v []byte) error { return k.set(name, string(v)) })
}

// paramPath is the file of a parameter. Dots inside of a device's name are
// written as slashes.
func paramPath(name string) string {
	if strings.Contains(name, "/") && !strings.Contains(name[:strings.Index(name, "/")], ".") {
		return "/proc/sys/" + path.Clean("/" + name)[1:]
	}
	return "/proc/sys/" + strings.Map(func(r rune) rune {
		switch r {
		case '.':
			return '/'
		case '/':
			return '.'
		}
		return r
	}, name)
}

// set changes a parameter. It fails with EINVAL if the value can't be.
func (k *kernel) set(name, value string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	old, ok := k.params[name]
	if !ok {
		return syscall.ENOENT
	}
	if _, err := strconv.ParseInt(old, 10, 64); err == nil {
		n, err := strconv.ParseInt(strings.TrimSpace(value), 0, 64)
		if err != nil {
			return syscall.EINVAL
		}
		value = strconv.FormatInt(n, 10)
	}
	value = strings.Join(strings.Fields(value), "\t")
	k.params[name] = value
	// The two switches for forwarding are one.
	switch name {
	case "net.ipv4.ip_forward":
		for p := range k.params {
			if strings.HasPrefix(p, "net.ipv4.conf.") && strings.HasSuffix(p, ".forwarding") {
				k.params[p] = value
			}
		}
	case "net.ipv4.conf.all.forwarding":
		k.params["net.ipv4.ip_forward"] = value
	}
	return nil
}

func (k *kernel) get(name string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.params[name]
}

// boot starts the kernel anew.
func (k *kernel) boot() {
	k.mu.Lock()
	k.booted++
	for mod := range k.modules {
		for name := range moduleParameters()[mod] {
			k.mu.Unlock()
			k.sys.FS.Vanish(paramPath(name))
			k.mu.Lock()
		}
	}
	k.params = k.parameters()
	k.modules = map[string]bool{}
	k.rules = &ruleset{}
	k.swaps = map[string]bool{}
	k.tunnels = map[string]*tunnel{}
	k.links = []*link{{name: "lo", kind: "loopback", mac: "00:00:00:00:00:00", up: true, mtu: 65536, addrs: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8"), netip.MustParsePrefix("::1/128")}}}
	for i, dev := range k.devices() {
		l := &link{name: dev, kind: "ether", mac: macOf(k.sys.Config.ID, i), up: true, mtu: 1450}
		for _, a := range k.sys.Config.Addresses {
			if a.Device == dev {
				l.addrs = append(l.addrs, a.Prefix)
			}
		}
		k.links = append(k.links, l)
	}
	k.mu.Unlock()
	s := k.sys
	files := []string{"/etc/modules"}
	for _, dir := range []string{"/usr/lib/modules-load.d", "/etc/modules-load.d"} {
		files = append(files, s.listFiles(dir, ".conf")...)
	}
	for _, file := range files {
		for line := range strings.SplitSeq(s.Text(file), "\n") {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line[0] != ';' {
				if err := k.load(strings.Fields(line)[0]); err != nil {
					s.console("systemd-modules-load: Failed to find module '%s'", line)
				}
			}
		}
	}
	for line := range strings.SplitSeq(s.Text("/etc/fstab"), "\n") {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "swap" && !strings.HasPrefix(f[0], "#") {
			k.mu.Lock()
			k.swaps[f[0]] = true
			k.mu.Unlock()
		}
	}
	for _, set := range s.sysctlFiles() {
		for name, value := range parseSysctl(s.Text(set)) {
			// A parameter that isn't there, or refuses the value, is skipped at boot.
			_ = k.set(normalParam(name), value)
		}
	}
	if name := strings.TrimSpace(s.Text("/etc/hostname")); name != "" {
		s.setHostname(name)
	}
}

// load loads a module with what it needs. It fails with ENOENT for one that
// the kernel doesn't have.
func (k *kernel) load(name string) error {
	name = strings.ReplaceAll(name, "-", "_")
	needs, ok := knownModules()[name]
	if !ok {
		return syscall.ENOENT
	}
	k.mu.Lock()
	loaded := k.modules[name]
	k.mu.Unlock()
	if loaded {
		return nil
	}
	for _, need := range needs {
		if err := k.load(need); err != nil {
			return err
		}
	}
	params := moduleParameters()[name]
	k.mu.Lock()
	k.modules[name] = true
	maps.Copy(k.params, params)
	k.mu.Unlock()
	for param := range params {
		if err := k.publish(param); err != nil {
			return err
		}
	}
	return nil
}

func (k *kernel) loaded(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.modules[strings.ReplaceAll(name, "-", "_")]
}

func (k *kernel) swapKB() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.swaps) * 1048576
}

// listFiles names the files of a directory that end in suffix, in order.
func (s *System) listFiles(dir, suffix string) []string {
	kids, err := s.FS.ReadDir(tree.Root(), dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, kid := range kids {
		if strings.HasSuffix(kid.Name(), suffix) && !kid.IsDir() {
			out = append(out, dir+"/"+kid.Name())
		}
	}
	return out
}
