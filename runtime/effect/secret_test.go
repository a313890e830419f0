package effect

import (
	"context"
	"strings"
	"testing"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// inStep returns the context of a step, and the redactor of its run.
func inStep() (context.Context, *Redactor) {
	d := &Door{Clock: SystemClock{}, Redactor: new(Redactor)}
	d.Redactor.Publish("gateway/server", "spoke-cluster")
	return With(context.Background(), NewScope(d, Owner{Site: "frankfurt", Recipe: "gateway"}, "gateway/server", nil)), d.Redactor
}

// TestUnfitSecrets declares what can't be a secret: the error says why, and
// doesn't hold it; outputs stay as they were.
func TestUnfitSecrets(t *testing.T) {
	for plain, why := range map[string]string{
		"hunter2": "it has 7 bytes; at least 8", "": "it has 0 bytes",
		"password": "a word that logs are full of", "ChangeMe": "a word that logs are full of", "kubernetes": "a word that logs are full of", "password\n": "a word that logs",
		"frankfurt": "a word that logs are full of", "spoke-cluster": "a word that logs are full of", // the site's name, a step's
		"--------": "a word that logs are full of", "----------------------------": "a word that logs are full of", "xxxxxxxx": "a word that logs",
	} {
		ctx, r := inStep()
		_, err := NewSecret(ctx, plain, "env:TOKEN")
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), `secret "env:TOKEN"`) || fault.HintOf(err) == "" {
			t.Errorf("%q: %v (hint %q)", plain, err, fault.HintOf(err))
		}
		if plain != "" && strings.Contains(err.Error(), plain) {
			t.Errorf("the error holds %q: %v", plain, err)
		}
		log := "gateway/server: password " + plain + " of kubernetes in frankfurt changeme"
		if got := r.String(log); got != log {
			t.Errorf("%q turned the log into %q", plain, got)
		}
		// What is made from secrets can't be refused. It shows as stars itself.
		if s := Derived(ctx, plain); s.Reveal() != plain || s.String() != Mask || r.String(log) != log {
			t.Errorf("%q derived: %s, log %q", plain, s, r.String(log))
		}
	}
	ctx, r := inStep()
	for _, plain := range []string{"hunter22", "passwords", "frankfurt-1", "correct horse"} {
		if _, err := NewSecret(ctx, plain, ""); err != nil || r.String("x "+plain) != "x ***" {
			t.Errorf("%q: %v, %q", plain, err, r.String("x "+plain))
		}
	}
}

// TestDerivedPieces takes a secret apart: its pieces go, but for those that
// outputs show by right.
func TestDerivedPieces(t *testing.T) {
	ctx, r := inStep()
	s, err := NewSecret(ctx, "postgres://admin:hunter2hunter2@spoke-cluster/kubernetes", "env:DSN")
	if err != nil {
		t.Fatal(err)
	}
	made := s.Taint(starlark.NewList([]starlark.Value{
		starlark.String("hunter2hunter2"), starlark.String("spoke-cluster"), starlark.String("kubernetes"), starlark.String("HUNTER2UPPER"), starlark.MakeInt(3)}))
	if got := made.String(); got != "[***, ***, ***, ***, 3]" {
		t.Errorf("made %s", got)
	}
	if got := r.String("hunter2hunter2 HUNTER2UPPER spoke-cluster kubernetes"); got != "*** *** spoke-cluster kubernetes" {
		t.Errorf("the log shows %q", got)
	}
	kube, err := NewSecret(ctx, kubeconfig, "file:kubeconfig")
	if err != nil {
		t.Fatal(err)
	}
	var lines []starlark.Value
	for l := range strings.Lines(kubeconfig) {
		lines = append(lines, starlark.String(strings.TrimSpace(l)))
	}
	kube.Taint(starlark.NewList(lines))
	for _, public := range []string{"apiVersion: v1\nkind: ConfigMap", "server: https://10.20.0.10:6443", "clusters:"} {
		if got := r.String(public); got != public {
			t.Errorf("%q became %q", public, got)
		}
	}
}
