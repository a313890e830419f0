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

// A Cloud is one project of one cloud. It connects at its first use.
type Cloud struct {
	name   string
	config Config
	busy   chan struct{} // held while connecting
	conn   *client.Client

	mu    sync.Mutex
	locks map[effect.Target]chan struct{} // held while an op on the target runs
}

func newCloud(name string, config Config) *Cloud {
	return &Cloud{name: name, config: config, busy: make(chan struct{}, 1), locks: make(map[effect.Target]chan struct{})}
}

func (c *Cloud) String() string { return c.name }

// scope is the cloud's part of targets.
func (c *Cloud) scope() string { return scopePrefix + c.name }

func (c *Cloud) target(kind, name string) effect.Target {
	return effect.Target{Scope: c.scope(), Kind: kind, Name: name}
}

// client returns the connection, and makes it if there is none yet. Only one
// caller does; the others wait for it.
func (c *Cloud) client(ctx context.Context) (*client.Client, error) {
	select {
	case c.busy <- struct{}{}:
		defer func() { <-c.busy }()
	case <-ctx.Done():
		return nil, fault.FromContext(ctx)
	}
	if c.conn != nil {
		return c.conn, nil
	}
	file, err := client.ReadClouds(c.config.CloudsFile, builtin.Nearest)
	if err != nil {
		return nil, err
	}
	entry, err := file.Entry(c.name)
	if err != nil {
		return nil, err
	}
	for _, s := range entry.Secrets() {
		effect.Derived(ctx, s) // one that can't be told from other text is in no message of this module
	}
	conn, err := client.Connect(ctx, entry)
	if err != nil {
		return nil, err
	}
	c.conn = conn
	return conn, nil
}

// reach returns the reach of a change of a resource: the parts of others that
// come and go with it. They show in lists; what has a name of its own isn't
// among them.
func (c *Cloud) reach(kind string) []string {
	switch kind {
	case "router", "server", "subnet":
		return []string{c.target("port", "(of a "+kind+")").String()}
	case "floating_ip":
		return []string{c.target("server", "(with an address)").String(), c.target("port", "(of an address)").String()}
	}
	return nil
}

// do runs op. Of several on one target at the same time each waits for the one
// before: two steps that ensure the same don't make it twice.
func (c *Cloud) do(ctx context.Context, op effect.Op) (effect.State, error) {
	t := op.Target()
	c.mu.Lock()
	lock := c.locks[t]
	if lock == nil {
		lock = make(chan struct{}, 1)
		c.locks[t] = lock
	}
	c.mu.Unlock()
	select {
	case lock <- struct{}{}:
		defer func() { <-lock }()
	case <-ctx.Done():
		return effect.State{}, fault.Wrap("waiting for another step to be done with", t.String(), fault.FromContext(ctx))
	}
	return effect.Do(ctx, op)
}

func (c *Cloud) close() {
	c.busy <- struct{}{}
	defer func() { <-c.busy }()
	if c.conn != nil {
		c.conn.Close()
	}
}

// pause waits until the next look at something under way.
func (c *Cloud) pause(ctx context.Context) error { return pauseFor(ctx, c.config.Interval) }

func pauseFor(ctx context.Context, d time.Duration) error {
	if err := effect.From(ctx).Door.Clock.Sleep(ctx, d); err != nil {
		if ferr := fault.FromContext(ctx); ferr != nil {
			return ferr
		}
		return err
	}
	return nil
}

func cloudType() *builtin.Type {
	return &builtin.Type{
		Name: "openstack.cloud",
		Doc:  "One project of a cloud. It is safe to use from several steps at once.",
		Of:   builtin.TypeOf[*Cloud](),
		Nouns: []builtin.Noun{networkVerbs(), subnetVerbs(), routerVerbs(), portVerbs(), securityGroupVerbs(), floatingIPVerbs(),
			keypairVerbs(), imageVerbs(), flavorVerbs(), serverVerbs()},
		Methods: []builtin.Func{externalNetworkMethod(), limitsMethod()},
	}
}
