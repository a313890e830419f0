package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/rogpeppe/go-internal/testscript"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
)

// asOthers calls the lab's cloud as other programs would, behind gsrun's back.
func asOthers(ts *testscript.TestScript) *client.Client {
	file, err := client.ReadClouds(filepath.Join(labOf(ts).Info.Site, "clouds.yaml"), nil)
	ts.Check(err)
	entry, err := file.Entry("openstack", client.Given{})
	ts.Check(err)
	cl, err := client.Connect(context.Background(), entry)
	ts.Check(err)
	ts.Defer(cl.Close)
	return cl
}

// rename gives the only network of a name another one, which others may have,
// and sets ID to its id: rename OLD NEW.
func rename(ts *testscript.TestScript, _ bool, args []string) {
	cl := asOthers(ts)
	call := client.Call{Service: client.Network, Path: "/networks", Query: url.Values{"name": {args[0]}}}
	found, err := cl.List(context.Background(), call, "networks")
	ts.Check(err)
	if len(found) != 1 {
		ts.Fatalf("%d networks are called %s", len(found), args[0])
	}
	id, _ := found[0]["id"].(string)
	body := client.Object{"network": client.Object{"name": args[1]}}
	_, err = cl.Do(context.Background(), client.Call{Service: client.Network, Method: http.MethodPut, Path: "/networks/" + id, Body: body})
	ts.Check(err)
	ts.Setenv("ID", id)
}

// learnedKey is where a script keeps the secrets that it has learned.
type learnedKey struct{}

// learn asks the cloud for the secret key of its only EC2 credential, for
// `unseen` to look for, and writes it to a file: learn FILE.
func learn(ts *testscript.TestScript, _ bool, args []string) {
	call := client.Call{Service: client.Identity, Path: "/credentials", Query: url.Values{"type": {"ec2"}}}
	found, err := asOthers(ts).List(context.Background(), call, "credentials")
	ts.Check(err)
	if len(found) != 1 {
		ts.Fatalf("there are %d EC2 credentials", len(found))
	}
	text, _ := found[0]["blob"].(string)
	var blob struct {
		Secret string `json:"secret"`
	}
	ts.Check(json.Unmarshal([]byte(text), &blob))
	if len(blob.Secret) < 20 {
		ts.Fatalf("the secret key has %d bytes", len(blob.Secret))
	}
	ts.Value(learnedKey{}).(*canary).add("secret key", blob.Secret)
	ts.Check(os.MkdirAll(filepath.Dir(ts.MkAbs(args[0])), 0o700))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte("key: "+blob.Secret+"\n"), 0o600))
}

// unseen checks that what was learned is in no file of some folders, in no form,
// nor in what the lab noted of requests: unseen DIR...
func unseen(ts *testscript.TestScript, neg bool, args []string) {
	known := ts.Value(learnedKey{}).(*canary)
	if len(known.patterns) == 0 {
		ts.Fatalf("nothing was learned")
	}
	c := newCanary()
	c.patterns = known.patterns
	for _, dir := range args {
		ts.Check(filepath.WalkDir(ts.MkAbs(dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			c.look(dir, path, append([]byte(path+"\n"), data...))
			return err
		}))
		if c.looked[dir] == 0 {
			ts.Fatalf("%s has no files", dir)
		}
		ts.Logf("%d bytes of %s", c.looked[dir], dir)
	}
	l := labOf(ts)
	c.look("requests", "to the cloud", fmt.Appendf(nil, "%+v", l.Cloud.Requests(0)))
	c.look("requests", "to Kubernetes", fmt.Appendf(nil, "%+v", l.KubernetesRequests()))
	hits := slices.Sorted(maps.Keys(c.hits))
	if (len(hits) > 0) != neg {
		ts.Fatalf("%d hits: %q", len(hits), hits)
	}
}
