package secret_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"
	"go.starlark.net/starlark"

	client "git.vanillacore.net/govstack/gsrun/internal/client/secret"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/secret"
)

// A site is a folder with secrets of each kind.
type site struct {
	dir   string
	box   *client.Box
	store *client.Store
	env   map[string]string
}

func newSite(t *testing.T) *site {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	box, err := client.NewBox([]string{id.Recipient().String()}, id.String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{dir: t.TempDir(), box: box, env: map[string]string{"GSRUN_TEST_SECRET": "environment-value"}}
	s.store = client.NewStore(filepath.Join(s.dir, "store"), box)
	s.write(t, "one", "file-value-1\n", 0o600)
	s.write(t, "lines", "line one\nline two\n", 0o600)
	s.write(t, "open", "file-value-1\n", 0o644)
	s.write(t, "short", "abc\n", 0o600)
	s.write(t, "plain", "not encrypted", 0o644)
	s.write(t, "good.age", armored(t, id.Recipient(), "age-value-1\n"), 0o644)
	s.write(t, "other.age", armored(t, other.Recipient(), "age-value-1\n"), 0o644)
	return s
}

func (s *site) write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func armored(t *testing.T, r age.Recipient, text string) string {
	t.Helper()
	var b bytes.Buffer
	a := armor.NewWriter(&b)
	w, err := age.Encrypt(a, r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func (s *site) config(t *testing.T) secret.Config {
	t.Helper()
	sources := make(map[string]client.Source)
	for name, spec := range map[string]any{
		"from_env": map[string]any{"env": "GSRUN_TEST_SECRET"}, "from_file": "file:one", "from_lines": "file:lines", "from_age": map[string]any{"age": "good.age"},
		"unset": "env:GSRUN_TEST_UNSET", "no_file": "file:none", "open_file": "file:open", "short": "file:short", "not_age": "age:plain",
		"odd": "vault:x", "other_age": "age:other.age", "db": "store", "never_made": "store",
	} {
		src, err := client.ParseSource(name, spec)
		if err != nil {
			t.Fatal(err)
		}
		sources[name] = src
	}
	lookup := func(name string) (string, bool) {
		v, ok := s.env[name]
		return v, ok
	}
	return secret.Config{Sources: sources, Readers: client.SiteReaders(s.dir, lookup, s.box), Store: s.store}
}

// same returns a secret to compare with.
func same(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var s string
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &s); err != nil {
		return nil, err
	}
	return effect.SecretOf(s, ""), nil
}

func (s *site) options(t *testing.T, mode effect.Mode) startest.Options {
	return startest.Options{Door: startest.NewDoor(mode), Modules: []*builtin.Module{secret.Module(s.config(t))},
		Globals: starlark.StringDict{"same": starlark.NewBuiltin("same", same)}}
}

func TestSecret(t *testing.T) {
	startest.Run(t, "testdata/secret.star", newSite(t).options(t, effect.Apply))
}

func TestPlan(t *testing.T) {
	s := newSite(t)
	opts := s.options(t, effect.Plan)
	startest.Run(t, "testdata/plan.star", opts)
	if c := opts.Door.Counts(); c.Created != 1 {
		t.Errorf("the plan has %+v, want one to create", c)
	}
	if names, err := s.store.List(context.Background()); err != nil || len(names) != 0 {
		t.Errorf("a plan stored %v (%v)", names, err)
	}
}

func TestTextsOnly(t *testing.T) {
	m := secret.Module(secret.Config{})
	if !strings.Contains(m.Markdown(), "secret.generate") {
		t.Error("the page lacks a function")
	}
	_, err := startest.Call(t, starlark.NewBuiltin("x", func(thread *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		return starlark.Call(thread, m.Value(), starlark.Tuple{starlark.String("x")}, nil)
	}), startest.Options{})
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "declares no secrets") {
		t.Errorf("got %v", err)
	}
}

// Whoever generates a secret at the same time gets the same one.
func TestGenerateRace(t *testing.T) {
	s := newSite(t)
	m := secret.Module(s.config(t)).Value().(starlark.HasAttrs)
	generate, err := m.Attr("generate")
	if err != nil {
		t.Fatal(err)
	}
	opts := startest.Options{Door: startest.NewDoor(effect.Apply)}
	type result struct {
		v   starlark.Value
		err error
	}
	results := make(chan result)
	const racers = 8
	for range racers {
		go func() {
			v, err := startest.Call(t, starlark.NewBuiltin("x", func(thread *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
				return starlark.Call(thread, generate, starlark.Tuple{starlark.String("raced")}, nil)
			}), opts)
			results <- result{v, err}
		}()
	}
	plain := make(map[string]bool)
	for range racers {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
			continue
		}
		plain[r.v.(*effect.Secret).Reveal()] = true
	}
	if len(plain) != 1 {
		t.Errorf("%d different secrets were handed out", len(plain))
	}
}

func TestVault(t *testing.T) {
	s := newSite(t)
	ctx := context.Background()
	v := secret.NewVault(s.config(t), s.box)
	if err := s.store.Put(ctx, "crypto/password/x", []byte("stored-value")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, plain string
		ref         effect.Ref
		sealed      string // prefix
	}{
		{"declared", "environment-value", "env:GSRUN_TEST_SECRET", "ref:env:GSRUN_TEST_SECRET"},
		{"stored", "stored-value", "store:crypto/password/x", "ref:store:crypto/password/x"},
		{"without a source", "made up in a step", "", "age:"},
		{"short, made from others", "a b", "", "age:"},
		{"a source that isn't declared", "anything else", "env:HOME", "age:"},
		{"a source of an unknown kind", "anything else", "vault:x", "age:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sealed, err := v.Seal(effect.SecretOf(tt.plain, tt.ref))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(sealed, tt.sealed) || strings.Contains(sealed, tt.plain) {
				t.Errorf("sealed as %q", sealed)
			}
			door := startest.NewDoor(effect.Apply)
			got, err := v.Open(effect.With(ctx, effect.NewScope(door, effect.Owner{}, "", nil)), sealed)
			if err != nil {
				t.Fatal(err)
			}
			if got.Reveal() != tt.plain {
				t.Errorf("opened as another text")
			}
			if len(tt.plain) >= effect.MinSecret && strings.Contains(door.Redactor.String("x "+tt.plain), tt.plain) {
				t.Error("what was opened isn't kept out of the outputs")
			}
		})
	}
	for _, bad := range []string{"", "plain", "ref:", "ref:env:HOME", "ref:file:../../etc/shadow", "age:", "age:!!", "age:AAAA"} {
		if _, err := v.Open(ctx, bad); err == nil {
			t.Errorf("%q was opened", bad)
		}
	}
	none := secret.NewVault(secret.Config{}, new(client.Box))
	if _, err := none.Seal(effect.SecretOf("made up in a step", "")); fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.HintOf(err), "recipients") {
		t.Errorf("without recipients: %v, hint %q", err, fault.HintOf(err))
	}
}

// The codec of the journal works with the vault.
func TestCodec(t *testing.T) {
	s := newSite(t)
	c := effect.Codec{Vault: secret.NewVault(s.config(t), s.box)}
	form, err := c.Encode(starlark.NewList([]starlark.Value{effect.SecretOf("made up in a step", ""), starlark.String("x")}))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(form, []byte("made up")) {
		t.Errorf("the form shows the secret: %s", form)
	}
	v, err := c.Decode(context.Background(), form)
	if err != nil {
		t.Fatal(err)
	}
	if got := v.(*starlark.List).Index(0).(*effect.Secret).Reveal(); got != "made up in a step" {
		t.Error("another text came back")
	}
}

// TestHide hides the secrets that a run doesn't ask for, too, and refuses those
// that can't be hidden, with the place where they are declared.
func TestHide(t *testing.T) {
	s := newSite(t)
	c := s.config(t)
	delete(c.Sources, "short")
	door := startest.NewDoor(effect.Plan)
	ctx := effect.With(t.Context(), effect.NewScope(door, effect.Owner{Site: "frankfurt"}, "", nil))
	if err := c.Hide(ctx); err != nil {
		t.Fatal(err)
	}
	in := "environment-value file-value-1 age-value-1 line two"
	if got := door.Redactor.String(in); got != "*** *** *** line two" {
		t.Errorf("the run shows %q", got)
	}
	for plain, why := range map[string]string{"abc": "it has 3 bytes", "password": "it is a word that logs are full of", "Frankfurt": "it is a word that logs are full of"} {
		s.env["GSRUN_TEST_SECRET"] = plain
		c.Declared = map[string]string{"from_env": "site.yaml:7"}
		err := c.Hide(ctx)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), `site.yaml:7: secret from_env (env:GSRUN_TEST_SECRET): `+why) ||
			!strings.HasSuffix(err.Error(), "those that its recipe doesn't use, too") || strings.Count(err.Error(), "secret ") != 1 || fault.HintOf(err) == "" || strings.Contains(err.Error(), plain) {
			t.Errorf("%q: %v", plain, err)
		}
		if got := door.Redactor.String("abc password frankfurt"); got != "abc password frankfurt" {
			t.Errorf("%q turned the log into %q", plain, got)
		}
	}
}

func TestLookup(t *testing.T) {
	s := newSite(t)
	c := s.config(t)
	door := startest.NewDoor(effect.Apply)
	ctx := effect.With(t.Context(), effect.NewScope(door, effect.Owner{}, "", nil))
	for ref, want := range map[string]string{"from_file": "file-value-1", "env:GSRUN_TEST_SECRET": "environment-value", "age:good.age": "age-value-1", "file:" + s.dir + "/one": "file-value-1"} {
		got, err := c.Read(ctx, ref)
		if err != nil || got.Reveal() != want || door.Redactor.String(want) != effect.Mask {
			t.Errorf("%s: %v", ref, err)
		}
	}
	for _, ref := range []string{"hunter2hunter2", "", "vault:x", "from_", "env"} {
		_, err := c.Read(ctx, ref)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.HintOf(err), "never given") || ref != "" && ref != "env" && ref != "from_" && strings.Contains(err.Error(), ref) {
			t.Errorf("%q: %v", ref, err)
		}
	}
}

// TestRotate deletes a generated secret as its page says: another one is made.
// What is stored is encrypted.
func TestRotate(t *testing.T) {
	s := newSite(t)
	door := startest.NewDoor(effect.Apply)
	generate := func() string {
		t.Helper()
		m := secret.Module(s.config(t)).Value().(starlark.HasAttrs)
		fn, err := m.Attr("generate")
		if err != nil {
			t.Fatal(err)
		}
		v, err := startest.Call(t, starlark.NewBuiltin("x", func(thread *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			return starlark.Call(thread, fn, starlark.Tuple{starlark.String("db")}, nil)
		}), startest.Options{Door: door})
		if err != nil {
			t.Fatal(err)
		}
		return v.(*effect.Secret).Reveal()
	}
	first := generate()
	file := filepath.Join(s.dir, "store", "secret", "db.age")
	data, err := os.ReadFile(file)
	if err != nil || !bytes.HasPrefix(data, []byte("age-encryption.org/")) || bytes.Contains(data, []byte(first)) {
		t.Errorf("it is stored as %q (%v)", data, err)
	}
	if again := generate(); again != first {
		t.Error("another secret was made")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if second := generate(); second == first || door.Redactor.String(second+first) != effect.Mask {
		t.Error("the secret wasn't rotated, or one of both shows")
	}
}
