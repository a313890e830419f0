// Package openstack is the module `openstack` of the standard library: networks,
// servers, images and what else a recipe needs of an OpenStack cloud.
package openstack

import (
	"context"
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
	// be connected to.
	CloudsFile string
	// HostKeys keeps the host keys that were read from consoles. Nil keeps none.
	HostKeys effect.Store
	// Interval is the pause between two looks at something under way. 0 means 2 s.
	Interval time.Duration
}

// Module returns the module.
func Module(c Config) *builtin.Module {
	if c.Interval == 0 {
		c.Interval = 2 * time.Second
	}
	return builtin.NewModule(builtin.Module{
		Name: "openstack",
		Doc: "OpenStack: networks, servers, images and what belongs to them, in one project of one cloud. What a recipe makes bears an owner mark " +
			"(in the description, in a property of an image, or at the end of a key's comment), by which the next run finds it. " +
			"Servers are spoken of with Nova's microversion " + client.ServerVersion + ", the rest of Nova with 2.1: any cloud since 2016 will do.",
		Recv:  &Clouds{config: c, clouds: make(map[string]*Cloud)},
		Funcs: []builtin.Func{connect()},
		Types: []*builtin.Type{cloudType(), serverType()},
	})
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

type connectArgs struct {
	Cloud string `star:"cloud,required" doc:"Name of the entry in the clouds.yaml that the site names."`
}

func connect() builtin.Func {
	return builtin.Of(builtin.Spec[*Clouds, connectArgs]{
		Name: "connect",
		Doc: "Return a handle on one project of a cloud. The login is made at the first use and shared by all steps of the run; a token that expires is renewed. " +
			"Passwords, application credentials and tokens of clouds.yaml work, and a secure.yaml beside it is merged; no other file and no OS_* variable is read.",
		Returns: "openstack.cloud",
		Example: `cloud = openstack.connect("openstack")`,
		Effect:  builtin.Connect,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(_ context.Context, c *Clouds, a connectArgs) (any, error) {
			if a.Cloud == "" {
				return nil, fault.New(fault.Invalid, "openstack.connect: the cloud's name is empty")
			}
			return c.connect(a.Cloud)
		},
	})
}

// connect returns the cloud of that name, the same for all of a run.
func (c *Clouds) connect(name string) (*Cloud, error) {
	if c.config.CloudsFile == "" {
		return nil, fault.Hinted(fault.Invalid, "name clouds: in site.yaml", "connecting to cloud %q: the site names no clouds.yaml", name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	cloud := c.clouds[name]
	if cloud == nil {
		cloud = newCloud(name, c.config)
		c.clouds[name] = cloud
	}
	return cloud, nil
}
