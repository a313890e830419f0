// Package kube is a client of Kubernetes' API for objects of any kind: it finds
// kinds, applies, reads, waits and deletes. It reaches only the cluster that a
// kubeconfig given to it names, and nothing of this machine's surroundings
// (KUBECONFIG, a default kubeconfig, a proxy, a pod's service account) unless
// it is told to.
package kube

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// requestTime bounds one request where Config doesn't. An API server gives a
// webhook up to 30 s, and a request may pass several.
const requestTime = time.Minute

// A Config says which cluster to reach, and how. Kubeconfig or InCluster is
// required.
type Config struct {
	Kubeconfig []byte
	Context    string // of the kubeconfig; empty is its current one
	InCluster  bool   // take the service account of the pod that this process runs in
	// Exec allows the kubeconfig to have a local program make the credentials.
	Exec bool
	// Dial opens the connections, by way of a tunnel for example. nil dials
	// from here.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Timeout bounds one request. 0 is a minute.
	Timeout   time.Duration
	UserAgent string
	// Warn gets the API server's warnings, under the context of the request.
	// nil drops them.
	Warn func(ctx context.Context, text string)
	// Wrap sees every request on its way out. nil changes nothing.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// A Client is a connection to one cluster. It may be used by several
// goroutines at once.
type Client struct {
	server  string
	base    http.RoundTripper // what holds the connections
	dynamic dynamic.Interface
	kinds   kinds
}

// New returns a client of the cluster that c names. It connects to nothing yet.
// Errors are of kind Invalid.
func New(c Config) (*Client, error) {
	conf, err := c.rest()
	if err != nil {
		return nil, err
	}
	var base http.RoundTripper
	conf.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		base = rt
		return rt
	})
	if c.Wrap != nil {
		conf.Wrap(c.Wrap)
	}
	conf.Wrap(func(rt http.RoundTripper) http.RoundTripper { return calm{rt} })
	web, err := rest.HTTPClientFor(conf)
	if err != nil {
		return nil, &fault.Error{Op: "reading kubeconfig", Kind: fault.Invalid, Err: err}
	}
	dyn, err := dynamic.NewForConfigAndClient(conf, web)
	if err != nil {
		return nil, &fault.Error{Op: "reading kubeconfig", Kind: fault.Invalid, Err: err}
	}
	disc, err := discovery.NewDiscoveryClientForConfigAndClient(conf, web)
	if err != nil {
		return nil, &fault.Error{Op: "reading kubeconfig", Kind: fault.Invalid, Err: err}
	}
	return &Client{server: conf.Host, base: base, dynamic: dyn,
		kinds: kinds{client: disc, turn: make(chan struct{}, 1)}}, nil
}

// Server returns the URL of the API server.
func (c *Client) Server() string { return c.server }

// Close closes the connections that are idle. A request that runs keeps its own
// until it ends.
func (c *Client) Close() { utilnet.CloseIdleConnectionsFor(c.base) }

func (c Config) rest() (*rest.Config, error) {
	conf, err := c.source()
	if err != nil {
		return nil, err
	}
	conf.QPS = -1 // the server has its own, better informed, flow control
	conf.Timeout = c.Timeout
	if conf.Timeout == 0 {
		conf.Timeout = requestTime
	}
	conf.UserAgent = c.UserAgent
	if conf.UserAgent == "" {
		conf.UserAgent = "gsrun"
	}
	conf.Dial = c.Dial
	if conf.Proxy == nil {
		// nil would mean the proxy that the environment names.
		conf.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	conf.WarningHandlerWithContext = warnings(c.Warn)
	return conf, nil
}

func (c Config) source() (*rest.Config, error) {
	if c.InCluster {
		conf, err := rest.InClusterConfig()
		if err != nil {
			return nil, &fault.Error{Op: "reading the pod's service account", Kind: fault.Invalid, Err: err,
				Hint: "this works only in a pod with a service account"}
		}
		return conf, nil
	}
	if len(strings.TrimSpace(string(c.Kubeconfig))) == 0 {
		return nil, fault.Hinted(fault.Invalid, "pass the text of a kubeconfig; none is looked for", "the kubeconfig is empty")
	}
	file, err := clientcmd.Load(c.Kubeconfig)
	if err != nil {
		return nil, &fault.Error{Op: "reading kubeconfig", Kind: fault.Invalid, Err: err}
	}
	name := c.Context
	if name == "" {
		name = file.CurrentContext
	}
	if err := c.check(file, name); err != nil {
		return nil, err
	}
	conf, err := clientcmd.NewNonInteractiveClientConfig(*file, name, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, &fault.Error{Op: "reading kubeconfig", Kind: fault.Invalid, Err: err}
	}
	return conf, nil
}

// check refuses what a kubeconfig may ask of this machine beyond a connection:
// to run programs and to read files.
func (c Config) check(file *api.Config, name string) error {
	const flatten = "embed it: kubectl config view --flatten --raw"
	refuse := func(hint, format string, args ...any) error {
		e := fault.Hinted(fault.Invalid, hint, format, args...)
		e.Op = "reading kubeconfig"
		return e
	}
	context, ok := file.Contexts[name]
	if !ok {
		hint := "it has none"
		if len(file.Contexts) > 0 {
			hint = "it has " + strings.Join(slices.Sorted(maps.Keys(file.Contexts)), ", ")
		}
		if name == "" {
			return refuse(hint, "it has no current context, and none was named")
		}
		return refuse(hint, "it has no context %q", name)
	}
	cluster, ok := file.Clusters[context.Cluster]
	if !ok || cluster.Server == "" {
		return refuse("", "context %q: it doesn't say where cluster %q is", name, context.Cluster)
	}
	if cluster.CertificateAuthority != "" {
		return refuse(flatten, "cluster %q names the local file %q", context.Cluster, cluster.CertificateAuthority)
	}
	user, ok := file.AuthInfos[context.AuthInfo]
	if !ok {
		if context.AuthInfo == "" {
			return nil
		}
		return refuse("", "context %q: it has no user %q", name, context.AuthInfo)
	}
	for _, path := range []string{user.ClientCertificate, user.ClientKey, user.TokenFile} {
		if path != "" {
			return refuse(flatten, "user %q names the local file %q", context.AuthInfo, path)
		}
	}
	if user.AuthProvider != nil {
		return refuse("use a token or a client certificate", "user %q needs the auth provider plugin %q, which isn't supported", context.AuthInfo, user.AuthProvider.Name)
	}
	if user.Exec != nil && !c.Exec {
		return refuse("use a token or a client certificate, or allow it with exec = True",
			"user %q wants to run the local program %q for credentials", context.AuthInfo, user.Exec.Command)
	}
	return nil
}

type warnings func(ctx context.Context, text string)

// HandleWarningHeaderWithContext takes one warning of the API server.
func (w warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _ string, text string) {
	if code == 299 && text != "" && w != nil {
		w(ctx, text)
	}
}
