package crypto

import (
	"context"
	"crypto/rand"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type passwordArgs struct {
	Name   string `star:"name,required" doc:"Name of the password, unique in the site."`
	Length int    `star:"length" doc:"Number of characters when it is made, 12 to 256."`
}

// The alphabet leaves out what people confuse when they read a password aloud:
// 0 and O, 1 and l and I. Its size divides 256 with a remainder that newPassword
// skips.
const passwordAlphabet = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"

func password() builtin.Func {
	return builtin.Of(builtin.Spec[*Maker, passwordArgs]{
		Name: "password",
		Doc: "A random password of letters and digits that aren't easily confused. The length counts only when it is made. " +
			"For another alphabet see `secret.generate`.",
		Returns:  "secret",
		Example:  `admin = crypto.password("grafana-admin", length = 20)`,
		Effect:   builtin.Changes,
		Errors:   []fault.Kind{fault.Invalid},
		Defaults: passwordArgs{Length: 24},
		Run: func(ctx context.Context, m *Maker, a passwordArgs) (any, error) {
			if err := m.ready("password", a.Name); err != nil {
				return nil, err
			}
			if a.Length < 12 || a.Length > 256 {
				return nil, fault.New(fault.Invalid, "the password %q must have 12 to 256 characters, not %d", a.Name, a.Length)
			}
			st, err := effect.Do(ctx, &kept{m: m, kind: "password", name: a.Name,
				after: later("password "+a.Name, nil, "value"),
				make:  func() ([]byte, error) { return newPassword(a.Length) },
				read: func(ctx context.Context, stored []byte, ref effect.Ref) (map[string]any, error) {
					s, err := effect.NewSecret(ctx, string(stored), ref)
					return map[string]any{"value": s}, err
				}})
			if err != nil {
				return nil, err
			}
			return st.Attrs["value"], nil
		},
	})
}

func newPassword(n int) ([]byte, error) {
	const size = len(passwordAlphabet)
	out := make([]byte, 0, n)
	buf := make([]byte, n)
	for len(out) < n {
		if _, err := rand.Read(buf); err != nil {
			return nil, err
		}
		for _, b := range buf {
			// Values past the last whole multiple would favour the first letters.
			if int(b) < 256-256%size && len(out) < n {
				out = append(out, passwordAlphabet[int(b)%size])
			}
		}
	}
	return out, nil
}
