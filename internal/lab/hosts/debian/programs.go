package debian

import (
	"context"
	"fmt"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

// The programs of the image, beside coreutils'.
const (
	baseBin = "systemctl journalctl id whoami groups getent sudo su uname hostname hostnamectl timedatectl systemd-detect-virt cloud-init " +
		"apt apt-get apt-cache apt-mark dpkg dpkg-query df free nproc ss lsblk uptime dmesg mount umount findmnt networkctl resolvectl localectl loginctl " +
		"ip lsmod openssl ssh-keygen crontab logger lsb_release systemd-analyze systemd-tmpfiles udevadm passwd locale ping update-alternatives gpgv chsh"
	baseSbin = "sysctl modprobe swapoff swapon useradd adduser usermod userdel deluser groupadd addgroup groupdel groupmod chpasswd reboot poweroff halt shutdown " +
		"runuser visudo sshd cron ldconfig ifup ifdown rmmod insmod mkfs.ext4 blkid"
)

// quiet does nothing and succeeds: what it would change isn't simulated.
func quiet(context.Context, *machine.Proc) int { return 0 }

func says(text string) machine.Program {
	return func(_ context.Context, p *machine.Proc) int {
		fmt.Fprintln(p, text)
		return 0
	}
}

// programs lists the code of every executable that the image or a package has.
func (s *System) programs() map[string]machine.Program {
	service := func(ctx context.Context, p *machine.Proc) int {
		if len(p.Args) > 1 && (p.Args[1] == "-t" || p.Args[1] == "--version" || p.Args[1] == "-v") {
			return 0
		}
		return daemon(ctx, p)
	}
	return map[string]machine.Program{
		"systemctl": s.systemctl, "journalctl": s.journalctl, "reboot": s.reboot, "poweroff": s.reboot, "halt": s.reboot, "shutdown": s.reboot,
		"id": s.id, "whoami": s.whoami, "groups": s.groupsProgram, "getent": s.getent, "useradd": s.useradd, "adduser": s.useradd, "usermod": s.usermod,
		"userdel": s.userdel, "deluser": s.userdel, "groupdel": s.userdel, "groupadd": s.groupadd, "addgroup": s.groupadd, "groupmod": s.groupmod,
		"chpasswd": s.chpasswd, "passwd": quiet, "chsh": quiet, "sudo": s.sudo, "su": s.su, "runuser": s.su, "visudo": s.visudo,
		"uname": s.uname, "hostname": s.hostnameProgram, "hostnamectl": s.hostnamectl, "timedatectl": s.timedatectl, "systemd-detect-virt": s.detectVirt,
		"cloud-init": s.cloudInitProgram, "sysctl": s.sysctl, "modprobe": s.modprobe, "rmmod": quiet, "insmod": quiet, "lsmod": s.lsmod, "swapoff": s.swapoff, "swapon": s.swapon,
		"apt-get": s.aptGet, "apt": s.aptGet, "apt-cache": s.aptCache, "apt-mark": s.aptMark, "dpkg": s.dpkg, "dpkg-query": s.dpkgQuery,
		"ip": s.ip, "nft": s.nft, "wg": s.wg, "wg-quick": s.wgQuick, "ss": s.ss, "nc": s.nc, "curl": s.curl, "wget": s.wget,
		"df": s.df, "free": s.free, "nproc": s.nproc, "lsblk": s.lsblk, "uptime": s.uptime, "dmesg": s.dmesg, "mount": s.mount, "umount": quiet, "findmnt": s.mount,
		"gpg": s.gpg, "gpgv": quiet, "jq": s.jq, "openssl": s.openssl, "ssh-keygen": s.sshKeygen,
		"kubeadm": s.kubeadm, "kubelet": s.kubelet, "kubectl": s.kubectl, "containerd": s.containerd, "crictl": s.crictl, "ctr": s.crictl,
		"runc": says("runc version 1.1.5+ds1"), "git": says("git version 2.39.5"), "python3": says("Python 3.11.2"), "rsync": says("rsync  version 3.2.7"),
		"lsb_release": says("Description:\tDebian GNU/Linux 12 (bookworm)"), "locale": says("LANG=C.UTF-8"), "iptables": quiet, "ip6tables": quiet, "iptables-save": quiet,
		"systemd-sysctl": func(ctx context.Context, p *machine.Proc) int {
			return s.sysctl(ctx, p.WithArgs([]string{"sysctl", "-q", "-e", "--system"}))
		},
		"systemd-networkd": service, "systemd-resolved": service, "systemd-timesyncd": service, "systemd-journald": service,
		"sshd": service, "cron": service, "chronyd": quiet, "chronyc": says("Leap status     : Normal"), "nginx": service, "haproxy": service, "iscsid": service, "qemu-ga": service,
		"systemd-modules-load": quiet, "networkctl": quiet, "resolvectl": quiet, "localectl": quiet, "loginctl": quiet, "crontab": quiet, "logger": quiet,
		"systemd-analyze": s.systemdAnalyze, "systemd-tmpfiles": quiet, "udevadm": quiet, "update-alternatives": quiet, "update-ca-certificates": quiet, "ldconfig": quiet,
		"ifup": quiet, "ifdown": quiet, "mkfs.ext4": quiet, "blkid": quiet, "conntrack": quiet, "socat": quiet, "ethtool": quiet, "ebtables": quiet, "ipset": quiet,
		"ipvsadm": quiet, "tcpdump": quiet, "unzip": quiet, "iscsiadm": quiet, "containerd-shim-runc-v2": quiet, "bridge": quiet, "loopback": quiet, "portmap": quiet, "host-local": quiet,
		"ping": func(ctx context.Context, p *machine.Proc) int {
			if s.egress() {
				return 0
			}
			return p.Fail(2, "%s: Temporary failure in name resolution", p.Args[len(p.Args)-1])
		},
	}
}
