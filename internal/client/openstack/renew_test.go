package openstack_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

// logins counts those since entry number since of the log.
func logins(cloud *lab.Cloud, since int) (n int) {
	for _, r := range cloud.Requests(since) {
		if r.Service == "identity" && r.Method == "POST" {
			n++
		}
	}
	return n
}

// inParallel calls f so often at the same time and returns its errors.
func inParallel(n int, f func() error) []error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() { errs[i] = f() })
	}
	group.Wait()
	return errs
}

// TestTokenIsRenewedOnce lets many calls meet the same expired token.
func TestTokenIsRenewedOnce(t *testing.T) {
	cloud, server := simulator(t)
	c, err := connect(t, server.URL+"/identity", passwordAuth, "")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		cloud.ExpireTokens()
		since := len(cloud.Requests(0))
		for _, err := range inParallel(50, func() error { return networks(c) }) {
			if err != nil {
				t.Error(err)
			}
		}
		if n := logins(cloud, since); n != 1 {
			t.Errorf("%d logins, want 1", n)
		}
	}
}

// TestRenewalThatFailsIsTriedOnce lets many calls meet a Keystone that is down,
// and one that refuses.
func TestRenewalThatFailsIsTriedOnce(t *testing.T) {
	for name, f := range map[string]struct {
		fault lab.Fault
		kind  fault.Kind
		after float64 // seconds, at most
	}{
		"down":    {lab.Fault{Status: 503, RetryAfter: "3"}, fault.Unavailable, 3},
		"refused": {lab.Fault{Status: 401}, fault.Denied, 5},
	} {
		t.Run(name, func(t *testing.T) {
			cloud, server := simulator(t)
			c, err := connect(t, server.URL+"/identity", passwordAuth, "")
			if err != nil {
				t.Fatal(err)
			}
			f.fault.Service, f.fault.Method, f.fault.Count = "identity", "POST", -1
			if _, err := cloud.Inject(f.fault); err != nil {
				t.Fatal(err)
			}
			cloud.ExpireTokens()
			since := len(cloud.Requests(0))
			for _, err := range inParallel(50, func() error { return networks(c) }) {
				after := fault.AfterOf(err).Seconds()
				if fault.KindOf(err) != f.kind || after <= 0 || after > f.after || !strings.Contains(fmt.Sprint(err), "the token has expired, and renewing it failed: Keystone answered") {
					t.Fatalf("got %v (%s, %vs)", err, fault.KindOf(err), after)
				}
			}
			if n := logins(cloud, since); n != 1 {
				t.Errorf("%d logins, want 1", n)
			}
		})
	}
}

// TestRenewalOutlivesItsCaller gives up the call that began a renewal which
// others wait for.
func TestRenewalOutlivesItsCaller(t *testing.T) {
	cloud, server := simulator(t)
	c, err := connect(t, server.URL+"/identity", passwordAuth, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cloud.Inject(lab.Fault{Service: "identity", Method: "POST", DelayMS: 100}); err != nil {
		t.Fatal(err)
	}
	cloud.ExpireTokens()
	since := len(cloud.Requests(0))
	ctx, cancel := context.WithCancelCause(context.Background())
	first := make(chan error, 1)
	go func() {
		_, err := c.List(ctx, openstack.Call{Service: openstack.Network, Path: "/networks"}, "networks")
		first <- err
	}()
	for len(cloud.Faults()) == 0 || cloud.Faults()[0].Hits == 0 {
		if err := context.Cause(ctx); err != nil {
			t.Fatal(err)
		}
	}
	second := make(chan error, 1)
	go func() { second <- networks(c) }()
	cancel(fault.New(fault.Cancelled, "given up"))
	if err := <-first; fault.KindOf(err) != fault.Cancelled {
		t.Errorf("got %v", err)
	}
	if err := <-second; err != nil {
		t.Errorf("the other call: %v", err)
	}
	if n := logins(cloud, since); n != 1 {
		t.Errorf("%d logins, want 1", n)
	}
}
