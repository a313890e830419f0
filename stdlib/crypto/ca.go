package crypto

import (
	"context"
	"crypto/x509/pkix"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type caArgs struct {
	Name         string `star:"name,required" doc:"Name of the authority, unique in the site."`
	CommonName   string `star:"common_name" doc:"Common name of its subject; the name if not given."`
	Organization string `star:"organization" doc:"Organization of its subject."`
	Days         int    `star:"days" doc:"How long its certificate is valid. It is renewed with the same key when less than a tenth of that is left."`
}

func ca() builtin.Func {
	return builtin.Of(builtin.Spec[*Maker, caArgs]{
		Name: "ca",
		Doc: "A certificate authority of one's own: an ECDSA P-256 key and a self-signed certificate. Its subject can't be changed later.\n\n" +
			"The result has `name`, `certificate` (PEM), `private_key` (a secret, PKCS#8 PEM), `fingerprint` (SHA-256, hex) and `not_after` (RFC 3339).",
		Returns:  "crypto.ca",
		Example:  `root = crypto.ca("internal", organization = "Example")`,
		Effect:   builtin.Changes,
		Errors:   []fault.Kind{fault.Invalid},
		Defaults: caArgs{Days: 3650},
		Run: func(ctx context.Context, m *Maker, a caArgs) (any, error) {
			if err := m.ready("ca", a.Name); err != nil {
				return nil, err
			}
			if a.Days < 1 || a.Days > 36500 {
				return nil, fault.New(fault.Invalid, "the certificate authority %q must be valid for 1 to 36500 days, not %d", a.Name, a.Days)
			}
			return effect.Do(ctx, &issued{m: m, kind: "ca", name: a.Name, subject: subject(a.Name, a.CommonName, a.Organization), days: a.Days, renewAt: 0.1})
		},
	})
}

func subject(name, common, organization string) pkix.Name {
	s := pkix.Name{CommonName: common}
	if common == "" {
		s.CommonName = name
	}
	if organization != "" {
		s.Organization = []string{organization}
	}
	return s
}
