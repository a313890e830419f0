package control

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// A pair is a certificate and its key, as PEM.
type pair struct{ cert, key []byte }

// A subject is what a certificate says.
type subject struct {
	name     string
	groups   []string
	hosts    []string // DNS names and IP addresses
	ca       bool
	client   bool
	lifetime time.Duration
}

// sign makes a key and a certificate for s. by is the authority's pair; nil signs with the new
// key itself.
func sign(now time.Time, s subject, by *pair) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("making a key: %w", err)
	}
	if s.lifetime == 0 {
		s.lifetime = 90 * 24 * time.Hour
	}
	var serial [16]byte
	_, _ = rand.Read(serial[:]) // never fails, says crypto/rand
	serial[0] &= 0x7f
	template := &x509.Certificate{
		SerialNumber:          new(big.Int).SetBytes(serial[:]),
		Subject:               pkix.Name{CommonName: s.name, Organization: s.groups},
		NotBefore:             now.Add(-time.Minute),
		NotAfter:              now.Add(s.lifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  s.ca,
	}
	if s.ca {
		template.KeyUsage |= x509.KeyUsageCertSign
	}
	if s.client {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	for _, host := range s.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	parent, signer := template, crypto.Signer(key)
	if by != nil {
		if parent, signer, err = parsePair(*by); err != nil {
			return pair{}, err
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return pair{}, fmt.Errorf("signing a certificate for %s: %w", s.name, err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return pair{}, fmt.Errorf("encoding a key: %w", err)
	}
	return pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

func parsePair(p pair) (*x509.Certificate, crypto.Signer, error) {
	certBlock, _ := pem.Decode(p.cert)
	keyBlock, _ := pem.Decode(p.key)
	if certBlock == nil || keyBlock == nil {
		return nil, nil, errors.New("an authority without PEM")
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("reading an authority's certificate: %w", err)
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("reading an authority's key: %w", err)
	}
	return cert, key, nil
}

// data returns the decoded value of a Secret's key, or nil.
func data(secret *object, name string) []byte {
	if secret == nil {
		return nil
	}
	value, err := base64.StdEncoding.DecodeString(text(secret.Object, "data", name))
	if err != nil || len(value) == 0 {
		return nil
	}
	return value
}

// secret makes a Secret's object.
func newSecret(namespace, name, kind string, values map[string][]byte) *object {
	encoded := map[string]any{}
	for key, value := range values {
		encoded[key] = base64.StdEncoding.EncodeToString(value)
	}
	return &object{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": kind,
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"data":     encoded,
	}}
}
