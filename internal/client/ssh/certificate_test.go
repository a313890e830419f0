package ssh_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh"
	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// authority returns an OpenSSH server that trusts users by an authority alone.
func authority(t *testing.T) (ca sshtest.Key, cfg ssh.Config, user string) {
	t.Helper()
	ca = sshtest.NewKey(t, sshtest.Ed25519, "")
	file := filepath.Join(t.TempDir(), "ca.pub")
	if err := os.WriteFile(file, []byte(ca.Public+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, cfg := daemon(t, "TrustedUserCAKeys "+file)
	return ca, cfg, d.User
}

func TestUserCertificates(t *testing.T) {
	ca, cfg, user := authority(t)
	for _, typ := range []sshtest.KeyType{sshtest.Ed25519, sshtest.RSA, sshtest.ECDSA} {
		key := sshtest.NewKey(t, typ, "")
		cfg.Key, cfg.Certificate = key.Private, ca.Certify(t, key.Public, xssh.UserCert, nil, "ops", user)
		res, err := connect(t, cfg).Run(bounded(t), ssh.Command{Argv: []string{"echo", "hi"}})
		if err != nil || string(res.Stdout) != "hi\n" {
			t.Errorf("%s: %q, %v", typ, res.Stdout, err)
		}
	}
	forever := func(c *xssh.Certificate) { c.ValidAfter, c.ValidBefore = 0, xssh.CertTimeInfinity }
	key := sshtest.NewKey(t, sshtest.Ed25519, "")
	cfg.Key, cfg.Certificate = key.Private, ca.Certify(t, key.Public, xssh.UserCert, forever, user)+" root@ca\n"
	if err := connect(t, cfg).Connect(bounded(t)); err != nil {
		t.Error(err)
	}
}

func TestUserCertificateIsRefused(t *testing.T) {
	ca, cfg, user := authority(t)
	key := sshtest.NewKey(t, sshtest.Ed25519, "")
	cfg.Key = key.Private
	other := sshtest.NewKey(t, sshtest.Ed25519, "")
	for _, c := range []struct {
		name, cert string
		parts      []string
	}{
		{"principal", ca.Certify(t, key.Public, xssh.UserCert, nil, "ops", "backup"),
			[]string{"refuses user", `the certificate "of a test" (serial 0, key SHA256:`, `the principals ["ops" "backup"]`, "isn't for", "AuthorizedPrincipalsFile"}},
		{"authority", other.Certify(t, key.Public, xssh.UserCert, nil, user),
			[]string{"refuses user", `the principal "` + user + `"`, "TrustedUserCAKeys", xssh.FingerprintSHA256(other.Signer.PublicKey())}},
		{"expired", ca.Certify(t, key.Public, xssh.UserCert, func(c *xssh.Certificate) { c.ValidBefore = 1700000000; c.ValidAfter = 1600000000 }, user),
			[]string{"connecting to real (", `"of a test"`, "expired at 2023-11-14 22:13:20 UTC", "sign the user's key anew"}},
		{"early", ca.Certify(t, key.Public, xssh.UserCert, func(c *xssh.Certificate) { c.ValidAfter = 7258118400; c.ValidBefore = xssh.CertTimeInfinity }, user),
			[]string{"isn't valid before 2200-01-01 00:00:00 UTC"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg.Certificate = c.cert
			want(t, connect(t, cfg).Connect(bounded(t)), fault.Denied, c.parts...)
		})
	}
}

// A certificate ends while the client lives: what is connected stays so, and
// the next connection isn't made.
func TestUserCertificateExpires(t *testing.T) {
	ca, cfg, user := authority(t)
	key := sshtest.NewKey(t, sshtest.Ed25519, "")
	cfg.Key, cfg.Certificate = key.Private, ca.Certify(t, key.Public, xssh.UserCert, nil, user)
	now := time.Now()
	cfg.Now = func() time.Time { return now }
	if err := connect(t, cfg).Connect(bounded(t)); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	want(t, connect(t, cfg).Connect(bounded(t)), fault.Denied, "expired at ")
}

func TestUserCertificateErrors(t *testing.T) {
	ca, key, other := sshtest.NewKey(t, sshtest.Ed25519, ""), sshtest.NewKey(t, sshtest.Ed25519, ""), sshtest.NewKey(t, sshtest.Ed25519, "")
	cfg := ssh.Config{Address: "127.0.0.1", User: "debian", HostKeys: []string{ca.Public}, Key: key.Private}
	for _, c := range []struct {
		cert  string
		parts []string
	}{
		{"rubbish", []string{"isn't an OpenSSH certificate", "-cert.pub"}},
		{key.Private, []string{"isn't an OpenSSH certificate"}},
		{key.Public, []string{"it is a public key (ssh-ed25519), not a certificate"}},
		{ca.Certify(t, key.Public, xssh.HostCert, nil, "gw"), []string{"certifies a host", "without -h"}},
		{ca.Certify(t, other.Public, xssh.UserCert, nil, "debian"), []string{"it certifies the key " + xssh.FingerprintSHA256(other.Signer.PublicKey()), "the private key is SHA256:"}},
	} {
		cfg.Certificate = c.cert
		_, err := ssh.New(cfg)
		want(t, err, fault.Invalid, c.parts...)
	}
}
