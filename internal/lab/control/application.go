package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// application compares an Application's objects with Git, and syncs them.
func (a *argo) application(ctx context.Context, o *object) (time.Duration, error) {
	if !a.running(appController) || !a.running(repoServer) {
		return a.Pace.Retry, nil
	}
	if err := a.ensureProject(ctx, o.GetNamespace()); err != nil {
		return 0, err
	}
	if o.GetDeletionTimestamp() != nil {
		return a.deleteApplication(ctx, o)
	}
	if _, ok := o.GetAnnotations()["argocd.argoproj.io/refresh"]; ok {
		a.again(o, "compared")
		return time.Millisecond, a.merge(ctx, applications, o, map[string]any{"metadata": map[string]any{"annotations": map[string]any{"argocd.argoproj.io/refresh": nil}}})
	}
	if r := a.Faults.take(o, Stall); r != nil {
		return a.Pace.Retry, nil
	}
	if problem := a.invalid(o); problem != "" {
		a.appError(o, "InvalidSpecError", problem)
		return a.Pace.Retry, a.saveStatus(ctx, applications, o)
	}
	commit, err := a.open(o.GetNamespace(), text(o.Object, "spec", "source", "repoURL"), text(o.Object, "spec", "source", "targetRevision"))
	if err != nil {
		a.appError(o, "ComparisonError", "Failed to load target state: "+err.Error())
		return a.Pace.Git, a.saveStatus(ctx, applications, o)
	}
	settled := text(o.Object, "status", "sync", "status") == "Synced" && text(o.Object, "status", "health", "status") == "Healthy" &&
		text(o.Object, "status", "sync", "revision") == commit.revision && covers(plain(o.Object["spec"]), plain(compared(o))) &&
		covers(plain(compared(o)), plain(source(o)))
	if settled && a.wait(o, "compared", a.Pace.Drift) > 0 {
		return a.Pace.Git, nil
	}
	a.again(o, "compared")
	a.wait(o, "compared", a.Pace.Drift)
	return a.compare(ctx, o, commit)
}

// source is what an Application is compared with, as its status repeats it.
func source(o *object) map[string]any {
	return map[string]any{"source": table(o.Object, "spec", "source"), "destination": table(o.Object, "spec", "destination")}
}

func compared(o *object) map[string]any { return table(o.Object, "status", "sync", "comparedTo") }

// invalid says what is wrong with an Application's spec, or "".
func (a *argo) invalid(o *object) string {
	project := text(o.Object, "spec", "project")
	found, _ := a.get(projects, o.GetNamespace(), project)
	if found == nil {
		return fmt.Sprintf("Application referencing project %s which does not exist", project)
	}
	allowed := false
	url := text(o.Object, "spec", "source", "repoURL")
	for _, pattern := range anyList(table(found.Object, "spec")["sourceRepos"]) {
		allowed = allowed || pattern == "*" || sameRepository(fmt.Sprint(pattern), url)
	}
	if !allowed {
		return fmt.Sprintf("application repo %s is not permitted in project '%s'", url, project)
	}
	if !permitted(found, text(o.Object, "spec", "destination", "namespace")) {
		return fmt.Sprintf("application destination server '%s' and namespace '%s' do not match any of the allowed destinations in project '%s'",
			text(o.Object, "spec", "destination", "server"), text(o.Object, "spec", "destination", "namespace"), project)
	}
	server, name := text(o.Object, "spec", "destination", "server"), text(o.Object, "spec", "destination", "name")
	if server != "https://kubernetes.default.svc" && name != "in-cluster" {
		return fmt.Sprintf("there are no clusters with this name or server: %s%s", name, server)
	}
	return ""
}

// appError reports what keeps an Application from being compared.
func (a *argo) appError(o *object, kind, message string) {
	now := a.Clock.Now().UTC().Format(time.RFC3339)
	for _, c := range array(o.Object, "status", "conditions") {
		if c["type"] == kind && c["message"] == message {
			now = text(c, "lastTransitionTime")
		}
	}
	set(o.Object, []any{map[string]any{"type": kind, "message": message, "lastTransitionTime": now}}, "status", "conditions")
	set(o.Object, "Unknown", "status", "sync", "status")
	set(o.Object, source(o), "status", "sync", "comparedTo")
	if text(o.Object, "status", "health", "status") == "" {
		set(o.Object, "Unknown", "status", "health", "status")
	}
}

// compare reports how an Application's objects differ from a commit, and syncs them if it is to.
func (a *argo) compare(ctx context.Context, o *object, commit *snapshot) (time.Duration, error) {
	recurse := table(o.Object, "spec", "source", "directory")["recurse"] == true
	manifests, err := commit.manifests(text(o.Object, "spec", "source", "path"), recurse)
	if err != nil {
		a.appError(o, "ComparisonError", "Failed to load target state: failed to generate manifest for source 1 of 1: "+err.Error())
		return a.Pace.Git, a.saveStatus(ctx, applications, o)
	}
	items, missing, err := a.track(ctx, o, manifests)
	if err != nil {
		return 0, err
	}
	synced, prune := len(missing) == 0, false
	for _, item := range items {
		if item.want == nil {
			prune = true
		}
		synced = synced && item.same
	}
	automated := table(o.Object, "spec", "syncPolicy", "automated")
	asked := table(o.Object, "operation")
	status := pick(synced, "Synced", "OutOfSync")
	due, tries := a.due(o, commit.revision)
	if !synced && (asked != nil || automated != nil && due) {
		stage := fmt.Sprintf("sync %s %d", commit.revision, tries)
		if left := a.wait(o, stage, a.Pace.Reconcile<<tries); left > 0 {
			return min(left, a.Pace.Git), nil
		}
		a.again(o, stage)
		problems := a.sync(ctx, o, items, prune && (automated["prune"] == true || table(asked, "sync")["prune"] == true))
		problems = append(missing, problems...)
		a.operated(o, commit.revision, tries, problems)
		a.Log(fmt.Sprintf("application %s synced to %s: %d problems", o.GetName(), commit.revision[:8], len(problems)))
		if items, _, err = a.track(ctx, o, manifests); err != nil {
			return 0, err
		}
		synced = len(problems) == 0
		for _, item := range items {
			synced = synced && item.same
		}
		status = pick(synced, "Synced", "OutOfSync")
	}
	delete(o.Object, "operation") // it is done
	set(o.Object, map[string]any{"status": status, "revision": commit.revision, "comparedTo": source(o)}, "status", "sync")
	set(o.Object, "Directory", "status", "sourceType")
	set(o.Object, []any{}, "status", "conditions")
	if len(missing) > 0 {
		a.appError(o, "SyncError", strings.Join(missing, "; "))
		set(o.Object, status, "status", "sync", "status")
	}
	a.health(o, items)
	if asked != nil {
		_, err := a.on(applications, o.GetNamespace()).Update(ctx, o, metav1.UpdateOptions{FieldManager: appController})
		return a.Pace.Git, err
	}
	return a.Pace.Git, a.saveStatus(ctx, applications, o)
}

// due reports whether an Application that differs from a revision is to be synced by itself, and
// how often that revision has failed. One that fails is tried as often as its retry policy says
// (5 times without one), and then left until there is another revision.
func (a *argo) due(o *object, revision string) (bool, int) {
	last := table(o.Object, "status", "operationState")
	if text(last, "syncResult", "revision") != revision {
		return true, 0
	}
	if text(last, "phase") == "Succeeded" {
		return table(o.Object, "spec", "syncPolicy", "automated")["selfHeal"] == true, 0
	}
	limit := int64(5)
	if retry := table(o.Object, "spec", "syncPolicy", "retry"); retry["limit"] != nil {
		limit = number(retry, "limit")
	}
	tries := number(last, "retryCount")
	return limit < 0 || tries <= limit, int(min(tries, 10))
}

// operated reports how a sync ended that had failed so often before.
func (a *argo) operated(o *object, revision string, tries int, problems []string) {
	now := a.Clock.Now().UTC().Format(time.RFC3339)
	message, failed := "successfully synced (all tasks run)", int64(0)
	if len(problems) > 0 {
		failed = int64(tries) + 1
		message = fmt.Sprintf("one or more objects failed to apply, reason: %s (retried %d times).", strings.Join(problems, "; "), tries)
	}
	set(o.Object, map[string]any{
		"phase": pick(len(problems) == 0, "Succeeded", "Failed"), "message": message, "startedAt": now, "finishedAt": now, "retryCount": failed,
		"operation":  map[string]any{"sync": map[string]any{"revision": revision}},
		"syncResult": map[string]any{"revision": revision, "source": table(o.Object, "spec", "source")},
	}, "status", "operationState")
}

// sync applies what differs and deletes what is to be pruned. It returns what went wrong.
func (a *argo) sync(ctx context.Context, o *object, items []tracked, prune bool) (problems []string) {
	for _, option := range anyList(table(o.Object, "spec", "syncPolicy")["syncOptions"]) {
		switch option {
		case "Prune=false", "Prune=confirm": // nobody is here to confirm
			prune = false
		case "CreateNamespace=true":
			namespace := &object{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": text(o.Object, "spec", "destination", "namespace")}}}
			if _, err := a.client.Resource(namespacesAt).Create(ctx, namespace, metav1.CreateOptions{FieldManager: appController}); ignoreExists(err) != nil {
				problems = append(problems, err.Error())
			}
		}
	}
	for _, item := range items {
		switch {
		case item.want == nil && prune && item.live.GetAnnotations()["argocd.argoproj.io/sync-options"] != "Prune=false":
			if err := item.client.Delete(ctx, item.live.GetName(), metav1.DeleteOptions{}); ignoreNotFound(err) != nil {
				problems = append(problems, err.Error())
			}
		case item.want != nil && !item.same:
			if _, err := item.apply(ctx); err != nil {
				problems = append(problems, err.Error())
			}
		}
	}
	return problems
}

// health reports the objects of an Application, and the worst of their health.
func (a *argo) health(o *object, items []tracked) {
	order := []string{"Healthy", "Progressing", "Degraded", "Missing"}
	worst := 0
	resources := []any{}
	for _, item := range items {
		state := "Missing"
		if item.live != nil {
			state = healthOf(item.live)
		}
		entry := map[string]any{"status": pick(item.same, "Synced", "OutOfSync"), "health": map[string]any{"status": state}}
		for name, value := range item.id {
			if name != "status" && name != "health" && name != "requiresPruning" {
				entry[name] = value
			}
		}
		if item.want == nil {
			entry["requiresPruning"] = true
		}
		resources = append(resources, entry)
		worst = max(worst, slices.Index(order, state))
	}
	set(o.Object, resources, "status", "resources")
	set(o.Object, order[worst], "status", "health", "status")
}

// healthOf judges one object as Argo CD's checks do.
func healthOf(o *object) string {
	switch o.GroupVersionKind().GroupKind().String() {
	case "Deployment.apps", "StatefulSet.apps":
		return pick(available(o), "Healthy", "Progressing")
	case "Cluster.cluster.x-k8s.io":
		ready := text(o.Object, "status", "phase") == "Provisioned" && isTrue(o, "Available")
		return pick(ready, "Healthy", "Progressing")
	case "Certificate.cert-manager.io", "Issuer.cert-manager.io":
		return pick(isTrue(o, "Ready"), "Healthy", "Progressing")
	}
	return "Healthy"
}

// deleteApplication deletes an Application's objects if its finalizer asks for it.
func (a *argo) deleteApplication(ctx context.Context, o *object) (time.Duration, error) {
	if !slices.Contains(o.GetFinalizers(), appFinalizer) {
		return 0, nil
	}
	items, _, err := a.track(ctx, o, nil)
	if err != nil {
		return 0, err
	}
	for _, item := range slices.Backward(items) {
		if item.live.GetDeletionTimestamp() != nil {
			continue
		}
		if err := item.client.Delete(ctx, item.live.GetName(), metav1.DeleteOptions{}); ignoreNotFound(err) != nil {
			return 0, err
		}
	}
	if len(items) > 0 {
		return a.Pace.Retry, nil
	}
	return 0, a.release(ctx, applications, o, appFinalizer)
}
