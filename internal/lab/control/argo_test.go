package control_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/control"
	"github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-billy/v5/osfs"
	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	gitobject "github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const (
	repoURL = "ssh://git@git.lab/spokes.git"
	appset  = `
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: spokes, namespace: argocd}
spec:
  sourceRepos: ["ssh://git@git.lab/spokes.git"]
  destinations: [{server: "https://kubernetes.default.svc", namespace: "spoke*"}]
  clusterResourceWhitelist: [{group: "", kind: Namespace}]
---
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: spokes, namespace: argocd}
spec:
  goTemplate: true
  goTemplateOptions: ["missingkey=error"]
  generators: [{git: {repoURL: "ssh://git@git.lab/spokes.git", revision: main, directories: [{path: "gitops/spokes/*"}, {path: gitops/spokes/skip, exclude: true}]}}]
  syncPolicy: {preserveResourcesOnDeletion: true}
  template:
    metadata: {name: "spoke-{{ .path.basename }}"}
    spec:
      project: spokes
      source: {repoURL: "ssh://git@git.lab/spokes.git", targetRevision: main, path: "{{ .path.path }}"}
      destination: {server: "https://kubernetes.default.svc", namespace: spokes}
      syncPolicy: {automated: {prune: true, selfHeal: true}, syncOptions: ["CreateNamespace=true"]}
`
	knownHosts = `
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-ssh-known-hosts-cm, namespace: argocd}
data: {ssh_known_hosts: "git.lab ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBTWRtr2Yk3nvFQbWwgC4KVlKZ0WpBRLGtJ9tVvHjBBN\n"}
`
	repoSecret = `
apiVersion: v1
kind: Secret
metadata: {name: spokes-repo, namespace: argocd, labels: {argocd.argoproj.io/secret-type: repository}}
stringData: {type: git, url: "ssh://git@git.lab/spokes", sshPrivateKey: "a key"}
`
)

// A repo is a bare repository that tests commit to.
type repo struct {
	t      *testing.T
	folder string
	git    *git.Repository
}

func newRepo(t *testing.T) *repo {
	t.Helper()
	folder := t.TempDir()
	if _, err := git.PlainInitWithOptions(folder, &git.PlainInitOptions{Bare: true, InitOptions: git.InitOptions{DefaultBranch: "refs/heads/main"}}); err != nil {
		t.Fatal(err)
	}
	opened, err := git.Open(filesystem.NewStorage(osfs.New(folder), cache.NewObjectLRUDefault()), memfs.New())
	if err != nil {
		t.Fatal(err)
	}
	return &repo{t: t, folder: folder, git: opened}
}

// commit writes files (an empty text removes one), and returns the commit's id.
func (r *repo) commit(files map[string]string) string {
	r.t.Helper()
	tree, err := r.git.Worktree()
	if err != nil {
		r.t.Fatal(err)
	}
	for name, text := range files {
		if text == "" {
			if _, err := tree.Remove(name); err != nil {
				r.t.Fatal(err)
			}
			continue
		}
		f, err := tree.Filesystem.Create(name)
		if err != nil {
			r.t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			r.t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			r.t.Fatal(err)
		}
		if _, err := tree.Add(name); err != nil {
			r.t.Fatal(err)
		}
	}
	var hash plumbing.Hash
	hash, err = tree.Commit("change", &git.CommitOptions{Author: &gitobject.Signature{Name: "test", Email: "test@lab", When: time.Now()}})
	if err != nil {
		r.t.Fatal(err)
	}
	return hash.String()
}

func configMapText(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {value: %q}\n", name, value)
}

// app waits until an Application is as it should be, and returns it.
func (l *lab) app(name string, is func(o *unstructured.Unstructured) error) *unstructured.Unstructured {
	l.t.Helper()
	var found *unstructured.Unstructured
	l.await("application "+name, func() error {
		o, err := l.get("argoproj.io/v1alpha1 Application argocd/" + name)
		if err != nil {
			return err
		}
		found = o
		return is(o)
	})
	return found
}

func synced(revision string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		sync, _, _ := unstructured.NestedMap(o.Object, "status", "sync")
		health, _, _ := unstructured.NestedString(o.Object, "status", "health", "status")
		if sync["status"] != "Synced" || sync["revision"] != revision || health != "Healthy" {
			return fmt.Errorf("sync %v %v, health %v, want %s: %v", sync["status"], sync["revision"], health, revision, o.Object["status"])
		}
		return nil
	}
}

func (l *lab) value(id string) string {
	o, err := l.get(id)
	if err != nil {
		return err.Error()
	}
	value, _, _ := unstructured.NestedString(o.Object, "data", "value")
	return value
}

func (l *lab) awaitValue(id, want string) {
	l.t.Helper()
	l.await(id, func() error {
		if got := l.value(id); got != want {
			return fmt.Errorf("value is %q, want %q", got, want)
		}
		return nil
	})
}

func TestArgoCD(t *testing.T) {
	var refuse atomic.Bool
	refuse.Store(true)
	l := newLab(t, func(c *control.Config) {
		c.Access = func(url string, credential map[string][]byte) error {
			if url != repoURL || string(credential["sshPrivateKey"]) != "a key" {
				t.Errorf("asked for %s with %q", url, credential)
			}
			if refuse.Load() {
				return errors.New("ssh: handshake failed: unable to authenticate")
			}
			return nil
		}
	})
	bare := newRepo(t)
	l.repos[repoURL] = bare.folder
	revision := bare.commit(map[string]string{
		"gitops/spokes/a/one.yaml":  configMapText("one", "1"),
		"gitops/spokes/a/two.yaml":  configMapText("two", "2"),
		"gitops/spokes/a/as.yaml":   "apiVersion: v1\nkind: Secret\nmetadata: {name: as}\nstringData: {text: written}\n",
		"gitops/spokes/a/pvc.yaml":  "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: disk}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}\n",
		"gitops/spokes/skip/x.yaml": configMapText("x", "x"),
		"README.md":                 "not a spoke",
	})
	start := time.Now()
	l.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: argocd}\n", "")
	l.apply(upstream(t, argoURL), "argocd")
	for _, name := range []string{"argocd-server", "argocd-repo-server", "argocd-applicationset-controller", "argocd-redis", "argocd-dex-server", "argocd-notifications-controller"} {
		l.until("apps/v1 Deployment argocd/"+name, "Available", "True")
	}
	l.await("the application controller", func() error {
		o, err := l.get("apps/v1 StatefulSet argocd/argocd-application-controller")
		if err != nil {
			return err
		}
		if n, _, _ := unstructured.NestedInt64(o.Object, "status", "availableReplicas"); n != 1 {
			return errWant
		}
		return nil
	})
	t.Logf("Argo CD installed in %v", time.Since(start).Round(time.Millisecond))
	l.await("the first password", func() error { _, err := l.get("v1 Secret argocd/argocd-initial-admin-secret"); return err })

	// Without a credential nothing is read, and the condition says whose it is that's missing.
	l.apply(appset, "")
	o := l.until("argoproj.io/v1alpha1 ApplicationSet argocd/spokes", "ErrorOccurred", "True ApplicationParamsGenerationError")
	if message := status(o, "ErrorOccurred"); !strings.Contains(message, repoURL) || !strings.Contains(message, "Secret") {
		t.Errorf("the condition doesn't name the repository and what it lacks: %s", message)
	}
	l.apply(repoSecret, "")
	l.await("the unknown host", func() error {
		o, err := l.get("argoproj.io/v1alpha1 ApplicationSet argocd/spokes")
		if err != nil || !strings.Contains(status(o, "ErrorOccurred"), "git.lab isn't in argocd-ssh-known-hosts-cm") {
			return errors.Join(errWant, err)
		}
		return nil
	})
	l.apply(knownHosts, "")
	l.await("the refused key", func() error {
		o, err := l.get("argoproj.io/v1alpha1 ApplicationSet argocd/spokes")
		if err != nil || !strings.Contains(status(o, "ErrorOccurred"), "unable to authenticate") {
			return errors.Join(errWant, err)
		}
		return nil
	})
	refuse.Store(false)
	o = l.app("spoke-a", synced(revision))
	if len(o.GetFinalizers()) != 0 {
		t.Errorf("the ApplicationSet preserves resources, but its Application has finalizers %v", o.GetFinalizers())
	}
	if got := l.value("v1 ConfigMap spokes/one"); got != "1" {
		t.Errorf("synced value is %q", got)
	}
	if _, err := l.get("argoproj.io/v1alpha1 Application argocd/spoke-skip"); !apierrors.IsNotFound(err) {
		t.Errorf("an excluded directory has an Application: %v", err)
	}

	// A commit is followed: one object changes, one goes.
	revision = bare.commit(map[string]string{"gitops/spokes/a/one.yaml": configMapText("one", "11"), "gitops/spokes/a/two.yaml": ""})
	l.app("spoke-a", synced(revision))
	l.awaitValue("v1 ConfigMap spokes/one", "11")
	if _, err := l.get("v1 ConfigMap spokes/two"); !apierrors.IsNotFound(err) {
		t.Errorf("a pruned object is there: %v", err)
	}

	// Drift is healed.
	maps, err := l.on(parse(t, configMapText("one", ""))[0], "spokes")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Patch(l.ctx, "one", types.MergePatchType, []byte(`{"data": {"value": "drift"}}`), metav1.PatchOptions{FieldManager: "someone"}); err != nil {
		t.Fatal(err)
	}
	l.awaitValue("v1 ConfigMap spokes/one", "11")

	// A manifest of a kind that isn't there is named, and what can be is applied.
	bad := bare.commit(map[string]string{"gitops/spokes/a/bad.yaml": "apiVersion: nowhere.example/v1\nkind: Widget\nmetadata: {name: w}\n"})
	l.app("spoke-a", func(o *unstructured.Unstructured) error {
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		sync, _, _ := unstructured.NestedMap(o.Object, "status", "sync")
		if sync["revision"] != bad || sync["status"] != "OutOfSync" || !strings.Contains(fmt.Sprint(conditions), "Widget") {
			return fmt.Errorf("sync %v, conditions %v", sync, conditions)
		}
		return nil
	})
	bad = bare.commit(map[string]string{"gitops/spokes/a/bad.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: all}\nrules: []\n"})
	l.app("spoke-a", func(o *unstructured.Unstructured) error {
		sync, _, _ := unstructured.NestedMap(o.Object, "status", "sync")
		if got := fmt.Sprint(o.Object["status"]); sync["revision"] != bad || !strings.Contains(got, "rbac.authorization.k8s.io:ClusterRole is not permitted in project spokes") {
			return fmt.Errorf("status %s", got)
		}
		return nil
	})
	revision = bare.commit(map[string]string{"gitops/spokes/a/bad.yaml": "", "gitops/spokes/b/one.yaml": configMapText("b", "b")})
	l.app("spoke-a", synced(revision))
	l.app("spoke-b", synced(revision))

	// An object that its schema refuses fails, a few times, and the message says why.
	broken := bare.commit(map[string]string{"gitops/spokes/b/bad.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 99999}]}\n"})
	l.app("spoke-b", func(o *unstructured.Unstructured) error {
		operation, _, _ := unstructured.NestedMap(o.Object, "status", "operationState")
		message := fmt.Sprint(operation["message"])
		if operation["phase"] != "Failed" || !strings.Contains(message, "99999") || !strings.Contains(message, "retried 5 times") {
			return fmt.Errorf("operation %v at %s", operation, broken)
		}
		return nil
	})
	revision = bare.commit(map[string]string{"gitops/spokes/b/bad.yaml": ""})
	l.app("spoke-b", synced(revision))

	// A directory that goes takes its Application with it, and nothing else.
	bare.commit(map[string]string{"gitops/spokes/a/one.yaml": "", "gitops/spokes/a/as.yaml": "", "gitops/spokes/a/pvc.yaml": ""})
	l.await("the Application of a removed directory", func() error {
		_, err := l.get("argoproj.io/v1alpha1 Application argocd/spoke-a")
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errWant, err)
	})
	if got := l.value("v1 ConfigMap spokes/one"); got != "11" {
		t.Errorf("a preserved object is gone: %s", got)
	}

	// A set that may not delete leaves its Applications behind, if its finalizer gives it the time.
	o, err = l.get("argoproj.io/v1alpha1 ApplicationSet argocd/spokes")
	if err != nil {
		t.Fatal(err)
	}
	sets, err := l.on(o, "argocd")
	if err != nil {
		t.Fatal(err)
	}
	keep := `{"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io"]}, "spec": {"syncPolicy": {"applicationsSync": "create-update"}}}`
	if _, err := sets.Patch(l.ctx, "spokes", types.MergePatchType, []byte(keep), metav1.PatchOptions{FieldManager: "someone"}); err != nil {
		t.Fatal(err)
	}
	if err := sets.Delete(l.ctx, "spokes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.await("the deleted set", func() error {
		_, err := l.get("argoproj.io/v1alpha1 ApplicationSet argocd/spokes")
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errWant, err)
	})
	l.app("spoke-b", func(o *unstructured.Unstructured) error {
		if owners := o.GetOwnerReferences(); len(owners) != 0 || o.GetDeletionTimestamp() != nil {
			return fmt.Errorf("owners %v, deleted %v", owners, o.GetDeletionTimestamp())
		}
		return nil
	})
}
