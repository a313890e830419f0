// Package openstack simulates an OpenStack cloud in memory: Keystone v3, Nova 2.1 to 2.93, Neutron 2.0,
// Glance v2, Cinder 3.0 to 3.70, Octavia 2.26 and Swift behind one http.Handler, with the answers, state transitions, quotas, conflicts and error bodies
// of release Zed (2022.2).
//
// A [Cloud] is configured by [Config], serves below /identity, /compute, /network, /image, /volume, /load-balancer and /object-store, and has an
// administration interface below /lab for tests: the request log, the fault injector and a state snapshot.
// What simulated servers do is left to hooks: see [Config.OnServer], [Config.OnFloatingIP] and
// [Config.ConsoleLog].
package openstack

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// doc is a JSON object, as resources are kept and sent.
type doc = map[string]any

// Cloud is one simulated OpenStack with one region. All methods are safe for concurrent use. Close must be
// called when it is no longer needed.
type Cloud struct {
	cfg   Config
	clock Clock

	mu       sync.Mutex
	ids      idSource
	schedule schedule
	hidden   map[string]time.Time // ids that lists don't show before that time
	lag      []lagRule            // eventual consistency asked for by faults
	closed   bool

	identity  identity
	compute   compute
	network   network
	image     images
	block     blocks
	balancing balancing
	objects   objectStore

	notices notices
	log     RequestLog
	*FaultSet
	routes   map[string][]route
	inFlight sync.WaitGroup // timers that are firing
}

// New makes a Cloud with the users, flavors, images and the external network that cfg names. It panics on a
// configuration that contradicts itself (an unparsable CIDR, a user without a project), since that is a
// mistake in the program.
func New(cfg Config) *Cloud {
	cfg = cfg.withDefaults()
	c := &Cloud{cfg: cfg, clock: cfg.Clock, ids: newIDSource(cfg.Seed), hidden: map[string]time.Time{}, FaultSet: NewFaultSet(services[:len(services)-1]...)}
	c.notices.start()
	c.log.writer = cfg.RequestLog
	c.identity = newIdentity()
	c.compute = newCompute()
	c.network = newNetwork()
	c.image = newImages()
	c.block = newBlocks()
	c.balancing = newBalancing()
	c.objects = objectStore{}
	c.routes = map[string][]route{
		"identity": identityRoutes(), "compute": computeRoutes(), "network": networkRoutes(),
		"image": imageRoutes(), "volume": volumeRoutes(), "load-balancer": balancingRoutes(), "object-store": objectRoutes(), "lab": adminRoutes(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seedIdentity()
	c.seedNetwork()
	c.seedCompute()
	c.seedImages()
	c.seedBlocks()
	return c
}

// Close stops the clock's timers and waits for running hooks. Requests after it are still answered, but
// nothing boots or expires any more.
func (c *Cloud) Close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	c.schedule.stopTimer()
	c.mu.Unlock()
	c.inFlight.Wait()
	c.notices.stop()
}

// Settle waits until every hook that was due has returned, or ctx ends.
func (c *Cloud) Settle(ctx context.Context) error {
	c.mu.Lock()
	c.advance()
	last := c.notices.last()
	c.mu.Unlock()
	select {
	case <-last:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ServeHTTP answers one API request.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, hr *http.Request) { c.serve(w, hr) }

func (c *Cloud) now() time.Time { return c.clock.Now().UTC() }

// shown tells whether a list may contain the resource yet.
func (c *Cloud) shown(id string) bool {
	until, ok := c.hidden[id]
	if !ok {
		return true
	}
	if c.now().Before(until) {
		return false
	}
	delete(c.hidden, id)
	return true
}
