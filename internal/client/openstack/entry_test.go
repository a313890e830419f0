package openstack_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// TestEntryNamesLines has several things wrong, in both files.
func TestEntryNamesLines(t *testing.T) {
	path := write(t, `
base: &base
  region_name: [a]
  auth: {auth_url: "ftp://k", username: u}
clouds:
  fine: {auth: {auth_url: "http://k", token: x}}
  bad:
    <<: *base
    interface: inner
    verify: false
    auth:
      auth_url: k:5000
      user_domain: D
      username: u
  half:
    <<: *base
    auth: {password: p}
`, `
clouds:
  bad:
    auth:
      password: [a]
      passwort: hunter22
`)
	file, err := openstack.ReadClouds(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	secure := strings.Replace(path, "clouds.yaml", "secure.yaml", 1)
	_, err = file.Entry("bad", openstack.Given{})
	want := []string{
		secure + `:6: cloud "bad": auth.passwort is unknown`,
		path + `:13: cloud "bad": auth.user_domain is unknown`,
		path + `:12: cloud "bad": auth.auth_url is no http or https address: "k:5000"`,
		secure + `:5: cloud "bad": auth.password is no text`,
		path + `:11: cloud "bad": auth.user_domain_name (or auth.user_domain_id) is missing; auth.project_name (or auth.project_id) is missing`,
		path + `:3: cloud "bad": region_name is no text`,
		path + `:9: cloud "bad": interface is "inner"; public, internal and admin are known`,
		path + `:10: cloud "bad": verify switches the check of certificates off`,
	}
	for _, w := range want {
		if !strings.Contains(fmt.Sprint(err), w) {
			t.Errorf("the error lacks %s:\n%v", w, err)
		}
	}
	if strings.Contains(fmt.Sprint(err), "hunter22") {
		t.Errorf("the error shows a password: %v", err)
	}
	// An auth of its own isn't mixed with the one that was merged in.
	if _, err = file.Entry("half", openstack.Given{}); !strings.Contains(fmt.Sprint(err), "auth.auth_url is missing") {
		t.Errorf("got %v", err)
	}
}

func TestOtherWaysToLogInAreRefused(t *testing.T) {
	const auth = `auth_url: "http://k", username: u, password: p, project_name: p, default_domain: D`
	for name, text := range map[string]string{
		"TOTP":    `auth_type: v3totp, auth: {` + auth + `, passcode: "123"}`,
		"OIDC":    `auth_type: v3oidcpassword, auth: {` + auth + `, identity_provider: i, protocol: openid}`,
		"a trust": `auth: {` + auth + `, trust_id: t}`,
	} {
		_, err := entry(t, `clouds: {lab: {`+text+`}}`, "", "lab")
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.HintOf(err), "trusts, TOTP, OpenID Connect, SAML and Kerberos aren't supported") {
			t.Errorf("%s: got %v, hint %q", name, err, fault.HintOf(err))
		}
	}
}

// TestScopes reads what logins ask for.
func TestScopes(t *testing.T) {
	var body map[string]any
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(raw, &body)
		w.Header().Set("X-Subject-Token", "token-1")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"token": {"catalog": []}}`)
	}))
	defer server.Close()
	const user = `username: u, password: p, user_domain_id: d`
	for name, c := range map[string]struct {
		auth  string
		given map[string]string
		want  string
	}{
		"project":          {user + `, project_name: p, project_domain_name: D`, nil, `{"project":{"domain":{"name":"D"},"name":"p"}}`},
		"project by id":    {user + `, project_id: "1"`, nil, `{"project":{"id":"1"}}`},
		"tenant":           {user + `, tenant_name: p, default_domain: D`, nil, `{"project":{"domain":{"name":"D"},"name":"p"}}`},
		"domain":           {user + `, domain_name: D`, nil, `{"domain":{"name":"D"}}`},
		"domain by id":     {user + `, domain_id: d`, nil, `{"domain":{"id":"d"}}`},
		"system":           {user + `, system_scope: all`, nil, `{"system":{"all":true}}`},
		"credential":       {`application_credential_id: a, application_credential_secret: s`, nil, `null`},
		"another project":  {user + `, project_name: p, project_domain_name: D`, map[string]string{"auth.project_name": "q"}, `{"project":{"domain":{"name":"D"},"name":"q"}}`},
		"another by id":    {user + `, project_name: p, project_domain_name: D`, map[string]string{"auth.project_id": "2"}, `{"project":{"id":"2"}}`},
		"another domain's": {user + `, project_id: "1"`, map[string]string{"auth.project_name": "q", "auth.project_domain_name": "E"}, `{"project":{"domain":{"name":"E"},"name":"q"}}`},
		"to a domain":      {user + `, project_id: "1"`, map[string]string{"auth.domain_id": "d"}, `{"domain":{"id":"d"}}`},
		"to the system":    {user + `, project_id: "1"`, map[string]string{"auth.system_scope": "all"}, `{"system":{"all":true}}`},
		"to a credential":  {user + `, project_id: "1"`, map[string]string{"auth.application_credential_id": "a", "auth.application_credential_secret": "s"}, `null`},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := openstack.ReadClouds(write(t, `clouds: {lab: {auth: {auth_url: "`+server.URL+`/v3", `+c.auth+`}}}`, ""), nil)
			if err != nil {
				t.Fatal(err)
			}
			e, err := file.Entry("lab", openstack.Given{Values: c.given, By: "test"})
			if err != nil {
				t.Fatal(err)
			}
			client, err := openstack.Connect(context.Background(), e)
			if err != nil {
				t.Fatal(err)
			}
			client.Close()
			got, _ := json.Marshal(body["auth"].(map[string]any)["scope"])
			if string(got) != c.want {
				t.Errorf("the scope is %s, want %s", got, c.want)
			}
		})
	}
	// What the entry's own login can't do isn't tried.
	file, err := openstack.ReadClouds(write(t, `clouds: {lab: {auth: {auth_url: "`+server.URL+`", application_credential_id: a, application_credential_secret: s}}}`, ""), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.Entry("lab", openstack.Given{Values: map[string]string{"auth.project_name": "q"}, Names: map[string]string{"auth.project_name": "project"}, By: "openstack.connect"})
	if want := `openstack.connect: cloud "lab": project doesn't go with an application credential, which has its own project`; !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestClientCertificates has a service that asks for one, as files and as texts.
func TestClientCertificates(t *testing.T) {
	cert, key := selfSigned(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	mux := http.NewServeMux()
	server := httptest.NewUnstartedServer(mux)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	keystone(mux, func() string { return server.URL })
	server.StartTLS()
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	base := map[string]string{"auth.auth_url": server.URL + "/v3", "auth.token": "t0ken-t0ken", "auth.project_id": "p1", "cacert": string(ca)}
	login := func(more map[string]string) error {
		for k, v := range base {
			more[k] = v
		}
		e, err := openstack.GivenEntry("x", openstack.Given{Values: more, By: "test"})
		if err != nil {
			return err
		}
		c, err := openstack.Connect(context.Background(), e)
		if err == nil {
			c.Close()
		}
		return err
	}
	if err := login(map[string]string{"cert": string(cert), "key": string(key)}); err != nil {
		t.Errorf("with the texts: %v", err)
	}
	certFile, keyFile := writeFile(t, cert), writeFile(t, key)
	if err := login(map[string]string{"cert": certFile, "key": keyFile}); err != nil {
		t.Errorf("with files: %v", err)
	}
	if err := login(map[string]string{}); err == nil {
		t.Error("the service took a client without a certificate")
	}
	err := login(map[string]string{"cert": string(cert), "key": string(cert)})
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), `test: cloud "x": cert: with key: `) {
		t.Errorf("got %v", err)
	}
	e, err := openstack.GivenEntry("x", openstack.Given{Values: map[string]string{"auth.auth_url": "http://k", "auth.token": "t0ken-t0ken", "cert": certFile, "key": keyFile}, By: "test"})
	if err != nil || !bytes.Contains([]byte(strings.Join(e.Secrets(), "")), key) {
		t.Errorf("the key is no secret: %v", err)
	}
}

func writeFile(t *testing.T, content []byte) string {
	t.Helper()
	return write(t, string(content), "")
}

// selfSigned returns a certificate and its key, in PEM form.
func selfSigned(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "client"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
