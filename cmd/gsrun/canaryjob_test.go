package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"

	secretclient "git.vanillacore.net/govstack/gsrun/internal/client/secret"
	"git.vanillacore.net/govstack/gsrun/internal/lab"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
	"git.vanillacore.net/govstack/gsrun/internal/site"
)

// canaryRecipe runs the main job, then does with secrets of all kinds what
// recipes do with them, and tells what comes of it.
const canaryRecipe = `
load("//access.star", "find_gateway", "find_seed", "gateway_host", "seed_cluster")
load("//bootstrap.star", bootstrap = "main")

_names = ["by_env", "by_file", "by_age", "by_lines"]

def own(ctx, all):
    """Use secrets."""
    held = {name: secret(name) for name in _names}
    held["given"] = ctx.inputs.token
    held["made"] = secret.generate("canary_made")
    held["password"] = crypto.password("canary-admin")
    held["wireguard"] = crypto.wireguard_keypair("canary").private_key
    held["ca"] = crypto.ca("canary").private_key
    gateway = gateway_host(ctx, find_gateway(ctx))
    gateway.directory.ensure("/etc/canary", mode = "0700")
    for name, value in held.items():
        gateway.file.ensure("/etc/canary/" + name, content = value, mode = "0600")
        ctx.log(value)
        log.info("%s is %s, for URLs {}".format(value) % (name, value))
        echoed = gateway.run(sh = 'printf "%s " "$V"; printf %s "$V" | base64 -w0; printf "user:%s" "$V" | base64; cat >&2', env = {"V": value}, stdin = json.encode({"v": value}), readonly = True)
        ctx.log(echoed.stdout)      # the host's output is plain text that holds it
        ctx.log(echoed.stderr)
        ctx.log("echoed " + json.encode({"out": echoed.stdout, "err": echoed.stderr}))
    gateway.file.ensure("/etc/canary/yaml", content = yaml.encode(held), mode = "0600")
    gateway.file.ensure("/etc/canary/conf", content = template.render(text = "{{range $k, $v := .}}{{$k}} {{$v}}\n{{end}}", vars = held), mode = "0600")
    cluster = seed_cluster(ctx, find_seed(ctx))
    cluster.apply(objects = [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "canary", "namespace": "default"}, "stringData": held}])
    back = cluster.get("Secret", "canary", namespace = "default")
    ctx.log(str(back["metadata"]["name"]))
    ctx.log(cluster.secret("canary", "default", "by_env"))
    ctx.progress("by_env is " + held["by_env"])
    return struct(kubeconfig = find_seed(ctx).kubeconfig, held = held, data = back["data"], text = "token=" + held["made"], echoed = echoed.stdout)

main = recipe(
    inputs = {
        "cloud": input.string(default = "openstack", doc = "Cloud."),
        "gateway": input.dict(default = {}, doc = "Gateway."),
        "seed": input.dict(default = {}, doc = "Seed."),
        "ssh_port": input.int(doc = "Port."),
        "token": input.secret(doc = "Token."),
        "note": input.string(default = "", doc = "Note."),
    },
    steps = [use("all", bootstrap), own],
    outputs = lambda own: {"secret": own.held["made"], "text": own.text, "echoed": own.echoed, "kubeconfig": own.kubeconfig, "nested": [own.held], "public": "shown"},
)
`

// canaryFailures are steps that fail while they handle secrets.
const canaryFailures = `
load("//access.star", "find_gateway", "find_seed", "gateway_host", "seed_cluster")

def _ssh(ctx, s):
    gateway_host(ctx, find_gateway(ctx)).run(sh = 'echo "no $V here" >&2; printf %s "$V"; exit 3', env = {"V": s})

def _argv(ctx, s):
    gateway_host(ctx, find_gateway(ctx)).run(["echo", s])

def _file(ctx, s):
    gateway_host(ctx, find_gateway(ctx)).file.ensure("/proc/nowhere/x", content = s)

def _kube(ctx, s):
    seed_cluster(ctx, find_seed(ctx)).apply(objects = [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "canary2", "namespace": "default", "labels": {"x": "not a label: " + s}}, "stringData": {"a": s}}])

def _configmap(ctx, s):
    seed_cluster(ctx, find_seed(ctx)).apply(objects = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Not A Name", "namespace": "default"}, "data": {"a": s}}])

def _git(ctx, s):
    repo = git.repo(ctx.inputs.git_url, key = secret("git_deploy"), host_key = ctx.inputs.git_host_key)
    repo.write("canary.yaml", "a: 1\nb: %s\n" % s)

def _git_plain(ctx, s):
    repo = git.repo(ctx.inputs.git_url, key = secret("git_deploy"), host_key = ctx.inputs.git_host_key)
    repo.write("canary.yaml", "a: 1\nb: " + gateway_host(ctx, find_gateway(ctx)).run(sh = 'printf "user:%s" "$V" | base64', env = {"V": s}, readonly = True).stdout)

def _git_message(ctx, s):
    repo = git.repo(ctx.inputs.git_url, key = secret("git_deploy"), host_key = ctx.inputs.git_host_key)
    repo.write("canary.yaml", "a: 1\n")
    repo.commit("Add " + gateway_host(ctx, find_gateway(ctx)).run(sh = 'printf %s "$V"', env = {"V": s}, readonly = True).stdout)

def _cloud(ctx, s):
    openstack.connect(ctx.inputs.cloud).server.ensure(ctx.name("bad"), image = "none", flavor = "none", networks = [], user_data = s)

def _fail(ctx, s):
    fail("the token " + s + " is wrong: %s" % s)

def _index(ctx, s):
    {"a": 1}["the key %s" % len(s)]

def _decode(ctx, s):
    json.decode(s)

def _raised(ctx, s):
    fail(gateway_host(ctx, find_gateway(ctx)).run(sh = 'printf "%s" "$V"', env = {"V": s}, readonly = True).stdout)

_ways = {"ssh": _ssh, "argv": _argv, "file": _file, "kube": _kube, "configmap": _configmap, "git": _git, "git_plain": _git_plain, "git_message": _git_message,
    "cloud": _cloud, "fail": _fail, "index": _index, "decode": _decode, "raised": _raised}

def broken(ctx):
    """Fail."""
    _ways[ctx.inputs.way](ctx, secret(ctx.inputs.which))

main = recipe(
    inputs = {
        "cloud": input.string(default = "openstack", doc = "Cloud."),
        "gateway": input.dict(default = {}, doc = "Gateway."),
        "seed": input.dict(default = {}, doc = "Seed."),
        "ssh_port": input.int(doc = "Port."),
        "git_url": input.string(doc = "Repository."),
        "git_host_key": input.string(doc = "Host key."),
        "way": input.string(doc = "How."),
        "which": input.string(default = "by_env", doc = "Secret."),
    },
    steps = [broken],
)
`

var failureWays = regexp.MustCompile(`"(\w+)": _\w+`)

// canaries are the secrets of the site, by what they are called.
var canaries = map[string]string{
	"by_env":   `canary-1 "quoted" & <more>/+=`,
	"by_file":  "canary2fluttersabove",
	"by_age":   "canary-3-behind-bars",
	"by_lines": "canary-4-first-line\nsecond line of canary-4\nyellow4bird\n",
	"given":    "canary-5-is-given-by-reference",
}

// writeCanarySite writes a site that keeps secrets in all ways.
func writeCanarySite(t *testing.T, dir string, home *site.Site) {
	t.Helper()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	recipient, err := age.ParseX25519Recipient(home.Secrets.Recipients[0])
	if err != nil {
		t.Fatal(err)
	}
	var sealed bytes.Buffer
	a := armor.NewWriter(&sealed)
	w, err := age.Encrypt(a, recipient)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(w, canaries["by_age"])
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	write("by_age", sealed.String())
	write("recipes/canary.star", canaryRecipe)
	write("recipes/broken.star", canaryFailures)
	inputs := map[string]map[string]any{"canary": {"ssh_port": home.Inputs["gateway"]["ssh_port"]}, "broken": home.Inputs["bootstrap"]}
	s := &site.Site{Name: "canary", Dir: dir, Inputs: inputs, Secrets: site.Secrets{Sources: map[string]any{
		"by_env": map[string]any{"env": "CANARY"}, "by_file": map[string]any{"file": filepath.Join(dir, "../given", "by_file")},
		"by_lines": map[string]any{"file": filepath.Join(dir, "../given", "by_lines")}, "by_age": map[string]any{"age": filepath.Join(dir, "by_age")}}}}
	if err := s.Write(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"by_file", "by_lines"} {
		write("../given/"+name, canaries[name])
	}
	write("../given/token", canaries["given"]+"\n")
}

// TestCanary runs the main job, and steps that handle secrets well and badly,
// with secrets that are known, in all forms of output; then it looks for the
// secrets in everything that was written anywhere.
func TestCanary(t *testing.T) {
	l := startLab(t)
	home, err := site.Load(l.Info.Site)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeCanarySite(t, filepath.Join(dir, "site"), home)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "bin", "gsrun")
	for _, d := range []string{"bin", "home", "tmp", "cache"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}

	w := watchProcesses()
	outputs := make(map[string][]byte)
	call := func(args ...string) (int, string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), link, args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir + "/home", "TMPDIR=" + dir + "/tmp", "XDG_CACHE_HOME=" + dir + "/cache",
			lab.DirVariable + "=" + os.Getenv(lab.DirVariable), "CANARY=" + canaries["by_env"], "CANARY_GIVEN=" + canaries["given"]}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		_ = w.run(cmd) // its exit code is what counts
		outputs[fmt.Sprintf("%d: gsrun %s", len(outputs), strings.Join(args, " "))] = out.Bytes()
		return cmd.ProcessState.ExitCode(), out.String()
	}
	at := []string{"--site", filepath.Join(dir, "site"), "--lab"}
	good := func(args ...string) string {
		t.Helper()
		code, out := call(append(args, at...)...)
		if code != 0 {
			t.Errorf("gsrun %s: exit code %d\n%s", strings.Join(args, " "), code, out)
		}
		return out
	}
	token := []string{"--token", "env:CANARY_GIVEN"}
	job := func(verb string, more ...string) string {
		t.Helper()
		return good(append(append([]string{verb, "canary"}, token...), more...)...)
	}
	saved := filepath.Join(dir, "saved.plan")
	job("plan", "--out", saved)
	job("plan", "--output", "json")
	// The last step can be planned only once the machines are there.
	if code, out := call(append([]string{"run", "--plan", saved, "--output", "plain"}, at...)...); code != 7 || !strings.Contains(out, "plan again for the rest") {
		t.Errorf("the saved plan: exit code %d\n%s", code, out)
	}
	if code, out := call(append([]string{"resume", "--output", "tree"}, at...)...); code != 7 || !strings.Contains(out, "done before") {
		t.Errorf("resumed: exit code %d\n%s", code, out)
	}
	if out := job("run", "--output", "tree"); !strings.Contains(out, "***") {
		t.Errorf("nothing was masked:\n%s", out)
	}
	job("run", "--output", "plain", "--verbose", "--outputs", filepath.Join(dir, "outputs.json"))
	good("run", "canary", "--output", "json", "--token", "file:"+filepath.Join(dir, "given", "token"))
	job("plan", "--full", "--verbose", "--out", saved+"2")

	for _, way := range failureWays.FindAllStringSubmatch(canaryFailures[strings.Index(canaryFailures, "_ways"):], -1) {
		for which, form := range map[string]string{"by_env": "plain", "by_lines": "json", "by_age": "tree"} {
			args := append([]string{"run", "broken", "--way", way[1], "--which", which, "--output", form}, at...)
			code, out := call(args...)
			if code == 0 || !strings.Contains(out, "in _"+way[1]) && !strings.Contains(out, "in broken") {
				t.Errorf("%s with %s: exit code %d\n%s", way[1], which, code, out)
			}
		}
	}
	job("destroy")
	var runs []struct {
		Run string `json:"run"`
	}
	if err := json.Unmarshal([]byte(good("runs", "list", "--output", "json")), &runs); err != nil || len(runs) < 5 {
		t.Errorf("runs: %v, %v", runs, err)
	}
	for _, r := range runs {
		good("runs", "show", r.Run)
		good("runs", "show", r.Run, "--output", "json")
		good("runs", "logs", r.Run)
	}

	c := newCanary()
	for name, secret := range canaries {
		c.add(name, secret)
		for line := range strings.Lines(secret) {
			c.add(name+" line", strings.TrimSpace(line))
		}
	}
	c.addKept(t, home, filepath.Join(home.StateDir(), "sites", "canary"))
	for _, h := range l.Hosts.Hosts() {
		if config, err := h.System().FS.ReadFile(tree.Root(), "/etc/kubernetes/admin.conf"); err == nil {
			c.add("kubeconfig", string(config))
		}
	}
	for _, name := range []string{"clouds.yaml", "keys/git_deploy", "keys/age.txt"} {
		data, err := os.ReadFile(filepath.Join(l.Info.Site, name))
		if err != nil {
			t.Fatal(err)
		}
		c.add(name, string(data))
	}

	w.end(c)
	for name, out := range outputs {
		c.look("outputs", name, out)
	}
	c.lookUnder(t, "state", home.StateDir())
	c.lookUnder(t, "site", filepath.Join(dir, "site"))
	for _, d := range []string{"home", "tmp", "cache"} {
		c.lookUnder(t, "files of the user", filepath.Join(dir, d))
	}
	for _, file := range []string{saved, saved + "2"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		c.look("plans", file, data)
	}
	outs, err := os.ReadFile(filepath.Join(dir, "outputs.json"))
	if err != nil || !bytes.Contains(outs, []byte("shown")) {
		t.Errorf("the file of outputs: %s, %v", outs, err)
	}
	c.look("files of outputs", "outputs.json", outs)
	c.lookUnder(t, "logs of the lab", filepath.Join(l.Info.Dir, "log"))
	c.look("requests", "to the cloud", fmt.Appendf(nil, "%+v", l.Cloud.Requests(0)))
	c.look("requests", "to Kubernetes", fmt.Appendf(nil, "%+v", l.KubernetesRequests()))
	c.look("requests", "to Git", fmt.Appendf(nil, "%+v", l.Git.Accesses(0)))
	repos, err := filepath.Glob(filepath.Join(l.Info.Dir, "git", "repositories", "*.git"))
	if more, _ := filepath.Glob(filepath.Join(l.Info.Dir, "git", "repositories", "*", "*.git")); err == nil {
		repos = append(repos, more...)
	}
	for _, repo := range repos {
		c.lookAtCommits(t, repo)
	}
	t.Logf("%d calls of gsrun, %d samples of processes", len(outputs), w.seen)
	c.report(t, "outputs", "state", "site", "command lines", "environments", "commits", "requests", "logs of the lab", "plans", "files of outputs")
}

// addKept adds the secrets that gsrun made and keeps in a state folder.
func (c *canary) addKept(t *testing.T, home *site.Site, state string) {
	t.Helper()
	box, err := secretclient.ReadBox(home.Secrets.Recipients, home.Path(home.Secrets.Identity))
	if err != nil {
		t.Fatal(err)
	}
	kept := secretclient.NewStore(filepath.Join(state, "secrets"), box)
	names, err := kept.List(t.Context())
	if err != nil || len(names) < 4 {
		t.Fatalf("kept are %v, %v", names, err)
	}
	for _, name := range names {
		value, _, err := kept.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(value, []byte("BEGIN CERTIFICATE")) {
			c.add(name, string(value))
		}
	}
}
