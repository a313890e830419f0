package hosts_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
)

// rig is a gateway with a floating address, and a seed behind it.
type rig struct {
	t       *testing.T
	fleet   *hosts.Fleet
	signer  ssh.Signer
	gateway *hosts.Host
	seed    *hosts.Host
	addr    string // of the gateway

	mu     sync.Mutex
	egress map[string]bool
}

func newSigner(t testing.TB) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.77.0.11:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func newRig(t *testing.T, cfg hosts.Config, edit ...func(*hosts.Spec)) *rig {
	t.Helper()
	r := &rig{t: t, signer: newSigner(t), egress: map[string]bool{"gw": true, "seed": true}}
	if cfg.Egress == nil {
		cfg.Egress = func(id string) bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.egress[id]
		}
	}
	r.fleet = hosts.New(cfg)
	t.Cleanup(func() {
		if err := r.fleet.Close(); err != nil {
			t.Error(err)
		}
	})
	key := string(ssh.MarshalAuthorizedKey(r.signer.PublicKey()))
	boot := func(id, ip string) *hosts.Host {
		spec := hosts.Spec{
			ID: id, Name: id, AuthorizedKeys: []string{key}, MemoryMB: 4096, CPUs: 2,
			Addresses: []hosts.Address{{IP: netip.MustParseAddr(ip), Prefix: 24, Network: "mgmt", Subnet: "mgmt"}},
		}
		for _, fn := range edit {
			fn(&spec)
		}
		h, err := r.fleet.Boot(spec)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	r.gateway, r.seed = boot("gw", "10.20.0.5"), boot("seed", "10.20.0.10")
	ctx := r.ctx()
	for _, h := range []*hosts.Host{r.gateway, r.seed} {
		if err := errors.Join(h.WaitUp(ctx), h.WaitInit(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	r.addr = freeAddr(t)
	if err := r.gateway.Listen(r.addr); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	r.t.Cleanup(cancel)
	return ctx
}

func (r *rig) config(h *hosts.Host, user string) *ssh.ClientConfig {
	return &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(r.signer)}, Timeout: 10 * time.Second,
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			for _, k := range h.HostKeys() {
				if bytes.Equal(k.Marshal(), key.Marshal()) {
					return nil
				}
			}
			return errors.New("unknown host key")
		},
	}
}

// dial logs into the gateway.
func (r *rig) dial() *ssh.Client {
	r.t.Helper()
	c, err := ssh.Dial("tcp", r.addr, r.config(r.gateway, "debian"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

// jump logs into the seed through the gateway.
func (r *rig) jump(via *ssh.Client) *ssh.Client {
	r.t.Helper()
	conn, err := via.Dial("tcp", "10.20.0.10:22")
	if err != nil {
		r.t.Fatal(err)
	}
	cc, chans, reqs, err := ssh.NewClientConn(conn, "10.20.0.10:22", r.config(r.seed, "debian"))
	if err != nil {
		r.t.Fatal(err)
	}
	c := ssh.NewClient(cc, chans, reqs)
	r.t.Cleanup(func() { c.Close() })
	return c
}

type result struct {
	out, err string
	code     int
}

// run runs a command line, with a text as its input.
func run(t testing.TB, c *ssh.Client, command, stdin string) result {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out, errOut bytes.Buffer
	s.Stdout, s.Stderr = &out, &errOut
	s.Stdin = strings.NewReader(stdin)
	r := result{}
	if err := s.Run(command); err != nil {
		var exit *ssh.ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("%s: %v (stderr %q)", command, err, errOut.String())
		}
		r.code = exit.ExitStatus()
	}
	r.out, r.err = out.String(), errOut.String()
	return r
}

func ok(t testing.TB, c *ssh.Client, command string) string {
	t.Helper()
	r := run(t, c, command, "")
	if r.code != 0 {
		t.Fatalf("%s: exit %d\n%s%s", command, r.code, r.out, r.err)
	}
	return r.out
}

func TestThread(t *testing.T) {
	r := newRig(t, hosts.Config{})
	c := r.dial()
	if got := ok(t, c, "echo $USER; hostname; id -un"); got != "debian\ngw\ndebian\n" {
		t.Errorf("who: %q", got)
	}
	got := run(t, c, "sudo -n sh -s", "set -eu\nmkdir -p /etc/app\nprintf '%s\\n' one two > /etc/app/list\nwc -l < /etc/app/list\nexit 3\n")
	if got.out != "2\n" || got.code != 3 {
		t.Errorf("script: %+v", got)
	}
	seed := r.jump(c)
	if got := ok(t, seed, "hostname"); got != "seed\n" {
		t.Errorf("through the gateway: %q", got)
	}
	files, err := sftp.NewClient(seed)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	f, err := files.Create("/home/debian/note")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(bytes.Repeat([]byte("x"), 100_000)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := ok(t, seed, "wc -c < note"); got != "100000\n" {
		t.Errorf("uploaded: %q", got)
	}
	if _, err := files.Create("/etc/note"); !errors.Is(err, os.ErrPermission) {
		t.Errorf("writing to /etc: %v", err)
	}
	r.seed.Serve(6443, func(conn net.Conn) { fmt.Fprint(conn, "hello") })
	conn, err := c.Dial("tcp", "10.20.0.10:6443")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(conn); err != nil || buf.String() != "hello" {
		t.Errorf("forwarded: %q, %v", buf.String(), err)
	}
	if _, err := c.Dial("tcp", "10.20.0.99:22"); err == nil || !strings.Contains(err.Error(), "No route to host") {
		t.Errorf("an address that isn't there: %v", err)
	}
}
