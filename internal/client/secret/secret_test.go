package secret_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"filippo.io/age"

	"git.vanillacore.net/govstack/gsrun/internal/client/secret"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

func newBox(t *testing.T) *secret.Box {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	b, err := secret.NewBox([]string{id.Recipient().String()}, id.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestStore(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "a", "store")
	s := secret.NewStore(dir, newBox(t))
	if _, found, err := s.Get(ctx, "hostkeys/gw"); found || err != nil {
		t.Fatalf("an empty store has something (%v)", err)
	}
	values := map[string]string{"hostkeys/[127.0.0.1]:2222": "ssh-ed25519 AAAA", "crypto/x": strings.Repeat("v", 100000), "top": ""}
	for name, v := range values {
		for range 2 {
			if err := s.Put(ctx, name, []byte(v)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, want := range values {
		got, found, err := s.Get(ctx, name)
		if err != nil || !found || string(got) != want {
			t.Errorf("%s: got %d bytes, %v, %v", name, len(got), found, err)
		}
	}
	names, err := s.List(ctx)
	if err != nil || !reflect.DeepEqual(names, []string{"crypto/x", "hostkeys/[127.0.0.1]:2222", "top"}) {
		t.Errorf("listed %v (%v)", names, err)
	}
	err = filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %#o", path, info.Mode().Perm())
		}
		if info.IsDir() {
			return nil
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte("AAAA")) || bytes.Contains(data, []byte("vvvv")) {
			t.Errorf("%s isn't encrypted", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, "top"); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, "top"); err != nil {
		t.Errorf("deleting what isn't there: %v", err)
	}
	if _, found, _ := s.Get(ctx, "top"); found {
		t.Error("it is still there")
	}
}

// Of several that make a value at once, through stores of their own, all get
// the same.
func TestCreateRace(t *testing.T) {
	ctx := context.Background()
	dir, box := t.TempDir(), newBox(t)
	const racers = 16
	got := make(chan string, racers)
	var winners atomic.Int32
	for i := range racers {
		go func() {
			mine := strings.Repeat(string(rune('a'+i)), 20)
			v, created, err := secret.NewStore(dir, box).Create(ctx, "keys/one", []byte(mine))
			if err != nil || created != (string(v) == mine) {
				t.Errorf("got %q, created %t, error %v", v, created, err)
			}
			if created {
				winners.Add(1)
			}
			got <- string(v)
		}()
	}
	first := <-got
	for range racers - 1 {
		if v := <-got; v != first {
			t.Errorf("got %q and %q", first, v)
		}
	}
	if n := winners.Load(); n != 1 {
		t.Errorf("%d of them created it", n)
	}
	v, _, err := secret.NewStore(dir, box).Get(ctx, "keys/one")
	if err != nil || string(v) != first {
		t.Errorf("stored is %q (%v), want %q", v, err, first)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "keys")); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	if _, _, err := secret.NewStore(dir, box).Create(ctx, "../x", nil); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a bad name: %v", err)
	}
}

func TestStoreRefusals(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	box := newBox(t)
	s := secret.NewStore(dir, box)
	for _, name := range []string{"", "/x", "x/", "a//b", "..", "a/../b", ".hidden", "a b", "x\x00", strings.Repeat("x", 300), "x.age", "a.age/b"} {
		if err := s.Put(ctx, name, nil); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", name, err)
		}
		if _, _, err := s.Get(ctx, name); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := s.Put(ctx, "x", []byte("value")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := secret.NewStore(dir, newBox(t)).Get(ctx, "x"); fault.KindOf(err) != fault.Denied {
		t.Errorf("another identity: %v", err)
	}
	if _, _, err := secret.NewStore(dir, new(secret.Box)).Get(ctx, "x"); fault.KindOf(err) != fault.Invalid || fault.HintOf(err) == "" {
		t.Errorf("no identity: %v", err)
	}
	if err := secret.NewStore(dir, nil).Put(ctx, "y", nil); fault.KindOf(err) != fault.Invalid || fault.HintOf(err) == "" {
		t.Errorf("no recipient: %v", err)
	}
	path := filepath.Join(dir, "x.age")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Get(ctx, "x"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a damaged value: %v", err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Put(done, "x", nil); fault.KindOf(err) != fault.Cancelled {
		t.Errorf("after cancellation: %v", err)
	}
}

func TestParseSource(t *testing.T) {
	for _, tt := range []struct {
		spec any
		want string
	}{
		{"store", "store:secret/n"}, {"env:A", "env:A"}, {map[string]any{"file": "a/b"}, "file:a/b"}, {"age:x:y", "age:x:y"},
	} {
		s, err := secret.ParseSource("n", tt.spec)
		if err != nil || s.String() != tt.want {
			t.Errorf("%v: got %s (%v), want %s", tt.spec, s, err, tt.want)
		}
	}
	for _, bad := range []any{"", "x", "env:", ":x", 3, nil, map[string]any{}, map[string]any{"env": "A", "file": "b"}, map[string]any{"env": 3}, map[string]any{"env": ""}} {
		if s, err := secret.ParseSource("n", bad); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%v was read as %v (%v)", bad, s, err)
		}
	}
}

// What isn't encrypted is never a part of the message that says so.
func TestDecryptPlain(t *testing.T) {
	dir, box := t.TempDir(), newBox(t)
	for name, c := range map[string]struct{ content, want string }{
		"plain":    {"plaintext-TOPSECRET-98\nand more", "it isn't encrypted with age"},
		"one line": {"TOPSECRET-98", "it isn't encrypted with age"},
		"empty":    {"", "it isn't encrypted with age"},
		"header":   {"age-encryption.org/v1\nTOPSECRET-98\n", "its age header can't be read"},
		"version":  {"age-encryption.org/v9 TOPSECRET-98\n", "its age header can't be read"},
		"armored":  {"-----BEGIN AGE ENCRYPTED FILE-----\nTOPSECRET-98\n-----END AGE ENCRYPTED FILE-----\n", "its age header can't be read"},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := secret.AgeFile(dir, box).Read(t.Context(), name)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), name+": "+c.want) || fault.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error()+fault.HintOf(err), "TOPSECRET") {
			t.Errorf("%s shows what the file holds: %v", name, err)
		}
	}
	if _, err := box.DecryptText("TOPSECRET-98 no base64"); err == nil || strings.Contains(err.Error(), "TOPSECRET") {
		t.Errorf("text: %v", err)
	}
}

// A private key that somebody wrote where something else belongs isn't shown.
func TestMisplacedKey(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	public := id.Recipient().String()
	for _, key := range []string{id.String(), strings.ToLower(id.String()), " " + id.String() + "\n", id.String()[:40], "-----BEGIN OPENSSH PRIVATE KEY-----\nTOPSECRET"} {
		_, asRecipient := secret.NewBox([]string{public, key}, "")
		_, asFile := secret.ReadBox(nil, "/site/"+key)
		_, asSource := secret.ParseSource("n", map[string]any{"age": key})
		for what, err := range map[string]error{"recipient": asRecipient, "file": asFile, "source": asSource} {
			if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "private key") || fault.HintOf(err) == "" {
				t.Errorf("%q as %s: %v", key, what, err)
			}
			if err != nil && strings.Contains(strings.ToLower(err.Error()+fault.HintOf(err)), strings.ToLower(strings.TrimSpace(key)[15:30])) {
				t.Errorf("as %s it is shown: %v", what, err)
			}
		}
	}
	for _, path := range []string{"keys/age.txt", "age-secret-key-2026-01.txt", "AGE-SECRET-KEY"} {
		if secret.IsPrivateKey(path) {
			t.Errorf("%s is taken for a key", path)
		}
	}
}

func TestBox(t *testing.T) {
	if _, err := secret.NewBox([]string{"age1nonsense"}, ""); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a bad recipient: %v", err)
	}
	bad := "AGE-SECRET-KEY-1QQQQ"
	if _, err := secret.NewBox(nil, bad); fault.KindOf(err) != fault.Invalid || strings.Contains(err.Error(), bad) {
		t.Errorf("a bad identity: %v", err)
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "id")
	if err := os.WriteFile(path, []byte("# a comment\n"+id.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := secret.ReadBox([]string{id.Recipient().String()}, path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := b.EncryptText("plain")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := b.DecryptText(text); err != nil || got != "plain" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := secret.ReadBox(nil, path); fault.KindOf(err) != fault.Untrusted {
		t.Errorf("an identity that others can read: %v", err)
	}
	if _, err := secret.ReadBox(nil, path+"x"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("an identity that isn't there: %v", err)
	}
}
