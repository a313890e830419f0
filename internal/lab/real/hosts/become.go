package hosts

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// becoming is the name under which this program is started to become a host.
const becoming = "gsrun-lab-host"

// body is what a process needs to know to become a host.
type body struct {
	Root    string // what is below
	Dir     string // the host's own folder
	Name    string
	Systemd bool
	Disk    int // MiB of what the host may write; 0 is no limit
	Groups  []string
}

// A program that imports this package can become a host: it is started anew
// under another name.
func init() {
	if len(os.Args) != 2 || os.Args[0] != becoming {
		return
	}
	runtime.LockOSThread()
	var b body
	err := json.Unmarshal([]byte(os.Args[1]), &b)
	if err == nil {
		err = b.become()
	}
	fmt.Fprintln(os.Stderr, "becoming a host:", err)
	os.Exit(125)
}

// become makes this process, which is in new namespaces, the host's first one.
// It only returns if that fails.
func (b body) become() error {
	// A host's control groups are the roots of what it sees.
	for _, g := range b.Groups {
		if err := os.WriteFile(filepath.Join(g, "cgroup.procs"), []byte("0"), 0o644); err != nil {
			return err
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("making a namespace of control groups: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	root, err := b.mountRoot()
	if err != nil {
		return err
	}
	if err := b.mountKernel(root); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(b.Name)); err != nil {
		return fmt.Errorf("naming the host: %w", err)
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "mnt"); err != nil {
		return fmt.Errorf("entering the host's root: %w", err)
	}
	if err := unix.Unmount("/mnt", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the machine's root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}
	if b.Systemd {
		return unix.Exec("/lib/systemd/systemd", []string{"systemd"}, append(env, "container=lab"))
	}
	for _, c := range []uintptr{unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO, unix.CAP_SYS_TIME, unix.CAP_MKNOD, unix.CAP_MAC_ADMIN} {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return fmt.Errorf("giving up what a host may not do: %w", err)
		}
	}
	return unix.Exec("/usr/bin/tini", []string{"tini", "--", "/usr/local/sbin/lab-sshd"}, env)
}

// mountRoot lays the host's own layer over the common root.
func (b body) mountRoot() (string, error) {
	top, root := filepath.Join(b.Dir, "layer"), filepath.Join(b.Dir, "root")
	if b.Disk > 0 {
		// What a small disk holds is gone when the host is: it is for tests of one that is full.
		disk := filepath.Join(b.Dir, "disk")
		if err := unix.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%dm", b.Disk)); err != nil {
			return "", fmt.Errorf("making a disk: %w", err)
		}
		if out, err := exec.Command("/bin/cp", "-a", filepath.Join(top, "upper"), disk).CombinedOutput(); err != nil {
			return "", fmt.Errorf("filling the disk: %w: %s", err, out)
		}
		if err := os.Mkdir(filepath.Join(disk, "work"), 0o755); err != nil {
			return "", err
		}
		top = disk
	}
	layers := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", b.Root, top, top)
	if err := unix.Mount("overlay", root, "overlay", 0, layers); err != nil {
		return "", fmt.Errorf("mounting the host's root: %w", err)
	}
	return root, nil
}

var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

// mountKernel mounts what the kernel shows of itself.
func (b body) mountKernel(root string) error {
	at := func(p string) string { return filepath.Join(root, p) }
	mounts := []mount{
		{"proc", "proc", "proc", 0, ""},
		// Of the kernel's settings only those of the network are the host's own.
		{at("proc/sys"), "proc/sys", "", unix.MS_BIND | unix.MS_REC, ""},
		{at("proc/sys/net"), "proc/sys/net", "", unix.MS_BIND, ""},
		{"", "proc/sys", "", unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY, ""},
		{"sysfs", "sys", "sysfs", unix.MS_RDONLY, ""},
		{"tmpfs", "dev", "tmpfs", 0, "mode=755,size=1m"},
		{"tmpfs", "run", "tmpfs", 0, "mode=755,size=64m"},
	}
	for _, name := range append(slices.Clone(devices), "net/tun") {
		mounts = append(mounts, mount{filepath.Join("/dev", name), filepath.Join("dev", name), "file", unix.MS_BIND, ""})
	}
	mounts = append(mounts,
		mount{"devpts", "dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=0620,gid=5"},
		mount{"tmpfs", "dev/shm", "tmpfs", 0, "mode=1777"})
	if b.Systemd {
		mounts = append(mounts, mount{"tmpfs", "sys/fs/cgroup", "tmpfs", 0, "mode=755"})
		for _, h := range hierarchies() {
			kind, data := "cgroup", filepath.Base(h)
			switch data {
			case "unified":
				kind, data = "cgroup2", ""
			case "systemd":
				data = "none,name=systemd,xattr"
			}
			mounts = append(mounts, mount{"cgroup", filepath.Join("sys/fs/cgroup", filepath.Base(h)), kind, 0, data})
		}
	}
	for _, m := range mounts {
		if err := m.mount(root); err != nil {
			return fmt.Errorf("mounting /%s: %w", m.target, err)
		}
	}
	for link, to := range map[string]string{"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := os.Symlink(to, at("dev/"+link)); err != nil {
			return err
		}
	}
	return nil
}

func (m mount) mount(root string) error {
	target := filepath.Join(root, m.target)
	var err error
	if m.kind == "file" {
		m.kind = ""
		err = errors.Join(os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, nil, 0o666))
	} else if m.flags&unix.MS_REMOUNT == 0 {
		err = os.MkdirAll(target, 0o755)
	}
	if err != nil {
		return err
	}
	return unix.Mount(m.source, target, m.kind, m.flags, m.data)
}
