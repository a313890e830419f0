package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"go.starlark.net/starlark"

	kubeclient "git.vanillacore.net/govstack/gsrun/internal/client/kube"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type clusterArgs struct {
	Name       string         `star:"name,required" doc:"What the recipe calls the cluster; it stands in plans and in the journal."`
	Kubeconfig effect.Text    `star:"kubeconfig,required" doc:"Text of a kubeconfig. It may be a secret, and may be not known yet."`
	Context    string         `star:"context" doc:"Context of the kubeconfig; its current one if empty."`
	Via        starlark.Value `star:"via" doc:"What to connect through, such as an ssh.host; it may be not known yet."`
	Exec       bool           `star:"exec" doc:"Allow the kubeconfig to run a local program that makes the credentials."`
}

func clusterFunc() builtin.Func {
	return builtin.Of(builtin.Spec[*Kube, clusterArgs]{
		Name: "cluster",
		Doc: "Name a cluster by a kubeconfig. Nothing is read from this machine: no KUBECONFIG, no default file, " +
			"and files that the kubeconfig names must be embedded in it.",
		Returns: "kube.cluster",
		Example: `seed = kube.cluster("seed", kubeconfig = host.read("/etc/kubernetes/admin.conf", secret = True), via = host)
seed.get("Namespace", "kube-system")`,
		Effect: builtin.Connect,
		Errors: []fault.Kind{fault.Invalid},
		Run: func(_ context.Context, k *Kube, a clusterArgs) (any, error) {
			c := &Cluster{kube: k, name: a.Name, kubeconfig: a.Kubeconfig, context: a.Context, exec: a.Exec}
			if err := checkName(a.Name); err != nil {
				return nil, err
			}
			if err := c.through(a.Via); err != nil {
				return nil, err
			}
			if !c.known() {
				return c, nil
			}
			if _, err := c.client(); err != nil {
				return nil, err
			}
			return c, nil
		},
	})
}

type inClusterArgs struct {
	Name string `star:"name,required" doc:"What the recipe calls the cluster."`
}

func inClusterFunc() builtin.Func {
	return builtin.Of(builtin.Spec[*Kube, inClusterArgs]{
		Name:    "in_cluster",
		Doc:     "Name the cluster that gsrun itself runs in, with the service account of its pod.",
		Returns: "kube.cluster",
		Example: `here = kube.in_cluster("management")`,
		Effect:  builtin.Connect,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(_ context.Context, k *Kube, a inClusterArgs) (any, error) {
			if err := checkName(a.Name); err != nil {
				return nil, err
			}
			c := &Cluster{kube: k, name: a.Name, inside: true}
			if _, err := c.client(); err != nil {
				return nil, err
			}
			return c, nil
		},
	})
}

func checkName(name string) error {
	if name == "" || strings.ContainsAny(name, "/ \t\n") {
		return fault.New(fault.Invalid, "%q can't be the name of a cluster: it is empty, or has a slash or space", name)
	}
	return nil
}

// defaultNamespace is where objects are that have to be in a namespace and for
// which none is given. The kubeconfig's own has no say: a plan may not know it.
const defaultNamespace = "default"

// A Cluster is a Kubernetes cluster, in a recipe. It may be one that a plan
// doesn't know yet.
type Cluster struct {
	kube       *Kube
	name       string
	kubeconfig effect.Text
	context    string
	exec       bool
	inside     bool
	via        effect.Dialer
	lost       bool // via isn't known yet
}

func (c *Cluster) String() string { return c.name }

// Attrs returns what remains of the handle when it leaves its step.
func (c *Cluster) Attrs() map[string]any { return map[string]any{"name": c.name} }

// through sets what to connect through.
func (c *Cluster) through(v starlark.Value) error {
	switch v := v.(type) {
	case nil, starlark.NoneType:
		return nil
	case effect.Unknown:
		c.lost = true
		return nil
	case *builtin.Handle:
		if d, ok := v.Recv().(effect.Dialer); ok {
			c.via, c.lost = d, !d.Known()
			return nil
		}
	}
	return fault.Hinted(fault.Invalid, "pass a host made by ssh.host in the same step", "kube.cluster: argument via: got %s, which nothing can be reached through", v.Type())
}

// scope is the part of the world that the cluster's objects are in.
func (c *Cluster) scope() string { return scopePrefix + c.name }

// scopePrefix is what the targets of this module begin with.
const scopePrefix = "kube/"

// nameIn returns the name of the cluster that a key of a client is for.
func nameIn(key string) string {
	name, _, _ := strings.Cut(key, "\x00")
	return name
}

// known reports whether the cluster can be reached at all: in a plan the
// kubeconfig, or the way to it, may be still to come.
func (c *Cluster) known() bool { return c.inside || c.kubeconfig.Known() && !c.lost }

// client returns the client of the cluster, which all of the run's steps share.
func (c *Cluster) client() (*kubeclient.Client, error) {
	conf := kubeclient.Config{Kubeconfig: []byte(c.kubeconfig.Reveal()), Context: c.context, Exec: c.exec, InCluster: c.inside}
	way := ""
	if c.via != nil {
		conf.Dial, way = c.via.DialContext, c.via.Via()
	}
	sum := sha256.Sum256(conf.Kubeconfig)
	key := strings.Join([]string{c.name, hex.EncodeToString(sum[:]), c.context, way}, "\x00")
	client, err := c.kube.client(key, conf)
	if err != nil {
		return nil, fault.Wrap("", c.scope(), err)
	}
	return client, nil
}

// target names an object, or a kind of object, of the cluster.
func (c *Cluster) target(kind, namespace, name string) effect.Target {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return effect.Target{Scope: c.scope(), Kind: kind, Name: name, Unknown: !c.known()}
}

// query asks about an object. What a plan would change anywhere in the cluster
// may change the answer, since one object makes others.
func (c *Cluster) query(kind, namespace, name string) effect.Query {
	return effect.Query{Target: c.target(kind, namespace, name), Scope: c.scope()}
}

// planning reports whether the run is a plan.
func planning(ctx context.Context) bool {
	s := effect.From(ctx)
	return s != nil && s.Door.Mode == effect.Plan
}
