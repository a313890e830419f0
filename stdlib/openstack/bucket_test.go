package openstack_test

import (
	"slices"
	"strings"
	"testing"

	"go.starlark.net/starlark"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/openstack"
)

const bucketSource = `
def key(account):
    return struct(access = account, secret = hidden)

def ensure(**args):
    return openstack.connect("lab").bucket.ensure("backups", credential = key("me"), endpoint = store, **args)

def plain(): return ensure()
def tagged(): return ensure(tags = {"purpose": "etcd", "stage": "lab"}, expire_days = 30, expire_old_days = 7, versioning = True)
def changed(): return ensure(tags = {"purpose": "logs", "stage": ""}, expire_days = 10, expire_old_days = -1, versioning = False)
def exact(): return ensure(tags = {"purpose": "logs"}, expire_days = -1, exact = True)
def limited(): return ensure(quota_bytes = 10)
def theirs(): return openstack.connect("lab").bucket.ensure("backups", credential = key("they"), endpoint = store)
def named(): return [x.name for x in openstack.connect("lab").bucket.list(key("me"), endpoint = store)]
def drop(): openstack.connect("lab").bucket.delete("backups", credential = key("me"), endpoint = store)
def own(): return openstack.connect("lab").bucket.ensure("own", credential = openstack.connect("lab").ec2_credential.ensure("own"), versioning = True)
def again(): return openstack.connect("lab").bucket.ensure("own", credential = openstack.connect("lab").ec2_credential.ensure("own"))
def emptied(): openstack.connect("lab").bucket.delete("own", credential = openstack.connect("lab").ec2_credential.ensure("own"), force = True)
def found(): # the entry names no region
    cloud = openstack.connect("admin")
    return cloud.bucket.ensure("found", credential = cloud.ec2_credential.ensure("found")).region
def catalog(): # what the cloud calls its region the store doesn't know
    return openstack.connect("lab", endpoints = {"s3": store}, name = "lab-s3").bucket.ensure("catalog", credential = key("me"))
def clear(): openstack.connect("lab").bucket.delete("backups", credential = key("me"), endpoint = store, force = True)
`

// A bucketWorld is a cloud with an object storage beside it.
type bucketWorld struct {
	*world
	store *gateway
}

func newBucketWorld(t *testing.T) bucketWorld {
	w := bucketWorld{newWorld(t, lab.Config{}), newGateway(t)}
	w.door.Retry = effect.Retry{Tries: 2, Base: 1, Max: 1}
	return w
}

// as runs a function of bucketSource as that recipe, and returns what it
// returns and the writes to the store.
func (w bucketWorld) as(recipe, name string) (starlark.Value, []string, error) {
	w.t.Helper()
	opts := w.options()
	opts.Owner = effect.Owner{Site: "test", Recipe: recipe}
	opts.Globals = starlark.StringDict{"store": starlark.String(w.store.url), "hidden": effect.SecretOf("not to be seen", "test:")}
	fn := startest.Load(w.t, "bucket.star", bucketSource, opts)[name].(starlark.Callable)
	w.store.take()
	v, err := startest.Call(w.t, fn, opts)
	if err != nil && strings.Contains(startest.Explain(err), "not to be seen") {
		w.t.Errorf("%s shows the secret: %s", name, startest.Explain(err))
	}
	return v, w.store.take(), err
}

func (w bucketWorld) attr(v starlark.Value, name string) string {
	w.t.Helper()
	x, err := v.(starlark.HasAttrs).Attr(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return x.String()
}

// TestBucketElsewhere is about a store that isn't the cloud's: each field is
// compared and set, what isn't named stays, and with exact goes.
func TestBucketElsewhere(t *testing.T) {
	w := newBucketWorld(t)
	for _, step := range []struct {
		fn, writes  string
		tags        string
		days, older string
	}{
		{"plain", "PUT backups? PUT backups?tagging", "{}", "None", "None"},
		{"tagged", "PUT backups?tagging PUT backups?versioning PUT backups?lifecycle", `{"purpose": "etcd", "stage": "lab"}`, "30", "7"},
		{"plain", "", `{"purpose": "etcd", "stage": "lab"}`, "30", "7"},
		{"changed", "PUT backups?tagging PUT backups?versioning PUT backups?lifecycle", `{"purpose": "logs"}`, "10", "None"},
		{"exact", "DELETE backups?lifecycle", `{"purpose": "logs"}`, "None", "None"},
	} {
		for again := range 2 {
			v, writes, err := w.as("test", step.fn)
			if err != nil {
				t.Fatalf("%s: %s", step.fn, startest.Explain(err))
			}
			if got := strings.Join(writes, " "); got != step.writes && again == 0 || got != "" && again == 1 {
				t.Errorf("%s, time %d: it wrote %q, not %q", step.fn, again+1, got, step.writes)
			}
			if tags, days, older := w.attr(v, "tags"), w.attr(v, "expire_days"), w.attr(v, "expire_old_days"); tags != step.tags || days != step.days || older != step.older {
				t.Errorf("%s: tags %s, expire_days %s, expire_old_days %s", step.fn, tags, days, older)
			}
			if mark := w.attr(v, "mark"); mark != `"gsrun:test/test/backups"` {
				t.Errorf("%s: mark %s", step.fn, mark)
			}
		}
	}
	if v, _, err := w.as("test", "named"); err != nil || v.String() != `["backups"]` {
		t.Errorf("%v, %v", v, err)
	}
	if _, writes, err := w.as("test", "limited"); fault.KindOf(err) != fault.Invalid || len(writes) > 0 {
		t.Errorf("a quota: %v, %v", writes, err)
	}
	// Rules that are somebody's stay, unless exact.
	b := w.store.buckets["backups"]
	b.rules = []byte("<LifecycleConfiguration><Rule><ID>theirs</ID><Status>Enabled</Status><Filter><Prefix>tmp/</Prefix></Filter><Expiration><Days>3</Days></Expiration></Rule></LifecycleConfiguration>")
	if _, _, err := w.as("test", "changed"); err != nil || !strings.Contains(string(b.rules), "<ID>theirs</ID>") || !strings.Contains(string(b.rules), "<Days>10</Days>") {
		t.Errorf("%s, %v", b.rules, err)
	}
	if _, _, err := w.as("test", "exact"); err != nil || b.rules != nil {
		t.Errorf("%s, %v", b.rules, err)
	}
}

// TestBucketOwners is about whose a bucket is.
func TestBucketOwners(t *testing.T) {
	w := newBucketWorld(t)
	// The connection breaks, and stays broken, between the two calls of a create.
	w.store.cut = "PUT backups?tagging"
	if _, _, err := w.as("test", "plain"); fault.KindOf(err) != fault.Unreachable {
		t.Fatal(err)
	}
	w.store.cut = ""
	if _, writes, err := w.as("test", "plain"); err != nil || strings.Join(writes, " ") != "PUT backups?tagging" {
		t.Fatalf("%v, %v", writes, err)
	}
	refused := func(recipe, fn string, kind fault.Kind, text, hint string) {
		t.Helper()
		_, writes, err := w.as(recipe, fn)
		if fault.KindOf(err) != kind || !strings.Contains(err.Error(), text) || !strings.Contains(fault.HintOf(err), hint) {
			t.Errorf("%s of %s: %v (%s)", fn, recipe, err, fault.HintOf(err))
		}
		if len(writes) > 0 && text != "BucketAlreadyExists" {
			t.Errorf("%s of %s wrote %v", fn, recipe, writes)
		}
	}
	refused("other", "plain", fault.Exists, "owned by gsrun:test/test/backups", "adopt = True")
	refused("other", "clear", fault.Exists, "owned by gsrun:test/test/backups", "adopt = True")
	refused("test", "theirs", fault.Denied, "AccessDenied", "another account's")
	b := w.store.buckets["backups"]
	b.tags, b.objects = nil, []string{"one"}
	refused("test", "plain", fault.Exists, "no owner mark, and isn't empty", "adopt = True")
	b.objects = nil
	if _, writes, err := w.as("test", "plain"); err != nil || len(writes) != 1 {
		t.Errorf("%v, %v", writes, err)
	}
	b.objects = []string{"a", "b", "c", "d", "e"}
	if _, _, err := w.as("test", "drop"); fault.KindOf(err) != fault.Exists || !strings.Contains(fault.HintOf(err), "force = True") {
		t.Errorf("%v", err)
	}
	b.objects = append(b.objects, "locked")
	if _, _, err := w.as("test", "clear"); err == nil || !strings.Contains(err.Error(), "locked: it is locked") {
		t.Errorf("%v", err)
	}
	b.objects = b.objects[:len(b.objects)-1]
	if _, _, err := w.as("test", "clear"); err != nil || len(w.store.buckets) != 0 {
		t.Errorf("%v, %v", w.store.buckets, err)
	}
}

// TestBucketOwned is about buckets of the cloud's own: they are found by their
// marks, and go with what lies beside them.
func TestBucketOwned(t *testing.T) {
	w := newBucketWorld(t)
	for _, fn := range []string{"own", "catalog"} {
		if _, _, err := w.as("test", fn); err != nil {
			t.Fatal(startest.Explain(err))
		}
	}
	if v, _, err := w.as("test", "found"); err != nil || v.String() != `"RegionOne"` {
		t.Errorf("the region that was found out is %v, %v", v, err)
	}
	if b := w.store.buckets["catalog"]; b == nil || !strings.Contains(string(b.tags), "gsrun:test/test/catalog") {
		t.Errorf("%+v", b)
	}
	owner := effect.Owner{Site: "test", Recipe: "test"}
	ctx := effect.With(t.Context(), effect.NewScope(startest.NewDoor(effect.Apply), owner, "owned", nil))
	all, err := w.module.Recv.(*openstack.Clouds).ListOwned(ctx, "openstack/lab", []string{owner.Prefix()})
	if got := kindsOf(all); err != nil || !slices.Equal(got, []string{"bucket", "ec2_credential"}) || all[0].Target.String() != "openstack/lab/bucket/own" || all[0].Mark != "gsrun:test/test/own" {
		t.Fatalf("%+v, %v", all, err)
	}
	c, err := w.client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	call := func(method, path string) error {
		_, err := c.Send(t.Context(), client.Call{Service: client.ObjectStorage, Method: method, Path: path})
		return err
	}
	for _, path := range []string{"/own+segments", "/own+segments/big/u1", "/own/one"} {
		if err := call("PUT", path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := effect.Do(ctx, all[0].Delete); fault.KindOf(err) != fault.Exists || !strings.Contains(err.Error(), "isn't empty") {
		t.Errorf("deleting what holds something: %v", err)
	}
	if err := call("HEAD", "/own+segments/big/u1"); err != nil {
		t.Errorf("a bucket that stays has lost the parts of an upload: %v", err)
	}
	if err := call("DELETE", "/own/one"); err != nil {
		t.Fatal(err)
	}
	// Its old versions are there still.
	if _, err := effect.Do(ctx, all[0].Delete); fault.KindOf(err) != fault.Exists {
		t.Errorf("deleting what holds old versions: %v", err)
	}
	if err := call("HEAD", "/own+segments/big/u1"); err != nil {
		t.Errorf("a bucket that stays for its versions has lost the parts of an upload: %v", err)
	}
	if _, _, err := w.as("test", "emptied"); err != nil {
		t.Fatal(startest.Explain(err))
	}
	for _, path := range []string{"/own", "/own+segments"} {
		if err := call("HEAD", path); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	if _, err := effect.Do(ctx, all[0].Delete); err != nil {
		t.Errorf("what is gone: %v", err)
	}
	// Without versions, with parts of an upload.
	if _, _, err := w.as("test", "again"); err != nil {
		t.Fatal(startest.Explain(err))
	}
	for _, path := range []string{"/own+segments", "/own+segments/big/u1"} {
		if err := call("PUT", path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := effect.Do(ctx, all[0].Delete); err != nil {
		t.Errorf("deleting it: %v", err)
	}
	if err := call("HEAD", "/own+segments"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("the parts are left: %v", err)
	}
}

// TestBucketUndone is about what a destroy does to a bucket of another store.
func TestBucketUndone(t *testing.T) {
	w := newBucketWorld(t)
	var met []effect.Sighting
	w.door.Met = func(s effect.Sighting) { met = append(met, s) }
	for range 2 {
		if _, _, err := w.as("test", "plain"); err != nil {
			t.Fatal(startest.Explain(err))
		}
	}
	last := met[len(met)-1]
	o := last.Op.(effect.Undoer).Undo(last.State)
	if o.Mark != "gsrun:test/test/backups" || o.Credential || !strings.HasSuffix(o.Target.String(), "/bucket/"+strings.TrimPrefix(w.store.url, "http://")+"/backups") {
		t.Errorf("%+v", o)
	}
	ctx := effect.With(t.Context(), effect.NewScope(startest.NewDoor(effect.Apply), last.Owner, "undo", nil))
	for range 2 {
		if _, err := effect.Do(ctx, o.Delete); err != nil || len(w.store.buckets) != 0 {
			t.Errorf("%v, %v", w.store.buckets, err)
		}
	}
}
