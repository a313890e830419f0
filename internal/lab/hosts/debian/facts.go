package debian

import (
	"context"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

func (s *System) df(_ context.Context, p *machine.Proc) int {
	o := p.Options("h|human-readable P|portability k m T output: B: l t: x: a i")
	if o == nil {
		return 1
	}
	used := s.FS.Used() + 1<<30
	p.Printf("Filesystem     1024-blocks    Used Available Capacity Mounted on\n/dev/vda1         %d %d  %d       %d%% /\n", DiskBytes>>10, used>>10, (DiskBytes-used)>>10, used*100/DiskBytes)
	return 0
}

func (s *System) free(_ context.Context, p *machine.Proc) int {
	mem := max(256, s.Config.MemoryMB)
	unit := 1024
	if slices.Contains(p.Args, "-m") {
		unit = 1
	}
	p.Printf("               total        used        free      shared  buff/cache   available\nMem:  %14d %11d %11d %11d %11d %11d\nSwap: %14d %11d %11d\n",
		mem*unit, mem/4*unit, mem/2*unit, 0, mem/4*unit, mem*3/4*unit, s.kernel.swapKB(), 0, s.kernel.swapKB())
	return 0
}

func (s *System) nproc(_ context.Context, p *machine.Proc) int {
	p.Printf("%d\n", max(1, s.Config.CPUs))
	return 0
}

// ss lists the sockets that services listen on.
func (s *System) ss(_ context.Context, p *machine.Proc) int {
	p.Printf("Netid State  Recv-Q Send-Q Local Address:Port Peer Address:Port\ntcp   LISTEN 0      128          0.0.0.0:22        0.0.0.0:*\n")
	s.kernel.mu.Lock()
	for _, t := range s.kernel.tunnels {
		if t.port > 0 {
			p.Printf("udp   UNCONN 0      0            0.0.0.0:%d     0.0.0.0:*\n", t.port)
		}
	}
	s.kernel.mu.Unlock()
	if s.Exists("/etc/kubernetes/admin.conf") {
		p.Printf("tcp   LISTEN 0      4096               *:6443              *:*\n")
	}
	return 0
}

func (s *System) mount(_ context.Context, p *machine.Proc) int {
	if len(p.Args) == 1 {
		for line := range strings.Lines(mounts) {
			f := strings.Fields(line)
			p.Printf("%s on %s type %s (%s)\n", f[0], f[1], f[2], f[3])
		}
		return 0
	}
	if p.Cred.UID != 0 {
		return p.Fail(1, "must be superuser to use mount.")
	}
	target := p.Args[len(p.Args)-1]
	if !s.Exists(p.Abs(target)) && target != "-a" {
		return p.Fail(32, "%s: mount point does not exist.", target)
	}
	s.FS.Touched()
	return 0
}

func (s *System) detectVirt(_ context.Context, p *machine.Proc) int {
	if slices.Contains(p.Args, "-c") || slices.Contains(p.Args, "--container") {
		p.Printf("none\n")
		return 1
	}
	p.Printf("kvm\n")
	return 0
}

func (s *System) timedatectl(_ context.Context, p *machine.Proc) int {
	link, _ := s.FS.Readlink(tree.Root(), "/etc/localtime") // without one it is UTC
	_, zone, ok := strings.Cut(link, "zoneinfo/")
	if !ok {
		zone = "UTC"
	}
	args := p.Args[1:]
	if len(args) > 0 {
		switch args[0] {
		case "set-timezone", "set-ntp":
			if p.Cred.UID != 0 {
				return p.Fail(1, "Failed to set time zone: %s", errNotRoot)
			}
			if args[0] == "set-timezone" && len(args) > 1 && args[1] != zone {
				if !s.Exists("/usr/share/zoneinfo/" + args[1]) {
					return p.Fail(1, "Failed to set time zone: Invalid or not installed time zone '%s'", args[1])
				}
				if err := s.setTimezone(args[1]); err != nil {
					return p.Fail(1, "%s", machine.Strerror(err))
				}
			}
			return 0
		case "show":
			value := map[string]string{"Timezone": zone, "NTP": "yes", "NTPSynchronized": "yes"}
			for _, k := range []string{"Timezone", "NTP", "NTPSynchronized"} {
				if !strings.Contains(strings.Join(args, " "), "-p") && !strings.Contains(strings.Join(args, " "), "--property") || slices.ContainsFunc(args, func(a string) bool { return a == k || strings.HasSuffix(a, "="+k) }) {
					if slices.Contains(args, "--value") {
						p.Printf("%s\n", value[k])
					} else {
						p.Printf("%s=%s\n", k, value[k])
					}
				}
			}
			return 0
		}
	}
	p.Printf("               Local time: %s\n                Time zone: %s (UTC, +0000)\nSystem clock synchronized: yes\n              NTP service: active\n", s.Clock.Now().UTC().Format("Mon 2006-01-02 15:04:05 UTC"), zone)
	return 0
}

// setTimezone writes what systemd's daemon writes on Debian.
func (s *System) setTimezone(zone string) error {
	if err := s.Put("/etc/timezone", zone+"\n", 0o644); err != nil {
		return err
	}
	if err := s.FS.Symlink(tree.Root(), "/usr/share/zoneinfo/"+zone, "/etc/localtime+"); err != nil {
		return err
	}
	return s.FS.Rename(tree.Root(), "/etc/localtime+", "/etc/localtime")
}

func (s *System) hostnamectl(_ context.Context, p *machine.Proc) int {
	args := p.Args[1:]
	if len(args) > 1 && (args[0] == "set-hostname" || args[0] == "hostname") {
		if p.Cred.UID != 0 {
			return p.Fail(1, "Could not set static hostname: %s", errNotRoot)
		}
		if strings.TrimSpace(s.Text("/etc/hostname")) != args[1] {
			if err := s.Put("/etc/hostname", args[1]+"\n", 0o644); err != nil {
				return p.Fail(1, "%s", machine.Strerror(err))
			}
		}
		s.setHostname(args[1])
		return 0
	}
	if len(args) > 0 && args[0] != "status" {
		p.Printf("%s\n", s.Hostname())
		return 0
	}
	p.Printf(" Static hostname: %s\n  Virtualization: kvm\nOperating System: Debian GNU/Linux 12 (bookworm)\n          Kernel: Linux %s\n    Architecture: x86-64\n", s.Hostname(), kernelRelease)
	return 0
}

func (s *System) lsblk(_ context.Context, p *machine.Proc) int {
	p.Printf("NAME   MAJ:MIN RM SIZE RO TYPE MOUNTPOINTS\nvda    254:0    0  20G  0 disk\n`-vda1 254:1    0  20G  0 part /\n")
	return 0
}

func (s *System) uptime(_ context.Context, p *machine.Proc) int {
	p.Printf(" %s up 1 min,  1 user,  load average: 0.00, 0.01, 0.05\n", s.Clock.Now().UTC().Format("15:04:05"))
	return 0
}

func (s *System) dmesg(_ context.Context, p *machine.Proc) int {
	if p.Cred.UID != 0 {
		return p.Fail(1, "read kernel buffer failed: Operation not permitted")
	}
	p.Printf("[    0.000000] Linux version %s\n", kernelRelease)
	return 0
}
