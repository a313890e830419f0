package debian

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// defaultKubernetes is the release of a tool that doesn't say its own.
const defaultKubernetes = "1.37.2"

// release tells the version of a Kubernetes program: of its package, or the
// one that its file names.
func (s *System) release(p *machine.Proc, name string) string {
	if v, ok := s.Installed(name); ok {
		v, _, _ = strings.Cut(v, "-")
		return v
	}
	if m := regexp.MustCompile(`v?(\d+\.\d+\.\d+)`).FindStringSubmatch(s.Text(p.File)); m != nil {
		return m[1]
	}
	return defaultKubernetes
}

// kubelet runs once kubeadm has configured it, and fails before.
func (s *System) kubelet(ctx context.Context, p *machine.Proc) int {
	if slices.Contains(p.Args, "--version") {
		p.Printf("Kubernetes v%s\n", s.release(p, "kubelet"))
		return 0
	}
	if !s.Exists("/var/lib/kubelet/config.yaml") {
		fmt.Fprintln(p.Stderr, "err=\"failed to load kubelet config file, path: /var/lib/kubelet/config.yaml, error: open /var/lib/kubelet/config.yaml: no such file or directory\"")
		return 1
	}
	return daemon(ctx, p)
}

func (s *System) kubectl(ctx context.Context, p *machine.Proc) int {
	conf := p.Getenv("KUBECONFIG")
	var args []string
	all := p.Args[1:]
	for i := 0; i < len(all); i++ {
		if v, ok := strings.CutPrefix(all[i], "--kubeconfig="); ok {
			conf = v
			continue
		}
		if all[i] == "--kubeconfig" && i+1 < len(all) {
			i++
			conf = all[i]
			continue
		}
		args = append(args, all[i])
	}
	if len(args) > 0 && args[0] == "version" && slices.Contains(args, "--client") {
		p.Printf("Client Version: v%s\n", s.release(p, "kubectl"))
		return 0
	}
	if conf == "" {
		conf = p.Getenv("HOME") + "/.kube/config"
		if !s.Exists(conf) {
			fmt.Fprintln(p.Stderr, "The connection to the server localhost:8080 was refused - did you specify the right host or port?")
			return 1
		}
	}
	data, err := s.FS.ReadFile(p.Cred, p.Abs(conf))
	if err != nil {
		fmt.Fprintf(p.Stderr, "error: error loading config file \"%s\": open %s: %s\n", conf, conf, strings.ToLower(machine.Strerror(err)))
		return 1
	}
	if s.Config.Kubectl == nil {
		fmt.Fprintf(p.Stderr, "The connection to the server %s:6443 was refused - did you specify the right host or port?\n", s.primary())
		return 1
	}
	out, err := s.Config.Kubectl(ctx, data, args)
	p.Printf("%s", out)
	if err != nil {
		fmt.Fprintln(p.Stderr, err.Error())
		return 1
	}
	return 0
}

func (s *System) containerd(ctx context.Context, p *machine.Proc) int {
	args := p.Args[1:]
	switch {
	case len(args) > 1 && args[0] == "config" && args[1] == "default":
		p.Printf("version = 2\nroot = \"/var/lib/containerd\"\nstate = \"/run/containerd\"\n\n[plugins]\n\n  [plugins.\"io.containerd.grpc.v1.cri\"]\n    sandbox_image = \"pause:3.8\"\n\n    [plugins.\"io.containerd.grpc.v1.cri\".containerd]\n\n      [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n        SystemdCgroup = false\n")
		return 0
	case len(args) > 0 && (args[0] == "--version" || args[0] == "-v"):
		v, ok := s.Installed("containerd")
		if !ok {
			v = "2.1.4"
		}
		v, _, _ = strings.Cut(v, "~")
		p.Printf("containerd containerd.io %s\n", v)
		return 0
	}
	if err := s.Put("/run/containerd/containerd.sock", "", 0o660); err != nil {
		return p.Fail(1, "%s", machine.Strerror(err))
	}
	code := daemon(ctx, p)
	// The socket goes with the daemon; it lies in memory, so nothing is lost.
	_ = s.FS.Remove(tree.Root(), "/run/containerd/containerd.sock")
	return code
}

// crictl is crictl, ctr and nerdctl, as far as images go.
func (s *System) crictl(_ context.Context, p *machine.Proc) int {
	var words []string
	for i := 1; i < len(p.Args); i++ {
		a := p.Args[i]
		if a == "-n" || a == "--namespace" || a == "-r" || a == "--runtime-endpoint" || a == "-a" || a == "--address" {
			i++
			continue
		}
		if !strings.HasPrefix(a, "-") {
			words = append(words, a)
		}
	}
	if slices.Contains(p.Args, "--version") {
		p.Printf("%s version v1.37.0\n", p.Name())
		return 0
	}
	if len(words) == 0 {
		return p.Fail(1, "no command")
	}
	if words[0] == "config" {
		return 0
	}
	if code := s.needRuntime(p); code != 0 {
		return code
	}
	if words[0] == "image" || words[0] == "images" || words[0] == "i" {
		if len(words) == 1 {
			words = append(words, "ls")
		}
		words = words[1:]
	}
	switch words[0] {
	case "version":
		p.Printf("Version:  0.1.0\nRuntimeName:  containerd\nRuntimeVersion:  1.6.20\nRuntimeApiVersion:  v1\n")
	case "info":
		p.Printf("{\"status\": {\"conditions\": [{\"type\": \"RuntimeReady\", \"status\": true}]}}\n")
	case "ls", "list":
		p.Printf("IMAGE\n")
		for _, image := range s.kernel.images() {
			p.Printf("%s\n", image)
		}
	case "pull":
		if !s.egress() {
			fmt.Fprintln(p.Stderr, "failed to resolve reference: Temporary failure in name resolution")
			return 1
		}
		s.kernel.addImage(words[len(words)-1])
	case "import":
		file := words[len(words)-1]
		if _, err := s.FS.ReadFile(p.Cred, p.Abs(file)); err != nil && file != "-" {
			fmt.Fprintf(p.Stderr, "ctr: open %s: %s\n", file, strings.ToLower(machine.Strerror(err)))
			return 1
		}
		s.kernel.addImage(file)
		p.Printf("unpacking %s...done\n", file)
	case "ps", "pods", "containers", "c", "tasks", "t":
		p.Printf("CONTAINER IMAGE CREATED STATE NAME\n")
	}
	return 0
}
