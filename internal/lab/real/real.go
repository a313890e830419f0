// Package real runs a real OpenStack control plane as plain processes on
// loopback: Debian's Keystone, Glance, Placement, Nova, Neutron, Cinder,
// Octavia and Swift, with a MariaDB and a RabbitMQ of its own. Hypervisors, network
// agents, volume backends and amphorae are fakes; every API, database, quota,
// policy and state machine is the real one.
//
// It needs root on Debian 12: see [Missing]. Nothing outside of its folders is
// touched but the packages that [Install] adds.
package real

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

const (
	host   = "127.0.0.1"
	region = "RegionOne"
	secret = "labsecret" // of every user and of RabbitMQ: all is on loopback
)

// Config says where a lab lies and how it is.
type Config struct {
	// Dir is the lab's own folder, whose data Start replaces and Close removes.
	// A lab without one gets a folder below Cache, which Close removes, and
	// which the next Start removes if the process that made it has died.
	Dir string
	// Cache keeps what is slow to make, by version: $XDG_CACHE_HOME/gsrun/openstack by default.
	Cache string
	// Port is the first of the ports that the lab listens on; free ones are chosen for 0.
	Port int
	// TokenTTL is how long a token is valid: 1 h by default.
	TokenTTL time.Duration
	// Progress is told what takes long; nil for nobody.
	Progress func(line string)
}

func (c Config) withDefaults() (Config, error) {
	if c.Cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return c, fault.New(fault.Invalid, "finding the cache folder: %w", err)
		}
		c.Cache = filepath.Join(base, "gsrun", "openstack")
	}
	if c.TokenTTL == 0 {
		c.TokenTTL = time.Hour
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	return c, nil
}

// Missing says why this machine can't run the lab; "" if it can.
func Missing() string {
	if os.Geteuid() != 0 {
		return "it takes root to install Debian's packages"
	}
	release, err := os.ReadFile("/etc/os-release")
	if err != nil || !strings.Contains(string(release), "VERSION_CODENAME=bookworm") {
		return "it takes Debian 12, whose OpenStack it is made for"
	}
	if _, err := os.Stat("/usr/bin/apt-get"); err != nil {
		return "it takes apt-get"
	}
	return ""
}

// Lab is a running control plane.
type Lab struct {
	cfg    Config
	paste  string // the folder with the packages' own api-paste.ini
	python string // the folder with the Python pieces
	port   int
	admin  *client
	temp   bool // the folder goes with the lab

	lock, portLock *os.File // held while the lab runs
	warden         *warden

	mu    sync.Mutex
	procs map[string]*process
}

// Start starts a lab and returns once every service works. What it needs has
// to be installed: see [Install]. The first lab of a version takes a minute or
// two more, to make the databases that later ones copy.
func Start(ctx context.Context, cfg Config) (*Lab, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	paste, err := pasteFiles(ctx, cfg)
	if err != nil {
		return nil, err
	}
	template, err := prepare(ctx, cfg, paste)
	if err != nil {
		return nil, err
	}
	l, err := open(ctx, cfg, paste)
	if err != nil {
		return nil, err
	}
	if err := l.startFrom(ctx, template); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// startFrom starts a lab with the data of a template.
func (l *Lab) startFrom(ctx context.Context, template string) error {
	if err := copyTree(ctx, template, l.path("data")); err != nil {
		return fmt.Errorf("copying the prepared databases: %w", err)
	}
	if err := l.configure(); err != nil {
		return err
	}
	if err := l.startDatabase(ctx); err != nil {
		return err
	}
	if err := l.relocate(ctx); err != nil {
		return err
	}
	if err := l.startServices(ctx); err != nil {
		return err
	}
	if err := l.remember(); err != nil {
		return err
	}
	if err := l.login(ctx); err != nil {
		return err
	}
	return l.awaitPools(ctx)
}

// awaitPools waits until Cinder's scheduler knows what its backend can hold:
// the backend tells it some seconds after it is up, and until then every volume
// ends in error.
func (l *Lab) awaitPools(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return until(limit, nil, "Cinder's backend", l.path("log/cinder-scheduler.log"), func() bool {
		var out struct {
			Pools []struct{ Name string } `json:"pools"`
		}
		err := l.admin.call(limit, http.MethodGet, "volumev3", "/scheduler-stats/get_pools", nil, &out)
		return err == nil && len(out.Pools) > 0
	})
}

// login makes the administrator's client.
func (l *Lab) login(ctx context.Context) error {
	c := &client{auth: l.AuthURL(), user: "admin", password: secret, project: "admin"}
	if err := c.login(ctx); err != nil {
		return err
	}
	l.admin = c
	return nil
}

// Login is what a client needs to log in.
type Login struct {
	AuthURL, Region                 string
	User, Password, Project, Domain string
	ProjectID                       string
}

// AuthURL is Keystone's address.
func (l *Lab) AuthURL() string { return l.url("keystone") + "/v3" }

// Admin is the cloud administrator's login.
func (l *Lab) Admin() Login {
	return Login{AuthURL: l.AuthURL(), Region: region, User: "admin", Password: secret, Project: "admin", Domain: "Default", ProjectID: l.admin.projectID}
}

// Dir is the lab's folder. Logs are below log, one file per service.
func (l *Lab) Dir() string { return l.cfg.Dir }

// Endpoints are the roots of the services' addresses, by the names that the
// simulator has for them: identity, compute, network and so on.
func (l *Lab) Endpoints() map[string]string {
	all := map[string]string{}
	for _, s := range l.services() {
		if s.path != "" {
			all[s.path] = l.url(s.name)
		}
	}
	return all
}

// Clouds is a clouds.yaml with one cloud of that name. The address of Keystone
// is auth, such as a proxy's, or the login's own if that is empty.
func (g Login) Clouds(cloud, auth string) string {
	if auth == "" {
		auth = g.AuthURL
	}
	return fmt.Sprintf("clouds:\n  %s:\n    auth:\n      auth_url: %s\n      username: %s\n      password: %s\n      project_name: %s\n"+
		"      user_domain_name: %s\n      project_domain_name: %s\n    region_name: %s\n    identity_api_version: 3\n",
		cloud, auth, g.User, g.Password, g.Project, g.Domain, g.Domain, g.Region)
}

func (l *Lab) path(elem ...string) string {
	return filepath.Join(append([]string{l.cfg.Dir}, elem...)...)
}
func (l *Lab) url(service string) string { return fmt.Sprintf("http://%s:%d", host, l.portOf(service)) }
