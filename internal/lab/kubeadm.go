package lab

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"

	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/tools/clientcmd"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
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

// serverLine is the line of a kubeconfig that says where the API is.
var serverLine = regexp.MustCompile(`(?m)^(\s*server:) .*$`)

// kubeadm starts a real API server for a host, and what plays the controllers
// on it. It returns the administrator's kubeconfig, which names the host's own
// address.
func (w *world) kubeadm(ctx context.Context, host hosts.Info, config []byte, dir string, c control.Config) ([]byte, error) {
	conf, err := readKubeadm(config)
	if err != nil {
		return nil, err
	}
	if len(host.Addresses) == 0 {
		return nil, fault.New(fault.Failed, "couldn't find a default route")
	}
	own := host.Addresses[0].IP.String()
	names := append([]string{own, host.Hostname}, conf.APIServer.CertSANs...)
	folder := filepath.Join(dir, host.ID)
	if c.Socket, err = socketPath(dir, host.ID); err != nil {
		return nil, err
	}
	api, err := apiserver.Start(ctx, apiserver.Config{Dir: folder, Names: names, Egress: c.Socket, Assets: os.Getenv("KUBEBUILDER_ASSETS")})
	if err != nil {
		return nil, err
	}
	admin, err := os.ReadFile(filepath.Join(folder, "admin.conf"))
	if err != nil {
		return nil, &fault.Error{Op: "reading the kubeconfig of", Target: host.Name, Kind: fault.Failed, Err: err}
	}
	own6443 := serverLine.ReplaceAll(admin, []byte("$1 https://"+own+":6443"))
	ours, err := api.Kubeconfig("https://"+api.Address, apiserver.ControlUser, "system:masters")
	if err != nil {
		return nil, err
	}
	if c.REST, err = clientcmd.RESTConfigFromKubeConfig([]byte(ours)); err != nil {
		return nil, fault.Wrap("reading", "the lab's kubeconfig", err)
	}
	c.Node = control.Node{Name: host.Hostname, Address: own, Network: true, Control: conf.NodeRegistration.Taints == nil || len(*conf.NodeRegistration.Taints) > 0}
	if conf.NodeRegistration.Name != "" {
		c.Node.Name = conf.NodeRegistration.Name
	}
	if conf.KubernetesVersion != "" {
		c.Node.Version = conf.KubernetesVersion
	}
	playing, stop := context.WithCancel(context.Background())
	k := &cluster{api: api, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(k.done)
		w.check(control.Run(playing, c))
	}()
	w.mu.Lock()
	w.clusters[host.ID] = k
	w.mu.Unlock()
	h, ok := w.fleet.Host(host.ID)
	if !ok {
		w.stopCluster(host.ID)
		return nil, fault.New(fault.Failed, "the host went away")
	}
	h.Forward(6443, api.Address)
	return own6443, nil
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
