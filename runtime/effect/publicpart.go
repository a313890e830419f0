package effect

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"

	"golang.org/x/crypto/ssh"
)

// publicParts returns the texts that show the public key within a private one,
// which a file of a private key holds, too: they are no secret.
func publicParts(plain string) []string {
	if !strings.Contains(plain, "PRIVATE KEY-----") {
		return nil
	}
	var out []string
	add := func(raw []byte) {
		out = append(append(out, base64.StdEncoding.EncodeToString(raw)), within(base64.StdEncoding, string(raw))...)
	}
	public := publicOf([]byte(plain))
	if public == nil {
		return nil
	}
	if k, err := ssh.NewPublicKey(public); err == nil {
		add(k.Marshal())
	}
	if der, err := x509.MarshalPKIXPublicKey(public); err == nil {
		add(der)
	}
	switch k := public.(type) {
	case ed25519.PublicKey:
		add(k)
	case *rsa.PublicKey:
		add(k.N.Bytes())
	case *ecdsa.PublicKey:
		if raw, err := k.Bytes(); err == nil {
			add(raw)
		}
	}
	return out
}

// publicOf returns the public key of a private key in PEM, or nil.
func publicOf(text []byte) crypto.PublicKey {
	key, err := ssh.ParseRawPrivateKey(text)
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) && locked.PublicKey != nil {
		if k, ok := locked.PublicKey.(ssh.CryptoPublicKey); ok {
			return k.CryptoPublicKey()
		}
		return nil
	}
	if err != nil {
		block, _ := pem.Decode(text)
		if block == nil {
			return nil
		}
		if key, err = x509.ParsePKCS8PrivateKey(block.Bytes); err != nil {
			return nil
		}
	}
	switch k := key.(type) {
	case *ed25519.PrivateKey: // as OpenSSH's form is read
		return k.Public()
	case crypto.Signer:
		return k.Public()
	}
	return nil
}
