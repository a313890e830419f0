package crypto

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// rsaBits is the size of new RSA keys: what OpenSSH makes by default.
const rsaBits = 3072

type sshKeypairArgs struct {
	Name string `star:"name,required" doc:"Name of the key pair, unique in the site; also the comment of the public key."`
	Type string `star:"type" doc:"ed25519, ecdsa (P-256) or rsa (3072 bits)."`
}

func sshKeypair() builtin.Func {
	return builtin.Of(builtin.Spec[*Maker, sshKeypairArgs]{
		Name: "ssh_keypair",
		Doc: "An SSH key pair. Its type can't be changed later: delete it from the store for that.\n\n" +
			"The result has `name`, `type`, `public_key` (a line of authorized_keys), `private_key` (a secret, in OpenSSH's form) and `fingerprint` (SHA256:...).",
		Returns: "crypto.ssh_keypair",
		Example: `key = crypto.ssh_keypair("gateway")
authorized = key.public_key`,
		Effect:   builtin.Changes,
		Errors:   []fault.Kind{fault.Invalid},
		Defaults: sshKeypairArgs{Type: "ed25519"},
		Run: func(ctx context.Context, m *Maker, a sshKeypairArgs) (any, error) {
			if err := m.ready("ssh_keypair", a.Name); err != nil {
				return nil, err
			}
			if _, ok := sshTypes[a.Type]; !ok {
				return nil, fault.New(fault.Invalid, "SSH key type %q is none of ed25519, ecdsa, rsa", a.Type)
			}
			if strings.ContainsAny(a.Name, " \t\r\n") {
				return nil, fault.New(fault.Invalid, "the name %q of an SSH key pair has a space in it", a.Name)
			}
			return effect.Do(ctx, &kept{m: m, kind: "ssh_keypair", name: a.Name,
				after: later("ssh key "+a.Name, map[string]any{"name": a.Name, "type": a.Type}, "public_key", "private_key", "fingerprint"),
				make:  func() ([]byte, error) { return newSSHKey(a.Type, a.Name) },
				read: func(ctx context.Context, stored []byte, ref effect.Ref) (map[string]any, error) {
					return sshAttrs(ctx, a.Name, stored, ref)
				},
				fits: func(attrs map[string]any) error {
					if attrs["type"] == a.Type {
						return nil
					}
					return fault.Hinted(fault.Invalid, "keep the type, or use another name",
						"the SSH key pair %q is of type %v, and can't become %s", a.Name, attrs["type"], a.Type)
				}})
		},
	})
}

// sshTypes maps the types to the names that they have in SSH.
var sshTypes = map[string]string{"ed25519": ssh.KeyAlgoED25519, "ecdsa": ssh.KeyAlgoECDSA256, "rsa": ssh.KeyAlgoRSA}

func newSSHKey(kind, comment string) ([]byte, error) {
	var key any
	var err error
	switch kind {
	case "ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	case "ecdsa":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "rsa":
		key, err = rsa.GenerateKey(rand.Reader, rsaBits)
	default:
		return nil, fmt.Errorf("unknown type %q", kind)
	}
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, comment)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(block), nil
}

func sshAttrs(ctx context.Context, name string, stored []byte, ref effect.Ref) (map[string]any, error) {
	signer, err := ssh.ParsePrivateKey(stored)
	if err != nil {
		return nil, err
	}
	pub := signer.PublicKey()
	kind := pub.Type()
	for short, long := range sshTypes {
		if long == kind {
			kind = short
		}
	}
	private, err := effect.NewSecret(ctx, string(stored), ref)
	if err != nil {
		return nil, err
	}
	line := strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(pub)), "\n") + " " + name
	return map[string]any{"name": name, "type": kind, "public_key": line, "private_key": private, "fingerprint": ssh.FingerprintSHA256(pub)}, nil
}
