package crypto_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"go.starlark.net/starlark"
	"golang.org/x/crypto/ssh"

	secretclient "git.vanillacore.net/govstack/gsrun/internal/client/secret"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/crypto"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func newStore(t *testing.T) *secretclient.Store {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	box, err := secretclient.NewBox([]string{id.Recipient().String()}, id.String())
	if err != nil {
		t.Fatal(err)
	}
	return secretclient.NewStore(t.TempDir(), box)
}

func at(now *time.Time) func() time.Time { return func() time.Time { return *now } }

func TestCrypto(t *testing.T) {
	now := noon
	startest.Run(t, "testdata/crypto.star", startest.Options{Modules: []*builtin.Module{crypto.Module(crypto.Config{Store: newStore(t), Now: at(&now)})}})
}

func TestPlan(t *testing.T) {
	now := noon
	store := newStore(t)
	door := startest.NewDoor(effect.Plan)
	startest.Run(t, "testdata/plan.star", startest.Options{Door: door, Modules: []*builtin.Module{crypto.Module(crypto.Config{Store: store, Now: at(&now)})}})
	if names, err := store.List(context.Background()); err != nil || len(names) != 0 {
		t.Errorf("a plan stored %v (%v)", names, err)
	}
	// The second certificate of one name comes after the first: what it will
	// change isn't known yet.
	if c := door.Counts(); c.Created != 5 || c.Later != 1 {
		t.Errorf("the plan has %+v, want 5 to create and 1 later", c)
	}
}

func TestNoStore(t *testing.T) {
	m := crypto.Module(crypto.Config{})
	r := newRun(t, m, startest.NewDoor(effect.Apply))
	r.fails("ssh_keypair", "no store", starlark.String("x"))
}

// A run calls functions of a module one by one.
type run struct {
	t    *testing.T
	m    starlark.HasAttrs
	opts startest.Options
}

func newRun(t *testing.T, m *builtin.Module, door *effect.Door) *run {
	return &run{t, m.Value().(starlark.HasAttrs), startest.Options{Door: door, Modules: []*builtin.Module{m}}}
}

func (r *run) call(fn string, kwargs []starlark.Tuple, args ...starlark.Value) (*effect.Object, error) {
	r.t.Helper()
	f, err := r.m.Attr(fn)
	if err != nil || f == nil {
		r.t.Fatalf("no function %s (%v)", fn, err)
	}
	bound := starlark.NewBuiltin("call", func(thread *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		return starlark.Call(thread, f, args, kwargs)
	})
	v, err := startest.Call(r.t, bound, r.opts)
	o, _ := v.(*effect.Object)
	return o, err
}

func (r *run) must(fn string, kwargs []starlark.Tuple, args ...starlark.Value) *effect.Object {
	r.t.Helper()
	o, err := r.call(fn, kwargs, args...)
	if err != nil {
		r.t.Fatal(startest.Explain(err))
	}
	return o
}

func (r *run) fails(fn, want string, args ...starlark.Value) {
	r.t.Helper()
	if _, err := r.call(fn, nil, args...); err == nil || !strings.Contains(err.Error(), want) {
		r.t.Errorf("%s: got %v, want an error with %q", fn, err, want)
	}
}

func text(t *testing.T, o *effect.Object, name string) string {
	t.Helper()
	v, err := o.Attr(name)
	if err != nil {
		t.Fatal(err)
	}
	switch v := v.(type) {
	case starlark.String:
		return string(v)
	case *effect.Secret:
		return v.Reveal()
	}
	t.Fatalf("%s is %v", name, v)
	return ""
}

func hosts(names ...string) []starlark.Tuple {
	l := starlark.NewList(nil)
	for _, n := range names {
		_ = l.Append(starlark.String(n))
	}
	return []starlark.Tuple{{starlark.String("hosts"), l}}
}

// The key pair works for SSH.
func TestSSHKeyIsUsable(t *testing.T) {
	r := newRun(t, crypto.Module(crypto.Config{Store: newStore(t)}), startest.NewDoor(effect.Apply))
	key := r.must("ssh_keypair", nil, starlark.String("gw"))
	signer, err := ssh.ParsePrivateKey([]byte(text(t, key, "private_key")))
	if err != nil {
		t.Fatal(err)
	}
	pub, comment, _, _, err := ssh.ParseAuthorizedKey([]byte(text(t, key, "public_key")))
	if err != nil || comment != "gw" {
		t.Fatalf("comment %q, %v", comment, err)
	}
	sig, err := signer.Sign(rand.Reader, []byte("data"))
	if err != nil {
		t.Fatal(err)
	}
	if err := pub.Verify([]byte("data"), sig); err != nil {
		t.Error(err)
	}
}

// A certificate is good for a TLS connection, is renewed in time, and is still
// trusted after its authority was renewed.
func TestCertificateLife(t *testing.T) {
	now := noon
	store := newStore(t)
	m := crypto.Module(crypto.Config{Store: store, Now: at(&now)})
	r := newRun(t, m, startest.NewDoor(effect.Apply))
	name := func(s string) starlark.Value { return starlark.String(s) }
	root := r.must("ca", nil, name("root"))
	withCA := func(ca *effect.Object) []starlark.Tuple {
		return append(hosts("web.example.org", "127.0.0.1"), starlark.Tuple{name("ca"), ca})
	}
	web := r.must("certificate", withCA(root), name("web"))
	handshake(t, now, root, web)

	now = noon.AddDate(0, 0, 200)
	if same := r.must("certificate", withCA(root), name("web")); text(t, same, "fingerprint") != text(t, web, "fingerprint") {
		t.Error("the certificate was renewed though more than a third of its life is left")
	}
	now = noon.AddDate(0, 0, 260)
	renewed := r.must("certificate", withCA(root), name("web"))
	if text(t, renewed, "fingerprint") == text(t, web, "fingerprint") {
		t.Error("the certificate wasn't renewed")
	}
	handshake(t, now, root, renewed)

	now = noon.AddDate(0, 0, 3300)
	newRoot := r.must("ca", nil, name("root"))
	if text(t, newRoot, "fingerprint") == text(t, root, "fingerprint") {
		t.Error("the authority wasn't renewed")
	}
	last := r.must("certificate", withCA(root), name("web")) // issued under the old certificate
	handshake(t, now, newRoot, last)
}

func handshake(t *testing.T, now time.Time, root, leaf *effect.Object) {
	t.Helper()
	pair, err := tls.X509KeyPair([]byte(text(t, leaf, "certificate")), []byte(text(t, leaf, "private_key")))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(text(t, root, "certificate")))
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	clock := func() time.Time { return now }
	ended := make(chan error, 1)
	go func() {
		ended <- tls.Server(a, &tls.Config{Certificates: []tls.Certificate{pair}, Time: clock}).Handshake()
	}()
	client := tls.Client(b, &tls.Config{RootCAs: pool, ServerName: "web.example.org", Time: clock})
	if err := client.Handshake(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A crash between key and certificate leaves a key, which the next run uses.
func TestCertificateAfterCrash(t *testing.T) {
	ctx := context.Background()
	store := newStore(t)
	r := newRun(t, crypto.Module(crypto.Config{Store: store}), startest.NewDoor(effect.Apply))
	first := r.must("ca", nil, starlark.String("root"))
	if err := store.Delete(ctx, "crypto/ca/root/certificate"); err != nil {
		t.Fatal(err)
	}
	second := r.must("ca", nil, starlark.String("root"))
	if text(t, first, "private_key") != text(t, second, "private_key") {
		t.Error("the key was made twice")
	}
	// A certificate of another key counts as none.
	other := newRun(t, crypto.Module(crypto.Config{Store: newStore(t)}), startest.NewDoor(effect.Apply)).must("ca", nil, starlark.String("root"))
	if err := store.Put(ctx, "crypto/ca/root/certificate", []byte(text(t, other, "certificate"))); err != nil {
		t.Fatal(err)
	}
	third := r.must("ca", nil, starlark.String("root"))
	block, _ := pem.Decode([]byte(text(t, third, "certificate")))
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	if text(t, third, "fingerprint") == text(t, other, "fingerprint") {
		t.Error("a certificate of another key was taken")
	}
	// Damage is an error, not a reason for a new key.
	if err := store.Put(ctx, "crypto/ca/root/key", []byte("garbage")); err != nil {
		t.Fatal(err)
	}
	r.fails("ca", "crypto/ca/root/key", starlark.String("root"))
}

// Runs that make the same key at once, each with a module of its own, get the
// same key.
func TestRunsAtOnce(t *testing.T) {
	store := newStore(t)
	const runs = 6
	keys := make(chan string, runs)
	for range runs {
		go func() {
			r := newRun(t, crypto.Module(crypto.Config{Store: store}), startest.NewDoor(effect.Apply))
			key, err := r.call("ssh_keypair", nil, starlark.String("operator"))
			if err != nil {
				t.Error(err)
				keys <- ""
				return
			}
			v, _ := key.Attr("public_key")
			keys <- v.String()
		}()
	}
	first := <-keys
	for range runs - 1 {
		if k := <-keys; k != first {
			t.Errorf("got %s and %s", first, k)
		}
	}
}
