package hosts_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
)

var systemCases = []scriptCase{
	{name: "sudo", script: "sudo -n true && echo free; sudo sh -c 'id -u; echo $HOME $SUDO_USER'; A=1 sudo -E sh -c 'echo $A'; sudo B=2 env | grep ^B=; sudo -u nobody id -un; sudo -i pwd; sudo -n -l | head -1; sudo none", out: "free\n0\n/root debian\n1\nB=2\nnobody\n/root\nUser debian may run the following commands on gw:\n", code: 1, err: "sudo: none: command not found"},
	{name: "sudo of others", script: "sudo useradd -m -s /bin/bash bob; sudo -u bob sudo -n true; sudo userdel -r bob; sudo su - debian -c 'id -un'; su -c id", out: "debian\n", code: 1, err: "su: Authentication failure"},
	{name: "users", script: "PATH=$PATH:/usr/sbin; sudo useradd -r -s /usr/sbin/nologin etcd; getent passwd etcd | cut -d: -f1,7; sudo groupadd -g 4000 ops; sudo usermod -aG ops debian; getent group ops; sudo useradd etcd; echo $?; sudo userdel etcd; getent passwd etcd; echo $?; useradd x", out: "etcd:/usr/sbin/nologin\nops:x:4000:debian\n9\n2\n", code: 1, err: "Permission denied"},
	{name: "sysctl", script: "PATH=$PATH:/usr/sbin; sysctl -n net.ipv4.ip_forward; sudo sysctl -w net.ipv4.ip_forward=1; cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/all/forwarding; echo 0 | sudo tee /proc/sys/net/ipv4/ip_forward >/dev/null; sysctl net.ipv4.ip_forward; echo vm.swappiness=10 | sudo tee /etc/sysctl.d/50-x.conf >/dev/null; sudo sysctl -p /etc/sysctl.d/50-x.conf; sudo sysctl --system | tail -n 2 | head -1; sysctl -w vm.swappiness=1", out: "0\nnet.ipv4.ip_forward = 1\n1\n1\nnet.ipv4.ip_forward = 0\nvm.swappiness = 10\nvm.swappiness = 10\n", code: 255, err: "permission denied on key"},
	{name: "sysctl unknown", script: "sudo sysctl net.bridge.bridge-nf-call-iptables", code: 255, err: "cannot stat /proc/sys/net/bridge/bridge-nf-call-iptables"},
	{name: "modules", script: "PATH=$PATH:/usr/sbin; sudo modprobe br_netfilter; sysctl -n net.bridge.bridge-nf-call-iptables; lsmod | grep -c '^br'; sudo modprobe -r br_netfilter; modprobe overlay; sudo modprobe nonesuch", out: "1\n2\n", code: 1, err: "FATAL: Module nonesuch not found"},
	{name: "proc", script: "grep -c ^processor /proc/cpuinfo; grep MemTotal /proc/meminfo; test -r /proc/sys/kernel/random/boot_id && echo id; . /etc/os-release; echo $ID $VERSION_ID; cat /sys/class/net/ens3/operstate; touch /proc/x", out: "2\nMemTotal:        4194304 kB\nid\ndebian 12\nup\n", code: 1, err: "touch: cannot touch '/proc/x': Permission denied"},
	{name: "hostname", script: "hostname; sudo hostnamectl set-hostname web; hostname; cat /etc/hostname; sudo hostname gw; hostnamectl | head -1; sudo hostnamectl set-hostname gw", out: "gw\nweb\nweb\n Static hostname: gw\n"},
	{name: "misc", script: "nproc; systemd-detect-virt; timedatectl show -p Timezone --value; df -P / | wc -l; free -m | wc -l; ip -br addr show dev ens3; ip -j addr show dev ens3 | grep -o '\"local\":\"[^\"]*\"'; ip route get 10.20.0.10 | head -1; ip route show default; ss -ltn | grep -c :22; mount | grep -c ext4; lsblk | wc -l; openssl rand -hex 4 | wc -c; ip link show nope",
		out: "2\nkvm\nEtc/UTC\n2\n3\nens3             UP             10.20.0.5/24\n\"local\":\"10.20.0.5\"\n10.20.0.10 dev ens3 src 10.20.0.5 uid 1000\ndefault via 10.20.0.1 dev ens3 proto dhcp src 10.20.0.5 metric 100\n1\n1\n3\n9\n", code: 1, err: "does not exist"},
	{name: "units", script: `printf '[Unit]\nDescription=App\n[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n' | sudo tee /etc/systemd/system/app.service >/dev/null
systemctl is-enabled app; sudo systemctl daemon-reload; sudo systemctl -q enable --now app; systemctl is-active app; systemctl is-enabled app; systemctl show -p ActiveState,SubState app; test "$(systemctl show -p MainPID --value app)" -gt 0 && echo pid; pgrep -x sleep >/dev/null && echo runs
a=$(systemctl show -p InvocationID app); sudo systemctl restart app; [ "$a" != "$(systemctl show -p InvocationID app)" ] && echo new
echo '# x' | sudo tee -a /etc/systemd/system/app.service >/dev/null; systemctl show -p NeedDaemonReload --value app; sudo systemctl daemon-reload; systemctl show -p NeedDaemonReload --value app
sudo systemctl disable --now app 2>/dev/null; systemctl is-active app; systemctl is-enabled app; pgrep -x sleep || echo gone; sudo systemctl -q mask --now cron; systemctl is-enabled cron; systemctl is-active cron; sudo systemctl start cron || sudo systemctl -q unmask cron; sudo systemctl start cron; systemctl is-active cron; systemctl list-unit-files app.service | head -2 | tail -1; systemctl status app | head -1; sudo rm /etc/systemd/system/app.service; sudo systemctl daemon-reload; sudo systemctl start app`,
		out: "disabled\nactive\nenabled\nActiveState=active\nSubState=running\npid\nruns\nnew\nyes\nno\ninactive\ndisabled\ngone\nmasked\ninactive\nactive\napp.service disabled enabled\n● app.service - App\n", code: 5, err: "Unit app.service not found"},
	{name: "unit errors", script: "systemctl start ssh; echo $?; sudo systemctl enable nope; echo $?; sudo systemctl stop nope; echo $?; systemctl is-active nope; echo $?; systemctl status nope; echo $?; systemctl show -p LoadState nope; sudo systemctl reload cron; systemctl is-active ssh sshd; sudo systemctl restart", out: "1\n1\n5\ninactive\n3\n4\nLoadState=not-found\nactive\ninactive\n", code: 1, err: "Too few arguments"},
	{name: "failing unit", script: "printf '[Service]\\nType=oneshot\\nExecStart=/bin/sh -c \"echo oops; exit 3\"\\n' | sudo tee /etc/systemd/system/bad.service >/dev/null; sudo systemctl start bad; echo $?; systemctl is-failed bad; systemctl show -p Result,ExecMainStatus bad; journalctl -u bad -o cat --no-pager | grep oops; sudo systemctl reset-failed bad; systemctl is-failed bad; printf '[Service]\\nExecStart=/usr/bin/nope\\n' | sudo tee /etc/systemd/system/bad2.service >/dev/null; sudo systemctl start bad2; systemctl is-active bad2; systemctl is-enabled bad2",
		out: "1\nfailed\nResult=exit-code\nExecMainStatus=3\noops\ninactive\nfailed\nstatic\n", err: "Job for bad.service failed"},
	{name: "drop-ins", script: "sudo mkdir -p /etc/systemd/system/cron.service.d; printf '[Service]\\nEnvironment=A=b\\n' | sudo tee /etc/systemd/system/cron.service.d/x.conf >/dev/null; sudo systemctl daemon-reload; systemctl show -p Environment cron; systemctl cat cron | grep -c Environment", out: "Environment=A=b\n1\n"},
	{name: "template", script: "printf '[Service]\\nType=oneshot\\nRemainAfterExit=yes\\nExecStart=/bin/sh -c \"echo %%i > /run/got-%%i\"\\n[Install]\\nWantedBy=multi-user.target\\n' | sudo tee /etc/systemd/system/t@.service >/dev/null; sudo systemctl -q enable --now t@one; cat /run/got-one; systemctl is-active t@one; ls /etc/systemd/system/multi-user.target.wants | grep t@", out: "one\nactive\nt@one.service\n"},
	{name: "apt", script: "sudo apt-get update -qq; sudo apt-get install -y -qq --no-install-recommends nftables jq; dpkg-query -W -f '${Status} ${Version}\\n' jq; dpkg -s jq | head -1; PATH=$PATH:/usr/sbin command -v nft; echo '{\"a\":{\"b\":[1,\"x\"]}}' | jq -r '.a.b[1]'; sudo apt-get install -y jq | tail -1; sudo apt-mark hold jq; apt-mark showhold; apt-cache policy jq | head -3; sudo apt-mark unhold jq; sudo apt-get remove -y -qq jq; dpkg -s jq; command -v jq || echo none; sudo apt-get install -y nonesuch >/dev/null; echo $?; sudo apt-get install -y jq=9 >/dev/null; echo $?; apt-get update",
		out: "install ok installed 1.6-2.1\nPackage: jq\n/usr/sbin/nft\nx\n0 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.\njq set on hold.\njq\njq:\n  Installed: 1.6-2.1\n  Candidate: 1.6-2.1\nCanceled hold on jq.\nnone\n100\n100\n", code: 100, err: "E: Unable to locate package nonesuch"},
	{name: "repository", script: `sudo apt-get update -qq; sudo apt-get install -y -qq curl gnupg ca-certificates apt-transport-https; echo 'deb [signed-by=/etc/apt/keyrings/k.gpg] https://packages.lab.invalid/core:/stable:/v1.37/deb/ /' | sudo tee /etc/apt/sources.list.d/k.list >/dev/null
sudo apt-get update -qq; echo $?; echo key | sudo gpg --dearmor -o /etc/apt/keyrings/k.gpg; sudo apt-get update -qq; echo $?; sudo apt-get install -y -qq kubeadm=1.37.2-1.1 kubelet=1.37.2-1.1 kubectl=1.37.2-1.1; kubeadm version -o short; dpkg-query -W kubelet; sudo apt-mark hold kubeadm kubelet kubectl | wc -l; sudo apt-get install -y kubeadm=1.37.3-1.1 >/dev/null; echo $?; systemctl is-enabled kubelet; apt-cache madison kubeadm | wc -l; crictl --version; sudo apt-get install -y kubeadm=1.36.1-1.1`,
		out: "100\n0\nv1.37.2\nkubelet\t1.37.2-1.1\n3\n100\ndisabled\n10\ncrictl version v1.37.0\nReading package lists...\nBuilding dependency tree...\nReading state information...\n", code: 100, err: "NO_PUBKEY"},
	{name: "dpkg -i", script: "echo x > curl_9.9_amd64.deb; sudo dpkg -i curl_9.9_amd64.deb; dpkg-query -W -f '${Version}' curl; sudo dpkg -i none.deb", out: "Setting up curl (9.9) ...\n9.9", code: 1, err: "cannot access archive"},
	{name: "nft", script: `sudo apt-get update -qq; sudo apt-get install -y -qq nftables; printf 'flush ruleset\ndefine wan = ens3\ntable ip nat {\n  chain post {\n    type nat hook postrouting priority srcnat; policy accept;\n    oifname $wan ip saddr 10.20.0.0/24 masquerade\n  }\n}\n' > a.nft; sudo nft -c -f a.nft && sudo nft list ruleset | wc -l; sudo nft -f a.nft; sudo nft list ruleset; printf 'table ip nat {\n  chain post {\n    ip sadr 10.0.0.0/8 masquerade\n  ]\n}\n' > b.nft; sudo nft -f b.nft; echo $?; printf 'table ip x {\n chain c {\n  tcp dport nonesuch accept\n }\n}\n' | sudo nft -f -; sudo nft list tables; sudo nft add rule ip nat post counter; sudo nft list chain ip nat post | grep -c counter; sudo nft flush ruleset; sudo nft list ruleset; /usr/sbin/nft list ruleset`,
		out: "0\ntable ip nat {\n\tchain post {\n\t\ttype nat hook postrouting priority srcnat; policy accept;\n\t\toifname ens3 ip saddr 10.20.0.0/24 masquerade\n\t}\n}\n1\ntable ip nat\n1\n", code: 1, err: "/dev/stdin:3:1-1: Error: Could not resolve service"},
	{name: "nft sets", script: `sudo nft -f - <<'E'
table inet filter {
	set lan { type ipv4_addr; flags interval; elements = { 10.0.0.0/8, 192.168.0.0/16 } }
	chain input {
		type filter hook input priority 0; policy drop;
		ct state established,related accept
		iif "lo" accept
		tcp dport { 22, 6443 } accept # comment
		ip saddr @lan jump extra
	}
	chain extra { udp dport 51820 accept; }
}
E
sudo nft list set inet filter lan | grep elements; sudo nft list chain inet filter input | tail -5 | head -3; sudo nft add rule inet filter input ip saddr @none accept; echo $?; sudo nft delete table inet filter; sudo nft list ruleset; sudo nft add rule inet nope x accept`,
		out: "\t\telements = { 10.0.0.0/8, 192.168.0.0/16 }\n\t\tiif \"lo\" accept\n\t\ttcp dport { 22, 6443 } accept\n\t\tip saddr @lan jump extra\n1\n", code: 1, err: "No such file or directory"},
	{name: "nftables service", script: "printf 'flush ruleset\\ntable ip a {\\n}\\n' | sudo tee /etc/nftables.conf >/dev/null; sudo systemctl -q enable --now nftables; sudo nft list ruleset; printf 'flush ruleset\\ntable ip b {\\n}\\n' | sudo tee /etc/nftables.conf >/dev/null; sudo systemctl reload nftables; sudo nft list ruleset; echo 'table {' | sudo tee /etc/nftables.conf >/dev/null; sudo systemctl reload nftables; sudo nft list tables; sudo systemctl stop nftables; sudo nft list ruleset; sudo systemctl start nftables", out: "table ip a {\n}\ntable ip b {\n}\ntable ip b\n", code: 1, err: "Job for nftables.service failed"},
	{name: "wireguard", script: `sudo apt-get update -qq; sudo apt-get install -y -qq wireguard; (umask 077; wg genkey > k; wg pubkey < k > pub); stat -c %a k; wc -c < pub; P=$(wg genkey | wg pubkey)
printf '[Interface]\nAddress = 10.99.0.1/24\nListenPort = 51820\nPrivateKey = %s\nPostUp = echo up-%%i > /run/hook\n[Peer]\nPublicKey = %s\nAllowedIPs = 10.99.0.2/32\n' "$(cat k)" "$P" | sudo install -D -m 600 /dev/stdin /etc/wireguard/wg0.conf
sudo systemctl -q enable --now wg-quick@wg0; sudo wg show wg0 public-key | cmp - pub && echo same; sudo wg show wg0 peers | grep -c .; sudo wg show wg0 listen-port; cat /run/hook; ip -br addr show wg0; sudo wg show wg0 dump | wc -l
sudo wg set wg0 peer "$(wg genkey | wg pubkey)" allowed-ips 10.99.0.3/32; sudo wg show wg0 allowed-ips | wc -l; sudo systemctl reload wg-quick@wg0; sudo wg show wg0 allowed-ips | wc -l; sudo wg-quick strip wg0 | grep -c Address; sudo wg-quick up wg0; sudo systemctl stop wg-quick@wg0; sudo wg show interfaces; echo junk | wg pubkey; sudo wg show wg0`,
		out: "600\n45\nsame\n1\n51820\nup-wg0\nwg0              UNKNOWN        10.99.0.1/24\n2\n2\n1\n0\n\n", code: 1, err: "`wg0' already exists"},
	{name: "containerd", script: "sudo apt-get update -qq; sudo apt-get install -y -qq containerd runc; systemctl is-active containerd; containerd config default | grep -c SystemdCgroup; test -e /run/containerd/containerd.sock && echo sock; sudo ctr -n k8s.io images ls | wc -l; sudo ctr images pull a/b:1; sudo crictl images | tail -1; sudo systemctl stop containerd; sudo crictl ps", out: "active\n1\nsock\n1\na/b:1\n", code: 1, err: "connect: no such file or directory"},
	{name: "swap", script: "sudo swapon --show; sudo touch /swap; sudo swapon /swap; /usr/sbin/swapon --show --noheadings | cut -d' ' -f1; sudo swapoff -a; cat /proc/swaps | wc -l; /usr/sbin/swapoff -a", out: "/swap\n1\n", code: 1, err: "Not superuser"},
	{name: "cloud-init", script: "cloud-init status --wait; test -f /var/lib/cloud/instance/boot-finished && echo fin", out: "status: done\nfin\n"},
	{name: "ssh keys", script: "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub | cut -d' ' -f1,4; ls /etc/ssh/*.pub | wc -l; sudo visudo -cf /etc/sudoers; echo bad | sudo visudo -cf -", out: "256 (ED25519)\n2\n/etc/sudoers: parsed OK\n", code: 1, err: "syntax error"},
	{name: "fetch", script: "sudo apt-get update -qq; sudo apt-get install -y -qq curl wget; curl -fsSLo f https://mirror.lab.invalid/a; cat f; echo; wget -qO- https://mirror.lab.invalid/b; echo; curl -sS https://elsewhere.lab.invalid/", out: "GET https://mirror.lab.invalid/a\nGET https://mirror.lab.invalid/b\n", code: 6, err: "curl: (6) Could not resolve host"},
	{name: "nc curl", script: "sudo apt-get update -qq; sudo apt-get install -y -qq curl netcat-openbsd; nc -z 10.20.0.10 22 && echo open; nc -zv 10.20.0.10 23; nc -zv 10.20.0.99 22; curl -fsS http://10.20.0.10:8080/x; curl -s -o f -w '%{http_code}\\n' http://10.20.0.10:8080/none; curl -fsS http://10.20.0.10:8080/none; echo $?; curl -sS http://10.20.0.10:81/", out: "open\nhello /x404\n22\n", code: 7, err: "curl: (7)"},
}

func TestSystem(t *testing.T) {
	r := newRig(t, hosts.Config{Fetch: func(_ context.Context, h hosts.Info, method, url string) (int, []byte, error) {
		if h.ID != "gw" || !strings.HasPrefix(url, "https://mirror.lab.invalid/") {
			return 0, nil, fmt.Errorf("Could not resolve host: %s", url)
		}
		return 200, []byte(method + " " + url), nil
	}})
	mux := http.NewServeMux()
	mux.HandleFunc("/x", func(w http.ResponseWriter, req *http.Request) { fmt.Fprintf(w, "hello %s", req.URL.Path) })
	web := &http.Server{Handler: mux}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	defer func() {
		web.Close()
		<-served
	}()
	r.seed.Forward(8080, l.Addr().String())
	c := r.dial()
	for _, tc := range systemCases {
		t.Run(tc.name, func(t *testing.T) { runCase(t, c, tc) })
	}
}

// TestKubeadm walks a seed's way from an empty host to a control plane.
func TestKubeadm(t *testing.T) {
	var inits, resets atomic.Int32
	const admin = "apiVersion: v1\nkind: Config\nclusters:\n- name: k\n  cluster:\n    server: https://10.20.0.10:6443\n    certificate-authority-data: Y2E=\n"
	r := newRig(t, hosts.Config{
		KubeadmInit: func(ctx context.Context, h hosts.Info, config []byte, written func([]byte) error) error {
			n := inits.Add(1)
			if h.ID != "seed" || !strings.Contains(string(config), "podSubnet: 10.244.0.0/16") {
				return fmt.Errorf("unexpected %+v %s", h, config)
			}
			if err := written([]byte(admin)); err != nil || n != 3 {
				return err
			}
			<-ctx.Done() // the third waits for a control plane that never serves
			return ctx.Err()
		},
		KubeadmReset: func(_ context.Context, h hosts.Info) error {
			resets.Add(1)
			return nil
		},
		Kubectl: func(_ context.Context, _ hosts.Info, conf []byte, args []string) (string, error) {
			if string(conf) != admin {
				return "", errors.New("wrong kubeconfig")
			}
			return strings.Join(args, " ") + "\n", nil
		},
	})
	c := r.jump(r.dial())
	fails := func(command, want string) {
		t.Helper()
		got := run(t, c, command, "")
		if got.code == 0 || !strings.Contains(got.err, want) {
			t.Errorf("%s: exit %d, %q, want %q", command, got.code, got.err, want)
		}
	}
	ok(t, c, "echo 'deb [trusted=yes] https://packages.lab.invalid/core:/stable:/v1.37/deb/ /' | sudo tee /etc/apt/sources.list.d/k.list && sudo apt-get update -qq && sudo apt-get install -y kubeadm=1.37.2-1.1 kubelet=1.37.2-1.1 kubectl=1.37.2-1.1")
	const init = "sudo kubeadm init --config k.yaml"
	ok(t, c, "printf 'apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nnetworking:\n  podSubnet: 10.244.0.0/16\n' > k.yaml; printf 'kind: Pod\napiVersion: v1\n' > bad.yaml; sudo touch /swap && sudo swapon /swap")
	fails("kubeadm init --config k.yaml", "not running as root")
	fails("sudo kubeadm init --config bad.yaml", "no kind \"Pod\"")
	fails(init, "[ERROR Swap]")
	ok(t, c, "sudo swapoff -a")
	fails(init, "[ERROR FileContent--proc-sys-net-ipv4-ip_forward]")
	fails(init, "[ERROR CRI]")
	ok(t, c, "sudo modprobe br_netfilter && sudo sysctl -w net.ipv4.ip_forward=1 && sudo apt-get install -y containerd && sudo systemctl enable kubelet")
	if n := inits.Load(); n != 0 {
		t.Fatalf("%d control planes before the preflight was passed", n)
	}
	r.mu.Lock()
	r.egress["seed"] = false
	r.mu.Unlock()
	fails(init, "[ERROR ImagePull]")
	r.mu.Lock()
	r.egress["seed"] = true
	r.mu.Unlock()
	ok(t, c, "sudo kubeadm config images pull")
	if got := ok(t, c, init); !strings.Contains(got, "initialized successfully") || inits.Load() != 1 {
		t.Errorf("init: %s", got)
	}
	if got := ok(t, c, "sudo cat /etc/kubernetes/admin.conf; sudo stat -c '%a %U' /etc/kubernetes/admin.conf; cat /etc/kubernetes/pki/ca.crt; systemctl is-active kubelet"); got != admin+"600 root\nca"+"active\n" {
		t.Errorf("after init: %q", got)
	}
	fails("cat /etc/kubernetes/admin.conf", "Permission denied")
	fails(init, "already exists")
	if got := ok(t, c, "sudo kubectl --kubeconfig /etc/kubernetes/admin.conf get nodes"); got != "get nodes\n" {
		t.Errorf("kubectl: %q", got)
	}
	fails("kubectl get nodes", "localhost:8080 was refused")
	ok(t, c, "sudo touch /etc/kubernetes/init.yaml && sudo kubeadm reset -f && test ! -e /etc/kubernetes/admin.conf && test -e /etc/kubernetes/init.yaml")
	ok(t, c, init)
	if inits.Load() != 2 || resets.Load() != 1 {
		t.Error("a control plane after a reset")
	}

	// A kubeadm that is broken off leaves its files behind, and has to be reset.
	ok(t, c, "sudo kubeadm reset --force")
	broken := r.jump(r.dial())
	s, err := broken.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(init); err != nil {
		t.Fatal(err)
	}
	ok(t, c, "until test -e /etc/kubernetes/manifests/kube-apiserver.yaml && test \"$(systemctl is-active kubelet)\" = active; do sleep 0.01; done")
	broken.Close()
	fails(init, "[ERROR FileAvailable--etc-kubernetes-manifests-kube-apiserver.yaml]")
	fails(init, "[ERROR Port-10250]")
	fails(init, "[ERROR DirAvailable--var-lib-etcd]")
	ok(t, c, "sudo sh -c 'if [ -e /etc/kubernetes/manifests/kube-apiserver.yaml ]; then kubeadm reset --force; fi; kubeadm init --config k.yaml'")
	if inits.Load() != 4 || resets.Load() != 3 {
		t.Errorf("%d inits and %d resets", inits.Load(), resets.Load())
	}
}
