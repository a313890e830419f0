package apiserver

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity of the lab's certificates: long enough for any lab, short enough to be found out.
const validity = 365 * 24 * time.Hour

// An authority signs the cluster's certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

// openAuthority reads the authority in dir, or makes it.
func openAuthority(dir string, now time.Time) (*authority, error) {
	certPath, keyPath := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	certPEM, err := os.ReadFile(certPath)
	if errors.Is(err, fs.ErrNotExist) {
		return makeAuthority(certPath, keyPath, now)
	}
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(keyPath)
	if err != nil {
		return nil, err
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, fmt.Errorf("no PEM in %s or %s", certPath, keyPath)
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", certPath, err)
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", keyPath, err)
	}
	return &authority{cert: cert, key: key, pem: certPEM}, nil
}

func makeAuthority(certPath, keyPath string, now time.Time) (*authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: "kubernetes"},
		NotBefore:             now.Add(-time.Minute),
		NotAfter:              now.Add(validity),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing the authority's certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := writeFile(keyPath, keyPEM); err != nil {
		return nil, err
	}
	if err := writeFile(certPath, certPEM); err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, pem: certPEM}, nil
}

// issue signs a certificate. names make it a server's, groups go into the subject of a client's.
func (a *authority) issue(now time.Time, user string, groups, names []string) (certPEM, keyPEM []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: user, Organization: groups},
		NotBefore:    now.Add(-time.Minute),
		NotAfter:     now.Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if names != nil {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing a certificate for %s: %w", user, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM, nil
}

// writeCertificates writes what the components need into dir: the serving certificate for names,
// and the key of service account tokens, which is kept if it is there.
func (a *authority) writeCertificates(dir string, now time.Time, names []string) error {
	certPEM, keyPEM, err := a.issue(now, "kube-apiserver", nil, names)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, "apiserver.key"), keyPEM); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, "apiserver.crt"), certPEM); err != nil {
		return err
	}
	tokens := filepath.Join(dir, "sa.key")
	if text, err := os.ReadFile(tokens); err == nil && bytes.Contains(text, []byte("PRIVATE KEY")) {
		return nil
	}
	_, keyPEM, err = newKey()
	if err != nil {
		return err
	}
	return writeFile(tokens, keyPEM)
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, says crypto/rand
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}
