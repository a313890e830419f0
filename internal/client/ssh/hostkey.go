package ssh

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// The algorithms of host keys, and of certificates for them.
var (
	keyAlgorithms = []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}

	certificateAlgorithms = []string{ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
		ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01}
)

// algorithms lists the host key algorithms that fit what is known, so that a
// host with several keys shows one that is.
func (t *trust) algorithms() []string {
	var out []string
	if t.keep != nil {
		return keyAlgorithms
	}
	if len(t.authorities) > 0 {
		out = append(out, certificateAlgorithms...)
		if len(t.keys) == 0 { // a host without a certificate is to say what it has
			return append(out, keyAlgorithms...)
		}
	}
	for _, k := range t.keys {
		fits := []string{k.Type()}
		if k.Type() == ssh.KeyAlgoRSA {
			fits = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
		}
		for _, a := range fits {
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

func same(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

func holds(keys []ssh.PublicKey, key ssh.PublicKey) bool {
	return slices.ContainsFunc(keys, func(k ssh.PublicKey) bool { return same(k, key) })
}

func printOf(k ssh.PublicKey) string { return k.Type() + " " + ssh.FingerprintSHA256(k) }

func printsOf(keys []ssh.PublicKey) string {
	var prints []string
	for _, k := range keys {
		prints = append(prints, printOf(k))
	}
	return strings.Join(prints, ", ")
}

// check returns nil if what the host shows is one of the known keys, or is
// certified by a known authority.
func (t *trust) check(c *Config, shown ssh.PublicKey) error {
	cert, certified := shown.(*ssh.Certificate)
	key := shown
	if certified {
		key = cert.Key
	}
	if t.keep != nil {
		if err := t.keep(key); err != nil {
			return err
		}
	}
	const revokedHint = "somebody else may have it: give the host a new key"
	switch {
	case holds(t.revoked, key):
		return fault.Hinted(fault.Untrusted, revokedHint, "the host key %s is revoked", printOf(key))
	case certified && holds(t.revoked, cert.SignatureKey):
		return fault.Hinted(fault.Untrusted, "have an authority that is trusted certify the host", "the host's certificate %s is of the authority %s, which is revoked", certName(cert), printOf(cert.SignatureKey))
	case holds(t.keys, key):
		return nil
	case certified:
		return t.checkCertificate(c, cert)
	case len(t.keys) == 0:
		return fault.Hinted(fault.Untrusted, "name a certificate of that authority in the host's sshd_config (HostCertificate)",
			"the host showed the key %s without a certificate, and what is trusted is the authority %s", printOf(shown), printsOf(t.authorities))
	}
	return fault.Hinted(fault.Untrusted, t.changed(),
		"the host key doesn't match: the host showed %s, known is %s", printOf(shown), printsOf(t.keys))
}

func (t *trust) checkCertificate(c *Config, cert *ssh.Certificate) error {
	untrusted := func(hint, format string, args ...any) error {
		return fault.Hinted(fault.Untrusted, hint, "the host's certificate %s %s", certName(cert), fmt.Sprintf(format, args...))
	}
	if cert.CertType != ssh.HostCert {
		return untrusted("have the authority sign the host's key with -h", "is one for a user")
	}
	if !holds(t.authorities, cert.SignatureKey) {
		return untrusted("if the authority has changed, give its new key; if not, somebody else is answering at the host's address",
			"is of the authority %s, trusted is %s", printOf(cert.SignatureKey), printsOf(t.authorities))
	}
	if why := isValidAt(cert, c.Now()); why != "" {
		return untrusted("have the authority certify the host's key anew, and check this machine's clock", "%s", why)
	}
	name := c.certifiedName(cert)
	if name == "" {
		return untrusted("have the authority certify it with this address or name (ssh-keygen -h -n), or give the host's name as the certificate has it",
			"is for %s, and the host is called %s here", principals(cert), strings.Join(slices.Compact([]string{c.Address, c.Name}), " or "))
	}
	if cert.Signature.Format == ssh.KeyAlgoRSA {
		return untrusted("have the authority certify the host with rsa-sha2-512 (ssh-keygen -t)", "is signed with SHA-1")
	}
	checker := ssh.CertChecker{Clock: func() time.Time { return c.Now() }}
	if err := checker.CheckCert(name, cert); err != nil {
		return untrusted("", "doesn't hold: %s", strings.TrimPrefix(err.Error(), "ssh: "))
	}
	return nil
}

// certifiedName returns the host's name that a certificate is for, or nothing.
// One without names is for no host.
func (c *Config) certifiedName(cert *ssh.Certificate) string {
	for _, p := range cert.ValidPrincipals {
		if strings.EqualFold(p, c.Address) || strings.EqualFold(p, c.Name) {
			return p
		}
	}
	return ""
}

// callback returns what x/crypto asks. It keeps the verdict in *verdict, since
// the error that it returns reaches the caller only as text.
func (t *trust) callback(c *Config, verdict *error) ssh.HostKeyCallback {
	return func(_ string, _ net.Addr, shown ssh.PublicKey) error {
		*verdict = t.check(c, shown)
		return *verdict
	}
}

func shorten(s string, n int) string {
	if len(s) > n {
		return s[:n] + "..."
	}
	return s
}
