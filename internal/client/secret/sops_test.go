package secret_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"

	"git.vanillacore.net/govstack/gsrun/internal/client/secret"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// sealer writes values as SOPS does, from the description of its format.
type sealer struct {
	key     []byte
	digest  bytes.Buffer // what the MAC covers
	enc     string       // the key, encrypted
	modTime string
}

func newSealer(t *testing.T, r age.Recipient) *sealer {
	t.Helper()
	s := &sealer{key: make([]byte, 32), modTime: "2026-11-30T20:32:47Z"}
	if _, err := rand.Read(s.key); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	a := armor.NewWriter(&b)
	w, err := age.Encrypt(a, r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(s.key); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	s.enc = b.String()
	return s
}

func (s *sealer) seal(plain, kind, about string) string {
	block, err := aes.NewCipher(s.key)
	if err != nil {
		panic(err)
	}
	gcm, err := cipher.NewGCMWithNonceSize(block, 32)
	if err != nil {
		panic(err)
	}
	iv := make([]byte, 32)
	if _, err := rand.Read(iv); err != nil {
		panic(err)
	}
	out := gcm.Seal(nil, iv, []byte(plain), []byte(about))
	e := base64.StdEncoding.EncodeToString
	n := len(out) - 16
	return fmt.Sprintf("ENC[AES256_GCM,data:%s,iv:%s,tag:%s,type:%s]", e(out[:n]), e(iv), e(out[n:]), kind)
}

// value encrypts a value that stands at path, whose keys are joined by slashes.
func (s *sealer) value(plain, kind, path string) string {
	s.digest.WriteString(plain)
	return s.seal(plain, kind, strings.ReplaceAll(path, "/", ":")+":")
}

// open counts a value that isn't encrypted.
func (s *sealer) open(written, counted string) string {
	s.digest.WriteString(counted)
	return written
}

func (s *sealer) mac() string {
	return s.seal(fmt.Sprintf("%X", sha512.Sum512(s.digest.Bytes())), "str", s.modTime)
}

func indented(s string) string {
	return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n        ")
}

func (s *sealer) yaml(body, more string) string {
	return body + "sops:\n    age:\n    - recipient: age1other\n      enc: |\n        " + indented(s.enc) +
		"\n    lastmodified: \"" + s.modTime + "\"\n    mac: " + s.mac() + "\n    unencrypted_suffix: _unencrypted\n    version: 3.13.0\n" + more
}

func TestSOPS(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	box, err := secret.NewBox(nil, id.String())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	s := newSealer(t, id.Recipient())
	body := "# a comment\ndb:\n    password: " + s.value("hunter2hunter2", "str", "db/password") +
		"\n    port: " + s.value("5432", "int", "db/port") + "\n    tls.key: " + s.value("key\nof two lines\n", "str", "db/tls.key") +
		"\n    tls: " + s.value("True", "bool", "db/tls") + "\n    ratio: " + s.value("0.5", "float", "db/ratio") +
		"\n    empty: \"\"\n    none: null\nusers:\n    - name: " + s.value("first", "str", "users/name") + "\n    - name: " + s.value("second user", "str", "users/name") +
		"\nhost_unencrypted: " + s.open("db.example.org", "db.example.org") + "\nn_unencrypted: " + s.open("3", "3") + "\nf_unencrypted: " + s.open("1e3", "1000") +
		"\nb_unencrypted: " + s.open("true", "True") + "\nt_unencrypted: " + s.open("2026-11-30T20:32:47Z", "2026-11-30T20:32:47Z") + "\n"
	write("s.yaml", s.yaml(body, ""))
	write("changed.yaml", strings.Replace(s.yaml(body, ""), "db.example.org", "evil.example.org", 1))
	write("dropped.yaml", strings.Replace(s.yaml(body, ""), "    ratio: ", "    # ratio: ", 1))
	write("swapped.yaml", strings.Replace(s.yaml(body, ""), "    port: ", "    porq: ", 1))
	write("badmac.yaml", strings.Replace(s.yaml(body, ""), "    lastmodified: \"2026", "    lastmodified: \"2025", 1))
	write("nomac.yaml", strings.Replace(s.yaml(body, ""), "    mac: ", "    mac_: ", 1))
	write("noage.yaml", strings.Replace(s.yaml(body, ""), "    age:", "    pgp:", 1))
	write("groups.yaml", s.yaml(body, "    key_groups: [{}, {}]\n"))
	write("plain.yaml", "a: b\n")
	write("list.yaml", "- a\n")
	write("broken.yaml", "a: [b\n")
	write("s.ini", "[a]\nb=c\n")

	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	foreign := newSealer(t, other.Recipient())
	write("foreign.yaml", foreign.yaml("a: "+foreign.value("hunter2hunter2", "str", "a")+"\n", ""))

	only := newSealer(t, id.Recipient())
	prefix, _ := hex.DecodeString("8a3fd2ad54ce66527b1034f3d147be0b0b975b3bf44f72c6fdadec8176f27d69")
	only.digest.Write(prefix)
	write("only.yaml", only.yaml("kind: Secret\na: "+only.value("hunter2hunter2", "str", "a")+"\nn: "+only.value("5432", "int", "n")+"\nb: "+only.value("True", "bool", "b")+"\n", "    mac_only_encrypted: true\n"))

	j := newSealer(t, id.Recipient())
	var doc bytes.Buffer
	fmt.Fprintf(&doc, "{\n\t\"a\": {\"b\": %q, \"c\": [%q, 1]},\n", j.value("json-value-1", "str", "a/b"), j.value("json-value-2", "str", "a/c"))
	j.open("1", "1")
	meta, _ := json.Marshal(map[string]any{"age": []any{map[string]any{"recipient": "age1", "enc": j.enc}}, "lastmodified": j.modTime, "mac": j.mac()})
	fmt.Fprintf(&doc, "\t\"sops\": %s\n}\n", meta)
	write("s.json", doc.String())

	b := newSealer(t, id.Recipient())
	value := b.value("any\x01bytes\n", "str", "data")
	meta, _ = json.Marshal(map[string]any{"age": []any{map[string]any{"recipient": "age1", "enc": b.enc}}, "lastmodified": b.modTime, "mac": b.mac()})
	write("key.bin", fmt.Sprintf("{\n\t\"data\": %q,\n\t\"sops\": %s\n}\n", value, meta))

	e := newSealer(t, id.Recipient())
	lines := "#" + e.seal("a comment", "comment", "") + "\nTOKEN=" + e.value("env-value-1", "str", "TOKEN") + "\nOTHER=" + e.value("two\nlines", "str", "OTHER") + "\n"
	write("s.env", lines+"sops_age__list_0__map_enc="+strings.ReplaceAll(e.enc, "\n", `\n`)+"\nsops_age__list_0__map_recipient=age1\nsops_lastmodified="+e.modTime+
		"\nsops_mac="+e.mac()+"\nsops_version=3.13.0\n")

	r := secret.SOPSFile(dir, box)
	for arg, want := range map[string]string{
		"s.yaml#db.password": "hunter2hunter2", "s.yaml#db.port": "5432", "s.yaml#db.tls.key": "key\nof two lines\n", "s.yaml#db.tls": "true", "s.yaml#db.ratio": "0.5",
		"s.yaml#users.1.name": "second user", "only.yaml#a": "hunter2hunter2", "s.json#a.b": "json-value-1", "s.json#a.c.0": "json-value-2", "key.bin": "any\x01bytes\n",
		"s.env#TOKEN": "env-value-1", "s.env#OTHER": "two\nlines", "only.yaml": "kind: Secret\na: hunter2hunter2\nn: 5432\nb: true\n",
	} {
		if got, err := r.Read(t.Context(), arg); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", arg, got, err, want)
		}
	}
	for arg, want := range map[string]struct {
		kind fault.Kind
		text string
	}{
		"s.yaml#db.nope":          {fault.NotFound, "it has no value db.nope"},
		"s.yaml#db":               {fault.Invalid, "db is no text"},
		"s.yaml#users.2.name":     {fault.NotFound, "no value"},
		"s.yaml#host_unencrypted": {fault.Invalid, "isn't encrypted, so it is no secret"},
		"changed.yaml#db.port":    {fault.Untrusted, "changed without SOPS"},
		"dropped.yaml#db.port":    {fault.Untrusted, "changed without SOPS"},
		"swapped.yaml#db.porq":    {fault.Invalid, "the value db.porq was changed"},
		"badmac.yaml#db.port":     {fault.Untrusted, "its MAC was changed"},
		"nomac.yaml#db.port":      {fault.Invalid, "isn't encrypted with SOPS"},
		"noage.yaml#db.port":      {fault.Invalid, "no age recipient"},
		"groups.yaml#db.port":     {fault.Invalid, "key groups"},
		"plain.yaml#a":            {fault.Invalid, "isn't encrypted with SOPS"},
		"list.yaml#a":             {fault.Invalid, "isn't encrypted with SOPS"},
		"broken.yaml#a":           {fault.Invalid, "broken.yaml"},
		"foreign.yaml#a":          {fault.Denied, "none of the site's identities"},
		"none.yaml#a":             {fault.NotFound, "there is no file"},
		"s.json":                  {fault.Invalid, "which value of the file? It has a"},
		"s.ini#a":                 {fault.Invalid, "INI files"},
	} {
		got, err := r.Read(t.Context(), arg)
		if fault.KindOf(err) != want.kind || !strings.Contains(fmt.Sprint(err), want.text) || got != nil {
			t.Errorf("%s: %q, %v (%s), want %s %q", arg, got, err, fault.KindOf(err), want.kind, want.text)
		}
		if strings.Contains(fmt.Sprint(err, fault.HintOf(err)), "hunter2") {
			t.Errorf("%s: the error shows a secret: %v", arg, err)
		}
	}
	if _, err := secret.SOPSFile(dir, nil).Read(t.Context(), "s.yaml#db.port"); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "no identity") {
		t.Errorf("without an identity: %v", err)
	}
}

// FuzzSOPS reads files that anybody could have written.
func FuzzSOPS(f *testing.F) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		f.Fatal(err)
	}
	box, err := secret.NewBox(nil, id.String())
	if err != nil {
		f.Fatal(err)
	}
	f.Add("a: b\nsops: {mac: x, age: [{enc: y}]}\n", "f.yaml", "a")
	f.Add(`{"a": "ENC[AES256_GCM,data:,iv:AA==,tag:AA==,type:str]", "sops": {"mac": "x"}}`, "f.json", "a.0")
	f.Add("A=b\nsops_mac=ENC[AES256_GCM,data:AA==,iv:AA==,tag:AA==,type:str]\n", "f.env", "A")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text, name, key string) {
		if name != filepath.Base(name) || strings.ContainsAny(name, "#\x00") || name == "." || name == ".." {
			return
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return
		}
		if got, err := secret.SOPSFile(dir, box).Read(t.Context(), name+"#"+key); err == nil {
			t.Errorf("%q was read from %q", got, text)
		}
	})
}

func TestKubernetesSource(t *testing.T) {
	src, err := secret.ParseSource("x", map[string]any{"kubernetes": map[string]any{"kubeconfig": "seed", "context": "a b", "namespace": "argocd", "name": "argocd-secret", "key": "admin.password"}})
	if err != nil || src.Kind != "kubernetes" || src.Local() {
		t.Fatalf("%+v, %v", src, err)
	}
	again, ok := secret.ParseRef(src.String())
	if !ok || again != src {
		t.Errorf("as a reference: %+v", again)
	}
	a, err := secret.ParseKubernetesArg(again.Arg)
	if want := (secret.KubernetesArg{Kubeconfig: "seed", Context: "a b", Namespace: "argocd", Name: "argocd-secret", Key: "admin.password"}); err != nil || a != want {
		t.Errorf("%+v, %v", a, err)
	}
	for _, bad := range []any{"text", nil, map[string]any{}, map[string]any{"namespace": "a", "name": "b", "key": "c"},
		map[string]any{"kubeconfig": "x", "kubeconfig_file": "y", "namespace": "a", "name": "b", "key": "c"},
		map[string]any{"kubeconfig": "x", "namespace": "a/b", "name": "b", "key": "c"}, map[string]any{"kubeconfig": "x", "namespace": "a", "name": "b", "key": 3},
		map[string]any{"kubeconfig": "x", "namespace": "a", "name": "b", "key": "c", "nope": "d"}} {
		if src, err := secret.ParseSource("x", map[string]any{"kubernetes": bad}); fault.KindOf(err) != fault.Invalid || fault.HintOf(err) == "" {
			t.Errorf("%v: %+v, %v", bad, src, err)
		}
	}
	for _, bad := range []any{map[string]any{"sops": "a", "key": ""}, map[string]any{"sops": "a#b", "key": "c"}, map[string]any{"sops": "a", "other": "c"}, "hunter2hunter2"} {
		if _, err := secret.ParseSource("x", bad); fault.KindOf(err) != fault.Invalid || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if src, err := secret.ParseSource("x", map[string]any{"sops": "a.yaml", "key": "b.c"}); err != nil || src.String() != "sops:a.yaml#b.c" || !src.Local() {
		t.Errorf("%+v, %v", src, err)
	}
}
