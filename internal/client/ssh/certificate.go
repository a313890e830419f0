package ssh

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// certificate returns the user's certificate, or nil if there is none.
func (c *Config) certificate() (*ssh.Certificate, error) {
	text := strings.TrimSpace(c.Certificate)
	if text == "" {
		return nil, nil
	}
	invalid := func(hint, format string, args ...any) error {
		return fault.Hinted(fault.Invalid, hint, "certificate for %s: %s", c.label(), fmt.Sprintf(format, args...))
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		return nil, invalid(`pass the content of the file that ends in -cert.pub: "ssh-ed25519-cert-v01@openssh.com AAAA..."`, "it isn't an OpenSSH certificate")
	}
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		return nil, invalid("pass the content of the file that ends in -cert.pub", "it is a public key (%s), not a certificate", key.Type())
	}
	if cert.CertType != ssh.UserCert {
		return nil, invalid("have the authority sign the user's key without -h", "it certifies a host, not a user")
	}
	return cert, nil
}

// certified returns key with the certificate that is for it.
func (c *Config) certified(key ssh.Signer, cert *ssh.Certificate) (ssh.Signer, error) {
	if cert == nil {
		return key, nil
	}
	if !bytes.Equal(cert.Key.Marshal(), key.PublicKey().Marshal()) {
		return nil, fault.Hinted(fault.Invalid, "pass the certificate that was made of this key's .pub file", "certificate for %s: it certifies the key %s, but the private key is %s",
			c.label(), ssh.FingerprintSHA256(cert.Key), ssh.FingerprintSHA256(key.PublicKey()))
	}
	s, err := ssh.NewCertSigner(cert, key)
	if err != nil {
		return nil, fault.New(fault.Invalid, "certificate for %s: it can't be used with this private key: %v", c.label(), err)
	}
	return s, nil
}

// isValidAt returns why a certificate doesn't hold at a time.
func isValidAt(cert *ssh.Certificate, now time.Time) (why string) {
	at := uint64(max(now.Unix(), 0))
	switch {
	case at < cert.ValidAfter:
		return "isn't valid before " + unixTime(cert.ValidAfter)
	case cert.ValidBefore != ssh.CertTimeInfinity && at >= cert.ValidBefore:
		return "expired at " + unixTime(cert.ValidBefore)
	}
	return ""
}

func unixTime(s uint64) string {
	if s > math.MaxInt32*100 { // no year that a person would recognize
		return "the end of time"
	}
	return time.Unix(int64(s), 0).UTC().Format("2006-01-02 15:04:05 UTC")
}

// userCertificateError returns why the user's certificate can't be used now.
func (c *Client) userCertificateError() error {
	if c.cert == nil {
		return nil
	}
	if why := isValidAt(c.cert, c.cfg.Now()); why != "" {
		return fault.Hinted(fault.Denied, "have the authority sign the user's key anew, and check this machine's clock", "the certificate %s %s", certName(c.cert), why)
	}
	return nil
}

// refusedCertificate explains that a host refused the user's certificate.
func (c *Client) refusedCertificate() error {
	hint := fmt.Sprintf("does the host trust the authority %s %s (TrustedUserCAKeys)?", c.cert.SignatureKey.Type(), ssh.FingerprintSHA256(c.cert.SignatureKey))
	if !slices.Contains(c.cert.ValidPrincipals, c.cfg.User) {
		hint = fmt.Sprintf("the certificate isn't for %q: log in as one of its principals, have the authority add this one, or allow one of them on the host (AuthorizedPrincipalsFile)", c.cfg.User)
	}
	return fault.Hinted(fault.Denied, hint, "the host refuses user %q with the certificate %s for %s", c.cfg.User, certName(c.cert), principals(c.cert))
}

func principals(cert *ssh.Certificate) string {
	switch n := len(cert.ValidPrincipals); n {
	case 0:
		return "no principal at all"
	case 1:
		return fmt.Sprintf("the principal %q", cert.ValidPrincipals[0])
	default:
		return fmt.Sprintf("the principals %q", cert.ValidPrincipals)
	}
}

// certName names a certificate for messages.
func certName(cert *ssh.Certificate) string {
	return fmt.Sprintf("%q (serial %d, key %s)", shorten(cert.KeyId, 60), cert.Serial, ssh.FingerprintSHA256(cert.Key))
}
