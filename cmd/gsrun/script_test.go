package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	secretclient "git.vanillacore.net/govstack/gsrun/internal/client/secret"
	"git.vanillacore.net/govstack/gsrun/internal/lab"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
	"git.vanillacore.net/govstack/gsrun/internal/lab/mirror"
	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	realhosts "git.vanillacore.net/govstack/gsrun/internal/lab/real/hosts"
	"git.vanillacore.net/govstack/gsrun/internal/site"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gsrun": killable})
}

// TestScripts runs the command line without a lab.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/plain", RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error { return setup(e) },
		Cmds:  map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "replace": replace, "digests": digests, "waiting": waiting, "lastrun": lastRun},
	})
}

// setup gives a script a home of its own, and the recipes of this checkout.
func setup(e *testscript.Env) error {
	e.Setenv("HOME", filepath.Join(e.WorkDir, ".home"))
	e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, ".cache"))
	e.Setenv("NO_COLOR", "1")
	wd, err := os.Getwd()
	if err != nil {
		return err
	}
	e.Setenv("CHECKOUT", filepath.Dir(filepath.Dir(wd)))
	return nil
}

// exits checks the exit code of a gsrun call: exits CODE gsrun ...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || neg {
		ts.Fatalf("usage: exits CODE gsrun ARG...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}

// waiting waits until the newest run of a site waits for approval, of so many
// questions that aren't answered yet, and sets RUN: waiting SITE [N].
func waiting(ts *testscript.TestScript, _ bool, args []string) {
	n := 1
	if len(args) > 1 {
		var err error
		n, err = strconv.Atoi(args[1])
		ts.Check(err)
	}
	store, err := journal.Open(filepath.Join(ts.MkAbs(args[0]), ".gsrun"))
	ts.Check(err)
	for range 3000 {
		runs, err := store.Runs()
		ts.Check(err)
		if len(runs) > 0 && len(runs[0].Waits) >= n {
			entries, _, err := store.Read(runs[0].Run)
			ts.Check(err)
			open := 0
			for _, q := range journal.Waiting(entries) {
				if _, given, err := store.GivenAnswer(runs[0].Run, q.ID); err == nil && !given {
					open++
				}
			}
			if open >= n {
				ts.Setenv("RUN", runs[0].Run)
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("no run of %s waits for approval", args[0])
}

// lastRun sets RUN to the newest run of a site: lastrun SITE.
func lastRun(ts *testscript.TestScript, _ bool, args []string) {
	store, err := journal.Open(filepath.Join(ts.MkAbs(args[0]), ".gsrun"))
	ts.Check(err)
	runs, err := store.Runs()
	ts.Check(err)
	if len(runs) == 0 {
		ts.Fatalf("%s has no runs", args[0])
	}
	ts.Setenv("RUN", runs[0].Run)
}

// digests compares a file with another, in which "sha256:..." stands for any
// digest: digests FILE WANT.
func digests(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 || neg {
		ts.Fatalf("usage: digests FILE WANT")
	}
	got := regexp.MustCompile("sha256:[0-9a-f]{64}").ReplaceAllString(ts.ReadFile(args[0]), "sha256:...")
	if want := ts.ReadFile(args[1]); got != want {
		ts.Fatalf("%s is\n%s\nwant\n%s", args[0], got, want)
	}
}

// labs are the labs of the scripts that run, by their work folder.
type labKey struct{}

// TestLabScripts runs the command line against a lab, one for each script.
// TestHostScripts runs commands among real hosts.
func TestHostScripts(t *testing.T) {
	skip.Slow(t, "it starts hosts")
	why := realhosts.Missing()
	skip.Unless(t, why == "", "gsrun lab hosts", why)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/hosts", RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			err := setup(e)
			e.Setenv("XDG_CACHE_HOME", cache) // with the hosts' root
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

func TestLabScripts(t *testing.T) {
	skip.Slow(t, "it starts labs")
	testscript.Run(t, testscript.Params{
		Dir: "testdata/lab", RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			if err := setup(e); err != nil {
				return err
			}
			dir := filepath.Join(e.WorkDir, "lab")
			e.Setenv(lab.DirVariable, dir)
			l, err := lab.Start(dir, io.Discard)
			if err != nil {
				return err
			}
			e.Values[labKey{}], e.Values[learnedKey{}] = l, newCanary()
			e.Setenv("SSH_PORT", strconv.Itoa(l.Info.SSHPort))
			e.Setenv("CLOUD_PORT", l.Info.OpenStack[strings.LastIndex(l.Info.OpenStack, ":")+1:])
			e.Defer(l.Close)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "cloud-fault": cloudFault, "cloud-clear": cloudClear, "cloud-requests": cloudRequests, "host-fault": hostFault, "marks": marks, "mirror-fault": mirrorFault, "replace": replace, "unmake": unmake, "nowhere": nowhere,
			"lastrun": lastRun, "learn": learn, "rename": rename, "unseen": unseen,
		},
	})
}

func labOf(ts *testscript.TestScript) *lab.Lab { return ts.Value(labKey{}).(*lab.Lab) }

// cloudFault makes the cloud fail: cloud-fault '{"service": "network", ...}'.
func cloudFault(ts *testscript.TestScript, _ bool, args []string) {
	var f openstack.Fault
	ts.Check(json.Unmarshal([]byte(args[0]), &f))
	_, err := labOf(ts).Cloud.Inject(f)
	ts.Check(err)
}

// cloudClear ends all faults of the cloud.
func cloudClear(ts *testscript.TestScript, _ bool, _ []string) { labOf(ts).Cloud.ClearFaults("") }

// cloudRequests checks how many requests that write, or only that delete, the
// cloud got: cloud-requests writes|deletes N.
func cloudRequests(ts *testscript.TestScript, _ bool, args []string) {
	n := 0
	var seen []string
	for _, r := range labOf(ts).Cloud.Requests(0) {
		if r.Write() && r.Service != "identity" && (args[0] == "writes" || r.Method == http.MethodDelete) {
			n++
			seen = append(seen, r.Method+" "+r.Path)
		}
	}
	want := regexp.MustCompile("^(?:" + args[1] + ")$")
	if !want.MatchString(strings.TrimSpace(jsonText(n))) {
		ts.Fatalf("the cloud got %d writes, want %s: %v", n, args[1], seen)
	}
}

// marks checks how many things of the cloud hold a text, such as an owner mark:
// marks TEXT N.
func marks(ts *testscript.TestScript, _ bool, args []string) {
	var seen []string
	for kind, things := range labOf(ts).Cloud.State(false) {
		for _, x := range things {
			if strings.Contains(jsonText(x), args[0]) {
				seen = append(seen, kind+" "+jsonText(x["name"]))
			}
		}
	}
	if strconv.Itoa(len(seen)) != args[1] {
		ts.Fatalf("%d things bear %s, want %s: %v", len(seen), args[0], args[1], seen)
	}
}

func jsonText(v any) string {
	b, _ := json.Marshal(v) // numbers always marshal
	return string(b)
}

// unmake deletes a network of the cloud by its name, behind gsrun's back:
// unmake network NAME.
func unmake(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs("unmake")
	ts.Check(os.MkdirAll(filepath.Join(dir, "recipes"), 0o700))
	src := fmt.Sprintf("def gone():\n    \"\"\"Delete it.\"\"\"\n    openstack.connect(\"openstack\").%s.delete(%q, adopt = True)\n\nmain = recipe(steps = [gone])\n", args[0], args[1])
	ts.Check(os.WriteFile(filepath.Join(dir, "recipes", "unmake.star"), []byte(src), 0o600))
	ts.Check(ts.Exec("gsrun", filepath.Join(dir, "recipes", "unmake.star"), "--lab", "--max-deletes", "1"))
}

// hostFault makes the host of that name fail: host-fault NAME refuse|mute|rekey.
func hostFault(ts *testscript.TestScript, _ bool, args []string) {
	for _, h := range labOf(ts).Hosts.Hosts() {
		if h.Info().Name != args[0] {
			continue
		}
		f := hosts.Faults{}
		switch args[1] {
		case "refuse":
			f.Refuse = true
		case "mute":
			f.Mute = true
		case "rekey":
			ts.Check(h.ChangeHostKeys())
			return
		}
		h.SetFaults(f)
		return
	}
	ts.Fatalf("no host %s", args[0])
}

// mirrorFault makes downloads fail: mirror-fault PATTERN ACTION.
func mirrorFault(ts *testscript.TestScript, _ bool, args []string) {
	_, err := labOf(ts).Mirror.Inject(mirror.Fault{Path: args[0], Action: mirror.Action(args[1]), Count: -1})
	ts.Check(err)
}

// replace rewrites a file: replace FILE REGEXP TEXT.
func replace(ts *testscript.TestScript, _ bool, args []string) {
	file := ts.MkAbs(args[0])
	data, err := os.ReadFile(file)
	ts.Check(err)
	re := regexp.MustCompile("(?m)" + args[1])
	if !re.Match(data) {
		ts.Fatalf("%s doesn't match %s", args[0], args[1])
	}
	ts.Check(os.WriteFile(file, re.ReplaceAll(data, []byte(args[2])), 0o600))
}

// nowhere checks that the generated secret `leak` of the lab's site stands in
// no file of a folder: nowhere DIR.
func nowhere(ts *testscript.TestScript, _ bool, args []string) {
	home, err := site.Load(labOf(ts).Info.Site)
	ts.Check(err)
	box, err := secretclient.ReadBox(home.Secrets.Recipients, home.Path(home.Secrets.Identity))
	ts.Check(err)
	value, found, err := secretclient.NewStore(filepath.Join(home.StateDir(), "secrets"), box).Get(context.Background(), secretclient.Generated("leak"))
	ts.Check(err)
	if !found {
		ts.Fatalf("there is no secret")
	}
	files := 0
	err = filepath.WalkDir(ts.MkAbs(args[0]), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for _, form := range []string{string(value), base64.StdEncoding.EncodeToString(value)} {
			if strings.Contains(string(data), form) {
				ts.Fatalf("%s holds the secret", path)
			}
		}
		return nil
	})
	ts.Check(err)
	if files < 3 {
		ts.Fatalf("only %d files were looked at", files)
	}
}
