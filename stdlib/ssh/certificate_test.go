package ssh_test

import (
	"context"
	"testing"
	"time"

	"go.starlark.net/starlark"
	xssh "golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/lab/real/hosts"
	"git.vanillacore.net/govstack/gsrun/internal/lab/real/hosts/hoststest"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

// Where hosts and users have certificates, no key of a host is known, and none
// of a user is on a host, a jump host neither.
func TestCertificatesOnRealHosts(t *testing.T) {
	l := hoststest.Open(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all, err := l.Boot(ctx,
		hosts.Spec{Name: "gw", Legs: []hosts.Leg{{Network: "public", Address: "203.0.113.2/24"}, {Network: "private", Address: "10.20.0.5/24"}}},
		hosts.Spec{Name: "seed", Legs: []hosts.Leg{{Network: "private", Address: "10.20.0.10/24"}}})
	if err != nil {
		t.Fatal(err)
	}
	user, err := hosts.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	opts := realOptions(t, l, all[0], all[1])
	opts.Globals["key"] = starlark.String(user.Private)
	opts.Globals["authority"] = starlark.String("@cert-authority 203.0.113.*,10.20.0.0,seed " + l.HostCA.Public)
	opts.Globals["other_authority"] = starlark.String("@cert-authority * " + l.UserCA.Public)
	for name, c := range map[string]struct {
		lasts     time.Duration
		principal string
	}{"certificate": {time.Hour, "debian"}, "expired": {-time.Minute, "debian"}, "foreign": {time.Hour, "backup"}} {
		cert, err := l.UserCA.Certify(user.Public, xssh.UserCert, c.lasts, c.principal)
		if err != nil {
			t.Fatal(err)
		}
		opts.Globals[name] = starlark.String(cert)
	}
	startest.Run(t, "testdata/certificate.star", opts)
}
