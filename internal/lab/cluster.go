package lab

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/apiproxy"
	"git.vanillacore.net/govstack/gsrun/internal/lab/apiserver"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
)

// cluster is the control plane of a host.
type cluster struct {
	api   *apiserver.Cluster
	proxy *apiproxy.Proxy
	stop  context.CancelFunc
	done  chan struct{} // closed once what plays the controllers has ended
}

// turn waits until nobody else starts or ends the control plane of a host, and
// returns what ends one's own turn.
func (w *world) turn(ctx context.Context, host string) (func(), error) {
	w.mu.Lock()
	t := w.turns[host]
	if t == nil {
		t = make(chan struct{}, 1)
		w.turns[host] = t
	}
	w.mu.Unlock()
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, fault.Wrap("waiting for", "the end of another kubeadm", fault.FromContext(ctx))
	}
}

// clusterOf returns the control plane of a host; it is nil if there is none.
func (w *world) clusterOf(host string) *cluster {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clusters[host]
}

// stopCluster ends the control plane of a host, if it has one.
func (w *world) stopCluster(host string) {
	// What has the turn ends soon: a start is bounded in time, and its host is gone.
	end, err := w.turn(context.Background(), host)
	if err != nil {
		w.fail("kubernetes of "+host, err)
		return
	}
	defer end()
	if c := w.takeCluster(host); c != nil {
		w.check("kubernetes of "+host, c.api.Stop())
	}
}

// takeCluster ends what plays the controllers of a host's control plane, and
// hands over the rest of it.
func (w *world) takeCluster(host string) *cluster {
	w.mu.Lock()
	c := w.clusters[host]
	delete(w.clusters, host)
	w.mu.Unlock()
	if c != nil {
		c.stop()
		<-c.done
		c.proxy.Close()
	}
	return c
}

// stopClusters ends the control planes of all hosts, all at once.
func (w *world) stopClusters() {
	w.mu.Lock()
	var stopping sync.WaitGroup
	for host := range w.clusters {
		stopping.Go(func() { w.stopCluster(host) })
	}
	w.mu.Unlock()
	stopping.Wait()
}

// kubeadmReset ends the control plane of a host and removes what it kept. It
// waits for the end of a kubeadm init that was broken off.
func (w *world) kubeadmReset(ctx context.Context, host hosts.Info, dir string) error {
	end, err := w.turn(ctx, host.ID)
	if err != nil {
		return err
	}
	defer end()
	if c := w.takeCluster(host.ID); c != nil {
		c.api.Kill()
	}
	if h, ok := w.fleet.Host(host.ID); ok {
		h.Unserve(6443)
	}
	return clearCluster(filepath.Join(dir, host.ID))
}

// clearCluster removes the folder of a control plane that doesn't run.
func clearCluster(folder string) error {
	if err := os.RemoveAll(folder); err != nil {
		return &fault.Error{Op: "removing", Target: folder, Kind: fault.Failed, Err: err}
	}
	return nil
}

// kubernetesRequests returns what was asked of the API servers of all hosts.
func (w *world) kubernetesRequests() []apiserver.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []apiserver.Request
	for host, c := range w.clusters {
		requests, err := c.api.Requests()
		w.check("kubernetes of "+host, err)
		all = append(all, requests...)
	}
	return all
}
