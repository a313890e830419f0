// Package secret reads secrets from where a site keeps them, and encrypts what
// gsrun itself has to keep, with age.
package secret

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Box encrypts to a site's recipients, and decrypts with its identities. The
// zero Box does neither, and says what the site lacks.
type Box struct {
	recipients []age.Recipient
	identities []age.Identity
}

const (
	recipientsHint = "name age recipients in site.yaml (`age-keygen` makes a key pair; its public key is the recipient)"
	identityHint   = "name the age identity file in site.yaml, or in the environment that it names"
	privateHint    = "put the private key into a file that only you can read, and name that file as the identity; the recipients are public keys (age1...). " +
		"A key that others may have seen has to be replaced"
	damagedHint = "the encrypted text was changed or cut off"
	notAgeHint  = "encrypt it: age --encrypt --recipient age1... --output FILE.age FILE"
)

var privateKey = regexp.MustCompile(`(?i)AGE-SECRET-KEY-(PQ-)?1[0-9A-Z]{8}|-----BEGIN [A-Z ]*PRIVATE KEY-----`)

// IsPrivateKey reports whether text holds a private key, of age in whatever
// case or as PEM: somebody wrote it where its file or its public key belongs.
// No message may show it.
func IsPrivateKey(text string) bool { return privateKey.MatchString(text) }

// NewBox returns a box for recipients such as "age1...", one each, and
// identities as they stand in an age identity file. Either may be empty.
func NewBox(recipients []string, identities string) (*Box, error) {
	b := new(Box)
	for i, r := range recipients {
		if IsPrivateKey(r) {
			return nil, fault.Hinted(fault.Invalid, privateHint, "number %d of the age recipients is a private key", i+1)
		}
		rs, err := age.ParseRecipients(strings.NewReader(r))
		if err != nil {
			// The library's message quotes the text, which may be anything.
			return nil, fault.Hinted(fault.Invalid, recipientsHint, "number %d of the age recipients is no public key of age", i+1)
		}
		b.recipients = append(b.recipients, rs...)
	}
	if strings.TrimSpace(identities) == "" {
		return b, nil
	}
	ids, err := age.ParseIdentities(strings.NewReader(identities))
	if err != nil {
		// The library's message may quote the line, which is the key.
		return nil, fault.Hinted(fault.Invalid, identityHint, "the age identities can't be read: no valid AGE-SECRET-KEY line")
	}
	b.identities = ids
	return b, nil
}

// ReadBox returns a box as NewBox does, with the identities in the file at
// path, which only its owner may read. An empty path means none.
func ReadBox(recipients []string, path string) (*Box, error) {
	if path == "" {
		return NewBox(recipients, "")
	}
	if IsPrivateKey(path) {
		return nil, fault.Hinted(fault.Invalid, privateHint, "what the site names as the age identity is the private key itself, not a file")
	}
	data, err := readPrivate(path)
	if fault.KindOf(err) == fault.NotFound {
		return nil, fault.Hinted(fault.Invalid, "site.yaml names it as secrets.identity; age-keygen makes one", "the identity that opens kept secrets: %v", err)
	}
	if err != nil {
		return nil, err
	}
	return NewBox(recipients, string(data))
}

// CanEncrypt reports whether the box has recipients.
func (b *Box) CanEncrypt() bool { return b != nil && len(b.recipients) > 0 }

// Encrypt returns plain encrypted to the recipients, in age's binary form.
func (b *Box) Encrypt(plain []byte) ([]byte, error) {
	if !b.CanEncrypt() {
		return nil, fault.Hinted(fault.Invalid, recipientsHint, "a secret has to be kept, but the site names nobody to encrypt it to")
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, b.recipients...)
	if err != nil {
		return nil, &fault.Error{Op: "encrypting", Target: "a secret", Kind: fault.Invalid, Err: err}
	}
	if _, err := w.Write(plain); err != nil {
		return nil, &fault.Error{Op: "encrypting", Target: "a secret", Kind: fault.Internal, Err: err}
	}
	if err := w.Close(); err != nil {
		return nil, &fault.Error{Op: "encrypting", Target: "a secret", Kind: fault.Internal, Err: err}
	}
	return out.Bytes(), nil
}

// Decrypt returns what was encrypted, given in age's binary or armored form.
// Errors: Invalid without identities or for damaged data, Denied if no
// identity fits.
func (b *Box) Decrypt(data []byte) ([]byte, error) {
	if b == nil || len(b.identities) == 0 {
		return nil, fault.Hinted(fault.Invalid, identityHint, "a secret is encrypted, but the site names no identity to decrypt it with")
	}
	var src io.Reader = bytes.NewReader(data)
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte(armor.Header)) {
		src = armor.NewReader(src)
	}
	r, err := age.Decrypt(src, b.identities...)
	if err != nil {
		var none *age.NoIdentityMatchError
		if errors.As(err, &none) {
			return nil, fault.Hinted(fault.Denied, "use the identity that it was encrypted to", "none of the site's identities can decrypt the secret")
		}
		// The library's message quotes what it read, which may be a secret in clear.
		if !looksEncrypted(data) {
			return nil, fault.Hinted(fault.Invalid, notAgeHint, "it isn't encrypted with age")
		}
		return nil, fault.Hinted(fault.Invalid, damagedHint, "its age header can't be read")
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		return nil, fault.Hinted(fault.Invalid, damagedHint, "it is damaged")
	}
	return plain, nil
}

// looksEncrypted reports whether data begins as age's binary or armored form does.
func looksEncrypted(data []byte) bool {
	return bytes.HasPrefix(data, []byte("age-encryption.org/")) || bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte(armor.Header))
}

// EncryptText returns plain encrypted, as one line of base64.
func (b *Box) EncryptText(plain string) (string, error) {
	data, err := b.Encrypt([]byte(plain))
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(data), nil
}

// DecryptText returns what EncryptText encrypted.
func (b *Box) DecryptText(text string) (string, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", fault.Hinted(fault.Invalid, damagedHint, "an encrypted text is no base64")
	}
	plain, err := b.Decrypt(data)
	return string(plain), err
}

// readPrivate reads a file that nobody but its owner may read or write.
func readPrivate(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "there is no file %s", path)
	}
	if errors.Is(err, os.ErrPermission) {
		return nil, fault.New(fault.Denied, "%v", err)
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "%v", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fault.New(fault.Failed, "%v", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fault.New(fault.Invalid, "%s is no regular file", path)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return nil, fault.Hinted(fault.Untrusted, "chmod 600 "+path, "others can read or change %s: its mode is %#o", path, perm)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return nil, fault.New(fault.Failed, "reading %s: %v", path, err)
	}
	if len(data) > maxSecret {
		return nil, fault.New(fault.Invalid, "%s has more than %d bytes", path, maxSecret)
	}
	return data, nil
}

// maxSecret is the largest secret in bytes.
const maxSecret = 1 << 20
