package ssh_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	xssh "golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh"
	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// certifiedDaemon starts an OpenSSH server whose second host key, of type
// ECDSA, has the certificate that make returns for it.
func certifiedDaemon(t *testing.T, make func(public string) string) ssh.Config {
	t.Helper()
	key := sshtest.NewKey(t, sshtest.ECDSA, "")
	file := filepath.Join(t.TempDir(), "ecdsa")
	for name, text := range map[string]string{file: key.Private, file + ".pub": key.Public, file + "-cert.pub": make(key.Public)} {
		if err := os.WriteFile(name, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, cfg := daemon(t, "HostKey "+file, "HostCertificate "+file+"-cert.pub")
	return cfg
}

func TestHostCertificates(t *testing.T) {
	ca, other := sshtest.NewKey(t, sshtest.Ed25519, ""), sshtest.NewKey(t, sshtest.Ed25519, "")
	var leaf string // the public key that is certified
	var edit func(*xssh.Certificate)
	kind := uint32(xssh.HostCert)
	signer, names := ca, []string{"127.0.0.1"}
	start := func(t *testing.T) ssh.Config {
		return certifiedDaemon(t, func(public string) string {
			leaf = public
			return signer.Certify(t, public, kind, edit, names...)
		})
	}
	good := start(t)
	key := good.HostKeys[0] // of the daemon's other key
	for name, c := range map[string]struct {
		lines []string
		known string
		parts []string // of the error; none means that it is trusted
	}{
		"all hosts":      {lines: []string{"@cert-authority * " + ca.Public}},
		"address":        {lines: []string{"@cert-authority\t10.0.0.?,127.0.0.*  " + ca.Public + " the site's"}},
		"address, port":  {lines: []string{fmt.Sprintf("@cert-authority [127.0.0.1]:%d %s", good.Port, ca.Public)}},
		"several":        {lines: []string{"@cert-authority * " + other.Public, "@cert-authority real " + ca.Public}},
		"known_hosts":    {known: "# of the site\nelsewhere ssh-dss rubbish\n@cert-authority 127.0.0.1 " + ca.Public + "\n"},
		"not this host":  {lines: []string{key, "@cert-authority *,!127.0.0.1 " + other.Public}},
		"key beside":     {lines: []string{"@cert-authority * " + other.Public, leaf}},
		"authority":      {lines: []string{"@cert-authority * " + other.Public}, parts: []string{`certificate "of a test" (serial 0, key SHA256:`, "is of the authority ssh-ed25519 " + xssh.FingerprintSHA256(ca.Signer.PublicKey()), "trusted is ssh-ed25519 " + xssh.FingerprintSHA256(other.Signer.PublicKey())}},
		"revoked key":    {lines: []string{"@cert-authority * " + ca.Public, "@revoked * " + leaf}, parts: []string{"the host key ecdsa-sha2-nistp256 SHA256:", "is revoked"}},
		"revoked CA":     {known: "@cert-authority * " + ca.Public + "\n@revoked 127.0.0.1 " + ca.Public, parts: []string{"of the authority ssh-ed25519 SHA256:", "which is revoked"}},
		"revoked beside": {lines: []string{"@cert-authority * " + ca.Public, "@revoked elsewhere " + ca.Public}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			cfg.HostKeys, cfg.KnownHosts = c.lines, c.known
			err := connect(t, cfg).Connect(bounded(t))
			if len(c.parts) > 0 {
				want(t, err, fault.Untrusted, c.parts...)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	for _, c := range []struct {
		name  string
		set   func()
		parts []string
	}{
		{"expired", func() { edit = func(c *xssh.Certificate) { c.ValidAfter, c.ValidBefore = 1600000000, 1700000000 } }, []string{"expired at 2023-11-14 22:13:20 UTC", "anew"}},
		{"early", func() {
			edit = func(c *xssh.Certificate) { c.ValidAfter, c.ValidBefore = 7258118400, xssh.CertTimeInfinity }
		}, []string{"isn't valid before 2200-01-01"}},
		{"principal", func() { edit, names = nil, []string{"gw", "10.0.0.1"} }, []string{`is for the principals ["gw" "10.0.0.1"], and the host is called 127.0.0.1 or real here`, "ssh-keygen -h -n"}},
		{"option", func() {
			names, edit = []string{"real"}, func(c *xssh.Certificate) { c.CriticalOptions = map[string]string{"x@example.org": ""} }
		}, []string{"doesn't hold", "x@example.org"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.set()
			cfg := start(t)
			cfg.HostKeys = []string{"@cert-authority * " + ca.Public}
			err := connect(t, cfg).Connect(bounded(t))
			want(t, err, fault.Untrusted, append(c.parts, "connecting to real (")...)
		})
	}
}

// A server may show what OpenSSH refuses to: the test's own server does.
func TestHostCertificateOfUser(t *testing.T) {
	ca, key := sshtest.NewKey(t, sshtest.Ed25519, ""), sshtest.NewKey(t, sshtest.Ed25519, "")
	pub, _, _, _, err := xssh.ParseAuthorizedKey([]byte(ca.Certify(t, key.Public, xssh.UserCert, nil, "127.0.0.1")))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := xssh.NewCertSigner(pub.(*xssh.Certificate), key.Signer)
	if err != nil {
		t.Fatal(err)
	}
	_, cfg := login(t, sshtest.Options{HostKeys: []sshtest.Key{{Signer: signer}}})
	cfg.HostKeys = []string{"@cert-authority * " + ca.Public}
	want(t, connect(t, cfg).Connect(bounded(t)), fault.Untrusted, "is one for a user", "with -h")
}

func TestHostWithoutCertificate(t *testing.T) {
	d, cfg := daemon(t)
	ca := sshtest.NewKey(t, sshtest.Ed25519, "")
	cfg.HostKeys = []string{"@cert-authority * " + ca.Public}
	want(t, connect(t, cfg).Connect(bounded(t)), fault.Untrusted, "showed the key ssh-ed25519 SHA256:", "without a certificate", "HostCertificate")
	cfg.HostKeys = []string{"@cert-authority * " + ca.Public, d.HostKey, "@revoked * " + d.HostKey}
	want(t, connect(t, cfg).Connect(bounded(t)), fault.Untrusted, "is revoked")
	cfg.HostKeys, cfg.KnownHosts = nil, "@cert-authority * "+ca.Public+"\n[127.0.0.*]:* "+d.HostKey
	if err := connect(t, cfg).Connect(bounded(t)); err != nil {
		t.Error(err)
	}
}

func TestKnownHostsErrors(t *testing.T) {
	key, ca := sshtest.NewKey(t, sshtest.Ed25519, ""), sshtest.NewKey(t, sshtest.Ed25519, "")
	cfg := ssh.Config{Address: "127.0.0.1", User: "debian", Key: key.Private}
	for _, c := range []struct {
		line, known string
		part        string
	}{
		{known: "# nothing", part: "none is accepted blindly"},
		{known: "\n" + key.Public, part: "known_hosts line 2 of 127.0.0.1:22: there are no host names before the key"},
		{known: "other " + key.Public + "\n!127.0.0.1,* " + key.Public, part: "none of the 2 known_hosts lines"},
		{known: "127.0.0.1 rubbish and more", part: "line 1 of 127.0.0.1:22: no public key"},
		{known: "@what * " + key.Public, part: "the marker @what isn't known"},
		{known: "@revoked * " + key.Public, part: "none is accepted blindly"},
		{line: "@cert-authority " + ca.Public, part: "needs the names of the hosts"},
		{line: "@cert-authority", part: "no public key"},
		{line: ca.Certify(t, key.Public, xssh.HostCert, nil, "gw"), part: "it is a certificate: give the public key of the authority"},
	} {
		cfg.HostKeys, cfg.KnownHosts = nil, c.known
		if c.line != "" {
			cfg.HostKeys = []string{c.line}
		}
		_, err := ssh.New(cfg)
		want(t, err, fault.Invalid, c.part)
	}
}

func TestPatterns(t *testing.T) {
	key := sshtest.NewKey(t, sshtest.Ed25519, "")
	for pattern, fits := range map[string]bool{
		"GW.example.org": true, "*": true, "*.example.org": true, "g?.example.org": true, "gw*org": true, "*e*e*": true, "gw.example.org*": true,
		"?": false, "*.example.com": false, "gw": false, "": false, "*x": false, "gw.example.org?": false,
		"*.example.org,!gw.*": false, "!gw.example.com,*": true,
	} {
		_, err := ssh.New(ssh.Config{Address: "gw.example.org", User: "u", Key: key.Private, KnownHosts: pattern + " " + key.Public})
		if fits && err != nil || !fits && (err == nil || pattern != "" && !strings.Contains(err.Error(), "known_hosts")) {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}
