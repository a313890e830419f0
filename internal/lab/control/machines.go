package control

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	planeFinalizer      = "kubeadm.controlplane.cluster.x-k8s.io"
	deploymentFinalizer = "cluster.x-k8s.io/machinedeployment"
	machineFinalizer    = "machine.cluster.x-k8s.io"

	templateAnnotation = "cluster.x-k8s.io/cloned-from-name"
	serialAnnotation   = "lab.gsrun.dev/serial"
)

// A machineSet is what a control plane and a MachineDeployment have in common: machines that are to be
// alike, and so many.
type machineSet struct {
	resource  schema.GroupResource
	finalizer string
	owner     *object
	cluster   *object
	version   string
	machine   map[string]any // the reference to the machine template
	bootstrap map[string]any
	labels    map[string]string
	single    bool // one machine at a time
}

func (p *clusterAPI) controlPlane(ctx context.Context, o *object) (time.Duration, error) {
	if !p.running(planeManager) || p.paused(o) {
		return p.Pace.Retry, nil
	}
	cluster := p.clusterOf(o)
	if cluster == nil {
		return p.Pace.Retry, nil
	}
	return p.scale(ctx, machineSet{
		resource: controlPlanes, finalizer: planeFinalizer, owner: o, cluster: cluster, single: true,
		version:   text(o.Object, "spec", "version"),
		machine:   table(o.Object, "spec", "machineTemplate", "spec", "infrastructureRef"),
		bootstrap: map[string]any{"dataSecretName": ""},
		labels:    map[string]string{clusterLabel: cluster.GetName(), planeLabel: "", "cluster.x-k8s.io/control-plane-name": o.GetName()},
	})
}

func (p *clusterAPI) machineDeployment(ctx context.Context, o *object) (time.Duration, error) {
	if !p.running(coreManager) || p.paused(o) {
		return p.Pace.Retry, nil
	}
	cluster := p.clusterOf(o)
	if cluster == nil {
		return p.Pace.Retry, nil
	}
	return p.scale(ctx, machineSet{
		resource: deploymentsOf, finalizer: deploymentFinalizer, owner: o, cluster: cluster,
		version:   text(o.Object, "spec", "template", "spec", "version"),
		machine:   table(o.Object, "spec", "template", "spec", "infrastructureRef"),
		bootstrap: table(o.Object, "spec", "template", "spec", "bootstrap"),
		labels:    map[string]string{clusterLabel: cluster.GetName(), deploymentLabel: o.GetName()},
	})
}

// current reports whether a machine is as its set wants it.
func (p *clusterAPI) current(s machineSet, m *object) bool {
	if text(m.Object, "spec", "version") != s.version {
		return false
	}
	if m.GetAnnotations()[templateAnnotation] != text(s.machine, "name") {
		return false
	}
	after, err := time.Parse(time.RFC3339, text(s.owner.Object, "spec", "rollout", "after"))
	return err != nil || after.After(p.Clock.Now()) || !m.GetCreationTimestamp().Time.Before(after)
}

// scale brings a set nearer to its number of machines, new ones before old ones go.
func (p *clusterAPI) scale(ctx context.Context, s machineSet) (time.Duration, error) {
	o := s.owner
	have := p.list(machines, o.GetNamespace(), func(m *object) bool { return owns(o, m) })
	slices.SortFunc(have, func(a, b *object) int { return serialOf(a) - serialOf(b) })
	next := 0
	if len(have) > 0 {
		next = serialOf(have[len(have)-1]) + 1
	}
	if o.GetDeletionTimestamp() != nil {
		for _, m := range have {
			if err := p.remove(ctx, machines, m); err != nil {
				return 0, err
			}
		}
		if len(have) > 0 {
			return p.Pace.Retry, nil
		}
		return 0, p.release(ctx, s.resource, o, s.finalizer)
	}
	if err := p.hold(ctx, s.resource, o, s.finalizer); err != nil {
		return 0, err
	}
	want := number(o.Object, "spec", "replicas")
	var fresh, stale, leaving []*object
	running := 0
	for _, m := range have {
		switch {
		case m.GetDeletionTimestamp() != nil:
			leaving = append(leaving, m)
			continue
		case p.current(s, m):
			fresh = append(fresh, m)
		default:
			stale = append(stale, m)
		}
		if isTrue(m, "Ready") {
			running++
		}
	}
	total := len(fresh) + len(stale)
	settled := running == total && len(leaving) == 0
	if err := p.reportSet(ctx, s, have, fresh, want); err != nil {
		return 0, err
	}
	ready := table(s.cluster.Object, "status", "initialization")["infrastructureProvisioned"] == true
	switch {
	case !ready || s.machine == nil:
	case s.single && !settled:
	case int64(total) < want && s.single:
		return p.Pace.Retry, p.newMachine(ctx, s, next)
	case int64(total) < want:
		for i := int64(total); i < want; i++ {
			if err := p.newMachine(ctx, s, next); err != nil {
				return 0, err
			}
			next++
		}
	case int64(total) > want && len(stale) == 0 && (settled || !s.single):
		return p.Pace.Retry, p.remove(ctx, machines, surplus(s, fresh))
	case !settled:
	case len(stale) > 0 && int64(len(fresh)) < want && int64(total) == want:
		return p.Pace.Retry, p.newMachine(ctx, s, next)
	case int64(total) > want && len(stale) > 0:
		return p.Pace.Retry, p.remove(ctx, machines, stale[0])
	case isTrue(o, "Available") && len(stale) == 0:
		// A rollout that is set for later begins then.
		if after, err := time.Parse(time.RFC3339, text(o.Object, "spec", "rollout", "after")); err == nil && after.After(p.Clock.Now()) {
			return after.Sub(p.Clock.Now()) + time.Second, nil
		}
		return 0, nil
	}
	return p.Pace.Retry, nil
}

// surplus returns the machine that goes first: one that isn't ready, then the one that the
// set's order says. Without an order, a MachineDeployment takes any.
func surplus(s machineSet, machines []*object) *object {
	for _, m := range machines {
		if !isTrue(m, "Ready") {
			return m
		}
	}
	switch order := text(s.owner.Object, "spec", "deletion", "order"); {
	case s.single || order == "Oldest":
		return machines[0]
	case order == "Newest":
		return machines[len(machines)-1]
	}
	return slices.MinFunc(machines, func(a, b *object) int { return strings.Compare(suffix(a.GetUID()), suffix(b.GetUID())) })
}

// serialOf returns the number of a machine in its set: the later made, the higher.
func serialOf(m *object) int {
	n, err := strconv.Atoi(m.GetAnnotations()[serialAnnotation])
	if err != nil {
		return -1
	}
	return n
}

// newMachine makes machine number serial of a set. The name follows from the number: while the
// watch lags, the same machine isn't made twice.
func (p *clusterAPI) newMachine(ctx context.Context, s machineSet, serial int) error {
	name := s.owner.GetName() + "-" + suffix(s.owner.GetUID(), serial)
	m := child(s.owner, s.cluster, p.apiVersion(machines), "Machine", name, map[string]any{
		"clusterName": s.cluster.GetName(), "version": s.version,
		"bootstrap": s.bootstrap, "infrastructureRef": s.machine,
	})
	m.SetLabels(s.labels)
	m.SetAnnotations(map[string]string{serialAnnotation: strconv.Itoa(serial), templateAnnotation: text(s.machine, "name")})
	return p.create(ctx, machines, m)
}

// reportSet writes the status of a set's owner.
func (p *clusterAPI) reportSet(ctx context.Context, s machineSet, have, fresh []*object, want int64) error {
	o := s.owner
	ready, upToDate, message := int64(0), int64(0), ""
	for _, m := range have {
		if isTrue(m, "Ready") && m.GetDeletionTimestamp() == nil {
			ready++
		} else if why := reasonOf(m, "Ready"); why != "" {
			message += fmt.Sprintf("* Machine %s: %s\n", m.GetName(), why)
		}
	}
	for range fresh {
		upToDate++
	}
	total := int64(len(have))
	set(o.Object, o.GetGeneration(), "status", "observedGeneration")
	for name, n := range map[string]int64{"replicas": total, "readyReplicas": ready, "availableReplicas": ready, "upToDateReplicas": upToDate} {
		set(o.Object, n, "status", name)
	}
	rolling := upToDate < min(total, want)
	available := ready >= want && (want > 0 || !s.single)
	if s.single {
		initialized := isTrue(o, "Initialized") || ready > 0
		set(o.Object, initialized, "status", "initialization", "controlPlaneInitialized")
		p.setCondition(o, "Initialized", initialized, pick(initialized, "Initialized", "NotInitialized"), "")
		available = ready > want/2
		if !rolling && total == want && ready == total {
			set(o.Object, s.version, "status", "version")
		}
	} else {
		phase := "Running"
		switch {
		case total < want:
			phase = "ScalingUp"
		case total > want:
			phase = "ScalingDown"
		}
		set(o.Object, phase, "status", "phase")
	}
	if !available && message == "" {
		message = fmt.Sprintf("%d available replicas, at least %d required", ready, want)
	}
	p.setCondition(o, "Available", available, pick(available, "Available", "NotAvailable"), pick(available, "", message))
	p.setCondition(o, "MachinesReady", ready == total, pick(ready == total, "Ready", "NotReady"), message)
	p.setCondition(o, "RollingOut", rolling, pick(rolling, "RollingOut", "NotRollingOut"), "")
	p.setCondition(o, "ScalingUp", total < want, pick(total < want, "ScalingUp", "NotScalingUp"), "")
	p.setCondition(o, "ScalingDown", total > want, pick(total > want, "ScalingDown", "NotScalingDown"), "")
	return p.saveStatus(ctx, s.resource, o)
}
