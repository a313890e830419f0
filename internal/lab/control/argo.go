package control

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
)

// The Deployments and StatefulSet that run Argo CD.
const (
	setController  = "argocd-applicationset-controller"
	appController  = "argocd-application-controller"
	repoServer     = "argocd-repo-server"
	appFinalizer   = "resources-finalizer.argocd.argoproj.io"
	nameAnnotation = "argocd.argoproj.io/tracking-id"
)

// An argo plays Argo CD's controllers and its repository server.
type argo struct {
	*engine
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

func (a *argo) register() {
	a.watch(applicationSets.Group, "", applicationSets.Resource, a.applicationSet)
	a.watch(applications.Group, "", applications.Resource, a.application)
	a.watch(statefulSets.Group, "v1", statefulSets.Resource, a.started)
	a.watch(projects.Group, "", projects.Resource, nil)
}

// discover makes what maps kinds to resources.
func (a *argo) discover() error {
	client, err := discovery.NewDiscoveryClientForConfig(a.REST)
	if err != nil {
		return err
	}
	a.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
	return nil
}

// applicationSet makes an Application of each directory that its generators find.
func (a *argo) applicationSet(ctx context.Context, o *object) (time.Duration, error) {
	if !a.running(setController) {
		return a.Pace.Retry, nil
	}
	policy := text(o.Object, "spec", "syncPolicy", "applicationsSync")
	deletes := policy == "" || policy == "sync" || policy == "create-delete"
	if o.GetDeletionTimestamp() != nil {
		return 0, a.deleteSet(ctx, o, deletes)
	}
	if !a.running(repoServer) {
		return a.Pace.Retry, nil
	}
	if r := a.Faults.take(o, Stall); r != nil {
		return a.Pace.Retry, nil
	}
	wanted, err := a.generate(o)
	if err != nil {
		a.setCondition(o, "ErrorOccurred", true, "ApplicationParamsGenerationError", err.Error())
		a.setCondition(o, "ParametersGenerated", false, "ErrorOccurred", err.Error())
		a.setCondition(o, "ResourcesUpToDate", false, "ApplicationParamsGenerationError", err.Error())
		return a.Pace.Git, a.saveStatus(ctx, applicationSets, o)
	}
	names := map[string]bool{}
	for _, app := range wanted {
		names[app.GetName()] = true
		if err := a.putApplication(ctx, o, app, policy); err != nil {
			a.setCondition(o, "ErrorOccurred", true, "UpdateApplicationError", err.Error())
			a.setCondition(o, "ResourcesUpToDate", false, "UpdateApplicationError", err.Error())
			return a.Pace.Git, a.saveStatus(ctx, applicationSets, o)
		}
	}
	if deletes {
		for _, app := range a.list(applications, o.GetNamespace(), func(app *object) bool { return owns(o, app) && !names[app.GetName()] }) {
			a.Log("application " + app.GetName() + " removed")
			if err := a.remove(ctx, applications, app); err != nil {
				return 0, err
			}
		}
	}
	a.setCondition(o, "ErrorOccurred", false, "ApplicationSetUpToDate", "All applications have been generated successfully")
	a.setCondition(o, "ParametersGenerated", true, "ParametersGenerated", "Successfully generated parameters for all Applications")
	a.setCondition(o, "ResourcesUpToDate", true, "ApplicationSetUpToDate", "All applications have been generated successfully")
	return a.Pace.Git, a.saveStatus(ctx, applicationSets, o)
}

// deleteSet lets an ApplicationSet go, if its finalizer asks for it. The
// Applications of one that may not delete them are its own no longer, so that
// the garbage collector leaves them.
func (a *argo) deleteSet(ctx context.Context, o *object, deletes bool) error {
	if !slices.Contains(o.GetFinalizers(), appFinalizer) {
		return nil
	}
	if !deletes {
		for _, app := range a.list(applications, o.GetNamespace(), func(app *object) bool { return owns(o, app) }) {
			if err := a.merge(ctx, applications, app, map[string]any{"metadata": map[string]any{"ownerReferences": nil}}); err != nil {
				return err
			}
		}
	}
	return a.release(ctx, applicationSets, o, appFinalizer)
}

// putApplication creates an Application, or brings it to what its set's template says.
func (a *argo) putApplication(ctx context.Context, o, app *object, policy string) error {
	stored, _ := a.get(applications, app.GetNamespace(), app.GetName())
	if stored == nil {
		app.SetOwnerReferences(ownedBy(o))
		a.Log("application " + app.GetName() + " generated")
		_, err := a.on(applications, app.GetNamespace()).Create(ctx, app, metav1.CreateOptions{FieldManager: setController})
		return ignoreExists(err)
	}
	if !owns(o, stored) {
		return fmt.Errorf("application %s exists, and isn't this ApplicationSet's", app.GetName())
	}
	want := map[string]any{"spec": app.Object["spec"], "metadata": map[string]any{"labels": app.GetLabels(), "annotations": app.GetAnnotations()}}
	if policy == "create-only" || policy == "create-delete" || covers(plain(stored.Object), plain(want)) {
		return nil
	}
	return a.merge(ctx, applications, stored, want)
}

// generate returns the Applications that o's generators and template describe.
func (a *argo) generate(o *object) ([]*object, error) {
	var found []*object
	for _, generator := range array(o.Object, "spec", "generators") {
		source := table(generator, "git")
		if source == nil || len(array(source, "directories")) == 0 {
			return nil, fmt.Errorf("this lab knows the git generator with directories only")
		}
		commit, err := a.open(o.GetNamespace(), text(source, "repoURL"), text(source, "revision"))
		if err != nil {
			return nil, fmt.Errorf("error generating params from git: %w", err)
		}
		excluded, taken := map[string]bool{}, map[string]bool{}
		var order []string
		for _, d := range array(source, "directories") {
			matches, err := commit.directories(text(d, "path"))
			if err != nil {
				return nil, err
			}
			for _, m := range matches {
				if d["exclude"] == true {
					excluded[m] = true
				} else if !taken[m] {
					taken[m] = true
					order = append(order, m)
				}
			}
		}
		for _, directory := range order {
			if excluded[directory] {
				continue
			}
			app, err := instantiate(o, directory)
			if err != nil {
				return nil, err
			}
			found = append(found, app)
		}
	}
	return found, nil
}

// normal makes a folder's name one that an object may have.
func normal(name string) string {
	return strings.Trim(regexp.MustCompile(`[^a-z0-9-.]+`).ReplaceAllString(strings.ToLower(name), "-"), "-.")
}

// instantiate fills in the template of an ApplicationSet for one directory.
func instantiate(o *object, directory string) (*object, error) {
	segments := strings.Split(directory, "/")
	base := path.Base(directory)
	var fill func(string) (string, error)
	if table(o.Object, "spec")["goTemplate"] == true {
		values := map[string]any{"path": map[string]any{
			"path": directory, "basename": base, "basenameNormalized": normal(base), "segments": segments}}
		var options []string
		for _, option := range anyList(table(o.Object, "spec")["goTemplateOptions"]) {
			options = append(options, fmt.Sprint(option))
		}
		fill = func(s string) (string, error) {
			t, err := template.New("").Option(options...).Funcs(template.FuncMap{
				"normalize": normal, "lower": strings.ToLower, "trimPrefix": func(p, s string) string { return strings.TrimPrefix(s, p) },
			}).Parse(s)
			if err != nil {
				return "", fmt.Errorf("failed to parse template %s: %w", s, err)
			}
			var out bytes.Buffer
			if err := t.Execute(&out, values); err != nil {
				return "", fmt.Errorf("failed to execute go template %s: %w", s, err)
			}
			return out.String(), nil
		}
	} else {
		pairs := []string{"{{path}}", directory, "{{path.basename}}", base, "{{path.basenameNormalized}}", normal(base)}
		for i, s := range segments {
			pairs = append(pairs, fmt.Sprintf("{{path[%d]}}", i), s)
		}
		replacer := strings.NewReplacer(pairs...)
		fill = func(s string) (string, error) { return replacer.Replace(s), nil }
	}
	filled, err := fillIn(table(o.Object, "spec", "template"), fill)
	if err != nil {
		return nil, err
	}
	app := &object{Object: filled.(map[string]any)}
	app.SetAPIVersion("argoproj.io/v1alpha1")
	app.SetKind("Application")
	app.SetNamespace(o.GetNamespace())
	if preserve := table(o.Object, "spec", "syncPolicy")["preserveResourcesOnDeletion"]; preserve != true && len(app.GetFinalizers()) == 0 {
		app.SetFinalizers([]string{appFinalizer})
	}
	return app, nil
}

func anyList(v any) []any {
	items, _ := v.([]any)
	return items
}

// fillIn applies fill to every text in v.
func fillIn(v any, fill func(string) (string, error)) (any, error) {
	switch v := v.(type) {
	case string:
		return fill(v)
	case map[string]any:
		out := map[string]any{}
		for key, item := range v {
			name, err := fill(key)
			if err != nil {
				return nil, err
			}
			if out[name], err = fillIn(item, fill); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			var err error
			if out[i], err = fillIn(item, fill); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

// ensureProject makes the project that Argo CD itself makes when it starts.
func (a *argo) ensureProject(ctx context.Context, namespace string) error {
	if found, _ := a.get(projects, namespace, "default"); found != nil {
		return nil
	}
	client := a.on(projects, namespace)
	if client == nil {
		return nil
	}
	o := &object{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
		"metadata": map[string]any{"name": "default", "namespace": namespace},
		"spec": map[string]any{
			"sourceRepos":              []any{"*"},
			"destinations":             []any{map[string]any{"namespace": "*", "server": "*"}},
			"clusterResourceWhitelist": []any{map[string]any{"group": "*", "kind": "*"}},
		},
	}}
	_, err := client.Create(ctx, o, metav1.CreateOptions{FieldManager: appController})
	return ignoreExists(err)
}

// started makes what Argo CD's parts make in their namespace when they first run: the default
// project, and the administrator's first password.
func (a *argo) started(ctx context.Context, o *object) (time.Duration, error) {
	if !available(o) {
		return 0, nil
	}
	switch o.GetName() {
	case appController:
		if a.on(projects, o.GetNamespace()) == nil {
			return a.Pace.Retry, nil
		}
		return 0, a.ensureProject(ctx, o.GetNamespace())
	case "argocd-server":
		if found, _ := a.get(secrets, o.GetNamespace(), "argocd-initial-admin-secret"); found != nil {
			return 0, nil
		}
		_, err := a.on(secrets, o.GetNamespace()).Create(ctx, newSecret(o.GetNamespace(), "argocd-initial-admin-secret", "Opaque",
			map[string][]byte{"password": []byte(rand.Text()[:16])}), metav1.CreateOptions{FieldManager: "argocd-server"})
		return 0, ignoreExists(err)
	}
	return 0, nil
}
