package crypto

import (
	"context"
	"crypto/x509"
	"slices"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type certificateArgs struct {
	Name         string        `star:"name,required" doc:"Name of the certificate, unique in the site."`
	CA           effect.Data   `star:"ca,required" doc:"The authority that issues it, as crypto.ca returned it, or any object with certificate and private_key in PEM."`
	Hosts        []effect.Text `star:"hosts" doc:"DNS names and IP addresses that it is for."`
	CommonName   string        `star:"common_name" doc:"Common name of its subject; the name if not given."`
	Organization string        `star:"organization" doc:"Organization of its subject; Kubernetes takes it as the group."`
	Usages       []string      `star:"usages" doc:"What it is for: server, client."`
	Days         int           `star:"days" doc:"How long it is valid. It is renewed when less than a third of that is left."`
}

func certificate() builtin.Func {
	return builtin.Of(builtin.Spec[*Maker, certificateArgs]{
		Name: "certificate",
		Doc: "A certificate and its private key (ECDSA P-256), issued by an authority of one's own. It is issued anew, for the same key, when its hosts, subject, usages or authority change and before it expires.\n\n" +
			"The result has the attributes that that of `crypto.ca` has.",
		Returns: "crypto.certificate",
		Example: `root = crypto.ca("internal")
web = crypto.certificate("web", ca = root, hosts = ["web.example.org", "10.20.0.5"])`,
		Effect:   builtin.Changes,
		Errors:   []fault.Kind{fault.Invalid},
		Defaults: certificateArgs{Usages: []string{"server"}, Days: 365},
		Run: func(ctx context.Context, m *Maker, a certificateArgs) (any, error) {
			if err := m.ready("certificate", a.Name); err != nil {
				return nil, err
			}
			if a.Days < 1 || a.Days > 3650 {
				return nil, fault.New(fault.Invalid, "the certificate %q must be valid for 1 to 3650 days, not %d", a.Name, a.Days)
			}
			op := &issued{m: m, kind: "certificate", name: a.Name, subject: subject(a.Name, a.CommonName, a.Organization), days: a.Days, renewAt: 1.0 / 3}
			for _, h := range a.Hosts {
				op.unknown = op.unknown || !h.Known()
				op.hosts = append(op.hosts, h.Reveal())
			}
			var err error
			if op.usages, err = usages(a.Usages); err != nil {
				return nil, err
			}
			var known bool
			if op.issuer, known, err = issuerOf(a.CA); err != nil {
				return nil, &fault.Error{Op: "reading the authority of certificate", Target: a.Name, Kind: fault.Invalid, Hint: "pass what crypto.ca returned", Err: err}
			}
			op.unknown = op.unknown || !known
			return effect.Do(ctx, op)
		},
	})
}

// issuerOf reads the authority; known is false if it isn't made yet.
func issuerOf(d effect.Data) (i *issuer, known bool, err error) {
	if _, ok := d.V.(effect.Unknown); ok {
		return nil, false, nil
	}
	m, ok := d.V.(map[string]any)
	if !ok {
		return nil, false, fault.New(fault.Invalid, "it isn't an object")
	}
	text := func(name string) (string, bool) {
		switch v := m[name].(type) {
		case string:
			return v, true
		case *effect.Secret:
			return v.Reveal(), true
		}
		return "", false
	}
	for _, name := range []string{"certificate", "private_key"} {
		if _, ok := m[name].(effect.Unknown); ok {
			return nil, false, nil
		}
		if _, ok := text(name); !ok {
			return nil, false, fault.New(fault.Invalid, "it has no text %s", name)
		}
	}
	certPEM, _ := text("certificate")
	keyPEM, _ := text("private_key")
	i = new(issuer)
	if i.cert, err = parseCertificate([]byte(certPEM)); err != nil {
		return nil, false, err
	}
	if i.key, err = parseKey([]byte(keyPEM)); err != nil {
		return nil, false, err
	}
	if !i.cert.IsCA {
		return nil, false, fault.New(fault.Invalid, "its certificate isn't that of an authority")
	}
	if !samePublicKey(i.cert.PublicKey, i.key.Public()) {
		return nil, false, fault.New(fault.Invalid, "its key isn't that of its certificate")
	}
	return i, true, nil
}

func usages(names []string) ([]x509.ExtKeyUsage, error) {
	var out []x509.ExtKeyUsage
	for _, n := range names {
		switch n {
		case "server":
			out = append(out, x509.ExtKeyUsageServerAuth)
		case "client":
			out = append(out, x509.ExtKeyUsageClientAuth)
		default:
			return nil, fault.New(fault.Invalid, "the usage %q is none of server, client", n)
		}
	}
	if len(out) == 0 {
		return nil, fault.New(fault.Invalid, "a certificate needs a usage: server, client")
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func usageNames(us []x509.ExtKeyUsage) []any {
	var out []any
	for _, u := range us {
		switch u {
		case x509.ExtKeyUsageServerAuth:
			out = append(out, "server")
		case x509.ExtKeyUsageClientAuth:
			out = append(out, "client")
		default:
			out = append(out, int(u))
		}
	}
	return out
}
