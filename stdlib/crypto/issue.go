package crypto

import (
	"context"
	stdcrypto "crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// clockSkew is how far in the past a certificate begins, for hosts whose clock
// is late.
const clockSkew = 5 * time.Minute

// issued is the op that makes a private key once, and a certificate for it
// that it replaces when it no longer fits, or is about to expire. Key and
// certificate are stored one after the other, the key first: a crash between
// them leaves a key that the next try uses.
type issued struct {
	m          *Maker
	kind, name string
	subject    pkix.Name
	hosts      []string
	unknown    bool // a host or the issuer isn't known yet
	usages     []x509.ExtKeyUsage
	days       int
	renewAt    float64 // the part of the lifetime left below which it is renewed
	issuer     *issuer // nil for a certificate authority, which issues itself
}

// An issuer signs certificates.
type issuer struct {
	cert *x509.Certificate
	key  stdcrypto.Signer
}

func (o *issued) key(part string) string { return "crypto/" + o.kind + "/" + o.name + "/" + part }

func (o *issued) Target() effect.Target {
	return effect.Target{Scope: "crypto", Kind: o.kind, Name: o.name}
}

func (o *issued) isCA() bool { return o.issuer == nil && !o.unknown }

// found is what the store holds.
type found struct {
	key    stdcrypto.Signer
	keyPEM []byte
	cert   *x509.Certificate // nil if there is none for the key
	pem    []byte
}

func (o *issued) Observe(ctx context.Context) (effect.State, error) {
	f, err := o.load(ctx)
	if err != nil {
		return effect.State{}, err
	}
	if f.cert == nil {
		return effect.State{Raw: f}, nil
	}
	attrs, err := o.attrs(ctx, f)
	return effect.State{Exists: true, Attrs: attrs, Raw: f}, err
}

func (o *issued) load(ctx context.Context) (found, error) {
	var f found
	damaged := func(part string, err error) error {
		return &fault.Error{Op: "reading", Target: o.key(part), Kind: fault.Invalid, Hint: "delete it from the site's store to have a new one made", Err: err}
	}
	keyPEM, ok, err := o.m.store.Get(ctx, o.key("key"))
	if err != nil || !ok {
		return f, err
	}
	if f.key, err = parseKey(keyPEM); err != nil {
		return f, damaged("key", err)
	}
	f.keyPEM = keyPEM
	certPEM, ok, err := o.m.store.Get(ctx, o.key("certificate"))
	if err != nil || !ok {
		return f, err
	}
	cert, err := parseCertificate(certPEM)
	if err != nil {
		return f, damaged("certificate", err)
	}
	if samePublicKey(cert.PublicKey, f.key.Public()) {
		f.cert, f.pem = cert, certPEM
	}
	return f, nil
}

func (o *issued) attrs(ctx context.Context, f found) (map[string]any, error) {
	private, err := effect.NewSecret(ctx, string(f.keyPEM), effect.Ref("store:"+o.key("key")))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(f.cert.Raw)
	return map[string]any{"name": o.name, "certificate": string(f.pem), "private_key": private,
		"fingerprint": hex.EncodeToString(sum[:]), "not_after": f.cert.NotAfter.UTC().Format(time.RFC3339)}, nil
}

// Undo returns the certificate and its key as something to delete.
func (o *issued) Undo(effect.State) effect.Owned {
	return o.m.undo(o.Target(), o.key("certificate"), o.key("key"))
}

func (o *issued) Diff(have effect.State) (effect.Change, error) {
	// What isn't known of a certificate for other hosts is something else.
	of := fmt.Sprintf("%s %s for %s %v %v", o.kind, o.name, o.subject, sorted(o.hosts), usageNames(o.usages))
	if !have.Exists {
		return effect.Change{Kind: effect.Create,
			After: later(of, map[string]any{"name": o.name}, "certificate", "private_key", "fingerprint", "not_after")}, nil
	}
	cert := have.Raw.(found).cert
	fields, err := o.differences(cert)
	if err != nil || len(fields) == 0 {
		return effect.Change{Kind: effect.None}, err
	}
	after := later(of, map[string]any{"name": o.name, "private_key": have.Attrs["private_key"]}, "certificate", "fingerprint", "not_after")
	return effect.Change{Kind: effect.Update, Fields: fields, After: after}, nil
}

// differences lists why cert has to be issued anew.
func (o *issued) differences(cert *x509.Certificate) ([]effect.Field, error) {
	var fields []effect.Field
	if have, want := cert.Subject.String(), o.subject.String(); have != want {
		if o.isCA() {
			return nil, fault.Hinted(fault.Invalid, "keep the subject, or use another name",
				"the certificate authority %q has the subject %s, and can't become %s", o.name, have, want)
		}
		fields = append(fields, effect.Field{Path: "subject", Old: have, New: want})
	}
	switch {
	case o.unknown:
		fields = append(fields, effect.Field{Path: "certificate", Old: "issued by " + cert.Issuer.String(), New: effect.Unknown{Of: "hosts or issuer of " + o.name}})
	case !o.isCA():
		if have := hostsOf(cert); !slices.Equal(have, sorted(o.hosts)) {
			fields = append(fields, effect.Field{Path: "hosts", Old: toAny(have), New: toAny(sorted(o.hosts))})
		}
		if cert.CheckSignatureFrom(o.issuer.cert) != nil {
			fields = append(fields, effect.Field{Path: "issuer", Old: cert.Issuer.String(), New: o.issuer.cert.Subject.String()})
		}
		if !slices.Equal(cert.ExtKeyUsage, o.usages) {
			fields = append(fields, effect.Field{Path: "usages", Old: usageNames(cert.ExtKeyUsage), New: usageNames(o.usages)})
		}
	}
	now := o.m.now()
	life := cert.NotAfter.Sub(cert.NotBefore)
	if left := cert.NotAfter.Sub(now); float64(left) < o.renewAt*float64(life) {
		fields = append(fields, effect.Field{Path: "not_after", Old: cert.NotAfter.UTC().Format(time.RFC3339),
			New: effect.Unknown{Of: "not_after of " + o.name}})
	}
	return fields, nil
}

func (o *issued) Apply(ctx context.Context, _ effect.Change) (effect.State, error) {
	o.m.making.Lock()
	defer o.m.making.Unlock()
	st, err := o.Observe(ctx) // another step may have made it since
	if err != nil {
		return st, err
	}
	f := st.Raw.(found)
	if f.cert != nil {
		if fields, err := o.differences(f.cert); err != nil || len(fields) == 0 {
			return st, err
		}
	}
	if f.key == nil {
		if f.key, f.keyPEM, err = newKey(); err != nil {
			return effect.State{}, &fault.Error{Op: "making", Target: o.Target().String(), Kind: fault.Failed, Err: err}
		}
		if f.keyPEM, _, err = o.m.store.Create(ctx, o.key("key"), f.keyPEM); err != nil {
			return effect.State{}, err
		}
		if f.key, err = parseKey(f.keyPEM); err != nil {
			return effect.State{}, &fault.Error{Op: "reading", Target: o.key("key"), Kind: fault.Invalid, Err: err}
		}
	}
	if f.cert, f.pem, err = o.sign(f.key); err != nil {
		return effect.State{}, &fault.Error{Op: "issuing", Target: o.Target().String(), Kind: fault.Failed, Err: err}
	}
	if err := o.m.store.Put(ctx, o.key("certificate"), f.pem); err != nil {
		return effect.State{}, err
	}
	attrs, err := o.attrs(ctx, f)
	return effect.State{Exists: true, Attrs: attrs, Raw: f}, err
}

func (o *issued) sign(key stdcrypto.Signer) (*x509.Certificate, []byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	now := o.m.now().UTC()
	t := &x509.Certificate{SerialNumber: serial, Subject: o.subject, NotBefore: now.Add(-clockSkew), NotAfter: now.AddDate(0, 0, o.days),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: o.usages}
	parent, signer := t, key
	if o.issuer == nil {
		t.IsCA, t.KeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign|x509.KeyUsageDigitalSignature
	} else {
		parent, signer = o.issuer.cert, o.issuer.key
		for _, h := range o.hosts {
			if ip := net.ParseIP(h); ip != nil {
				t.IPAddresses = append(t.IPAddresses, ip)
			} else {
				t.DNSNames = append(t.DNSNames, h)
			}
		}
		if t.NotAfter.After(parent.NotAfter) {
			t.NotAfter = parent.NotAfter // a longer one would not verify then
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

func newKey() (stdcrypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

func parseKey(data []byte) (stdcrypto.Signer, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("it holds no PEM block")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		if ec, ecErr := x509.ParseECPrivateKey(block.Bytes); ecErr == nil {
			return ec, nil
		}
		return nil, err
	}
	s, ok := key.(stdcrypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a %T can't sign", key)
	}
	return s, nil
}

func parseCertificate(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("it holds no PEM certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}

func samePublicKey(a, b any) bool {
	k, ok := a.(interface {
		Equal(stdcrypto.PublicKey) bool
	})
	return ok && k.Equal(b)
}

func hostsOf(c *x509.Certificate) []string {
	out := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		out = append(out, ip.String())
	}
	return sorted(out)
}

func sorted(s []string) []string {
	out := slices.Clone(s)
	slices.Sort(out)
	return slices.Compact(out)
}

func toAny(s []string) []any {
	out := make([]any, len(s))
	for i, x := range s {
		out[i] = x
	}
	return out
}
