package ssh_test

import (
	"crypto"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh"
	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
)

// startAgent starts OpenSSH's agent, and returns its socket and a way to speak
// to it.
func startAgent(t *testing.T) (socket string, a agent.ExtendedAgent) {
	t.Helper()
	skip.Slow(t, "it starts ssh-agent")
	program, err := exec.LookPath("ssh-agent")
	skip.Unless(t, err == nil, "against a real ssh-agent", "openssh-client isn't installed")
	dir, err := os.MkdirTemp("", "agent") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "s")
	cmd := exec.Command(program, "-D", "-a", socket)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // by the signal
		os.RemoveAll(dir)
	})
	var conn net.Conn
	awaitTrue(t, func() bool {
		conn, err = net.Dial("unix", socket)
		return err == nil
	})
	t.Cleanup(func() { conn.Close() })
	return socket, agent.NewClient(conn)
}

func addKey(t *testing.T, a agent.Agent, key sshtest.Key, cert string, confirm bool) {
	t.Helper()
	private, err := xssh.ParseRawPrivateKey([]byte(key.Private))
	if err != nil {
		t.Fatal(err)
	}
	added := agent.AddedKey{PrivateKey: private.(crypto.PrivateKey), ConfirmBeforeUse: confirm}
	if cert != "" {
		pub, _, _, _, err := xssh.ParseAuthorizedKey([]byte(cert))
		if err != nil {
			t.Fatal(err)
		}
		added.Certificate = pub.(*xssh.Certificate)
	}
	if err := a.Add(added); err != nil {
		t.Fatal(err)
	}
}

func TestAgent(t *testing.T) {
	d, cfg := daemon(t)
	key := cfg.Key
	cfg.Key = ""
	socket, a := startAgent(t)
	cfg.Agent = socket
	want(t, connect(t, cfg).Connect(bounded(t)), fault.Denied, "connecting to real (", "the SSH agent at "+socket+" has no keys, or is locked", "ssh-add")

	strange := sshtest.NewKey(t, sshtest.ECDSA, "")
	addKey(t, a, strange, "", false)
	want(t, connect(t, cfg).Connect(bounded(t)), fault.Denied, "refuses user", xssh.FingerprintSHA256(strange.Signer.PublicKey()))
	cfg.Key = d.Key.Public
	want(t, connect(t, cfg).Connect(bounded(t)), fault.Denied, "has 1 keys, but not ssh-ed25519 "+xssh.FingerprintSHA256(d.Key.Signer.PublicKey()))
	cfg.Key = key // beside the agent's
	if err := connect(t, cfg).Connect(bounded(t)); err != nil {
		t.Error(err)
	}

	addKey(t, a, d.Key, "", false)
	for _, chosen := range []string{"", d.Key.Public, d.Key.Public + " me@here\n"} {
		cfg.Key = chosen
		res, err := connect(t, cfg).Run(bounded(t), ssh.Command{Argv: []string{"echo", "hi"}})
		if err != nil || string(res.Stdout) != "hi\n" {
			t.Errorf("%q: %q, %v", chosen, res.Stdout, err)
		}
	}
	if err := a.Lock([]byte("x")); err != nil {
		t.Fatal(err)
	}
	want(t, connect(t, cfg).Connect(bounded(t)), fault.Denied, "is locked", "ssh-add -X")
	if err := a.Unlock([]byte("x")); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		addKey(t, a, sshtest.NewKey(t, sshtest.Ed25519, ""), "", false)
	}
	if err := a.Remove(d.Key.Signer.PublicKey()); err != nil {
		t.Fatal(err)
	}
	cfg.Key = ""
	want(t, connect(t, cfg).Connect(bounded(t)), fault.Denied, "refuses user", "each of 7 keys", "MaxAuthTries", "choose one")
}

func TestAgentRefusesToSign(t *testing.T) {
	d, cfg := daemon(t)
	socket, a := startAgent(t)
	cfg.Key, cfg.Agent = "", socket
	addKey(t, a, d.Key, "", true) // nobody can confirm
	want(t, connect(t, cfg).Connect(bounded(t)), fault.Denied, "the SSH agent at "+socket+" doesn't sign", "confirm")
}

func TestAgentWithCertificate(t *testing.T) {
	ca, cfg, user := authority(t)
	socket, a := startAgent(t)
	cfg.Agent = socket
	for _, typ := range []sshtest.KeyType{sshtest.Ed25519, sshtest.RSA} {
		key := sshtest.NewKey(t, typ, "")
		cert := ca.Certify(t, key.Public, xssh.UserCert, nil, user)
		cfg.Key, cfg.Certificate = "", cert
		want(t, connect(t, cfg).Connect(bounded(t)), fault.Denied, "the SSH agent at ", map[bool]string{true: "no keys", false: "but not"}[typ == sshtest.Ed25519])
		addKey(t, a, key, "", false)
		if err := connect(t, cfg).Connect(bounded(t)); err != nil {
			t.Error(err)
		}
		// The agent has the certificate too.
		addKey(t, a, key, cert, false)
		cfg.Key, cfg.Certificate = key.Public, ""
		if err := connect(t, cfg).Connect(bounded(t)); err != nil {
			t.Error(err)
		}
	}
}

func TestAgentErrors(t *testing.T) {
	key := sshtest.NewKey(t, sshtest.Ed25519, "")
	dir := t.TempDir()
	cfg := ssh.Config{Address: "127.0.0.1", User: "debian", HostKeys: []string{key.Public}, Agent: filepath.Join(dir, "none"), Timeout: 200 * time.Millisecond}
	want(t, connect(t, cfg).Connect(bounded(t)), fault.Invalid, "no SSH agent answers at "+cfg.Agent+": no such file", "SSH_AUTH_SOCK")
	cfg.Key = "rubbish"
	_, err := ssh.New(cfg)
	want(t, err, fault.Invalid, "isn't a private key")
	cfg.Key, cfg.Agent = key.Public, ""
	_, err = ssh.New(cfg)
	want(t, err, fault.Invalid, "it is a public key", "agent")

	// What listens says nothing, and then it hangs up.
	cfg.Key, cfg.Agent = "", filepath.Join(dir, "mute")
	l, err := net.Listen("unix", cfg.Agent)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	want(t, connect(t, cfg).Connect(bounded(t)), fault.Invalid, "doesn't list its keys", "timeout")
}
