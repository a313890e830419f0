package real

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// computes are the hypervisors, each in an availability zone of its own.
var computes = []string{"fake1", "fake2"}

// startLimit is how long a service may take until it works, on a busy machine.
const startLimit = 6 * time.Minute

// service is one program of the lab.
type service struct {
	name string
	path string // for an API: what the simulator calls it
	// app is a WSGI application to serve by uwsgi, MODULE:FUNCTION; threads is how many requests it serves at once.
	app     string
	threads int
	argv    []string // for all others: what serve.py is given
	env     []string
	// group is a service whose daemons have so much code in common that they are started together.
	group string
}

// services lists the OpenStack services, those first that others wait for.
func (l *Lab) services() []service {
	etc := func(file string) string { return l.path("etc", file) }
	nova := []string{"--config-file", etc("nova/nova.conf")}
	list := []service{
		// Keystone keeps the token of the request at hand where all threads do: with more than one, a request may be taken for another's.
		{name: "keystone", path: "identity", app: "keystone.server.wsgi:initialize_public_application", threads: 1, env: []string{"OS_KEYSTONE_CONFIG_DIR=" + etc("keystone")}},
		{name: "neutron", path: "network", argv: []string{"neutron-server", "--config-file", etc("neutron/neutron.conf")}},
		{name: "nova-conductor", group: "nova", argv: append([]string{"nova-conductor"}, nova...)},
		{name: "nova-scheduler", group: "nova", argv: append([]string{"nova-scheduler"}, nova...)},
		{name: "placement", path: "placement", app: "placement.wsgi:init_application", threads: 4, env: []string{"OS_PLACEMENT_CONFIG_DIR=" + etc("placement")}},
	}
	for _, host := range computes {
		list = append(list, service{name: "nova-compute-" + host, group: "nova", argv: append([]string{"nova-compute", "--config-file", etc("nova/" + host + ".conf")}, nova...)})
	}
	return append(list,
		service{name: "nova", path: "compute", app: "nova.api.openstack.compute.wsgi:init_application", threads: 6, env: []string{"OS_NOVA_CONFIG_DIR=" + etc("nova"), "OS_NOVA_DISABLE_EVENTLET_PATCHING=1"}},
		service{name: "cinder-volume", group: "cinder", argv: []string{"cinder-volume", "--config-file", etc("cinder/cinder.conf")}},
		service{name: "cinder-scheduler", group: "cinder", argv: []string{"cinder-scheduler", "--config-file", etc("cinder/cinder.conf")}},
		service{name: "glance", path: "image", app: "glance.common.wsgi_app:init_app", threads: 4, env: []string{"OS_GLANCE_CONFIG_DIR=" + etc("glance")}},
		service{name: "cinder", path: "volume", app: "cinder.wsgi.wsgi:initialize_application", threads: 4, argv: []string{"--config-file", etc("cinder/cinder.conf")}},
		service{name: "octavia", path: "load-balancer", app: "quick:application", threads: 4, argv: []string{"--config-file", etc("octavia/octavia.conf")}},
		service{name: "swift", path: "object-store", argv: []string{"swift", etc("swift"), l.path("data/swift"), strconv.Itoa(l.portOf("swift"))}},
		service{name: "octavia-worker", argv: []string{"octavia-worker", "--config-file", etc("octavia/octavia.conf")}},
	)
}

// listeners are what has a port, in the order of the ports.
var listeners = []string{"keystone", "glance", "placement", "nova", "neutron", "cinder", "octavia", "rabbit", "epmd", "erlang",
	"swift", "swift-account", "swift-container", "swift-object"}

// span is how far apart the first ports of two labs are, at least.
const span = 20

func (l *Lab) portOf(name string) int { return l.port + slices.Index(listeners, name) }

// portsFree reports whether a lab can have its ports from first on.
func portsFree(first int) bool {
	for i := range listeners {
		s, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(first+i)))
		if err != nil {
			return false
		}
		_ = s.Close()
	}
	return true
}

// startServices starts RabbitMQ and all services at once, and waits until all
// work.
func (l *Lab) startServices(ctx context.Context) error {
	if err := l.startRabbit(); err != nil {
		return err
	}
	return l.startAll(ctx, func(service) bool { return true })
}

// startAll starts the services that are wanted, and waits until they work.
func (l *Lab) startAll(ctx context.Context, wanted func(service) bool) error {
	all, wait := errgroup.WithContext(ctx)
	groups := map[string][]service{}
	for _, s := range l.services() {
		switch {
		case !wanted(s):
		case s.group != "":
			groups[s.group] = append(groups[s.group], s)
		default:
			all.Go(func() error {
				if err := l.start(s); err != nil {
					return err
				}
				return l.await(wait, s)
			})
		}
	}
	for name, daemons := range groups {
		all.Go(func() error { return l.startGroup(wait, name, daemons) })
	}
	return all.Wait()
}

// startGroup starts daemons that are forked off one process once it has loaded
// the code that all of them need, and waits until they work.
func (l *Lab) startGroup(ctx context.Context, name string, daemons []service) error {
	type daemon struct {
		PID   string   `json:"pid"`
		Log   string   `json:"log"`
		Ready string   `json:"ready"`
		Argv  []string `json:"argv"`
	}
	var all []daemon
	for _, s := range daemons {
		_ = os.Remove(l.readyFile(s.name)) // of an earlier start
		all = append(all, daemon{l.pidFile(s.name), l.path("log", s.name+".log"), l.readyFile(s.name), s.argv})
	}
	plan, err := json.Marshal(map[string]any{"service": name, "daemons": all})
	if err != nil {
		return err
	}
	fork := name + "-fork"
	if err := l.launch(fork, nil, l.serve("fork", string(plan))...); err != nil {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	err = until(limit, nil, fork, l.path("log", fork+".log"), func() bool { return !l.process(fork).alive() })
	if err != nil {
		return err
	}
	l.stop(fork, 0)
	for _, s := range daemons {
		if p := recorded(l.pidFile(s.name)); p != nil {
			l.mu.Lock()
			l.procs[s.name] = p
			l.mu.Unlock()
		}
	}
	for _, s := range daemons {
		if !l.process(s.name).alive() {
			return fmt.Errorf("starting %s: it ended: %s %s", s.name, logTail(l.path("log", fork+".log")), logTail(l.path("log", s.name+".log")))
		}
		if err := l.await(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// serve is the command that runs serve.py.
func (l *Lab) serve(args ...string) []string {
	return append([]string{"/usr/bin/python3", filepath.Join(l.python, "serve.py")}, args...)
}

// start starts one service and doesn't wait for it.
func (l *Lab) start(s service) error {
	argv := l.serve(s.argv...)
	if s.app != "" {
		argv = []string{"/usr/bin/uwsgi-core", "--plugins", "python3", "--http-socket", net.JoinHostPort(host, strconv.Itoa(l.portOf(s.name))),
			"--module", s.app + "()", "--processes", "1", "--threads", strconv.Itoa(s.threads), "--enable-threads", "--die-on-term", "--buffer-size", "65535",
			// The socket serves one request a connection.
			"--add-header", "Connection: close", "--procname", "lab-" + s.name, "--log-5xx", "--disable-logging", "--need-app"}
		if s.argv != nil {
			argv = append(argv, "--pyargv", s.argv[0]+" "+s.argv[1])
		}
	}
	_ = os.Remove(l.readyFile(s.name)) // of an earlier start
	return l.launch(s.name, append(s.env, "LAB_READY="+l.readyFile(s.name)), argv...)
}

func (l *Lab) readyFile(name string) string { return l.path("run", name+".ready") }

// launch spawns a program and keeps it in the lab's list.
func (l *Lab) launch(name string, env []string, argv ...string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.procs[name].alive() {
		return nil
	}
	p, err := l.spawn(name, env, argv...)
	if err != nil {
		return err
	}
	l.procs[name] = p
	return nil
}

func (l *Lab) process(name string) *process {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.procs[name]
}

// await waits until an API answers anything, or a daemon says that it works.
func (l *Lab) await(ctx context.Context, s service) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	ready := func() bool {
		_, err := os.Stat(l.readyFile(s.name))
		return err == nil
	}
	if s.path != "" {
		ready = func() bool { return answers(ctx, l.url(s.name)) }
	}
	return until(ctx, l.process(s.name), s.name, l.path("log", s.name+".log"), ready)
}

func answers(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/", nil)
	if err != nil {
		return false
	}
	answer, err := transport.RoundTrip(req)
	if err != nil {
		return false
	}
	return answer.Body.Close() == nil
}

// startRabbit starts RabbitMQ and doesn't wait for it: its clients do.
func (l *Lab) startRabbit() error {
	scripts, err := filepath.Glob("/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server")
	if err != nil || len(scripts) == 0 {
		return fault.New(fault.NotFound, "starting rabbitmq: its program isn't there")
	}
	epmd := strconv.Itoa(l.portOf("epmd"))
	erlang := []string{"ERL_EPMD_PORT=" + epmd, "ERL_EPMD_ADDRESS=" + host}
	if err := l.launch("epmd", erlang, "/usr/bin/epmd", "-port", epmd, "-address", host); err != nil {
		return err
	}
	home := l.path("data/rabbit")
	return l.launch("rabbit", append(erlang, "HOME="+home, "RABBITMQ_NODENAME=lab@localhost", "RABBITMQ_DIST_PORT="+strconv.Itoa(l.portOf("erlang")),
		"RABBITMQ_CONFIG_FILE="+l.path("etc/rabbitmq/rabbitmq.conf"), "RABBITMQ_MNESIA_BASE="+home+"/mnesia", "RABBITMQ_LOG_BASE="+l.path("log"), "RABBITMQ_LOGS=-",
		"RABBITMQ_ENABLED_PLUGINS_FILE="+l.path("etc/rabbitmq/enabled_plugins"), "RABBITMQ_PID_FILE="+l.path("run/rabbit.own"), "RABBITMQ_CONF_ENV_FILE=/dev/null",
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +sbwt none"), "/bin/sh", scripts[len(scripts)-1])
}

// find returns a service by its name.
func (l *Lab) find(name string) (service, error) {
	for _, s := range l.services() {
		if s.name == name {
			return s, nil
		}
	}
	return service{}, fault.New(fault.NotFound, "there is no service %q", name)
}

// StopService ends a service, such as "nova" or "nova-compute-fake1": whoever
// talks to it is refused the connection. [Lab.StartService] starts it again.
func (l *Lab) StopService(name string) error {
	if _, err := l.find(name); err != nil {
		return err
	}
	l.stop(name, stopGrace)
	return nil
}

// StartService starts a service that was stopped, and waits until it works.
func (l *Lab) StartService(ctx context.Context, name string) error {
	s, err := l.find(name)
	if err != nil {
		return err
	}
	if err := l.start(s); err != nil {
		return err
	}
	return l.await(ctx, s)
}

// PauseService freezes a service: whoever talks to it gets no answer.
func (l *Lab) PauseService(name string) error { return l.signal(name, syscall.SIGSTOP) }

// ResumeService lets a frozen service go on.
func (l *Lab) ResumeService(name string) error { return l.signal(name, syscall.SIGCONT) }

func (l *Lab) signal(name string, s syscall.Signal) error {
	if _, err := l.find(name); err != nil {
		return err
	}
	p := l.process(name)
	if !p.alive() {
		return fault.New(fault.Conflict, "%s isn't running", name)
	}
	return p.signal(s)
}

// SetTokenTTL starts Keystone anew; tokens that it gives from then on are
// valid for so long.
func (l *Lab) SetTokenTTL(ctx context.Context, ttl time.Duration) error {
	l.cfg.TokenTTL = ttl
	if err := l.configure(); err != nil {
		return err
	}
	if err := l.StopService("keystone"); err != nil {
		return err
	}
	return l.StartService(ctx, "keystone")
}

// ServiceStatus is how a service is.
type ServiceStatus struct {
	Name   string
	Up     bool
	PID    int
	Memory int64 // resident, bytes; what is shared is divided among those who share it
	CPU    time.Duration
}

// Status tells how each process is.
func (l *Lab) Status() []ServiceStatus {
	var all []ServiceStatus
	for _, name := range l.names() {
		st := ServiceStatus{Name: name}
		if p := l.process(name); p.alive() {
			st.Up, st.PID = true, p.pid
			st.Memory, st.CPU = p.usage()
		}
		all = append(all, st)
	}
	return all
}
