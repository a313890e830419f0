package hosts

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// A Key is a key pair of type ed25519.
type Key struct {
	Private string // OpenSSH form
	Public  string // "ssh-ed25519 AAAA..."
	Signer  ssh.Signer
}

// NewKey makes a key pair.
func NewKey() (Key, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Key{}, fmt.Errorf("making a key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return Key{}, fmt.Errorf("making a key: %w", err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return Key{}, fmt.Errorf("making a key: %w", err)
	}
	return Key{Private: string(pem.EncodeToMemory(block)), Signer: signer, Public: authorized(signer.PublicKey())}, nil
}

func authorized(k ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k)))
}

// Certify signs a public key as an authority, and returns the certificate in
// the form of an authorized_keys line. Kind is ssh.UserCert or ssh.HostCert.
// It is valid from an hour ago for as long as is said from now; a negative time
// makes one that has expired.
func (k Key) Certify(public string, kind uint32, lasts time.Duration, principals ...string) (string, error) {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(public))
	if err != nil {
		return "", fmt.Errorf("certifying a key: %w", err)
	}
	now := time.Now()
	cert := &ssh.Certificate{
		Key: key, CertType: kind, KeyId: strings.Join(principals, ","), ValidPrincipals: principals,
		ValidAfter: uint64(now.Add(-time.Hour).Unix()), ValidBefore: uint64(now.Add(lasts).Unix()),
	}
	if kind == ssh.UserCert {
		cert.Permissions.Extensions = map[string]string{"permit-pty": "", "permit-port-forwarding": "", "permit-agent-forwarding": ""}
	}
	if err := cert.SignCert(rand.Reader, k.Signer); err != nil {
		return "", fmt.Errorf("certifying a key: %w", err)
	}
	return authorized(cert), nil
}
