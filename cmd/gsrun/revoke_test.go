package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/lab"
)

// retire takes a spoke out of Git and deletes its Cluster, as people would.
const retire = `
load("//access.star", "find_seed", "seed_cluster")

def undeclared(ctx):
    """Take the spoke out of Git."""
    repo = git.repo(ctx.inputs.git_url, key = secret("git_deploy"), host_key = ctx.inputs.git_host_key)
    for path in repo.list("gitops/spokes/west"):
        repo.remove(path)
    repo.commit("Retire the spoke west")
    repo.push()

def deleted(ctx, undeclared):
    """Delete what applied it, which keeps its objects, and the Cluster."""
    seed = seed_cluster(ctx, find_seed(ctx))
    for a in seed.list("applications.argoproj.io"):
        if "west" in a["metadata"]["name"]:
            seed.delete("applications.argoproj.io", a["metadata"]["name"], namespace = a["metadata"]["namespace"])
    seed.delete("clusters.cluster.x-k8s.io", "west", namespace = "spoke-west", timeout = "2m")

main = recipe(inputs = {
    "cloud": input.string(default = "openstack", doc = "Cloud."),
    "gateway": input.dict(default = {}, doc = "Gateway."),
    "seed": input.dict(default = {}, doc = "Seed."),
    "ssh_port": input.int(default = 22, doc = "Port."),
    "git_url": input.string(doc = "Repository."),
    "git_host_key": input.string(doc = "Its key."),
}, steps = [undeclared, deleted])
`

// checkRevoke makes another spoke with a login of its own, and revokes that:
// not before the spoke is gone, and then for good.
func checkRevoke(t *testing.T) {
	t.Helper()
	code, out, errs := gsrun(t, "recipes/spoke.star", "--lab", "--name", "west")
	if code != 0 || !strings.Contains(errs, "created openstack/openstack/application_credential/lab-west") {
		t.Fatalf("another spoke: exit code %d\n%s\n%s", code, out, errs)
	}
	for _, verb := range []string{"run", "plan"} {
		code, out, errs = gsrun(t, verb, "recipes/revoke.star", "--lab", "--name", "west")
		if code != 1 || !strings.Contains(errs, "spoke west is still there: Cluster west (Provisioned), OpenStackCluster west-") || !strings.Contains(errs, "nothing was revoked") {
			t.Errorf("while the spoke is there: exit code %d\n%s\n%s", code, out, errs)
		}
	}
	info, err := lab.Status(os.Getenv(lab.DirVariable))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "retire.star")
	if err := os.WriteFile(file, []byte(retire), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs = gsrun(t, file, "--lab", "--ssh-port", jsonText(info.SSHPort), "--git-url", info.Git, "--git-host-key", hostKeyOf(t, info), "--max-deletes", "9"); code != 0 {
		t.Fatalf("retiring: exit code %d\n%s\n%s", code, out, errs)
	}
	code, out, errs = gsrun(t, "recipes/revoke.star", "--lab", "--name", "west")
	if code != 3 || !strings.Contains(errs, "--max-deletes") {
		t.Errorf("without a budget: exit code %d\n%s\n%s", code, out, errs)
	}
	code, out, errs = gsrun(t, "recipes/revoke.star", "--lab", "--name", "west", "--max-deletes", "2")
	if code != 0 || !strings.Contains(errs, "deleted openstack/openstack/application_credential/lab-west") || !strings.Contains(errs, "deleted kube/seed/Secret/spoke-west/west-cloud-config") {
		t.Errorf("revoking: exit code %d\n%s\n%s", code, out, errs)
	}
	code, out, errs = gsrun(t, "recipes/revoke.star", "--lab", "--name", "west")
	if code != 0 || !strings.Contains(out, "Changes: 0 changed") {
		t.Errorf("revoking again: exit code %d\n%s\n%s", code, out, errs)
	}
	// That of the other spoke isn't touched.
	if code, out, errs = gsrun(t, "recipes/spoke.star", "--lab"); code != 0 || !strings.Contains(out, "Changes: 0 changed") {
		t.Errorf("the other spoke: exit code %d\n%s\n%s", code, out, errs)
	}
}

// hostKeyOf returns the host key of the lab's Git server, as its site says it.
func hostKeyOf(t *testing.T, info *lab.Info) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(info.Site, "site.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "git_host_key: ")
	line, _, _ := strings.Cut(after, "\n")
	return strings.Trim(line, `"'`)
}
