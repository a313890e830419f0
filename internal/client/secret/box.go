// Package secret reads secrets from where a site keeps them, and encrypts what
// gsrun itself has to keep, with age.
package secret

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
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
)

// NewBox returns a box for recipients such as "age1...", one each, and
// identities as they stand in an age identity file. Either may be empty.
func NewBox(recipients []string, identities string) (*Box, error) {
	b := new(Box)
	for _, r := range recipients {
		rs, err := age.ParseRecipients(strings.NewReader(r))
		if err != nil {
			return nil, &fault.Error{Op: "reading age recipient", Target: fmt.Sprintf("%q", r), Kind: fault.Invalid, Hint: recipientsHint, Err: err}
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
	data, err := readPrivate(path)
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
		return nil, &fault.Error{Op: "decrypting", Target: "a secret", Kind: fault.Invalid, Err: err}
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		return nil, &fault.Error{Op: "decrypting", Target: "a secret", Kind: fault.Invalid, Hint: "the encrypted text was changed or cut off", Err: err}
	}
	return plain, nil
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
		return "", &fault.Error{Op: "decrypting", Target: "a secret", Kind: fault.Invalid, Err: err}
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
