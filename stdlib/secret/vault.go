package secret

import (
	"context"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/secret"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// What a vault returns begins with how it is to be read.
const (
	byRef = "ref:" // the rest names a source
	byAge = "age:" // the rest is encrypted
)

// A Vault keeps secrets for the journal: as a reference where the source can
// be read again, else encrypted to the site's recipients.
type Vault struct {
	declared map[client.Source]bool
	readers  client.Readers
	box      *client.Box
}

var _ effect.Vault = (*Vault)(nil)

// NewVault returns a vault that reads the sources of c, and encrypts with box.
func NewVault(c Config, box *client.Box) *Vault {
	v := &Vault{declared: make(map[client.Source]bool), readers: c.readers(), box: box}
	for _, s := range c.Sources {
		v.declared[s] = true
	}
	return v
}

// readable reports whether ref may be read again: it is one that the site
// declares, or something that gsrun stored itself. Another reference is not
// followed, so that a journal can't have any file read.
func (v *Vault) readable(ref string) (client.Source, bool) {
	s, ok := client.ParseRef(ref)
	if !ok {
		return s, false
	}
	_, known := v.readers[s.Kind]
	return s, known && (s.Kind == "store" || v.declared[s])
}

// Seal returns a reference to the source of s, or s encrypted. An error of
// kind Invalid says that the site names nobody to encrypt it to.
func (v *Vault) Seal(s *effect.Secret) (string, error) {
	if _, ok := v.readable(string(s.Ref())); ok {
		return byRef + string(s.Ref()), nil
	}
	text, err := v.box.EncryptText(s.Reveal())
	if err != nil {
		return "", err
	}
	return byAge + text, nil
}

// Open returns the secret that Seal returned this text for. What is read by
// reference is what its source holds now.
func (v *Vault) Open(ctx context.Context, sealed string) (*effect.Secret, error) {
	if ref, ok := strings.CutPrefix(sealed, byRef); ok {
		src, ok := v.readable(ref)
		if !ok {
			return nil, fault.Hinted(fault.NotFound, "declare it again, or run the recipe anew instead of resuming it",
				"the site no longer declares a secret from %s", ref)
		}
		plain, err := v.readers.Read(ctx, src)
		if err != nil {
			return nil, err
		}
		return effect.NewSecret(ctx, plain, effect.Ref(ref))
	}
	if text, ok := strings.CutPrefix(sealed, byAge); ok {
		plain, err := v.box.DecryptText(text)
		if err != nil {
			return nil, err
		}
		return effect.Derived(ctx, plain), nil
	}
	return nil, fault.New(fault.Invalid, "a stored secret has an unknown form")
}
