package hosts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// A Host is a host of the lab.
type Host struct {
	Spec
	HostKey string // its public key

	lab *Lab
	id  int64
	dir string
	ns  *os.File

	mu      sync.Mutex
	pid     int           // of its first process, as seen from here; 0 if it doesn't run
	ended   chan struct{} // closed when it has stopped and won't start again
	stopped bool          // by Kill
	boots   int
}

// create makes the host's folder and its connections.
func (h *Host) create() error {
	for _, d := range []string{"layer/upper", "layer/work", "root", "disk"} {
		if err := os.MkdirAll(filepath.Join(h.dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := h.fill(); err != nil {
		return err
	}
	var err error
	if h.ns, err = newNamespace(); err != nil {
		return err
	}
	err = within(h.ns, func() error {
		// Answers may come by another interface than the kernel would ask by.
		return errors.Join(loopback(), os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("0"), 0o644))
	})
	if err != nil {
		return err
	}
	for n, leg := range h.Legs {
		if err := h.connect(n, leg); err != nil {
			return err
		}
	}
	if h.Gateway == "" {
		return nil
	}
	return h.route(h.Gateway)
}

// fill writes what distinguishes the host from others.
func (h *Host) fill() error {
	key, err := NewKey()
	if err != nil {
		return err
	}
	h.HostKey = key.Public
	names := []string{h.Name}
	for _, leg := range h.Legs {
		address, _, _ := strings.Cut(leg.Address, "/")
		names = append(names, address)
	}
	cert, err := h.lab.HostCA.Certify(key.Public, ssh.HostCert, 24*time.Hour, names...)
	if err != nil {
		return err
	}
	for path, content := range map[string]string{
		"etc/ssh/ssh_host_ed25519_key":          key.Private,
		"etc/ssh/ssh_host_ed25519_key.pub":      key.Public + "\n",
		"etc/ssh/ssh_host_ed25519_key-cert.pub": cert + "\n",
		"etc/ssh/user_ca.pub":                   h.lab.UserCA.Public + "\n",
		"etc/hostname":                          h.Name + "\n",
		"etc/hosts":                             "127.0.0.1 localhost " + h.Name + "\n",
	} {
		mode := os.FileMode(0o644)
		if strings.HasSuffix(path, "_key") {
			mode = 0o600
		}
		if err := h.put(path, content, mode, 0); err != nil {
			return err
		}
	}
	for home, id := range map[string]int{"root": 0, "home/debian": 1000, "home/guest": 1001} {
		if err := h.put(home+"/.ssh/authorized_keys", h.lab.User.Public+"\n", 0o600, id); err != nil {
			return err
		}
	}
	for path, content := range h.Files {
		if err := h.put(path, content, 0o644, 0); err != nil {
			return err
		}
	}
	for _, pattern := range h.Lacks {
		if err := h.hide(pattern); err != nil {
			return err
		}
	}
	if h.Busybox {
		return h.shrink()
	}
	return nil
}

func (h *Host) upper(path string) string { return filepath.Join(h.dir, "layer/upper", path) }

// put writes a file into the host's layer. Folders that the root has stay as
// they are there.
func (h *Host) put(path, content string, mode os.FileMode, owner int) error {
	for _, dir := range parents(path) {
		err := os.Mkdir(h.upper(dir), 0o755)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		perm, uid, gid := os.FileMode(0o755), 0, 0
		if below, err := os.Stat(filepath.Join(h.lab.root, dir)); err == nil {
			st := below.Sys().(*syscall.Stat_t)
			perm, uid, gid = below.Mode().Perm(), int(st.Uid), int(st.Gid)
		} else if strings.HasSuffix(dir, "/.ssh") {
			perm, uid, gid = 0o700, owner, owner
		}
		if err := errors.Join(os.Chown(h.upper(dir), uid, gid), os.Chmod(h.upper(dir), perm)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(h.upper(path), []byte(content), mode); err != nil {
		return err
	}
	return os.Chown(h.upper(path), owner, owner)
}

// parents returns the folders that a path is in, the outermost first.
func parents(path string) []string {
	var out []string
	path = strings.TrimPrefix(path, "/")
	for i, c := range path {
		if c == '/' {
			out = append(out, path[:i])
		}
	}
	return out
}

// hide takes programs of the root away.
func (h *Host) hide(pattern string) error {
	found, err := filepath.Glob(filepath.Join(h.lab.root, "usr/bin", pattern))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(h.upper("usr/bin"), 0o755); err != nil {
		return err
	}
	for _, f := range found {
		// An overlay takes such a device for "not there".
		if err := unix.Mknod(h.upper("usr/bin/"+filepath.Base(f)), unix.S_IFCHR, 0); err != nil {
			return err
		}
	}
	return nil
}

// shrink puts busybox in place of sh and all programs that it can be.
func (h *Host) shrink() error {
	out, err := exec.Command(filepath.Join(h.lab.root, "usr/bin/busybox"), "--list").Output()
	if err != nil {
		return fmt.Errorf("asking busybox what it can be: %w", err)
	}
	// These are run by the host itself, and must do all that they can.
	keep := map[string]bool{"busybox": true, "mount": true, "umount": true, "ip": true, "init": true}
	if err := os.MkdirAll(h.upper("usr/bin"), 0o755); err != nil {
		return err
	}
	for _, name := range strings.Fields(string(out)) {
		if _, err := os.Lstat(filepath.Join(h.lab.root, "usr/bin", name)); err != nil || keep[name] {
			continue
		}
		path := h.upper("usr/bin/" + name)
		_ = os.Remove(path) // it may be hidden
		if err := os.Symlink("busybox", path); err != nil {
			return err
		}
	}
	return nil
}

// Start starts the host, unless it runs, and waits until it answers by SSH.
func (h *Host) Start(ctx context.Context) error {
	h.mu.Lock()
	if h.ended == nil {
		h.stopped, h.ended = false, make(chan struct{})
		go h.keep(h.ended)
	}
	ended := h.ended
	h.mu.Unlock()
	for {
		if h.answers() {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ended:
			return fmt.Errorf("starting the host %s: it ended: %s", h.Name, h.Console())
		case <-ctx.Done():
			return fmt.Errorf("starting the host %s: no SSH server answers: %w: %s", h.Name, ctx.Err(), h.Console())
		}
	}
}

// answers reports whether the SSH server greets, seen from the host itself.
func (h *Host) answers() bool {
	ok := false
	err := within(h.ns, func() error {
		c, err := net.DialTimeout("tcp", "127.0.0.1:22", time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		greeting := make([]byte, 4)
		_, err = io.ReadFull(c, greeting)
		ok = string(greeting) == "SSH-"
		return err
	})
	return err == nil && ok
}

// keep runs the host until it stops, again each time that it reboots.
func (h *Host) keep(ended chan struct{}) {
	defer func() {
		h.mu.Lock()
		h.pid, h.ended = 0, nil
		h.mu.Unlock()
		close(ended)
	}()
	for h.boot() {
	}
}

// boot runs the host once, and reports whether it wants to start again.
func (h *Host) boot() bool {
	console, err := os.OpenFile(filepath.Join(h.dir, "console"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	defer console.Close()
	fail := func(err error) bool {
		fmt.Fprintln(console, "starting:", err)
		return false
	}
	groups, err := h.lab.makeGroups(h.Name)
	if err != nil {
		return fail(err)
	}
	arg, err := json.Marshal(body{Root: h.lab.root, Dir: h.dir, Name: h.Name, Systemd: h.Systemd, Disk: h.Disk, Groups: groups})
	if err != nil {
		return fail(err)
	}
	cmd := exec.Command("/proc/self/exe", string(arg))
	cmd.Args[0] = becoming
	cmd.Env = []string{"GOMAXPROCS=1"}
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC}
	h.mu.Lock()
	if h.stopped {
		h.mu.Unlock()
		return false
	}
	err = within(h.ns, cmd.Start)
	if err == nil {
		h.pid = cmd.Process.Pid
		h.boots++
	}
	h.mu.Unlock()
	if err != nil {
		return fail(err)
	}
	_ = cmd.Wait() // how it ended is looked at next
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pid = 0
	// The kernel ends the first process of a PID namespace so when it reboots.
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	fmt.Fprintln(console, "ended:", cmd.ProcessState)
	return !h.stopped && status.Signaled() && status.Signal() == syscall.SIGHUP
}

// Kill ends the host as a power failure does. What it wrote stays.
func (h *Host) Kill() error {
	h.mu.Lock()
	ended := h.ended
	h.stopped = true
	if h.pid > 0 {
		_ = h.lab.freeze(h.Name, false) // it may not be frozen
		if err := unix.Kill(h.pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			h.mu.Unlock()
			return fmt.Errorf("killing the host %s: %w", h.Name, err)
		}
	}
	h.mu.Unlock()
	if ended != nil {
		<-ended
	}
	return nil
}

// Freeze stops everything on the host, which then doesn't answer, or lets it
// go on. The kernel still takes connections.
func (h *Host) Freeze(frozen bool) error { return h.lab.freeze(h.Name, frozen) }

// Boots returns how often the host has been started.
func (h *Host) Boots() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.boots
}

// Address returns the address of the host's first interface.
func (h *Host) Address() string {
	address, _, _ := strings.Cut(h.Legs[0].Address, "/")
	return address
}

// Layer is the folder with all that the host has written. A host with a small
// disk has none.
func (h *Host) Layer() string { return h.upper("") }

// Console returns what the host's first process said.
func (h *Host) Console() string {
	text, err := os.ReadFile(filepath.Join(h.dir, "console"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Run runs a script of sh on the host as root, beside SSH, and returns what it
// writes to standard output.
func (h *Host) Run(ctx context.Context, script string) (string, error) {
	h.mu.Lock()
	pid := h.pid
	h.mu.Unlock()
	if pid == 0 {
		return "", fmt.Errorf("running a script on %s: the host doesn't run", h.Name)
	}
	cmd := exec.CommandContext(ctx, "nsenter", "-t", strconv.Itoa(pid), "-m", "-u", "-i", "-n", "-p", "-r", "-w", "/bin/sh", "-ec", script)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("running a script on %s: %w: %s", h.Name, err, strings.TrimSpace(errOut.String()))
	}
	return out.String(), nil
}
