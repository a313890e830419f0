// Package openstack is the module `openstack` of the standard library: networks,
// servers, images and what else a recipe needs of an OpenStack cloud.
package openstack

import (
	"fmt"
	"strings"
	"sync"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Config is what the module is given by the site.
type Config struct {
	// CloudsFile is the clouds.yaml that the site names. Without it no cloud can
	// be connected to by the name of an entry.
	CloudsFile string
	// CloudsEnv says that the site names the environment in place of a file.
	CloudsEnv bool
	// LookupEnv reads a variable of the environment, which is asked only where a
	// recipe or the site says so. Nil means that there is none.
	LookupEnv func(string) (string, bool)
	// Creates bounds the creates that one service is sent at the same time. 0
	// means 5.
	Creates int
	// HostKeys keeps the host keys that were read from consoles. Nil keeps none.
	HostKeys effect.Store
	// Secrets keeps the secrets of application credentials, encrypted. Without it
	// none can be made.
	Secrets effect.Store
	// Interval is the pause between two looks at something under way. 0 means 2 s.
	Interval time.Duration
	// Patience is how long a resource is looked for that may have been created a
	// moment ago and isn't listed yet. The request of a run that died goes on for
	// so long at most. 0 means 6 s.
	Patience time.Duration
	// CloseLooks is how many ops of a run ask for what they are about alone,
	// before the others share a list of each kind. 0 means 3, less means none.
	CloseLooks int
}

// Module returns the module.
func Module(c Config) *builtin.Module {
	if c.Interval == 0 {
		c.Interval = 2 * time.Second
	}
	if c.Patience == 0 {
		c.Patience = 6 * time.Second
	}
	if c.CloseLooks == 0 {
		// A small run has no use for lists, which cost more the more a project
		// has; a large one pays no more for it than these looks.
		c.CloseLooks = 3
	}
	return builtin.NewModule(builtin.Module{
		Name: "openstack",
		Doc: "OpenStack: networks, servers, images and what belongs to them, in one project of one cloud. What a recipe makes bears an owner mark " +
			"(in the description, in a property of an image, or at the end of a key's comment), by which the next run finds it. " +
			"The first three ops of a run ask for one resource each; the others share a list of each kind, as long as they find nothing to do. " +
			"Microversions are the lowest that serve; a cloud that lacks one is told of before anything is sent. The page ends with a table of them.",
		Recv:  &Clouds{config: c, clouds: make(map[string]*Cloud)},
		Funcs: []builtin.Func{connect()},
		Types: []*builtin.Type{cloudType(), serverType()},
		Notes: microversions(),
	})
}

// microversions is the table of what needs which.
func microversions() string {
	var b strings.Builder
	b.WriteString("## Microversions\n\n" +
		"What is called with which microversion, and why no lower one serves. What a recipe doesn't ask for isn't needed. " +
		"A service is asked once for what it speaks, and only for a version above its base. Neutron, Glance, Keystone, Octavia and Swift have none.\n\n" +
		"| service | calls | version | what it brought |\n|---|---|---|---|\n")
	for _, u := range client.Uses() {
		version := u.Version
		if version == "" {
			version = "base"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", u.Service, u.Calls, version, u.Why)
	}
	return b.String()
}

var _ effect.Keeper = (*Clouds)(nil)

// Clouds are the connections of one run.
type Clouds struct {
	config Config

	mu     sync.Mutex
	clouds map[string]*Cloud
}

// Close ends the connections.
func (c *Clouds) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cloud := range c.clouds {
		cloud.close()
	}
	return nil
}

// connect returns the cloud of that name, as a target names it.
func (c *Clouds) connect(name string) (*Cloud, error) {
	c.mu.Lock()
	cloud := c.clouds[name]
	c.mu.Unlock()
	if cloud != nil {
		return cloud, nil
	}
	a := connectArgs{Cloud: name}
	base, scope, narrowed := strings.Cut(name, "@")
	if narrowed {
		a.Cloud = base
		domain, isDomain := strings.CutPrefix(scope, "domain=")
		switch {
		case isDomain:
			a.Domain.ID = effect.Plain(domain)
		case scope == "system":
			a.System = true
		case strings.HasPrefix(scope, "credential") || strings.HasPrefix(scope, "user=") || scope == "token":
			return nil, fault.New(fault.Invalid, "only the recipe that connected to %s knows how: it hasn't done so in this run", name)
		default:
			a.Project.ID = effect.Plain(scope)
		}
	}
	if a.Env = a.Cloud == "env" && c.config.CloudsFile == "" && !c.config.CloudsEnv; a.Env {
		a.Cloud = ""
	}
	return c.open(a)
}
