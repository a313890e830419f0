package lab

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/apiproxy"
	"git.vanillacore.net/govstack/gsrun/internal/lab/apiserver"
	"git.vanillacore.net/govstack/gsrun/internal/lab/control"
	"git.vanillacore.net/govstack/gsrun/internal/lab/gitserver"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
	"git.vanillacore.net/govstack/gsrun/internal/lab/mirror"
	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

// Serve runs a lab in the folder dir until ctx ends. Its log lines go to log.
func Serve(ctx context.Context, dir string, log io.Writer) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	s, err := Start(dir, log)
	if err != nil {
		return err
	}
	defer s.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.broken:
		return err
	}
}

// A Lab is a running lab, for tests that look into it and make it fail.
type Lab struct {
	Info   Info
	Cloud  *openstack.Cloud
	Hosts  *hosts.Fleet
	Git    *gitserver.Server
	Mirror *mirror.Server

	dir    string
	log    io.Writer
	logMu  sync.Mutex
	lock   *os.File
	logs   []*os.File
	world  *world
	port   net.Listener
	http   []*http.Server
	wg     sync.WaitGroup
	broken chan error
}

// Start starts a lab in the folder dir within this process. Its log lines go
// to log. It has to be closed.
func Start(dir string, log io.Writer) (*Lab, error) {
	s := &Lab{dir: dir, log: log}
	err := s.open()
	if err == nil {
		s.Info, err = s.start()
	}
	if err == nil {
		err = writeInfo(s.Info)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// KubernetesRequests returns what was asked of the Kubernetes API servers of
// the lab's hosts, but for what the lab itself asked.
func (s *Lab) KubernetesRequests() []apiserver.Request { return s.world.kubernetesRequests() }

// open makes the lab's folders and takes its lock.
func (s *Lab) open() error {
	for _, d := range []string{"site", "site/keys", "log", "git", "kubernetes"} {
		if err := os.MkdirAll(filepath.Join(s.dir, d), 0o700); err != nil {
			return &fault.Error{Op: "making", Target: d, Kind: fault.Invalid, Err: err}
		}
	}
	var err error
	s.lock, err = hold(context.Background(), s.dir)
	return err
}

func (s *Lab) logf(format string, args ...any) {
	s.logMu.Lock()
	defer s.logMu.Unlock()
	fmt.Fprintf(s.log, "%s %s\n", time.Now().UTC().Format(time.RFC3339), fmt.Sprintf(format, args...))
}

// defect logs what went wrong in a part of the lab, and isn't a fault that was asked for.
func (s *Lab) defect(part string, err error) { s.logf("defect in %s: %v", part, err) }

// logFile opens the file that a part logs its requests to.
func (s *Lab) logFile(name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, "log", name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, &fault.Error{Op: "opening log", Target: name, Kind: fault.Invalid, Err: err}
	}
	s.logs = append(s.logs, f)
	return f, nil
}

// start starts the parts and writes the lab's site.
func (s *Lab) start() (Info, error) {
	s.broken = make(chan error, 8)
	password, err := randomText()
	if err != nil {
		return Info{}, err
	}
	keys, err := s.startGit()
	if err != nil {
		return Info{}, err
	}
	admin, err := randomText()
	if err != nil {
		return Info{}, err
	}
	if err := s.startCloud(password, admin, keys); err != nil {
		return Info{}, err
	}
	api, err := s.serve(s.world.cloud)
	if err != nil {
		return Info{}, err
	}
	s.world.api = api
	s.Mirror = mirror.New()
	files, err := s.serve(s.Mirror)
	if err != nil {
		return Info{}, err
	}
	control, err := s.serve(s.control())
	if err != nil {
		return Info{}, err
	}
	i := Info{Dir: s.dir, Site: filepath.Join(s.dir, "site"), PID: os.Getpid(), Started: time.Now(),
		OpenStack: "http://" + api, Control: "http://" + control, Mirror: "http://" + files, Git: s.Git.URL(repository), SSHPort: s.world.sshPort}
	return i, writeSite(i, password, admin, keys)
}

func randomText() (string, error) {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		return "", err
	}
	return hex.EncodeToString(b), nil
}

// serve serves h on a free loopback port, and returns the address.
func (s *Lab) serve(h http.Handler) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", &fault.Error{Op: "listening on", Target: "loopback", Kind: fault.Failed, Err: err}
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	s.http = append(s.http, srv)
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.broken <- err
		}
	}()
	return l.Addr().String(), nil
}

func (s *Lab) startCloud(password, admin string, keys gitKeys) error {
	requests, err := s.logFile("openstack.jsonl")
	if err != nil {
		return err
	}
	commands, err := s.logFile("hosts.jsonl")
	if err != nil {
		return err
	}
	if s.port, err = reservePort(); err != nil {
		return err
	}
	w := &world{sshPort: s.port.Addr().(*net.TCPAddr).Port, servers: make(map[string]openstack.ServerInfo), clusters: make(map[string]*cluster),
		turns: make(map[string]chan struct{}), kubernetes: apiproxy.NewFaults(), played: control.NewFaults(), fail: s.defect}
	kubernetes := filepath.Join(s.dir, "kubernetes")
	w.fleet = hosts.New(hosts.Config{
		BootDelay: 200 * time.Millisecond,
		Log:       commands,
		Egress:    w.egress,
		KubeadmInit: func(ctx context.Context, h hosts.Info, config []byte, written func([]byte) error) error {
			return w.kubeadm(ctx, h, config, kubernetes, control.Config{Repository: s.repositoryFolder, Access: keys.access,
				Log: func(line string) { s.logf("kubernetes of %s: %s", h.Name, line) }}, written)
		},
		KubeadmReset: func(ctx context.Context, h hosts.Info) error { return w.kubeadmReset(ctx, h, kubernetes) },
	})
	w.cloud = openstack.New(openstack.Config{
		Users: []openstack.User{
			{Name: "gsrun", Password: password, Projects: []string{"gsrun"}, Roles: []string{"member", "reader"}},
			{Name: "admin", Password: admin, Projects: []string{"gsrun"}, Roles: []string{"admin", "member", "reader"}},
		},
		RequestLog:   requests,
		OnServer:     w.server,
		OnFloatingIP: w.floatingIP,
		ConsoleLog:   w.console,
	})
	s.world, s.Cloud, s.Hosts = w, w.cloud, w.fleet
	return nil
}

// Close stops all parts, the last one started first.
func (s *Lab) Close() {
	if s.lock != nil { // else the file is another lab's
		_ = os.Remove(filepath.Join(s.dir, infoFile))
	}
	for _, h := range s.http {
		_ = h.Close()
	}
	if s.world != nil {
		s.world.close()
	}
	if s.Git != nil {
		if err := s.Git.Close(); err != nil {
			s.defect("git", err)
		}
	}
	if s.port != nil {
		_ = s.port.Close()
	}
	s.wg.Wait()
	for _, f := range s.logs {
		_ = f.Close()
	}
	if s.lock != nil {
		_ = s.lock.Close()
	}
}
