// Package control plays, against the lab's real API server, the parts of all that would run on
// and beside a real cluster's node: the scheduler and kubelet, cert-manager, Cluster API with the
// OpenStack provider, Argo CD, and the webhooks of all of them.
//
// It works as they do: it watches objects, writes their status after a delay, waits for the
// same preconditions, and reports the same conditions when one is missing. A part plays only
// while the Deployment that would run it is available.
package control

import (
	"context"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// A Config says what to play, and how fast. REST is required.
type Config struct {
	REST   *rest.Config
	Clock  clock.WithTicker // nil is the real one
	Socket string           // where to answer the API server's HTTP CONNECT (apiserver.Config.Egress); empty answers none
	Node   Node
	Pace   Pace
	Faults *Faults // nil has none
	// Repository returns the folder of the bare repository that a Git URL stands for. nil knows
	// none.
	Repository func(url string) (folder string, ok bool)
	// Access says whether a credential (the keys of a repository Secret) opens a repository. nil
	// asks no more than that there is one.
	Access func(url string, credential map[string][]byte) error
	// Servers makes the machines of workload clusters. nil only gives them addresses.
	Servers Servers
	// Log gets a line for each thing done. nil drops them.
	Log func(line string)
}

// A Node is the machine that pods run on.
type Node struct {
	Name    string // empty is "seed"
	Address string // empty is 127.0.0.1
	Version string // the kubelet's; empty is v1.37.2
	Control bool   // it has the taint of a control-plane node, as kubeadm init gives it
	Network bool   // it isn't Ready until a DaemonSet that installs a CNI plugin runs
}

// Pace is how long things take. A zero takes the default.
type Pace struct {
	Pod       time.Duration // from scheduled to ready: 150 ms
	Stop      time.Duration // a pod's end, in which it still serves: 500 ms
	Finish    time.Duration // how long a Job's container runs: 200 ms
	Issue     time.Duration // signing a certificate: 100 ms
	Network   time.Duration // a workload cluster's network and load balancer: 300 ms
	Machine   time.Duration // booting one machine: 300 ms
	Join      time.Duration // from booted to a Node that is ready: 200 ms
	Delete    time.Duration // deleting one machine or network: 100 ms
	Git       time.Duration // polling a repository: 200 ms
	Drift     time.Duration // looking for drift of what was synced: 1 s
	Retry     time.Duration // looking again at what is missing: 100 ms
	Reconcile time.Duration // an Argo CD sync: 100 ms
}

func (p Pace) withDefaults() Pace {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&p.Pod, 150 * time.Millisecond}, {&p.Stop, 500 * time.Millisecond}, {&p.Finish, 200 * time.Millisecond}, {&p.Issue, 100 * time.Millisecond},
		{&p.Network, 300 * time.Millisecond}, {&p.Machine, 300 * time.Millisecond}, {&p.Join, 200 * time.Millisecond},
		{&p.Delete, 100 * time.Millisecond}, {&p.Git, 200 * time.Millisecond}, {&p.Retry, 100 * time.Millisecond},
		{&p.Drift, time.Second}, {&p.Reconcile, 100 * time.Millisecond},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return p
}

// A Machine is what a workload cluster asks the cloud for.
type Machine struct {
	UID       string // of the OpenStackMachine
	Namespace string
	Name      string
	Cluster   string
	Flavor    string
}

// Servers makes and deletes the machines of workload clusters. Both are called again until they
// succeed, and have to be idempotent by Machine.UID.
type Servers interface {
	Ensure(ctx context.Context, m Machine) (id, address string, err error)
	Delete(ctx context.Context, m Machine) error
}

// Run plays until ctx ends, and returns once all of it has stopped. Its error is nil if it was
// ctx that ended it.
func Run(ctx context.Context, c Config) error {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Faults == nil {
		c.Faults = NewFaults()
	}
	if c.Repository == nil {
		c.Repository = func(string) (string, bool) { return "", false }
	}
	if c.Access == nil {
		c.Access = func(string, map[string][]byte) error { return nil }
	}
	if c.Log == nil {
		c.Log = func(string) {}
	}
	if c.Servers == nil {
		c.Servers = new(addresses)
	}
	if c.Node.Name == "" {
		c.Node.Name = "seed"
	}
	if c.Node.Address == "" {
		c.Node.Address = "127.0.0.1"
	}
	if c.Node.Version == "" {
		c.Node.Version = "v1.37.2"
	}
	c.Pace = c.Pace.withDefaults()
	e, err := newEngine(c)
	if err != nil {
		return fault.Wrap("connecting to", "the lab's Kubernetes", err)
	}
	k := &kubelet{engine: e}
	k.register()
	m := &certManager{engine: e}
	m.register()
	p := &clusterAPI{engine: e}
	p.register()
	a := &argo{engine: e}
	a.register()
	if err := a.discover(); err != nil {
		return fault.Wrap("connecting to", "the lab's Kubernetes", err)
	}
	e.watch(deployments.Group, "v1", deployments.Resource, func(ctx context.Context, o *object) (time.Duration, error) {
		if err := m.started(ctx, o); err != nil {
			return 0, err
		}
		return a.started(ctx, o)
	})
	w := &webhooks{engine: e}
	if err := e.run(ctx, w.serve, k.join); err != nil && ctx.Err() == nil {
		return fault.Wrap("playing", "the lab's controllers", err)
	}
	return nil
}
