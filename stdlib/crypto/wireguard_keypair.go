package crypto

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type wireguardKeypairArgs struct {
	Name string `star:"name,required" doc:"Name of the key pair, unique in the site."`
}

func wireguardKeypair() builtin.Func {
	return builtin.Of(builtin.Spec[*Maker, wireguardKeypairArgs]{
		Name: "wireguard_keypair",
		Doc: "A WireGuard key pair. A key that never leaves the host it is for is safer: make that one there.\n\n" +
			"The result has `name`, `public_key` and `private_key` (a secret), in WireGuard's base64.",
		Returns: "crypto.wireguard_keypair",
		Example: `operator = crypto.wireguard_keypair("operator-alice")
peer = "[Peer]\nPublicKey = %s\n" % operator.public_key`,
		Effect: builtin.Changes,
		Errors: []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, m *Maker, a wireguardKeypairArgs) (any, error) {
			if err := m.ready("wireguard_keypair", a.Name); err != nil {
				return nil, err
			}
			return effect.Do(ctx, &kept{m: m, kind: "wireguard_keypair", name: a.Name,
				after: later("wireguard key "+a.Name, map[string]any{"name": a.Name}, "public_key", "private_key"),
				make:  newWireguardKey,
				read: func(ctx context.Context, stored []byte, ref effect.Ref) (map[string]any, error) {
					return wireguardAttrs(ctx, a.Name, stored, ref)
				}})
		},
	})
}

func newWireguardKey() ([]byte, error) {
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		return nil, err
	}
	// As `wg genkey` does; see the function of RFC 7748, section 5, that
	// decodes a scalar.
	raw[0] &= 248
	raw[31] = raw[31]&127 | 64
	return []byte(base64.StdEncoding.EncodeToString(raw)), nil
}

func wireguardAttrs(ctx context.Context, name string, stored []byte, ref effect.Ref) (map[string]any, error) {
	raw, err := base64.StdEncoding.DecodeString(string(stored))
	if err != nil {
		return nil, err
	}
	key, err := ecdh.X25519().NewPrivateKey(raw)
	if err != nil {
		return nil, err
	}
	private, err := effect.NewSecret(ctx, string(stored), ref)
	if err != nil {
		return nil, err
	}
	return map[string]any{"name": name, "private_key": private, "public_key": base64.StdEncoding.EncodeToString(key.PublicKey().Bytes())}, nil
}
