package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// startTime bounds how long a cluster may take to serve, stopTime how long to end.
const (
	startTime = 60 * time.Second
	stopTime  = 2 * time.Second
)

// A Cluster is a running API server. It ends when Stop is called or this process ends, however
// that happens.
type Cluster struct {
	// Address is host:port on loopback.
	Address string
	// Pids are the ids of the processes, for measurements.
	Pids []int

	dir       string
	authority *authority
	processes []process
	ended     chan struct{} // closed once a process has ended
	endErr    error
	once      sync.Once
}

// A process is one that was started: it ends when its standard input does.
type process struct {
	stdin io.Closer
	done  chan struct{}
}

// Start starts a cluster and returns once it serves and its controllers run. If it fails, or ctx
// ends before, nothing runs any more when it returns. Its log is
// kubernetes.log, its audit log audit.log, its administrator's kubeconfig admin.conf in c.Dir.
func Start(ctx context.Context, c Config) (*Cluster, error) {
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fault.Wrap("finding", c.Dir, err)
	}
	c.Dir = dir
	if err := os.MkdirAll(filepath.Join(dir, "pki"), 0o700); err != nil {
		return nil, fault.Wrap("making", dir, err)
	}
	commands, err := commands(ctx, c)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", c.Port))
	if err != nil {
		return nil, &fault.Error{Op: "listening for", Target: "the lab's Kubernetes", Kind: fault.Conflict, Err: err}
	}
	defer listener.Close()
	cluster := &Cluster{Address: listener.Addr().String(), dir: dir, ended: make(chan struct{})}
	if err := cluster.write(c, listener.Addr().(*net.TCPAddr).Port); err != nil {
		return nil, fault.Wrap("writing", dir, err)
	}
	if err := cluster.start(ctx, c, commands, listener.(*net.TCPListener)); err != nil {
		// Nobody uses it yet, so there is nothing that it would have to end in order.
		cluster.Kill()
		return nil, err
	}
	return cluster, nil
}

// start runs the commands and waits until the cluster serves.
func (c *Cluster) start(ctx context.Context, config Config, commands [][]string, listener *net.TCPListener) error {
	if err := c.launch(commands, listener); err != nil {
		return err
	}
	if config.Launched != nil {
		if err := config.Launched(c); err != nil {
			return err
		}
	}
	ready, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	err := c.awaitReady(ready)
	if ctx.Err() != nil {
		return fault.Wrap("starting", "the lab's Kubernetes", fault.FromContext(ctx))
	}
	return err
}

// write writes the cluster's certificates, kubeconfigs and configuration.
func (c *Cluster) write(config Config, port int) error {
	now := time.Now()
	pki := filepath.Join(c.dir, "pki")
	var err error
	if c.authority, err = openAuthority(pki, now); err != nil {
		return err
	}
	names := append([]string{"127.0.0.1", "localhost", "10.96.0.1", "kubernetes", "kubernetes.default",
		"kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}, config.Names...)
	if err := c.authority.writeCertificates(pki, now, names); err != nil {
		return err
	}
	for file, user := range map[string]string{"admin.conf": "kubernetes-admin", "manager.conf": managerUser} {
		text, err := c.Kubeconfig("https://"+c.Address, user, "system:masters")
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(c.dir, file), text); err != nil {
			return err
		}
	}
	return writeConfig(config, port)
}

// commands returns what is to be run: the one program, or the components of c.Assets. What
// lets a process inherit the listener and end with ours is added by launch.
func commands(ctx context.Context, c Config) ([][]string, error) {
	if c.Assets != "" {
		if commands := assetCommands(c.Assets); commands != nil {
			return commands, nil
		}
		c.Progress(fmt.Sprintf("%s has no kube-controller-manager: building the lab's own Kubernetes", c.Assets))
	}
	program, err := Build(ctx, c.Source, c.Cache, c.Progress)
	if err != nil {
		return nil, err
	}
	return [][]string{{program, c.Dir}}, nil
}

func assetCommands(folder string) [][]string {
	var commands [][]string
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager"} {
		program := filepath.Join(folder, name)
		if _, err := os.Stat(program); err != nil {
			return nil
		}
		commands = append(commands, []string{program})
	}
	return commands
}

// tether runs a command that knows nothing of us so that it ends when standard input does.
const tether = `exec 3<&0
"$0" "$@" 3<&- &
p=$!
trap 'kill $p' TERM INT
{ cat >/dev/null; kill $p 2>/dev/null; } <&3 &
exec 3<&-
wait $p`

func (c *Cluster) launch(commands [][]string, listener *net.TCPListener) error {
	log, err := os.OpenFile(filepath.Join(c.dir, "kubernetes.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fault.Wrap("opening", "the lab's Kubernetes' log", err)
	}
	defer log.Close()
	file, err := listener.File()
	if err != nil {
		return fault.Wrap("passing on", "the listener", err)
	}
	defer file.Close()
	var flags map[string][]string
	if len(commands) > 1 {
		// The components of others can't inherit a listener: they bind the port that it frees.
		_ = file.Close()
		_ = listener.Close()
		text, err := os.ReadFile(filepath.Join(c.dir, "components.json"))
		if err != nil {
			return fault.Wrap("reading", "the components' flags", err)
		}
		if err := json.Unmarshal(text, &flags); err != nil {
			return fault.Wrap("reading", "the components' flags", err)
		}
	}
	for _, command := range commands {
		cmd := exec.Command(command[0], command[1:]...)
		if flags == nil {
			cmd.ExtraFiles = []*os.File{file}
		} else {
			cmd = exec.Command("sh", append([]string{"-c", tether, command[0]}, flags[filepath.Base(command[0])]...)...)
		}
		cmd.Dir = c.dir
		cmd.Stdout, cmd.Stderr = log, log
		// Ctrl-C on a terminal is for us alone: the cluster ends after those who use it.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		stdin, err := cmd.StdinPipe()
		if err != nil {
			return fault.Wrap("starting", command[0], err)
		}
		if err := cmd.Start(); err != nil {
			return fault.Wrap("starting", command[0], err)
		}
		c.Pids = append(c.Pids, cmd.Process.Pid)
		p := process{stdin: stdin, done: make(chan struct{})}
		c.processes = append(c.processes, p)
		go func() {
			defer close(p.done)
			err := cmd.Wait()
			c.once.Do(func() {
				c.endErr = err
				close(c.ended)
			})
		}()
	}
	return nil
}

// Stop ends the cluster and waits for it; what doesn't end in 2 s is killed. Its folder stays.
func (c *Cluster) Stop() error {
	deadline := time.NewTimer(stopTime)
	defer deadline.Stop()
	// In the reverse order of their start: none loses what it depends on while it ends.
	for i := len(c.processes) - 1; i >= 0; i-- {
		_ = c.processes[i].stdin.Close()
		select {
		case <-c.processes[i].done:
		case <-deadline.C:
			c.Kill()
			return nil
		}
	}
	return nil
}

// Kill ends the cluster at once, and waits until it is gone. Its folder stays.
func (c *Cluster) Kill() {
	for i, pid := range c.Pids {
		_ = c.processes[i].stdin.Close()
		// The process and its children are a group, which is gone when nobody is left in it. Where
		// nobody reaps orphans, what is dead may stay in it.
		for deadline := time.Now().Add(stopTime); syscall.Kill(-pid, syscall.SIGKILL) == nil && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		<-c.processes[i].done
	}
}

// Done is closed once the cluster has ended, asked for or not.
func (c *Cluster) Done() <-chan struct{} { return c.ended }

// awaitReady waits until the API serves and the controllers have made the first objects.
func (c *Cluster) awaitReady(ctx context.Context) error {
	config, err := c.REST("kubernetes-admin", "system:masters")
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fault.Wrap("connecting to", "the lab's Kubernetes", err)
	}
	accounts := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace("default")
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		// The default service account is made by a controller: with it, both parts work.
		_, last = accounts.Get(ctx, "default", metav1.GetOptions{})
		if last == nil {
			return nil
		}
		select {
		case <-c.ended:
			return fault.Hinted(fault.Failed, "see "+filepath.Join(c.dir, "kubernetes.log"),
				"the lab's Kubernetes ended while starting: %v%s", c.endErr, c.lastLog())
		case <-ctx.Done():
			if apierrors.IsNotFound(last) {
				last = errors.New("the controllers made no service account")
			}
			return fault.Hinted(fault.Timeout, "see "+filepath.Join(c.dir, "kubernetes.log"),
				"the lab's Kubernetes doesn't serve: %w", last)
		case <-tick.C:
		}
	}
}

// lastLog returns the last error lines of the log, for a message.
func (c *Cluster) lastLog() string {
	text, err := os.ReadFile(filepath.Join(c.dir, "kubernetes.log"))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) > 3 {
		lines = lines[len(lines)-3:]
	}
	return "\n" + strings.Join(lines, "\n")
}
