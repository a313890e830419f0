package lab

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/apiproxy"
	"git.vanillacore.net/govstack/gsrun/internal/lab/apiserver"
	"git.vanillacore.net/govstack/gsrun/internal/lab/control"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
)

// kubeadmConfig is what the lab heeds of the file that kubeadm gets.
type kubeadmConfig struct {
	Kind             string `yaml:"kind"`
	NodeRegistration struct {
		Name   string `yaml:"name"`
		Taints *[]any `yaml:"taints"`
	} `yaml:"nodeRegistration"`
	KubernetesVersion string `yaml:"kubernetesVersion"`
	APIServer         struct {
		CertSANs []string `yaml:"certSANs"`
	} `yaml:"apiServer"`
}

// readKubeadm reads the documents of a kubeadm configuration into one.
func readKubeadm(data []byte) (kubeadmConfig, error) {
	var all kubeadmConfig
	d := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var one kubeadmConfig
		if err := d.Decode(&one); err != nil {
			if err.Error() == "EOF" {
				return all, nil
			}
			return all, fault.New(fault.Invalid, "reading kubeadm's configuration: %v", err)
		}
		switch one.Kind {
		case "InitConfiguration":
			all.NodeRegistration = one.NodeRegistration
		case "ClusterConfiguration":
			all.KubernetesVersion, all.APIServer = one.KubernetesVersion, one.APIServer
		}
	}
}

// kubeadm starts a real API server for a host, and what plays the controllers
// on it. Written gets the administrator's kubeconfig, which names the host's
// own address, as soon as there is one. Of a start that fails or is broken off
// nothing runs any more when it returns.
func (w *world) kubeadm(ctx context.Context, host hosts.Info, config []byte, dir string, c control.Config, written func([]byte) error) error {
	conf, err := readKubeadm(config)
	if err != nil {
		return err
	}
	if len(host.Addresses) == 0 {
		return fault.New(fault.Failed, "couldn't find a default route")
	}
	if c.Socket, err = socketPath(dir, host.ID); err != nil {
		return err
	}
	end, err := w.turn(ctx, host.ID)
	if err != nil {
		return err
	}
	defer end()
	if w.clusterOf(host.ID) != nil {
		return fault.New(fault.Conflict, "port 6443 is in use")
	}
	// What lies there is of a start that didn't get through.
	folder := filepath.Join(dir, host.ID)
	if err := clearCluster(folder); err != nil {
		return err
	}
	own := host.Addresses[0].IP.String()
	api, err := apiserver.Start(ctx, apiserver.Config{
		Dir: folder, Names: append([]string{own, host.Hostname}, conf.APIServer.CertSANs...), Egress: c.Socket, Assets: os.Getenv("KUBEBUILDER_ASSETS"),
		Launched: func(api *apiserver.Cluster) error {
			admin, err := api.Kubeconfig("https://"+net.JoinHostPort(own, "6443"), "kubernetes-admin", "system:masters")
			if err != nil {
				return err
			}
			return written(admin)
		},
	})
	if hint := fault.HintOf(err); hint != "" {
		return fault.New(fault.KindOf(err), "%w: %s", err, hint)
	}
	if err != nil {
		return err
	}
	if c.REST, err = api.Control(); err != nil {
		api.Kill()
		return err
	}
	c.Node, c.Faults = conf.node(host), w.played
	return w.play(host, api, c)
}

// node is the one that kubeadm makes of a host.
func (k kubeadmConfig) node(host hosts.Info) control.Node {
	n := control.Node{Name: host.Hostname, Address: host.Addresses[0].IP.String(), Network: true, Version: k.KubernetesVersion,
		Control: k.NodeRegistration.Taints == nil || len(*k.NodeRegistration.Taints) > 0}
	if k.NodeRegistration.Name != "" {
		n.Name = k.NodeRegistration.Name
	}
	return n
}

// play plays the controllers of a host's cluster, and lets the host serve it.
func (w *world) play(host hosts.Info, api *apiserver.Cluster, c control.Config) error {
	h, ok := w.fleet.Host(host.ID)
	if !ok {
		api.Kill()
		return fault.New(fault.Failed, "the host went away")
	}
	proxy, err := apiproxy.New(apiproxy.Config{Cluster: api, Address: api.Address, Host: host.Name, Faults: w.kubernetes})
	if err != nil {
		api.Kill()
		return err
	}
	playing, stop := context.WithCancel(context.Background())
	k := &cluster{api: api, proxy: proxy, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(k.done)
		w.check("kubernetes of "+host.Name, control.Run(playing, c))
	}()
	w.mu.Lock()
	w.clusters[host.ID] = k
	w.mu.Unlock()
	h.Serve(6443, proxy.Serve)
	return nil
}

// maxSocket is the length that a path of a unix socket may have on Linux
// (sun_path in unix(7)), less its ending zero.
const maxSocket = 107

// socketPath returns where a host's API server dials what runs in its cluster.
func socketPath(dir, host string) (string, error) {
	p := filepath.Join(dir, host[:min(8, len(host))]+".sock")
	if len(p) > maxSocket {
		return "", fault.Hinted(fault.Invalid, "name a folder with a shorter path in "+DirVariable, "%s is too long for a socket", p)
	}
	return p, nil
}
