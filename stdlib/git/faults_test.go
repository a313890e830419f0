package git_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.starlark.net/starlark"
	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/client/git/gittest"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/gitserver"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

// labServer returns the lab's Git server with the repository site, and what a
// script needs to push there.
func labServer(t *testing.T) (*gitserver.Server, startest.Options) {
	t.Helper()
	skip.Slow(t, "it starts the git program")
	_, err := exec.LookPath("git")
	skip.Unless(t, err == nil, "the lab's Git server", "there is no git program to serve with")
	s, err := gitserver.New(t.TempDir(), gitserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Create("site", map[string]string{"README.md": "hello\n"}); err != nil {
		t.Fatal(err)
	}
	key := gittest.NewKey(t)
	signer, err := ssh.ParsePrivateKey([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.AddKey("site", string(ssh.MarshalAuthorizedKey(signer.PublicKey())), "writer", true); err != nil {
		t.Fatal(err)
	}
	return s, startest.Options{Door: startest.NewDoor(effect.Apply), Modules: []*builtin.Module{module(t)}, Globals: starlark.StringDict{
		"url": starlark.String(s.URL("site")), "write_key": effect.SecretOf(key, ""), "host_key": starlark.String(ssh.MarshalAuthorizedKey(s.HostKey()))}}
}

const pushOurs = openRepo + `repo.write("ours", "1\n")
repo.commit("Ours")
st = repo.push()
assert.eq(st.commit, repo.resolve("main"))
again = git.repo(url, key = write_key, host_key = host_key)
again.write("ours", "1\n")
again.commit("Ours")
assert.eq(again.push().commit, st.commit)
`

// TestPassingFaults disturbs a push by each fault that passes: in the end the
// commit is there, once, and what others pushed is too.
func TestPassingFaults(t *testing.T) {
	for name, f := range map[string]gitserver.Fault{
		"unavailable":  {Refuse: "The service is temporarily unavailable.", Count: 3},
		"reset-before": {Service: "push", Reset: "before", Count: 2},
		"reset-after":  {Service: "push", Reset: "after"},
		"fetch-breaks": {Service: "fetch", Reset: "before", Count: 2},
		"race-early":   {Race: "early", Count: 2},
		"race-late":    {Race: "late", Count: 2},
		"race-same":    {Race: "late", Files: map[string]string{"ours": "1\n"}}, // somebody else pushes the same
		"slow":         {DelayMS: 20, Count: 3},
	} {
		t.Run(name, func(t *testing.T) {
			s, opts := labServer(t)
			if _, err := s.Inject(f); err != nil {
				t.Fatal(err)
			}
			if err := script(t, opts, pushOurs); err != nil {
				t.Fatal(startest.Explain(err))
			}
			if hits := s.Faults()[0].Hits; hits != max(f.Count, 1) {
				t.Errorf("the fault acted %d times", hits)
			}
			ours := 0
			for _, p := range s.Pushes(0) {
				if p.Who == "writer" {
					ours++
				}
			}
			if want := 1; f.Files == nil && ours != want || f.Files != nil && ours != 0 {
				t.Errorf("%d pushes of ours", ours)
			}
			files, err := s.Files("site", "main")
			if err != nil || !slices.Contains(files, "ours") || !slices.Contains(files, "README.md") {
				t.Errorf("the files are %v (%v)", files, err)
			}
			theirs := 0
			for _, file := range files {
				if strings.HasPrefix(file, "others/") {
					theirs++
				}
			}
			if f.Race != "" && f.Files == nil && theirs != f.Count {
				t.Errorf("what others pushed is lost: %v", files)
			}
		})
	}
}

// TestLastingFaults has a push fail for good.
func TestLastingFaults(t *testing.T) {
	for name, test := range map[string]struct {
		fault gitserver.Fault
		kind  fault.Kind
		tries int
	}{
		"denied":      {gitserver.Fault{Service: "push", Refuse: "Permission to site denied to writer."}, fault.Denied, 1},
		"not-found":   {gitserver.Fault{Refuse: "Repository not found."}, fault.NotFound, 1},
		"unavailable": {gitserver.Fault{Refuse: "Internal Server Error"}, fault.Unavailable, 4},
		"race":        {gitserver.Fault{Race: "late"}, fault.Conflict, 4},
		"reset":       {gitserver.Fault{Service: "push", Reset: "before"}, fault.Unreachable, 4},
	} {
		t.Run(name, func(t *testing.T) {
			s, opts := labServer(t)
			test.fault.Count = -1
			if _, err := s.Inject(test.fault); err != nil {
				t.Fatal(err)
			}
			err := script(t, opts, pushOurs)
			if fault.KindOf(err) != test.kind {
				t.Errorf("got %v (%s), want %s", err, fault.KindOf(err), test.kind)
			}
			if hits := s.Faults()[0].Hits; hits != test.tries {
				t.Errorf("%d tries, want %d", hits, test.tries)
			}
		})
	}
}

// TestPushEndsWithTheStep lets a server answer later than the step may take.
func TestPushEndsWithTheStep(t *testing.T) {
	s, opts := labServer(t)
	if _, err := s.Inject(gitserver.Fault{Service: "push", DelayMS: int(time.Hour.Milliseconds())}); err != nil {
		t.Fatal(err)
	}
	opts.Timeout = 400 * time.Millisecond
	if err := script(t, opts, pushOurs); fault.KindOf(err) != fault.Timeout {
		t.Errorf("got %v (%s)", err, fault.KindOf(err))
	}
}
