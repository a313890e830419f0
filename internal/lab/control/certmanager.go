package control

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	injectFrom       = "cert-manager.io/inject-ca-from"
	injectFromSecret = "cert-manager.io/inject-ca-from-secret"
	// webhookAuthority is the Secret that cert-manager's webhook keeps its own authority in.
	webhookAuthority = "cert-manager-webhook-ca"
)

// A certManager plays cert-manager's controller, its CA injector, and the part of its webhook
// that makes an authority for itself.
type certManager struct{ *engine }

func (m *certManager) register() {
	m.watch("cert-manager.io", "", "issuers", m.issuer)
	m.watch("cert-manager.io", "", "clusterissuers", m.issuer)
	m.watch("cert-manager.io", "", "certificates", m.certificate)
	m.watch(validating.Group, "v1", validating.Resource, m.inject(validating))
	m.watch(mutating.Group, "v1", mutating.Resource, m.inject(mutating))
	m.watch(definitions.Group, "v1", definitions.Resource, m.inject(definitions))
}

// started makes the webhook's authority once the webhook runs.
func (m *certManager) started(ctx context.Context, o *object) error {
	if o.GetName() != "cert-manager-webhook" || !available(o) {
		return nil
	}
	_, err := m.authority(ctx, o.GetNamespace())
	return err
}

// issuer makes an issuer ready: a self-signed one at once, one with a CA when its Secret is there.
func (m *certManager) issuer(ctx context.Context, o *object) (time.Duration, error) {
	resource := issuers
	if o.GetKind() == "ClusterIssuer" {
		resource = clusterIssuers
	}
	if !m.running("cert-manager") {
		return m.Pace.Retry, nil
	}
	if name := text(o.Object, "spec", "ca", "secretName"); name != "" {
		namespace := o.GetNamespace()
		if namespace == "" {
			namespace = "cert-manager"
		}
		if secret, _ := m.get(secrets, namespace, name); data(secret, "tls.crt") == nil {
			m.setCondition(o, "Ready", false, "ErrGetKeyPair", fmt.Sprintf("Error getting keypair for CA issuer: secrets %q not found", name))
			return m.Pace.Retry, m.saveStatus(ctx, resource, o)
		}
		m.setCondition(o, "Ready", true, "KeyPairVerified", "Signing CA verified")
	} else if table(o.Object, "spec", "selfSigned") != nil {
		m.setCondition(o, "Ready", true, "IsReady", "")
	} else {
		m.setCondition(o, "Ready", false, "Unsupported", "this lab signs by selfSigned and ca issuers")
	}
	return 0, m.saveStatus(ctx, resource, o)
}

// certificate signs a certificate into its Secret.
func (m *certManager) certificate(ctx context.Context, o *object) (time.Duration, error) {
	if !m.running("cert-manager") || o.GetDeletionTimestamp() != nil {
		return m.Pace.Retry, nil
	}
	name := text(o.Object, "spec", "secretName")
	if secret, _ := m.get(secrets, o.GetNamespace(), name); data(secret, "tls.crt") != nil {
		if isTrue(o, "Ready") && number(o.Object, "status", "observedGeneration") == o.GetGeneration() {
			return 0, nil
		}
		set(o.Object, o.GetGeneration(), "status", "observedGeneration")
		if number(o.Object, "status", "revision") == 0 {
			set(o.Object, int64(1), "status", "revision")
		}
		if cert, _, err := parsePair(pair{data(secret, "tls.crt"), data(secret, "tls.key")}); err == nil {
			set(o.Object, cert.NotAfter.UTC().Format(time.RFC3339), "status", "notAfter")
			set(o.Object, cert.NotBefore.UTC().Format(time.RFC3339), "status", "notBefore")
		}
		m.setCondition(o, "Ready", true, "Ready", "Certificate is up to date and has not expired")
		return 0, m.saveStatus(ctx, certificates, o)
	}
	if r := m.Faults.take(o, Stall, Fail); r != nil {
		reason, message := r.because("DoesNotExist", "Issuing certificate as Secret does not exist")
		m.setCondition(o, "Ready", false, reason, message)
		return m.Pace.Retry, m.saveStatus(ctx, certificates, o)
	}
	resource, namespace := issuers, o.GetNamespace()
	if text(o.Object, "spec", "issuerRef", "kind") == "ClusterIssuer" {
		resource, namespace = clusterIssuers, ""
	}
	issuer, _ := m.get(resource, namespace, text(o.Object, "spec", "issuerRef", "name"))
	if issuer == nil || !isTrue(issuer, "Ready") {
		m.setCondition(o, "Ready", false, "DoesNotExist", "Issuing certificate as Secret does not exist")
		if err := m.saveStatus(ctx, certificates, o); err != nil {
			return 0, err
		}
		return m.Pace.Retry, nil
	}
	if left := m.wait(o, "issue", m.Pace.Issue); left > 0 {
		return left, nil
	}
	return m.Pace.Retry, m.issue(ctx, o, issuer)
}

func (m *certManager) issue(ctx context.Context, o, issuer *object) error {
	s := subject{name: text(o.Object, "spec", "commonName")}
	s.hosts, _, _ = unstructured.NestedStringSlice(o.Object, "spec", "dnsNames")
	addresses, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "ipAddresses")
	s.hosts = append(s.hosts, addresses...)
	s.ca, _, _ = unstructured.NestedBool(o.Object, "spec", "isCA")
	if d, err := time.ParseDuration(text(o.Object, "spec", "duration")); err == nil {
		s.lifetime = d
	}
	var by *pair
	if name := text(issuer.Object, "spec", "ca", "secretName"); name != "" {
		namespace := issuer.GetNamespace()
		if namespace == "" {
			namespace = "cert-manager"
		}
		secret, _ := m.get(secrets, namespace, name)
		by = &pair{data(secret, "tls.crt"), data(secret, "tls.key")}
	}
	made, err := sign(m.Clock.Now(), s, by)
	if err != nil {
		return err
	}
	root := made.cert
	if by != nil {
		root = by.cert
	}
	secret := newSecret(o.GetNamespace(), text(o.Object, "spec", "secretName"), "kubernetes.io/tls",
		map[string][]byte{"tls.crt": made.cert, "tls.key": made.key, "ca.crt": root})
	secret.SetAnnotations(map[string]string{"cert-manager.io/certificate-name": o.GetName(), "cert-manager.io/issuer-name": issuer.GetName()})
	m.Log("certificate " + o.GetNamespace() + "/" + o.GetName() + " issued")
	_, err = m.apply(ctx, secrets, secret)
	return err
}

// inject returns what writes the CA's certificate into the objects of resource that ask for it.
func (m *certManager) inject(resource schema.GroupResource) func(context.Context, *object) (time.Duration, error) {
	return func(ctx context.Context, o *object) (time.Duration, error) {
		from, fromSecret := o.GetAnnotations()[injectFrom], o.GetAnnotations()[injectFromSecret]
		if from == "" && fromSecret == "" {
			return 0, nil
		}
		if !m.running("cert-manager-cainjector") {
			return m.Pace.Retry, nil
		}
		secret := fromSecret
		if from != "" {
			namespace, name, _ := strings.Cut(from, "/")
			certificate, _ := m.get(certificates, namespace, name)
			if certificate == nil {
				return m.Pace.Retry, nil
			}
			secret = namespace + "/" + text(certificate.Object, "spec", "secretName")
		}
		namespace, name, _ := strings.Cut(secret, "/")
		found, _ := m.get(secrets, namespace, name)
		root := data(found, "ca.crt")
		if root == nil {
			return m.Pace.Retry, nil
		}
		if !injectBundle(o, base64.StdEncoding.EncodeToString(root)) {
			return 0, nil
		}
		_, err := m.on(resource, "").Update(ctx, o, metav1.UpdateOptions{FieldManager: "cert-manager-cainjector"})
		return 0, err
	}
}

// injectBundle sets the caBundle of every webhook in o, and reports whether that changed it.
func injectBundle(o *object, bundle string) bool {
	changed := false
	put := func(client map[string]any) {
		if client != nil && client["caBundle"] != bundle {
			client["caBundle"] = bundle
			changed = true
		}
	}
	hooks, _ := o.Object["webhooks"].([]any)
	for _, hook := range hooks {
		if hook, ok := hook.(map[string]any); ok {
			client, _ := hook["clientConfig"].(map[string]any)
			put(client)
		}
	}
	if text(o.Object, "spec", "conversion", "strategy") == "Webhook" {
		client, found, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "conversion", "webhook", "clientConfig")
		if client, ok := client.(map[string]any); ok && found {
			put(client)
		}
	}
	return changed
}

// authority returns the pair that cert-manager's webhook signs for itself, and makes it if it
// isn't there.
func (m *certManager) authority(ctx context.Context, namespace string) (*pair, error) {
	if secret, _ := m.get(secrets, namespace, webhookAuthority); data(secret, "tls.key") != nil {
		return &pair{data(secret, "tls.crt"), data(secret, "tls.key")}, nil
	}
	made, err := sign(m.Clock.Now(), subject{name: "cert-manager-webhook-ca", ca: true, lifetime: 365 * 24 * time.Hour}, nil)
	if err != nil {
		return nil, err
	}
	client := m.on(secrets, namespace)
	_, err = client.Create(ctx, newSecret(namespace, webhookAuthority, "Opaque",
		map[string][]byte{"tls.crt": made.cert, "tls.key": made.key, "ca.crt": made.cert}), metav1.CreateOptions{FieldManager: manager})
	if !apierrors.IsAlreadyExists(err) {
		return &made, err
	}
	// Somebody else was first: the watch doesn't show it yet.
	secret, err := client.Get(ctx, webhookAuthority, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return &pair{data(secret, "tls.crt"), data(secret, "tls.key")}, nil
}
