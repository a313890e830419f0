package openstack

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// failurePause is how long a renewal that failed in a way that may pass stands
// for those that ask after it, where Keystone asks for no longer pause: all
// that is under way meets an expired token at once.
const failurePause = 250 * time.Millisecond

// refusedFor is the same for one that was refused: trying for each call would
// lock the user out.
const refusedFor = 5 * time.Second

// A renewal is a login in place of one that has expired. Whoever meets the same
// expired token waits for the same renewal.
type renewal struct {
	token string // that has expired
	done  chan struct{}
	err   error
	until time.Time // how long err stands
}

// renewals are those of a client.
type renewals struct {
	mu   sync.Mutex
	last *renewal
	ctx  context.Context // ended by Close
	stop context.CancelFunc
	all  sync.WaitGroup
}

// renew gets another token in place of old, which a service doesn't take any
// more, unless that has been done in the meantime.
func (c *Client) renew(ctx context.Context, old string) error {
	c.renewals.mu.Lock()
	if c.provider.Token() != old {
		c.renewals.mu.Unlock()
		return nil
	}
	r := c.renewals.last
	if r == nil || r.token != old || r.over(time.Now()) {
		r = &renewal{token: old, done: make(chan struct{})}
		c.renewals.last = r
		c.renewals.all.Go(func() { c.relogin(r) })
	}
	c.renewals.mu.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
		return fault.FromContext(ctx)
	}
	if r.err == nil {
		return nil
	}
	f := translate(context.Background(), Identity, r.err)
	return &fault.Error{Kind: f.Kind, Hint: f.Hint, After: max(f.After, time.Until(r.until)), Err: fmt.Errorf("the token has expired, and renewing it failed: %w", f)}
}

// over reports whether what came of a renewal says nothing any more.
func (r *renewal) over(now time.Time) bool {
	select {
	case <-r.done:
		return now.After(r.until)
	default:
		return false
	}
}

// relogin logs in anew. It belongs to no call: one that is given up mustn't
// take the others with it.
func (c *Client) relogin(r *renewal) {
	defer close(r.done)
	ctx, cancel := context.WithTimeoutCause(c.renewals.ctx, c.entry.Timeout, tooSlow(Identity, c.entry.Timeout))
	defer cancel()
	var fresh *gophercloud.ProviderClient
	if fresh, r.err = c.login(ctx); r.err == nil {
		c.provider.CopyTokenFrom(fresh)
		return
	}
	f := translate(ctx, Identity, r.err)
	r.err = f
	pause := refusedFor
	if f.Kind.Retryable() {
		pause = max(f.After, failurePause)
	}
	r.until = time.Now().Add(pause)
}

// login returns a provider that has just logged in.
func (c *Client) login(ctx context.Context) (*gophercloud.ProviderClient, error) {
	p, err := openstack.NewClient(c.entry.AuthURL)
	if err != nil {
		return nil, c.entry.wrong("auth.auth_url", "", "%v", err)
	}
	p.HTTPClient = http.Client{Transport: c.transport}
	p.UserAgent.Prepend("gsrun")
	p.UseTokenLock()
	return p, openstack.AuthenticateV3(ctx, p, c.entry.options(), gophercloud.EndpointOpts{})
}
