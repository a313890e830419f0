package effect

import (
	"context"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// commonWords are texts that outputs are full of, or that stand where a secret
// was never filled in. Those that are shorter than MinSecret are refused anyway.
var commonWords = func() map[string]bool {
	m := make(map[string]bool)
	for _, w := range strings.Fields(`
		password password1 password123 passw0rd p@ssw0rd p@ssword changeme changeme1 changeme123 changeit change-me change_me change-it
		replaceme replace-me replace_me your-password your_password mypassword my-password yourpassword insecure notasecret not-a-secret
		undefined something placeholder example1 test1234 testtest testpassword secret123 supersecret mysecret topsecret
		qwerty123 qwertyuiop 12345678 123456789 1234567890 87654321 abcdefgh abcd1234 letmein1 iloveyou
		administrator anonymous root-user superuser kubernetes kubernetes-admin kube-system kube-public kube-node-lease cluster-admin
		openstack keystone kubeconfig configmap namespace container controller deployment daemonset statefulset replicaset
		localhost 127.0.0.1 production development staging1 internal external gateway1 management certificate application
		bootstrap metadata instance resource username hostname default-user`) {
		m[w] = true
	}
	return m
}()

// isCommon reports whether text stands in outputs without being a secret: it
// is a word of commonWords, or one character over and over, as in a line.
func isCommon(text string) bool {
	text = strings.ToLower(strings.TrimSpace(text))
	if text == "" || commonWords[text] {
		return true
	}
	drawn := strings.ContainsRune("-=*#._+~ ", rune(text[0])) || len(text) < 2*MinSecret
	return drawn && strings.Trim(text, text[:1]) == ""
}

// Maskable returns an error of kind Invalid that says why plain can't be kept
// out of the outputs of the run that ctx belongs to, or nil. The error doesn't
// hold plain.
func Maskable(ctx context.Context, plain string) error {
	if len(plain) < MinSecret {
		return fault.Hinted(fault.Invalid, "use a longer value, or pass it as plain text if it isn't secret",
			"it has %d bytes; at least %d are needed to keep it out of logs", len(plain), MinSecret)
	}
	public := isCommon(plain)
	if s := From(ctx); s != nil && !public {
		public = strings.EqualFold(plain, s.Owner.Site) || s.Door != nil && s.Door.Redactor.Public(strings.TrimSpace(plain))
	}
	if public {
		return fault.Hinted(fault.Invalid, "use another value; a random one is best",
			"it is a word that logs are full of, so it can't be kept out of them")
	}
	return nil
}
