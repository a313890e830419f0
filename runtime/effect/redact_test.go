package effect

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"html"
	"math/big"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

func redactor(secrets ...string) *Redactor {
	r := new(Redactor)
	for _, s := range secrets {
		r.Add(s)
	}
	return r
}

func asJSON(s string) string {
	b, _ := json.Marshal(s) // a string always marshals
	return string(b)
}

// encodings are the ways in which a secret gets into an output.
var encodings = map[string]func(string) string{
	"raw":           func(s string) string { return s },
	"json":          asJSON,
	"json in json":  func(s string) string { return asJSON(asJSON(s)) },
	"go":            strconv.Quote,
	"go of json":    func(s string) string { return strconv.Quote(asJSON(s)) },
	"query":         url.QueryEscape,
	"path":          url.PathEscape,
	"lower percent": func(s string) string { return lowerHex(url.PathEscape(s)) },
	"url":           func(s string) string { return url.UserPassword("user", s).String() + "@host" },
	"html":          html.EscapeString,
	"yaml":          func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" },
	"shell":         func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" },
	"base64":        func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64url":     func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
	"python":        func(s string) string { _, bare := jsonEscaped(s); return `"` + asciiOnly(bare, `\u%04x`) + `"` },
	"php":           func(s string) string { return strings.ReplaceAll(asciiOnly(asJSON(s), `\u%04x`), "/", `\/`) },
	"html names": func(s string) string {
		return strings.NewReplacer("&#34;", "&quot;", "&#39;", "&apos;").Replace(html.EscapeString(s))
	},
	"html python": func(s string) string {
		return strings.NewReplacer("&#34;", "&quot;", "&#39;", "&#x27;").Replace(html.EscapeString(s))
	},
	"space only":  func(s string) string { return strings.ReplaceAll(s, " ", "%20") },
	"backslashes": func(s string) string { return backslashed(s, shellSpecial[0]) },
	"od":          func(s string) string { return " " + fmt.Sprintf("% x", s) },
	"colons":      func(s string) string { return strings.ReplaceAll(fmt.Sprintf("% X", s), " ", ":") },
	"hex":         func(s string) string { return hex.EncodeToString([]byte(s)) },
	"basic auth":  func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+s)) },
	"kubernetes secret": func(s string) string {
		return `{"data": {".dockerconfigjson": "` + base64.StdEncoding.EncodeToString([]byte(`{"auth": "`+base64.StdEncoding.EncodeToString([]byte("user:"+s))+`"}`)) + `"}}`
	},
	"base64 of json": func(s string) string {
		return base64.StdEncoding.EncodeToString([]byte(`{"password": ` + asJSON(s) + `}`))
	},
}

// left returns the longest piece of the secret that out holds in some form.
func left(out, secret string) string {
	for n := len(secret); n >= 6; n-- {
		for i := 0; i+n <= len(secret); i++ {
			part := secret[i : i+n]
			all := append([]string{part, hex.EncodeToString([]byte(part)), url.QueryEscape(part)}, within(base64.StdEncoding, part)...)
			for _, f := range all {
				if len(f) >= 6 && strings.Contains(out, f) {
					return part
				}
			}
		}
	}
	return ""
}

func TestForms(t *testing.T) {
	for _, secret := range []string{
		"hunter2hunter2", "8 bytes!", `qu"ote\back'tick` + "`", "a+b/c=d&e<f>g%h@i:j", "pâsswörd-ünïcode", "tab\tand\x01control",
	} {
		r := redactor(secret)
		for name, encode := range encodings {
			for _, before := range []string{"", "x", "xy", "the key is "} {
				in := before + encode(secret) + " and more"
				out := r.String(in)
				if !strings.Contains(out, Mask) {
					t.Errorf("%s of %q stays: %q", name, secret, out)
				} else if p := left(out, secret); p != "" {
					t.Errorf("%s of %q: %q is left in %q", name, secret, p, out)
				}
				if !strings.HasSuffix(out, " and more") || !strings.HasPrefix(out, before) {
					t.Errorf("%s of %q took its neighbours with it: %q", name, secret, out)
				}
			}
		}
	}
}

// TestAlignments puts a secret at every place in texts that are encoded as a
// whole.
func TestAlignments(t *testing.T) {
	secret := "S3cr3t&Value"
	r := redactor(secret)
	for before := range 7 {
		for after := range 7 {
			text := strings.Repeat("a", before) + secret + strings.Repeat("z", after)
			for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
				once := e.EncodeToString([]byte(text))
				for _, in := range []string{once, e.EncodeToString([]byte("x" + once))} {
					if out := r.String(in); left(out, secret) != "" || !strings.Contains(out, Mask) {
						t.Errorf("%d before, %d after: %q became %q", before, after, in, out)
					}
				}
			}
		}
	}
}

func TestOverlaps(t *testing.T) {
	for _, tt := range []struct {
		secrets  []string
		in, want string
	}{
		{[]string{"abcdefgh", "abcdefghijkl"}, "x abcdefghijkl y abcdefgh z", "x *** y *** z"},
		{[]string{"abcdefgh", "efghijkl"}, "x abcdefghijkl y", "x *** y"},         // one begins within another
		{[]string{"bcdefghi", "abcdefghijkl"}, "x abcdefghijkX y", "x a***jkX y"}, // the longer one only seems to be there
		{[]string{"aaaabaaaab"}, "aaaabaaaabaaaab", "***"},                        // with itself
		{[]string{"abcdefgh"}, "abcdefghabcdefgh", "***"},                         //
		{[]string{"abcdefgh"}, "abcdefgabcdefg", "abcdefgabcdefg"},                //
		{[]string{"short"}, "short", "short"},                                     // too short to be removed
		{[]string{" spaced out secret\n"}, "a spaced out secret b", "a *** b"},    //
		{nil, "nothing to remove", "nothing to remove"},                           //
		{[]string{"abcdefgh"}, "", ""},                                            //
		{[]string{"abcdefgh"}, `{"a":"abcdefgh","b":1}`, `{"a":"***","b":1}`},     // stays JSON
		{[]string{"abcdefgh", "*** star"}, "abcdefgh star", "*** star"},           // a mask is no part of a secret
	} {
		if got := redactor(tt.secrets...).String(tt.in); got != tt.want {
			t.Errorf("%q in %q: %q, want %q", tt.secrets, tt.in, got, tt.want)
		}
	}
	if got := (*Redactor)(nil).String("x"); got != "x" {
		t.Errorf("no redactor: %q", got)
	}
}

// TestAgainstSearch compares with masking what strings.Index finds.
func TestAgainstSearch(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	word := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "ab"[rnd.IntN(2)] // few letters: much overlap
		}
		return string(b)
	}
	for range 300 {
		var secrets []string
		for range 1 + rnd.IntN(6) {
			secrets = append(secrets, word(MinSecret+rnd.IntN(8)))
		}
		text := word(400)
		r := redactor(secrets...)
		masked := make([]bool, len(text))
		for f := range r.known {
			for i := range text {
				if strings.HasPrefix(text[i:], f.text) {
					for k := range f.text {
						masked[i+k] = true
					}
				}
			}
		}
		var want strings.Builder
		for i := range text {
			if !masked[i] {
				want.WriteByte(text[i])
			} else if i == 0 || !masked[i-1] {
				want.WriteString(Mask)
			}
		}
		if got := r.String(text); got != want.String() {
			t.Fatalf("%q in %q:\n%q, want\n%q", secrets, text, got, want.String())
		}
	}
}

const (
	pemKey = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgevZzL1gdAFr88hb2\n" +
		"OF+2NxApJCzGCEDdfSp6VQO30hyhRANCAAQRWz+jn65BtOMvdyHKcvjBeBSDZH2r\n1RTwjmYSi9R=\n-----END PRIVATE KEY-----\n"
	kubeconfig = `apiVersion: v1
kind: Config
clusters:
- name: kubernetes
  cluster:
    certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tTUlJRHREQ0NBcHlnQXdJQkFnSUNCUkF3
    server: https://10.20.0.10:6443
users:
- name: kubernetes-admin
  user:
    client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpNSUlFcEFJQkFBS0NBUUVBdTFTVTFMZlZMUEhDb3pNeEgyTW80bGdPRWVQek5tMHRSZ2VMZXpWNmZmQXQwZ3VuV
    token: eyJhbGciOiJS.short
    password: "pa55word, and more"
`
)

// TestLines checks secrets of several lines: an output shows them line by line,
// indented, folded, wrapped or cut off.
func TestLines(t *testing.T) {
	r := redactor(pemKey, kubeconfig)
	for _, in := range []string{
		"    OF+2NxApJCzGCEDdfSp6VQO30hyhRANCAAQRWz+jn65BtOMvdyHKcvjBeBSDZH2r\n", "  1RTwjmYSi9R=", // each line by itself
		"OF+2NxApJCzGCEDdfSp6VQO30hyhRANCAA", "DdfSp6VQO30hyhRANCAAQRWz+jn65B", // a piece
		"token=eyJhbGciOiJS.short", `{"password":"pa55word, and more"}`,
		base64.StdEncoding.EncodeToString([]byte(pemKey))[:60] + "...", // cut off
		base64.StdEncoding.EncodeToString([]byte("a: 1\n" + kubeconfig))[100:200],
		asJSON(kubeconfig), asJSON(asJSON(pemKey)),
	} {
		out := r.String(in)
		for _, line := range append(strings.Split(pemKey, "\n")[1:4], "eyJhbGciOiJS.short", "pa55word, and more", "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpNSUlFcEFJQkFBS0NBUUVBdTFTVTFMZlZMUEhDb3pNeEgyTW80bGdPRWVQek5tMHRSZ2VMZXpWNmZmQXQwZ3VuV") {
			if p := left(out, line); len(p) >= MinSecret {
				t.Errorf("%q is left in %q", p, out)
			}
		}
		if out == in {
			t.Errorf("%q stays", in)
		}
	}
	// A long base64 text is wrapped to lines of 76.
	var wrapped strings.Builder
	encoded := base64.StdEncoding.EncodeToString([]byte(kubeconfig))
	for i := 0; i < len(encoded); i += 76 {
		wrapped.WriteString(encoded[i:min(i+76, len(encoded))] + "\n")
	}
	if out := r.String(wrapped.String()); len(out) > 120 {
		t.Errorf("of wrapped base64 %d bytes are left: %q", len(out), out)
	}
	for _, public := range []string{
		"    server: https://10.20.0.10:6443", "- name: kubernetes-admin", "kind: Config", "apiVersion: v1\nkind: ConfigMap\n", "-----BEGIN PRIVATE KEY-----",
		"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tTUlJRHREQ0NBcHlnQXdJQkFnSUNCUkF3",
	} {
		if out := r.String(public); out != public {
			t.Errorf("%q became %q", public, out)
		}
	}
	account := redactor(`{"type": "service_account", "private_key_id": "abcdef0123456789", "auth": {"client_secret": "GOCSPX-hunter2"}, "token_uri": "https://oauth2.example.org/token"}`)
	if got := account.String("a GOCSPX-hunter2 of service_account abcdef0123456789"); got != "a *** of service_account abcdef0123456789" {
		t.Errorf("JSON on one line: %q", got)
	}
	certificate := "-----BEGIN CERTIFICATE-----\nMIIDtDCCApygAwIBAgICBRAwDQYJKoZIhvcNAQEL\n-----END CERTIFICATE-----\n"
	if out := redactor(certificate).String(certificate); out != certificate {
		t.Errorf("a certificate became %q", out)
	}
	if out := redactor(certificate + pemKey).String(certificate + pemKey); out != Mask {
		t.Errorf("a certificate with its key became %q", out)
	}
}

// TestManySecrets adds secrets while texts are cleaned.
func TestManySecrets(t *testing.T) {
	r := new(Redactor)
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 50 {
				s := fmt.Sprintf("secret-%d-%d-value", k, i)
				r.Add(s)
				if out := r.String("a " + s + " b"); out != "a *** b" {
					t.Errorf("%q", out)
				}
			}
		}()
	}
	wg.Wait()
}

// BenchmarkRedactor cleans a megabyte of log with few and many secrets known.
func BenchmarkRedactor(b *testing.B) {
	var log strings.Builder
	for i := 0; log.Len() < 1<<20; i++ {
		fmt.Fprintf(&log, "2026-11-30T20:32:47Z seed/kubernetes: created ssh/lab-seed/file/etc/kubernetes/%d.conf (0.1s)\n", i)
	}
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			r := new(Redactor)
			rnd := rand.New(rand.NewPCG(3, 4))
			for range n {
				r.Add(base64.RawStdEncoding.EncodeToString(fmt.Append(nil, rnd.Uint64(), rnd.Uint64())))
			}
			b.SetBytes(int64(log.Len()))
			for b.Loop() {
				r.String(log.String())
			}
		})
	}
	b.Run("add", func(b *testing.B) {
		r, i := new(Redactor), 0
		for b.Loop() {
			i++
			r.Add(fmt.Sprintf("a secret of usual length %d", i))
		}
	})
}

// A private key holds its public one, which outputs show: in a line of
// authorized_keys, in a certificate.
func TestPublicKeysShow(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(cryptorand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := rsa.GenerateKey(cryptorand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]crypto.Signer{"ed25519": ed, "ecdsa": ec, "rsa": rs} {
		openssh, err := ssh.MarshalPrivateKey(key, "somebody")
		if err != nil {
			t.Fatal(err)
		}
		locked, err := ssh.MarshalPrivateKeyWithPassphrase(key, "somebody", []byte("a passphrase"))
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		public, err := ssh.NewPublicKey(key.Public())
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
		cert, err := x509.CreateCertificate(cryptorand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		shown := "key " + string(ssh.MarshalAuthorizedKey(public)) + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
		for form, block := range map[string]*pem.Block{"openssh": openssh, "locked": locked, "pkcs8": {Type: "PRIVATE KEY", Bytes: der}} {
			private := string(pem.EncodeToMemory(block))
			r := new(Redactor)
			r.Add(private)
			if got := r.String(shown); got != shown {
				t.Errorf("%s in %s: the public key shows as\n%s", name, form, got)
			}
			if got := r.String("x " + private); got != "x "+Mask {
				t.Errorf("%s in %s: the private key shows as\n%s", name, form, got)
			}
			// Lines that hold what is private go on their own, too.
			masked := 0
			for line := range strings.Lines(private) {
				if r.String(line) != line {
					masked++
				}
			}
			if masked == 0 {
				t.Errorf("%s in %s: each line shows", name, form)
			}
		}
	}
}
