// Package sshtest runs real SSH servers in the test's process. Commands are
// executed by this machine's shell, in a folder of the server's own; faults
// are switched on per server.
package sshtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// A KeyType is a type of key pair.
type KeyType string

// The types.
const (
	Ed25519 KeyType = "ed25519"
	RSA     KeyType = "rsa"
	ECDSA   KeyType = "ecdsa"
)

// A Key is a key pair.
type Key struct {
	Private string // OpenSSH form
	Public  string // "ssh-ed25519 AAAA..."
	Signer  ssh.Signer
}

// NewKey makes a key pair. With a passphrase the private key is encrypted.
func NewKey(t testing.TB, typ KeyType, passphrase string) Key {
	t.Helper()
	private, err := generate(typ)
	if err != nil {
		t.Fatal(err)
	}
	var block *pem.Block
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(private, "")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return Key{Private: string(pem.EncodeToMemory(block)), Signer: signer,
		Public: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))}
}

// Certify signs a public key as an authority, and returns the certificate in
// the form of a line of authorized_keys. It is valid from an hour before now
// until an hour after; edit may change that and all else.
func (k Key) Certify(t testing.TB, public string, kind uint32, edit func(*ssh.Certificate), principals ...string) string {
	t.Helper()
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(public))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	cert := &ssh.Certificate{Key: key, CertType: kind, KeyId: "of a test", ValidPrincipals: principals,
		ValidAfter: uint64(now.Add(-time.Hour).Unix()), ValidBefore: uint64(now.Add(time.Hour).Unix())}
	if kind == ssh.UserCert {
		cert.Permissions.Extensions = map[string]string{"permit-pty": "", "permit-port-forwarding": ""}
	}
	if edit != nil {
		edit(cert)
	}
	if err := cert.SignCert(rand.Reader, k.Signer); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(cert)))
}

func generate(typ KeyType) (crypto.Signer, error) {
	switch typ {
	case RSA:
		return rsa.GenerateKey(rand.Reader, 2048)
	case ECDSA:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	_, k, err := ed25519.GenerateKey(rand.Reader)
	return k, err
}
