package hosts

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// console is what a host prints while it boots.
type console struct {
	clock Clock
	mu    sync.Mutex
	sb    strings.Builder
	start time.Time
}

func (c *console) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sb.String()
}

// print adds a line with the time since power on.
func (c *console) print(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(&c.sb, "[%12.6f] %s\n", c.clock.Now().Sub(c.start).Seconds(), line)
}

func (c *console) plain(lines ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range lines {
		c.sb.WriteString(line + "\n")
	}
}

// boot prints what the kernel says when a host is powered on.
func (c *console) boot(spec Spec) {
	c.mu.Lock()
	c.start = c.clock.Now()
	c.mu.Unlock()
	cpus := max(1, spec.CPUs)
	for _, line := range []string{
		"Linux version 6.1.0-32-cloud-amd64 (simulated) #1 SMP PREEMPT_DYNAMIC Debian 6.1.129-1",
		"Command line: BOOT_IMAGE=/boot/vmlinuz-6.1.0-32-cloud-amd64 root=PARTUUID=5f1b3c2a console=tty0 console=ttyS0,115200",
		fmt.Sprintf("Memory: %dK/%dK available", spec.MemoryMB*1000, spec.MemoryMB*1024),
		fmt.Sprintf("smp: Brought up 1 node, %d CPUs", cpus),
		"EXT4-fs (vda1): mounted filesystem with ordered data mode. Quota mode: none.",
		"systemd[1]: Detected virtualization kvm.",
		"systemd[1]: Hostname set to <" + spec.Hostname + ">.",
	} {
		c.print(line)
	}
}

// cloudInit prints what cloud-init says at the end of a boot. The keys are
// printed on the first boot only, when they were made.
func (c *console) cloudInit(spec Spec, keys []ssh.PublicKey, firstBoot bool) {
	c.print("cloud-init[512]: Cloud-init v. 22.4.2 running 'modules:config'")
	if firstBoot {
		c.plain("ci-info: no authorized SSH keys fingerprints found for user root.",
			"<14>cloud-init: #############################################################",
			"<14>cloud-init: -----BEGIN SSH HOST KEY FINGERPRINTS-----")
		for _, k := range keys {
			c.plain(fmt.Sprintf("<14>cloud-init: 256 %s root@%s (%s)", ssh.FingerprintSHA256(k), spec.Hostname, keyKind(k)))
		}
		c.plain("<14>cloud-init: -----END SSH HOST KEY FINGERPRINTS-----", "-----BEGIN SSH HOST KEY KEYS-----")
		for _, k := range keys {
			c.plain(strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k))) + " root@" + spec.Hostname)
		}
		c.plain("-----END SSH HOST KEY KEYS-----")
	}
	c.print("cloud-init[560]: Cloud-init v. 22.4.2 finished. Datasource DataSourceOpenStackLocal [net,ver=2].")
	c.plain("", "Debian GNU/Linux 12 "+spec.Hostname+" ttyS0", "", spec.Hostname+" login: ")
}

func keyKind(k ssh.PublicKey) string {
	if k.Type() == ssh.KeyAlgoED25519 {
		return "ED25519"
	}
	return "ECDSA"
}
