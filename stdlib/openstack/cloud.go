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
	login  login
	config Config

	mu      sync.Mutex
	conn    *client.Client
	opening *opening                        // the last login; nil for none
	locks   map[effect.Target]chan struct{} // held while an op on the target runs
	// moving are the kinds whose last op had something to do. A snapshot of them
	// would be old before it is of use.
	moving map[string]bool
	looks  looks
}

func newCloud(name string, login login, config Config) *Cloud {
	return &Cloud{name: name, login: login, config: config, locks: make(map[effect.Target]chan struct{}), moving: make(map[string]bool)}
}

func (c *Cloud) String() string { return c.name }

// scope is the cloud's part of targets.
func (c *Cloud) scope() string { return scopePrefix + c.name }

func (c *Cloud) target(kind, name string) effect.Target {
	return effect.Target{Scope: c.scope(), Kind: kind, Name: name, Unknown: !c.login.known}
}

// An opening is a login under way, or what came of it.
type opening struct {
	done chan struct{}
	err  error
	at   time.Time // when it failed
}

// refusedFor is how long a login that was refused stands for those that ask
// after it: with many steps at once, trying each time would lock the user out.
const refusedFor = 5 * time.Second

// client returns the connection, and makes it if there is none yet. Only one
// caller does; the others wait for it, and share what comes of it.
func (c *Cloud) client(ctx context.Context) (*client.Client, error) {
	clock := effect.From(ctx).Door.Clock
	for {
		c.mu.Lock()
		if c.conn != nil {
			c.mu.Unlock()
			return c.conn, nil
		}
		o := c.opening
		if o != nil && o.stale(clock.Now()) {
			o = nil
		}
		mine := o == nil
		if mine {
			o = &opening{done: make(chan struct{})}
			c.opening = o
		}
		c.mu.Unlock()
		if mine {
			conn, err := c.open(ctx)
			c.mu.Lock()
			c.conn, o.err, o.at = conn, err, clock.Now()
			c.mu.Unlock()
			close(o.done)
			return conn, err
		}
		select {
		case <-o.done:
		case <-ctx.Done():
			return nil, fault.FromContext(ctx)
		}
		switch fault.KindOf(o.err) {
		case "", fault.Cancelled, fault.Timeout: // that it was given up says nothing about the cloud
		default:
			return nil, o.err
		}
	}
}

// stale reports whether what came of a login says nothing any more.
func (o *opening) stale(now time.Time) bool {
	select {
	case <-o.done:
		return fault.KindOf(o.err) != fault.Denied || now.Sub(o.at) >= refusedFor
	default:
		return false
	}
}

func (c *Cloud) open(ctx context.Context) (*client.Client, error) {
	entry, err := c.login.entry(c.name, c.config)
	if err != nil {
		return nil, err
	}
	entry.Creates, entry.Wrote = c.config.Creates, effect.Touched
	for _, s := range entry.Secrets() {
		effect.Derived(ctx, s) // one that can't be told from other text is in no message of this module
	}
	return client.Connect(ctx, entry)
}

// reach returns the reach of a change of a resource: the parts of others that
// come and go with it. They show in lists; what has a name of its own isn't
// among them.
func (c *Cloud) reach(kind string) []string {
	switch kind {
	case "router", "subnet":
		return []string{c.target("port", "(of a "+kind+")").String()}
	case "server":
		return []string{c.target("port", "(of a server)").String(), c.target("volume", "(of a server)").String()}
	case "volume_attachment":
		return []string{c.target("volume", "(of a server)").String(), c.target("server", "(with a volume)").String()}
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
	c.mu.Lock()
	defer c.mu.Unlock()
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
			keypairVerbs(), imageVerbs(), flavorVerbs(), serverVerbs(),
			volumeVerbs(), volumeAttachmentVerbs(), volumeSnapshotVerbs(), volumeTypeVerbs(),
			serverGroupVerbs(), availabilityZoneVerbs(), hypervisorVerbs(), balancerVerbs(), containerVerbs(), bucketVerbs(), projectVerbs(), userVerbs(), assignmentVerbs(), credentialVerbs(), ec2Verbs(), quotaVerbs()},
		Methods: []builtin.Func{externalNetworkMethod(), limitsMethod(), identityMethod(), endpointMethod(), endpointsMethod()},
	}
}
