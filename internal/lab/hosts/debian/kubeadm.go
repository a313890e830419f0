package debian

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// verb takes the words up to the first option.
func verb(args []string) (words, rest []string) {
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		words = append(words, args[0])
		args = args[1:]
	}
	return words, args
}

const kubeadmOptions = "config: pod-network-cidr: service-cidr: control-plane-endpoint: kubernetes-version: apiserver-advertise-address: apiserver-cert-extra-sans: " +
	"cri-socket: ignore-preflight-errors: upload-certs skip-token-print skip-phases: node-name: token: token-ttl: v: f|force o: print-join-command dry-run kubeconfig: " +
	"service-dns-domain: image-repository: certificate-key: ttl: description: feature-gates: y|yes cleanup-tmp-dir skip-certificate-key-print short output: allow-missing-template-keys"

func (s *System) kubeadm(ctx context.Context, p *machine.Proc) int {
	words, rest := verb(p.Args[1:])
	o := p.WithArgs(append([]string{"kubeadm"}, rest...)).Options(kubeadmOptions)
	if o == nil {
		return 1
	}
	words = append(words, o.Args...)
	version := s.release(p, "kubeadm")
	if len(words) == 0 {
		return p.Fail(1, "no command")
	}
	switch words[0] {
	case "version":
		if f := cmp.Or(o.Get("o"), o.Get("output")); f == "short" {
			p.Printf("v%s\n", version)
		} else {
			p.Printf("kubeadm version: &version.Info{GitVersion:\"v%s\", Platform:\"linux/amd64\"}\n", version)
		}
		return 0
	case "token":
		if len(words) > 1 && words[1] == "list" {
			p.Printf("TOKEN TTL EXPIRES USAGES DESCRIPTION EXTRA GROUPS\n")
			return 0
		}
		token := "abcdef.0123456789abcdef"
		if o.Has("print-join-command") {
			p.Printf("kubeadm join %s:6443 --token %s --discovery-token-ca-cert-hash sha256:%064d\n", s.primary(), token, 0)
			return 0
		}
		p.Printf("%s\n", token)
		return 0
	case "config":
		return s.kubeadmConfig(p, words[1:], version)
	case "reset":
		return s.kubeadmReset(ctx, p, o)
	case "upgrade":
		p.Printf("[upgrade/versions] Cluster version: %s\n[upgrade/versions] kubeadm version: v%s\n", version, version)
		return 0
	case "init":
		if len(words) > 1 {
			return 0 // a single phase: nothing to do of its own
		}
		return s.kubeadmInit(ctx, p, o, version)
	}
	fmt.Fprintf(p.Stderr, "unknown command \"%s\" for \"kubeadm\"\n", words[0])
	return 1
}

func (s *System) primary() string {
	for _, a := range s.Config.Addresses {
		return a.Prefix.Addr().String()
	}
	return "127.0.0.1"
}

func (s *System) kubeadmConfig(p *machine.Proc, words []string, version string) int {
	switch strings.Join(words, " ") {
	case "images list", "images pull":
		if words[1] == "pull" {
			if code := s.needRuntime(p); code != 0 {
				return code
			}
			if !s.egress() {
				fmt.Fprintf(p.Stderr, "failed to pull image \"kube-apiserver:v%s\": output: failed to resolve reference: dial tcp: lookup: Temporary failure in name resolution\n", version)
				return 1
			}
		}
		for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
			image := name + ":v" + version
			if words[1] == "pull" {
				s.kernel.addImage(image)
				p.Printf("[config/images] Pulled %s\n", image)
			} else {
				p.Printf("%s\n", image)
			}
		}
		return 0
	case "print init-defaults":
		p.Printf("apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: %s\n", version)
		return 0
	}
	return 0
}

func (s *System) needRuntime(p *machine.Proc) int {
	if s.Active("containerd") {
		return 0
	}
	fmt.Fprintln(p.Stderr, "validate CRI v1 runtime API for endpoint \"unix:///run/containerd/containerd.sock\": rpc error: code = Unavailable desc = connection error: dial unix /run/containerd/containerd.sock: connect: no such file or directory")
	return 1
}

// preflight lists what kubeadm would refuse, by the names that
// --ignore-preflight-errors takes.
func (s *System) preflight(p *machine.Proc) [][2]string {
	var bad [][2]string
	if p.Cred.UID != 0 {
		return [][2]string{{"IsPrivilegedUser", "user is not running as root"}}
	}
	if s.Config.CPUs == 1 {
		bad = append(bad, [2]string{"NumCPU", "the number of available CPUs 1 is less than the required 2"})
	}
	if m := s.Config.MemoryMB; m > 0 && m < 1700 {
		bad = append(bad, [2]string{"Mem", fmt.Sprintf("the system RAM (%d MB) is less than the minimum 1700 MB", m)})
	}
	if s.kernel.swapKB() > 0 {
		bad = append(bad, [2]string{"Swap", "running with swap on is not supported. Please disable swap"})
	}
	if s.kernel.get("net.ipv4.ip_forward") != "1" {
		bad = append(bad, [2]string{"FileContent--proc-sys-net-ipv4-ip_forward", "/proc/sys/net/ipv4/ip_forward contents are not set to 1"})
	}
	if !s.kernel.loaded("br_netfilter") {
		bad = append(bad, [2]string{"FileContent--proc-sys-net-bridge-bridge-nf-call-iptables", "/proc/sys/net/bridge/bridge-nf-call-iptables does not exist"})
	}
	if !s.Active("containerd") {
		bad = append(bad, [2]string{"CRI", "container runtime is not running: output: validate service connection: dial unix /run/containerd/containerd.sock: connect: no such file or directory"})
	}
	for _, file := range []string{"/etc/kubernetes/manifests/kube-apiserver.yaml", "/etc/kubernetes/manifests/kube-controller-manager.yaml", "/etc/kubernetes/manifests/kube-scheduler.yaml", "/etc/kubernetes/manifests/etcd.yaml"} {
		if s.Exists(file) {
			bad = append(bad, [2]string{"FileAvailable-" + strings.ReplaceAll(file, "/", "-"), file + " already exists"})
		}
	}
	if s.Exists("/var/lib/kubelet/config.yaml") && s.Active("kubelet") {
		bad = append(bad, [2]string{"Port-10250", "Port 10250 is in use"})
	}
	if kids, err := s.FS.ReadDir(tree.Root(), "/var/lib/etcd"); err == nil && len(kids) > 0 {
		bad = append(bad, [2]string{"DirAvailable--var-lib-etcd", "/var/lib/etcd is not empty"})
	}
	if _, err := s.Find(tree.Root(), "/", machine.SystemPath, "kubelet"); err != nil {
		bad = append(bad, [2]string{"FileExisting-kubelet", "kubelet not found in system path"})
	}
	return bad
}

func (s *System) kubeadmInit(ctx context.Context, p *machine.Proc, o *machine.Options, version string) int {
	var config []byte
	if file := o.Get("config"); file != "" {
		data, err := s.FS.ReadFile(p.Cred, p.Abs(file))
		if err != nil {
			fmt.Fprintf(p.Stderr, "unable to read config from %q: open %s: %s\n", file, file, strings.ToLower(machine.Strerror(err)))
			return 1
		}
		if err := checkKubeadm(data); err != nil {
			fmt.Fprintln(p.Stderr, err.Error())
			return 3
		}
		config = data
	} else {
		config = flagsToConfig(o, version)
	}
	p.Printf("[init] Using Kubernetes version: v%s\n[preflight] Running pre-flight checks\n", version)
	ignored := strings.Split(strings.ToLower(o.Get("ignore-preflight-errors")), ",")
	var fatal []string
	for _, e := range s.preflight(p) {
		if slices.Contains(ignored, "all") || slices.Contains(ignored, strings.ToLower(e[0])) {
			fmt.Fprintf(p.Stderr, "\t[WARNING %s]: %s\n", e[0], e[1])
			continue
		}
		fatal = append(fatal, fmt.Sprintf("\t[ERROR %s]: %s", e[0], e[1]))
	}
	if len(fatal) == 0 && !s.egress() && !s.kernel.hasImages() {
		fatal = append(fatal, fmt.Sprintf("\t[ERROR ImagePull]: failed to pull image kube-apiserver:v%s: failed to resolve reference: Temporary failure in name resolution", version))
	}
	if len(fatal) > 0 {
		fmt.Fprintf(p.Stderr, "error execution phase preflight: [preflight] Some fatal errors occurred:\n%s\n[preflight] If you know what you are doing, you can make a check non-fatal with `--ignore-preflight-errors=...`\nTo see the stack trace of this error execute with --v=5 or higher\n", strings.Join(fatal, "\n"))
		return 2
	}
	if o.Has("dry-run") {
		return 0
	}
	if s.Config.KubeadmInit == nil {
		fmt.Fprintln(p.Stderr, "error execution phase wait-control-plane: couldn't initialize a Kubernetes cluster: timed out waiting for the condition")
		return 1
	}
	err := s.Config.KubeadmInit(ctx, config, func(admin []byte) error {
		p.Printf("[certs] Generating \"ca\" certificate and key\n[kubeconfig] Writing \"admin.conf\" kubeconfig file\n[control-plane] Creating static Pod manifest for \"kube-apiserver\"\n")
		if err := s.writeKubernetes(p.Cred, admin, version); err != nil {
			return errors.New(machine.Strerror(err))
		}
		s.services.tryStart(ctx, "kubelet.service")
		return nil
	})
	if err != nil {
		fmt.Fprintf(p.Stderr, "error execution phase wait-control-plane: %v\n", err)
		return 1
	}
	p.Printf("[wait-control-plane] The control plane components are healthy\n[mark-control-plane] Marking the node %s as control-plane\n\nYour Kubernetes control-plane has initialized successfully!\n\nkubeadm join %s:6443 --token abcdef.0123456789abcdef \\\n\t--discovery-token-ca-cert-hash sha256:%064d\n", s.Hostname(), s.primary(), 0)
	return 0
}

// writeKubernetes writes what kubeadm leaves on a control plane's disk, in
// kubeadm's order. All of it is there before kubeadm waits for the control
// plane, so a kubeadm that is killed then leaves it behind.
func (s *System) writeKubernetes(c tree.Cred, admin []byte, version string) error {
	var conf struct {
		Clusters []struct {
			Cluster struct {
				CA     string `yaml:"certificate-authority-data"`
				Server string `yaml:"server"`
			} `yaml:"cluster"`
		} `yaml:"clusters"`
	}
	if err := yaml.Unmarshal(admin, &conf); err != nil {
		return fmt.Errorf("reading the admin kubeconfig: %w", err)
	}
	var ca []byte
	if len(conf.Clusters) > 0 {
		var err error
		if ca, err = base64.StdEncoding.DecodeString(conf.Clusters[0].Cluster.CA); err != nil {
			return fmt.Errorf("reading the admin kubeconfig's CA: %w", err)
		}
	}
	pod := func(name string) []byte {
		return fmt.Appendf(nil, "apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  namespace: kube-system\nspec:\n  hostNetwork: true\n  containers:\n  - name: %[1]s\n    image: %[1]s:v%s\n", name, version)
	}
	for _, f := range []struct {
		path string
		data []byte
		perm uint32
	}{
		{"/etc/kubernetes/pki/ca.crt", ca, 0o644},
		{"/etc/kubernetes/admin.conf", admin, 0o600},
		{"/etc/kubernetes/super-admin.conf", admin, 0o600},
		{"/etc/kubernetes/kubelet.conf", admin, 0o600},
		{"/etc/kubernetes/manifests/etcd.yaml", pod("etcd"), 0o600},
		{"/etc/kubernetes/manifests/kube-apiserver.yaml", pod("kube-apiserver"), 0o600},
		{"/etc/kubernetes/manifests/kube-controller-manager.yaml", pod("kube-controller-manager"), 0o600},
		{"/etc/kubernetes/manifests/kube-scheduler.yaml", pod("kube-scheduler"), 0o600},
		{"/var/lib/etcd/member/snap/db", []byte("etcd\n"), 0o600},
		{"/var/lib/kubelet/config.yaml", []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupDriver: systemd\n"), 0o644},
		{"/var/lib/kubelet/kubeadm-flags.env", []byte("KUBELET_KUBEADM_ARGS=\"--pod-infra-container-image=pause:3.10\"\n"), 0o644},
	} {
		if err := s.FS.MkdirAll(c, f.path[:strings.LastIndex(f.path, "/")], 0o755); err != nil {
			return err
		}
		if err := s.FS.WriteFile(c, f.path, f.data, tree.PermOf(f.perm)); err != nil {
			return err
		}
	}
	return nil
}

// checkKubeadm refuses a config that isn't kubeadm's.
func checkKubeadm(data []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	seen := 0
	for {
		var doc struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string `yaml:"kind"`
		}
		err := dec.Decode(&doc)
		if err != nil {
			if seen > 0 && err.Error() == "EOF" {
				return nil
			}
			return fmt.Errorf("error unmarshaling configuration: %w", err)
		}
		seen++
		known := slices.Contains([]string{"InitConfiguration", "ClusterConfiguration", "JoinConfiguration", "KubeletConfiguration", "KubeProxyConfiguration"}, doc.Kind)
		if !known || !strings.Contains(doc.APIVersion, ".k8s.io/") {
			return fmt.Errorf("no kind \"%s\" is registered for version \"%s\"", doc.Kind, doc.APIVersion)
		}
	}
}

// flagsToConfig writes the config that kubeadm's flags amount to.
func flagsToConfig(o *machine.Options, version string) []byte {
	networking := map[string]string{}
	if v := o.Get("pod-network-cidr"); v != "" {
		networking["podSubnet"] = v
	}
	if v := o.Get("service-cidr"); v != "" {
		networking["serviceSubnet"] = v
	}
	cluster := map[string]any{"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration",
		"kubernetesVersion": "v" + strings.TrimPrefix(cmp.Or(o.Get("kubernetes-version"), version), "v"), "networking": networking}
	if v := o.Get("control-plane-endpoint"); v != "" {
		cluster["controlPlaneEndpoint"] = v
	}
	if v := o.Get("apiserver-cert-extra-sans"); v != "" {
		cluster["apiServer"] = map[string]any{"certSANs": strings.Split(v, ",")}
	}
	first := map[string]any{"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "InitConfiguration"}
	if v := o.Get("apiserver-advertise-address"); v != "" {
		first["localAPIEndpoint"] = map[string]any{"advertiseAddress": v, "bindPort": 6443}
	}
	a, err1 := yaml.Marshal(first)
	b, err2 := yaml.Marshal(cluster)
	if errors.Join(err1, err2) != nil {
		return nil
	}
	return []byte(string(a) + "---\n" + string(b))
}

func (s *System) kubeadmReset(ctx context.Context, p *machine.Proc, o *machine.Options) int {
	if p.Cred.UID != 0 {
		fmt.Fprintln(p.Stderr, "error execution phase preflight: user is not running as root")
		return 1
	}
	if !o.Has("f") {
		fmt.Fprintln(p.Stderr, "[reset] Are you sure you want to proceed? [y/N]: aborted reset operation")
		return 1
	}
	// It may not run; the rest is done all the same.
	_ = s.services.halt(ctx, "kubelet.service")
	if s.Config.KubeadmReset != nil {
		if err := s.Config.KubeadmReset(ctx); err != nil {
			fmt.Fprintf(p.Stderr, "error execution phase cleanup-node: %v\n", err)
			return 1
		}
	}
	if err := s.removeKubernetes(p.Cred); err != nil {
		fmt.Fprintf(p.Stderr, "error execution phase cleanup-node: %s\n", machine.Strerror(err))
		return 1
	}
	p.Printf("[reset] Deleting contents of directories: [/etc/kubernetes/manifests /var/lib/kubelet /etc/kubernetes/pki]\n")
	return 0
}

// removeKubernetes removes what kubeadm reset does: its own files, and the
// contents of its folders. Other files in /etc/kubernetes stay.
func (s *System) removeKubernetes(c tree.Cred) error {
	var gone []string
	for _, name := range []string{"admin", "super-admin", "kubelet", "bootstrap-kubelet", "controller-manager", "scheduler"} {
		gone = append(gone, "/etc/kubernetes/"+name+".conf")
	}
	for _, dir := range []string{"/etc/kubernetes/manifests", "/etc/kubernetes/pki", "/var/lib/kubelet", "/var/lib/etcd"} {
		if !s.Exists(dir) {
			continue
		}
		kids, err := s.FS.ReadDir(c, dir)
		if err != nil {
			return err
		}
		for _, kid := range kids {
			gone = append(gone, dir+"/"+kid.Name())
		}
	}
	for _, file := range gone {
		if err := s.FS.RemoveAll(c, file); err != nil {
			return err
		}
	}
	return nil
}
