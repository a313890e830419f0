package gitserver_test

import (
	"strings"
	"testing"

	"github.com/go-git/go-git/v5"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/gitserver"
)

func TestFaults(t *testing.T) {
	for name, test := range map[string]struct {
		fault  gitserver.Fault
		fails  string
		effect bool
		theirs bool
	}{
		"refuse":       {gitserver.Fault{Service: "push", Refuse: "temporarily unavailable"}, "unavailable", false, false},
		"reset-before": {gitserver.Fault{Service: "push", Reset: "before"}, "", false, false},
		"reset-after":  {gitserver.Fault{Service: "push", Reset: "after"}, "", true, false},
		"race-early":   {gitserver.Fault{Race: "early"}, "non-fast-forward", false, true},
		"race-late":    {gitserver.Fault{Race: "late", Files: map[string]string{"others/mine": "x\n"}}, "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			c := newClient(t, s)
			if err := s.AddKey("gitops", c.line(), "operator", true); err != nil {
				t.Fatal(err)
			}
			r, dir := c.clone(t, s, "gitops")
			ours := commit(t, r, dir, "spokes/b/cluster.yaml", "replicas: 2\n")
			if _, err := s.Inject(test.fault); err != nil {
				t.Fatal(err)
			}
			err := r.Push(&git.PushOptions{Auth: c.auth})
			if err == nil || !strings.Contains(err.Error(), test.fails) {
				t.Errorf("push: %v", err)
			}
			head, err := s.Resolve("gitops", "main")
			if err != nil || (head == ours.String()) != test.effect {
				t.Errorf("main is %s, ours %s (%v)", head, ours, err)
			}
			files, err := s.Files("gitops", "main")
			if err != nil || strings.Contains(strings.Join(files, " "), "others/") != test.theirs {
				t.Errorf("files %v (%v)", files, err)
			}
			if all := s.Faults(); len(all) != 1 || all[0].Hits != 1 {
				t.Errorf("%+v", all)
			}
			if n := s.ClearFaults(""); n != 1 {
				t.Errorf("%d were cleared", n)
			}
		})
	}
}

func TestFetchFault(t *testing.T) {
	s := start(t)
	c := newClient(t, s)
	if err := s.AddKey("gitops", c.line(), "operator", true); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Inject(gitserver.Fault{Service: "fetch", Reset: "after", DelayMS: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := git.PlainClone(t.TempDir(), false, &git.CloneOptions{URL: s.URL("gitops"), Auth: c.auth}); err == nil {
		t.Error("no error from a connection that breaks")
	}
	c.clone(t, s, "gitops")
}

func TestBadFaults(t *testing.T) {
	s := start(t)
	for _, f := range []gitserver.Fault{{}, {Race: "never"}, {Race: "late", Service: "fetch"}, {Service: "pull", Refuse: "no"}, {Reset: "now"}, {Repo: "[", Refuse: "no"}} {
		if _, err := s.Inject(f); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", f, err)
		}
	}
}
