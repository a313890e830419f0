package apiserver

import (
	"crypto/tls"
	"encoding/base64"
	"path/filepath"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// CA returns the certificate of the cluster's authority, as PEM.
func (c *Cluster) CA() []byte { return c.authority.pem }

// REST returns a client configuration for user in groups, over loopback.
func (c *Cluster) REST(user string, groups ...string) (*rest.Config, error) {
	cert, key, err := c.authority.issue(time.Now(), user, groups, nil)
	if err != nil {
		return nil, fault.Wrap("making a certificate for", user, err)
	}
	return &rest.Config{
		Host:            "https://" + c.Address,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.authority.pem, CertData: cert, KeyData: key},
		// The lab's clients are few, and are meant to be fast.
		QPS: -1,
	}, nil
}

// Control returns the client configuration of the lab's own controllers.
func (c *Cluster) Control() (*rest.Config, error) { return c.REST(ControlUser, "system:masters") }

// Kubeconfig returns a kubeconfig with a client certificate of user in groups. server is the URL
// that the reader will use, such as https://10.20.0.10:6443; its host must be among Config.Names.
func (c *Cluster) Kubeconfig(server, user string, groups ...string) ([]byte, error) {
	cert, key, err := c.authority.issue(time.Now(), user, groups, nil)
	if err != nil {
		return nil, fault.Wrap("making a certificate for", user, err)
	}
	encode := base64.StdEncoding.EncodeToString
	context := user + "@kubernetes"
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1",
		"kind":       "Config",
		"clusters": []any{map[string]any{"name": "kubernetes", "cluster": map[string]any{
			"server": server, "certificate-authority-data": encode(c.authority.pem)}}},
		"users": []any{map[string]any{"name": user, "user": map[string]any{
			"client-certificate-data": encode(cert), "client-key-data": encode(key)}}},
		"contexts": []any{map[string]any{"name": context, "context": map[string]any{
			"cluster": "kubernetes", "user": user}}},
		"current-context": context,
	})
	if err != nil {
		return nil, fault.Wrap("writing", "a kubeconfig", err)
	}
	return text, nil
}

// Serving returns the certificate that the API server shows, with its key, for
// what stands in front of it.
func (c *Cluster) Serving() (tls.Certificate, error) {
	pki := filepath.Join(c.dir, "pki")
	return tls.LoadX509KeyPair(filepath.Join(pki, "apiserver.crt"), filepath.Join(pki, "apiserver.key"))
}
