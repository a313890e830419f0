package debian

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/coreutils"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// kernelRelease is what uname -r says.
const kernelRelease = "6.1.0-32-cloud-amd64"

// install lays out the image's files.
func (s *System) install() error {
	root := tree.Root()
	mkdir := func(perm fs.FileMode, dirs ...string) error {
		for _, dir := range dirs {
			if err := s.FS.MkdirAll(root, dir, perm); err != nil {
				return err
			}
			if err := s.FS.Chmod(root, dir, perm); err != nil {
				return err
			}
		}
		return nil
	}
	var steps []error
	try := func(err error) { steps = append(steps, err) }
	try(mkdir(0o755, "/usr/bin", "/usr/sbin", "/usr/lib/systemd/system", "/usr/local/bin", "/usr/local/sbin", "/usr/local/lib",
		"/usr/share/keyrings", "/etc/systemd/system/multi-user.target.wants", "/etc/systemd/network", "/etc/apt/sources.list.d",
		"/etc/apt/keyrings", "/etc/apt/preferences.d", "/etc/apt/apt.conf.d", "/etc/sysctl.d", "/etc/modules-load.d", "/etc/modprobe.d", "/etc/ssh/sshd_config.d",
		"/etc/default", "/etc/profile.d", "/etc/cron.d", "/etc/logrotate.d", "/etc/ssl/certs", "/var/lib/dpkg", "/var/lib/apt/lists", "/var/lib/cloud",
		"/var/log/journal", "/var/cache", "/var/spool", "/home", "/opt", "/srv", "/mnt", "/media", "/boot", "/usr/share/doc"))
	try(mkdir(0o700, "/root", "/root/.ssh"))
	try(mkdir(0o750, "/etc/sudoers.d"))
	try(mkdir(0o777|fs.ModeSticky, "/tmp", "/var/tmp"))
	try(s.FS.Mount("/run", tree.Memory, 0o755))
	try(s.FS.Mount("/dev", tree.Memory, 0o755))
	try(s.FS.Mount("/proc", tree.Memory, 0o555))
	try(s.FS.Mount("/sys", tree.Memory, 0o555))
	for _, link := range [][2]string{{"usr/bin", "/bin"}, {"usr/sbin", "/sbin"}, {"usr/lib", "/lib"}, {"/run", "/var/run"}, {"/run/lock", "/var/lock"}} {
		try(s.FS.Symlink(root, link[0], link[1]))
	}
	for _, dev := range []string{"null", "zero", "full", "urandom"} {
		try(s.FS.Device("/dev/"+dev, dev))
	}
	try(s.FS.Device("/dev/random", "urandom"))
	try(s.FS.Device("/dev/tty", "null"))
	if err := first(steps); err != nil {
		return err
	}
	for name := range coreutils.Programs() {
		try(s.Install("/usr/bin/"+name, name))
	}
	for _, name := range strings.Fields(baseBin) {
		try(s.Install("/usr/bin/"+name, name))
	}
	for _, name := range strings.Fields(baseSbin) {
		try(s.Install("/usr/sbin/"+name, name))
	}
	try(s.FS.Chmod(root, "/usr/bin/sudo", 0o755|fs.ModeSetuid))
	try(s.FS.Chmod(root, "/usr/bin/su", 0o755|fs.ModeSetuid))
	user := s.Config.User
	home := "/home/" + user
	files := []struct {
		path, content string
		perm          fs.FileMode
	}{
		{"/etc/passwd", fmt.Sprintf(`root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
bin:x:2:2:bin:/bin:/usr/sbin/nologin
sys:x:3:3:sys:/dev:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
_apt:x:42:65534::/nonexistent:/usr/sbin/nologin
systemd-network:x:998:998:systemd Network Management:/:/usr/sbin/nologin
sshd:x:101:65534::/run/sshd:/usr/sbin/nologin
%s:x:1000:1000:Debian:%s:/bin/bash
`, user, home), 0o644},
		{"/etc/group", fmt.Sprintf("root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:%[1]s\ntty:x:5:\ndisk:x:6:\nsudo:x:27:%[1]s\nwww-data:x:33:\nshadow:x:42:\nstaff:x:50:\nusers:x:100:\nnogroup:x:65534:\nsystemd-journal:x:999:\nsystemd-network:x:998:\n%[1]s:x:1000:\n", user), 0o644},
		{"/etc/shadow", fmt.Sprintf("root:*:19800:0:99999:7:::\n%s:!:19800:0:99999:7:::\n", user), 0o640},
		{"/etc/sudoers", "Defaults\tenv_reset\nDefaults\tsecure_path=\"" + machine.SystemPath + "\"\nroot\tALL=(ALL:ALL) ALL\n%sudo\tALL=(ALL:ALL) ALL\n@includedir /etc/sudoers.d\n", 0o440},
		{"/etc/sudoers.d/90-cloud-init-users", user + " ALL=(ALL) NOPASSWD:ALL\n", 0o440},
		{"/etc/hostname", s.Config.Hostname + "\n", 0o644},
		{"/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 " + s.Config.Hostname + "\n\n::1 localhost ip6-localhost ip6-loopback\n", 0o644},
		{"/etc/debian_version", "12.11\n", 0o644},
		{"/usr/lib/os-release", "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nVERSION=\"12 (bookworm)\"\nVERSION_CODENAME=bookworm\nID=debian\n", 0o644},
		{"/etc/apt/sources.list", "deb http://mirror.lab.invalid/debian bookworm main\ndeb http://mirror.lab.invalid/debian bookworm-updates main\n", 0o644},
		{"/etc/fstab", "UUID=5f1b3c2a-0d5e-4c56-9a39-0f3b6f4a7c11 / ext4 rw,discard,errors=remount-ro 0 1\n", 0o644},
		{"/etc/resolv.conf", "nameserver 127.0.0.53\n", 0o644},
		{"/etc/timezone", "Etc/UTC\n", 0o644},
		{"/usr/share/zoneinfo/Etc/UTC", "TZif2", 0o644},
		{"/usr/share/zoneinfo/Europe/Berlin", "TZif2", 0o644},
		{"/usr/share/zoneinfo/Africa/Nairobi", "TZif2", 0o644},
		{"/etc/default/locale", "LANG=C.UTF-8\n", 0o644},
		{"/etc/environment", "", 0o644},
		{"/etc/profile", "", 0o644},
		{"/etc/sysctl.conf", "", 0o644},
		{"/etc/modules", "", 0o644},
		{"/etc/machine-id", machineID(s.Config.ID) + "\n", 0o444},
		{"/etc/ssh/sshd_config", "Include /etc/ssh/sshd_config.d/*.conf\nPasswordAuthentication no\nSubsystem sftp /usr/lib/openssh/sftp-server\n", 0o644},
		{"/var/log/syslog", "", 0o640},
		{"/root/.ssh/authorized_keys", "", 0o600},
		{home + "/.bashrc", "", 0o644},
		{home + "/.profile", "", 0o644},
		{home + "/.ssh/authorized_keys", lines(s.Config.Keys), 0o600},
	}
	for _, f := range files {
		try(s.Put(f.path, f.content, f.perm))
	}
	for _, line := range s.Config.HostKeys {
		name := "ecdsa"
		if strings.HasPrefix(line, "ssh-ed25519") {
			name = "ed25519"
		}
		try(s.Put("/etc/ssh/ssh_host_"+name+"_key.pub", line+"\n", 0o644))
	}
	try(s.FS.Symlink(root, "../usr/lib/os-release", "/etc/os-release"))
	try(s.FS.Symlink(root, "/usr/share/zoneinfo/Etc/UTC", "/etc/localtime"))
	if err := first(steps); err != nil {
		return err
	}
	group, ok := s.LookupGroup("shadow")
	if ok {
		try(s.FS.Chown(root, "/etc/shadow", 0, group.GID, true))
	}
	for _, p := range []string{home, home + "/.bashrc", home + "/.profile", home + "/.ssh", home + "/.ssh/authorized_keys"} {
		try(s.FS.Chown(root, p, 1000, 1000, true))
	}
	try(s.FS.Chmod(root, home+"/.ssh", 0o700))
	try(s.kernel.install())
	try(s.services.install())
	try(s.packages.install())
	return first(steps)
}

func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func lines(list []string) string {
	var sb strings.Builder
	for _, l := range list {
		sb.WriteString(strings.TrimSpace(l) + "\n")
	}
	return sb.String()
}

func machineID(id string) string {
	var hex strings.Builder
	for _, c := range strings.ToLower(id) {
		if strings.ContainsRune("0123456789abcdef", c) {
			hex.WriteRune(c)
		}
	}
	return (hex.String() + strings.Repeat("0", 32))[:32]
}

// own gives a file and the directories above it, up to top, to a user.
func (s *System) own(file, top string, uid, gid int) error {
	for {
		if err := s.FS.Chown(tree.Root(), file, uid, gid, true); err != nil {
			return err
		}
		if file == top || file == "/" {
			return nil
		}
		file = path.Dir(file)
	}
}
