package openstack_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/openstack"
)

// A dying store ends the run at one of its changes, before or after it is made.
type dyingStore struct {
	effect.Store
	left  atomic.Int64 // changes to let pass
	after bool
}

func (s *dyingStore) change(f func() error) error {
	if s.left.Add(-1) != -1 {
		return f()
	}
	if s.after {
		if err := f(); err != nil {
			return err
		}
	}
	return fault.New(fault.Failed, "the machine lost its power")
}

func (s *dyingStore) Put(ctx context.Context, name string, value []byte) error {
	return s.change(func() error { return s.Store.Put(ctx, name, value) })
}

func (s *dyingStore) Delete(ctx context.Context, name string) error {
	return s.change(func() error { return s.Store.Delete(ctx, name) })
}

// kept returns the names of the secrets that are stored.
func (w *world) kept() []string {
	w.t.Helper()
	var out []string
	err := filepath.WalkDir(w.secrets, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, strings.TrimPrefix(path, w.secrets+"/"))
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

const oneCredential = `cloud.application_credential.ensure("ac", roles = ["member"])`

// A run that dies while it makes an application credential, or makes it anew,
// leaves what the next run can go on with: it needs no budget of deletions, the
// secret is the right one, and nothing is there twice.
func TestCredentialSurvivesCrashes(t *testing.T) {
	first := `cloud = openstack.connect("lab")
ac = ` + oneCredential
	anew := `cloud = openstack.connect("lab")
ac = cloud.application_credential.ensure("ac", lifetime = "100h", renew_before = "90h")`
	for name, c := range map[string]struct {
		before, run string
		changes     int64 // of the store
	}{
		"made":    {"", first, 3},
		"renewed": {`cloud.application_credential.ensure("ac", lifetime = "10h")`, anew, 5},
	} {
		for step := range c.changes {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/%v", name, step, after), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, lab.Config{})
					if c.before != "" {
						w.must(c.before)
					}
					store := &dyingStore{Store: journal.NewValues(w.secrets), after: after}
					store.left.Store(step)
					m := openstack.Module(openstack.Config{CloudsFile: filepath.Join(w.dir, "clouds.yaml"), Secrets: store, Interval: 5 * time.Millisecond, Patience: 15 * time.Millisecond})
					defer m.Recv.(*openstack.Clouds).Close()
					err := w.run(t.Context(), m, startest.NewDoor(effect.Apply), c.run)
					if err == nil {
						t.Fatal("the run wasn't disturbed")
					}
					door := startest.NewDoor(effect.Apply)
					door.Deletes = 0
					if err := w.run(t.Context(), w.newModule(), door, c.run+`
if len(cloud.application_credential.list()) != 1:
    fail(cloud.application_credential.list())
if openstack.connect(auth_url = cloud.identity().auth_url, credential = ac).identity().application_credential_id != ac.id:
    fail("the secret is another's")
`); err != nil {
						t.Fatal(startest.Explain(err))
					}
					since := len(w.cloud.Requests(0))
					w.must(c.run)
					if writes := w.writes(since); len(writes) > 0 {
						t.Errorf("the third run wrote %q", writes)
					}
					w.must(`cloud.application_credential.delete("ac")`)
					if kept := w.kept(); len(kept) != 0 {
						t.Errorf("the store has %q still", kept)
					}
				})
			}
		}
	}
}

// Where the store has lost the secret, nobody can use the credential: it is
// made anew, which the plan says, and which takes a deletion.
func TestLostSecret(t *testing.T) {
	w := newWorld(t, lab.Config{})
	w.must(oneCredential)
	if err := os.RemoveAll(filepath.Join(w.secrets, "openstack")); err != nil {
		t.Fatal(err)
	}
	plan := startest.NewDoor(effect.Plan)
	if err := w.run(t.Context(), w.newModule(), plan, oneCredential); err != nil {
		t.Fatal(err)
	}
	planned := plan.Planned()
	if len(planned) != 1 || planned[0].Change.Kind != effect.Replace || !strings.Contains(planned[0].Change.Note, "doesn't have its secret") {
		t.Fatalf("planned %v", planned)
	}
	door := startest.NewDoor(effect.Apply)
	door.Deletes = 0
	if err := w.run(t.Context(), w.newModule(), door, oneCredential); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "deletion budget") {
		t.Fatalf("got %v", err)
	}
	w.must(oneCredential)
	if kept := w.kept(); len(kept) != 1 {
		t.Errorf("the store has %q", kept)
	}
	w.must(`cloud.application_credential.delete("ac")`)
	if kept := w.kept(); len(kept) != 0 {
		t.Errorf("the store has %q still", kept)
	}
}

// Without a store no secret could be kept: nothing is made then.
func TestCredentialNeedsStore(t *testing.T) {
	w := newWorld(t, lab.Config{})
	m := openstack.Module(openstack.Config{CloudsFile: filepath.Join(w.dir, "clouds.yaml")})
	defer m.Recv.(*openstack.Clouds).Close()
	err := w.run(t.Context(), m, startest.NewDoor(effect.Apply), oneCredential)
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "the site has no store") || !strings.Contains(fault.HintOf(err), "site.yaml") {
		t.Errorf("got %v, hint %q", err, fault.HintOf(err))
	}
	if n := len(w.cloud.Requests(0)); n != 0 {
		t.Errorf("%d calls", n)
	}
}

// The secret is in no event, and in nothing that the door keeps of the op.
func TestCredentialIsRedacted(t *testing.T) {
	w := newWorld(t, lab.Config{})
	var seen strings.Builder
	door := startest.NewDoor(effect.Apply)
	door.Emit = func(e effect.Event) { fmt.Fprintf(&seen, "%+v %v %+v\n", e, e.Err, e.Change) }
	if err := w.run(t.Context(), w.newModule(), door, oneCredential+`
cloud.ec2_credential.ensure("key")
cloud.application_credential.ensure("ac", roles = ["member"])`); err != nil {
		t.Fatal(startest.Explain(err))
	}
	for _, name := range w.kept() {
		secret, err := os.ReadFile(filepath.Join(w.secrets, name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(seen.String(), string(secret)) {
			t.Errorf("an event says %s", secret)
		}
	}
	for kind, all := range w.cloud.State(false) {
		if strings.Contains(fmt.Sprint(all), "secret:") {
			t.Errorf("the state has secrets of %s", kind)
		}
	}
}

const revocable = `
admin = openstack.connect("admin")
p = admin.project.ensure("spoke")
u = admin.user.ensure("spoke", default_project = p)
admin.role_assignment.ensure("member", user = u, project = p)
admin.ec2_credential.ensure("spoke", user = u, project = p)
admin.application_credential.ensure("spoke")
`

// Who is let in by a recipe's identities is so no longer once they are
// destroyed: keys first, then the user, then the project.
func TestOwnedIdentities(t *testing.T) {
	w := newWorld(t, lab.Config{})
	w.must(revocable)
	w.must(`openstack.connect("admin").user.ensure("stranger")`)
	if err := w.runAs(t.Context(), effect.Owner{Site: "test", Recipe: "other"}, w.module, startest.NewDoor(effect.Apply), `openstack.connect("admin").user.ensure("others")`); err != nil {
		t.Fatal(err)
	}
	keeper := w.module.Recv.(*openstack.Clouds)
	owner := effect.Owner{Site: "test", Recipe: "test"}
	ctx := effect.With(t.Context(), effect.NewScope(startest.NewDoor(effect.Apply), owner, "owned", nil))
	owned, err := keeper.ListOwned(ctx, "openstack/admin", []string{owner.Prefix()})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := kindsOf(owned), []string{"ec2_credential", "application_credential", "user", "user", "project"}; !slices.Equal(got, want) {
		t.Fatalf("owned: %q, want %q", got, want)
	}
	for _, o := range owned {
		if !o.Credential {
			t.Errorf("%s is deleted before others", o.Target)
		}
		if _, err := effect.Do(ctx, o.Delete); err != nil {
			t.Fatal(startest.Explain(err))
		}
	}
	for kind, want := range map[string]int{"project": 2, "user": 3, "application_credential": 0, "ec2_credential": 0} {
		if got := w.cloud.State(false)[kind]; len(got) != want {
			t.Errorf("%d of %s are left, want %d: %v", len(got), kind, want, got)
		}
	}
	if kept := w.kept(); len(kept) != 0 {
		t.Errorf("the store has %q still", kept)
	}
	// Who isn't an administrator isn't asked for what only one may see.
	since := len(w.cloud.Requests(0))
	if _, err := keeper.ListOwned(ctx, "openstack/lab", []string{owner.Prefix()}); err != nil {
		t.Fatal(err)
	}
	for _, r := range w.cloud.Requests(since) {
		if r.Status == http.StatusForbidden {
			t.Errorf("%s %s: refused", r.Method, r.Path)
		}
	}
}
