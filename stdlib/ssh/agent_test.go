package ssh_test

import (
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/stdlib/ssh"
)

// The environment is asked for an agent where a recipe says so, and not before.
func TestAgent(t *testing.T) {
	s := newSite(t, sshtest.Options{})
	keys := agent.NewKeyring()
	private, err := xssh.ParseRawPrivateKey([]byte(s.key.Private))
	if err != nil {
		t.Fatal(err)
	}
	if err := keys.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "agent") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	defer work.Wait()
	defer l.Close()
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer c.Close()
				_ = agent.ServeAgent(keys, c) // until the client hangs up
			})
		}
	})
	asked := 0
	pool := ssh.Module(ssh.Config{LookupEnv: func(name string) (string, bool) {
		asked++
		return map[string]string{"SSH_AUTH_SOCK": socket}[name], true
	}})
	defer pool.Recv.(*ssh.Pool).Close()
	s.module = pool
	s.step(t, nil, `assert.eq(h.run(["true"]).exit_code, 0)`)
	if asked != 0 {
		t.Error("the environment was asked")
	}
	s.step(t, nil, `args = {"user": "root", "host_key": host_key, "port": port, "agent": True}
    assert.eq(ssh.host(address, **args).run(["true"]).exit_code, 0)
    `+fails(`ssh.host(address, key = other_key, **args).run(["true"])`, "has 1 keys, but not ssh-ed25519", fault.Denied))
	if asked == 0 {
		t.Error("the environment wasn't asked")
	}
}
