package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"

	"git.vanillacore.net/govstack/gsrun/internal/lab/real/hosts"
)

// fleetFiles are a recipe of 30 tasks, and the equal playbook.
//
//go:embed fleet
var fleetFiles embed.FS

// fleetTasks is how many tasks each host gets.
const fleetTasks = 30

// A fleetHost is one host as recipe and playbook get it.
type fleetHost struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	HostKey string `json:"host_key"`
}

// onHosts measures the module ssh on n real hosts, beside Ansible and beside a
// bare SSH client that runs as many commands.
func onHosts(n int) func(context.Context, string) ([]figure, error) {
	return func(ctx context.Context, program string) ([]figure, error) {
		if !hosts.Inside() {
			return nil, isolated(ctx, n, program)
		}
		if err := hosts.Settle(); err != nil {
			return nil, err
		}
		program, err := filepath.Abs(program)
		if err != nil {
			return nil, err
		}
		dir, err := os.MkdirTemp("", "gsrun-bench-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		return measureFleet(ctx, n, program, dir)
	}
}

// isolated runs this program in namespaces of its own, where it can have hosts.
func isolated(ctx context.Context, n int, program string) error {
	if why := hosts.Missing(); why != "" {
		skipped("real hosts", why)
		return nil
	}
	root, err := hosts.Install(ctx, hosts.Config{Progress: func(line string) { fmt.Fprintln(os.Stderr, line) }})
	if err != nil {
		return err
	}
	code, err := hosts.Isolate(root, "/proc/self/exe", []string{"-only", fmt.Sprintf("ssh-%d", n), "-gsrun", program})
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d", code)
	}
	return err
}

// A fleet is n fresh hosts.
type fleet struct {
	lab *hosts.Lab
	dir string // with what clients need
	all []fleetHost
}

func newFleet(ctx context.Context, n int, dir string) (*fleet, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	files, err := fs.Sub(fleetFiles, "fleet")
	if err != nil {
		return nil, err
	}
	if err := os.CopyFS(dir, files); err != nil {
		return nil, err
	}
	l, err := hosts.New(filepath.Join(dir, "hosts"))
	if err != nil {
		return nil, err
	}
	f := &fleet{lab: l, dir: dir}
	if err := l.Network("public", "203.0.113.10/24"); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	var specs []hosts.Spec
	for i := range n {
		specs = append(specs, hosts.Spec{Name: fmt.Sprintf("h%d", i+1), Legs: []hosts.Leg{{Network: "public", Address: fmt.Sprintf("203.0.113.%d/24", 101+i)}}})
	}
	all, err := l.Boot(ctx, specs...)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	var known, inventory strings.Builder
	inventory.WriteString("[hosts]\n")
	for _, h := range all {
		f.all = append(f.all, fleetHost{h.Name, h.Address(), h.HostKey})
		fmt.Fprintf(&known, "%s %s\n", h.Address(), h.HostKey)
		fmt.Fprintf(&inventory, "%s ansible_host=%s\n", h.Name, h.Address())
	}
	list, err := json.Marshal(map[string]any{"all": f.all})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	config := fmt.Sprintf("Host *\n  User root\n  IdentityFile %s/id\n  IdentitiesOnly yes\n  UserKnownHostsFile %s/known_hosts\n  StrictHostKeyChecking yes\n  BatchMode yes\n", dir, dir)
	for name, text := range map[string]string{"id": l.User.Private, "known_hosts": known.String(), "inventory": inventory.String(), "ssh_config": config, "hosts.json": string(list),
		"site.yaml": fmt.Sprintf("name: bench\nsecrets:\n  sources:\n    ssh: {file: id}\ninputs:\n  fleet:\n    key: ssh\n    hosts: %s\n", list)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return f, nil
}

// A cost is what a command took.
type cost struct {
	wall, client, hosts time.Duration // the clock, and processor time
	memory              int64         // KiB at most
}

// measure runs a command, with all that it starts.
func (f *fleet) measure(ctx context.Context, env []string, name string, args ...string) (cost, error) {
	before, err := f.lab.CPU()
	if err != nil {
		return cost{}, err
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = f.dir, append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(out.String())
		return cost{}, fmt.Errorf("%s: %w: %s", filepath.Base(name), err, text[max(0, len(text)-2000):])
	}
	c := cost{wall: time.Since(begin), client: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), memory: cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss}
	after, err := f.lab.CPU()
	c.hosts = after - before
	return c, err
}

// least is the cheapest of several runs.
func (f *fleet) least(ctx context.Context, times int, env []string, name string, args ...string) (cost, error) {
	var best cost
	for i := range times {
		c, err := f.measure(ctx, env, name, args...)
		if err != nil {
			return cost{}, err
		}
		if i == 0 || c.wall < best.wall {
			best = c
		}
	}
	return best, nil
}

func measureFleet(ctx context.Context, n int, program, dir string) ([]figure, error) {
	f, err := newFleet(ctx, n, filepath.Join(dir, "gsrun"))
	if err != nil {
		return nil, err
	}
	recipe := []string{"run", "fleet.star", "--site", "."}
	first, err := f.measure(ctx, nil, program, recipe...)
	if err != nil {
		return nil, errors.Join(err, f.lab.Close())
	}
	again, err := f.least(ctx, 3, nil, program, recipe...)
	if err != nil {
		return nil, errors.Join(err, f.lab.Close())
	}
	bare, err := f.least(ctx, 3, []string{floorVariable + "=" + f.dir}, "/proc/self/exe")
	if err := errors.Join(err, f.lab.Close()); err != nil {
		return nil, err
	}
	name := func(what string) string { return fmt.Sprintf("ssh-%d-%s", n, what) }
	figures := []figure{
		{name("unchanged"), again.wall.Seconds(), "s", "bare-ssh", bare.wall.Seconds(), "1"},
		{name("unchanged-client-cpu"), again.client.Seconds(), "s", "bare-ssh", bare.client.Seconds(), "-"},
		{name("unchanged-hosts-cpu"), again.hosts.Seconds(), "s", "bare-ssh", bare.hosts.Seconds(), "-"},
		{name("unchanged-memory"), mib(again), "MiB", "bare-ssh", mib(bare), "below 100 MiB"},
	}
	if _, err := exec.LookPath("ansible-playbook"); err != nil {
		skipped("Ansible", "ansible-playbook isn't installed")
		return figures, nil
	}
	if f, err = newFleet(ctx, n, filepath.Join(dir, "ansible")); err != nil {
		return figures, err
	}
	env := []string{"ANSIBLE_CONFIG=" + filepath.Join(f.dir, "ansible.cfg"), "ANSIBLE_SSH_ARGS=-F " + filepath.Join(f.dir, "ssh_config") + " -o ControlMaster=auto -o ControlPersist=60s",
		"ANSIBLE_SSH_CONTROL_PATH_DIR=" + filepath.Join(f.dir, "cp"), "ANSIBLE_LOCAL_TEMP=" + filepath.Join(f.dir, "tmp"), "ANSIBLE_HOME=" + filepath.Join(f.dir, "home"), "ANSIBLE_FORKS=50"}
	play := []string{"-i", "inventory", "play.yml"}
	firstPeer, err := f.measure(ctx, env, "ansible-playbook", play...)
	var againPeer cost
	if err == nil {
		againPeer, err = f.measure(ctx, env, "ansible-playbook", play...)
	}
	if err := errors.Join(err, f.lab.Close()); err != nil {
		return figures, err
	}
	return append(figures,
		figure{name("first"), first.wall.Seconds(), "s", "ansible", firstPeer.wall.Seconds(), "0.033"},
		figure{name("first-client-cpu"), first.client.Seconds(), "s", "ansible", firstPeer.client.Seconds(), "-"},
		figure{name("first-hosts-cpu"), first.hosts.Seconds(), "s", "ansible", firstPeer.hosts.Seconds(), "-"},
		figure{name("unchanged"), again.wall.Seconds(), "s", "ansible", againPeer.wall.Seconds(), "0.01"},
		figure{name("unchanged-client-cpu"), again.client.Seconds(), "s", "ansible", againPeer.client.Seconds(), "-"},
		figure{name("unchanged-hosts-cpu"), again.hosts.Seconds(), "s", "ansible", againPeer.hosts.Seconds(), "-"},
		figure{name("unchanged-memory"), mib(again), "MiB", "ansible", mib(againPeer), "-"},
	), nil
}

func mib(c cost) float64 { return float64(c.memory) / 1024 }

// floorVariable names the folder of a fleet to which this program is the bare
// SSH client.
const floorVariable = "GSRUN_BENCH_FLOOR"

// floor connects to all hosts at a time, and runs as many commands on each as
// it has tasks, one after the other.
func floor(dir string) error {
	var fleet struct {
		All []fleetHost `json:"all"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "hosts.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &fleet); err != nil {
		return err
	}
	key, err := os.ReadFile(filepath.Join(dir, "id"))
	if err != nil {
		return err
	}
	signer, err := ssh.ParsePrivateKey(key)
	if err != nil {
		return err
	}
	var all errgroup.Group
	for _, h := range fleet.All {
		all.Go(func() error { return h.commands(signer, fleetTasks) })
	}
	return all.Wait()
}

func (h fleetHost) commands(signer ssh.Signer, n int) error {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(h.HostKey))
	if err != nil {
		return err
	}
	c, err := ssh.Dial("tcp", h.Address+":22", &ssh.ClientConfig{User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback: ssh.FixedHostKey(key), HostKeyAlgorithms: []string{ssh.KeyAlgoED25519}, Timeout: 30 * time.Second})
	if err != nil {
		return err
	}
	defer c.Close()
	for i := range n {
		s, err := c.NewSession()
		if err != nil {
			return err
		}
		out, err := s.Output("echo " + strconv.Itoa(i))
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(out)) != strconv.Itoa(i) {
			return fmt.Errorf("%s says %q", h.Name, out)
		}
	}
	return nil
}
