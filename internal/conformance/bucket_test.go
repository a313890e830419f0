package conformance

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"go.starlark.net/starlark"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

const bucketRecipe = `
def make(cloud):
    key = cloud.ec2_credential.ensure("s3")
    box = cloud.bucket.ensure("full-box", credential = key, versioning = True)
    return [key.access, key.secret, box.endpoint]

def drop(cloud):
    cloud.bucket.delete("full-box", credential = cloud.ec2_credential.ensure("s3"))

def clear(cloud):
    cloud.bucket.delete("full-box", credential = cloud.ec2_credential.ensure("s3"), force = True)
`

// TestBuckets fills a bucket with objects, versions, deletions and an upload
// that isn't ended: it is deleted only by force, and then nothing is left.
func TestBuckets(t *testing.T) {
	t.Parallel()
	for _, target := range targets() {
		t.Run(target.name, func(t *testing.T) {
			target.need(t)
			s := newScenario(t, target)
			fns := startest.Load(t, "bucket.star", bucketRecipe, s.options(effect.Apply))
			made, _, err := s.run(fns["make"].(starlark.Callable), "lab", effect.Apply)
			if err != nil {
				t.Fatal(startest.Explain(err))
			}
			out := made.(*starlark.List)
			access, _ := starlark.AsString(out.Index(0))
			address, _ := starlark.AsString(out.Index(2))
			u, err := url.Parse(address)
			if err != nil {
				t.Fatal(err)
			}
			api, err := minio.NewCore(u.Host, &minio.Options{Region: "RegionOne", BucketLookup: minio.BucketLookupPath,
				Creds: credentials.NewStaticV4(access, out.Index(1).(*effect.Secret).Reveal(), "")})
			if err != nil {
				t.Fatal(err)
			}
			ctx := context.Background()
			put := func(key, text string) {
				t.Helper()
				sent := strings.NewReader(text)
				if _, err := api.Client.PutObject(ctx, "full-box", key, sent, sent.Size(), minio.PutObjectOptions{DisableContentSha256: true, SendContentMd5: true}); err != nil {
					t.Fatal(err)
				}
			}
			const odd = "dir/ä b+c&d.txt"
			for _, key := range []string{"one", "one", "two", odd} {
				put(key, "text of "+key)
			}
			if target.slots == nil { // more than a page, where that takes no time
				for i := range 1050 {
					put(fmt.Sprintf("zmany/%04d", i), "x")
				}
			}
			if err := api.RemoveObject(ctx, "full-box", "two", minio.RemoveObjectOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := api.NewMultipartUpload(ctx, "full-box", "big", minio.PutObjectOptions{}); err != nil {
				t.Fatal(err)
			}
			var keys []string
			for o := range api.ListObjectsIter(ctx, "full-box", minio.ListObjectsOptions{}) {
				if o.Err != nil {
					t.Fatal(o.Err)
				}
				keys = append(keys, o.Key)
			}
			want := "one dir/"
			if target.slots == nil {
				want += " zmany/"
			}
			if got := strings.Join(keys, " "); got != want {
				t.Errorf("the list is %q, not %q", got, want)
			}
			latest := 0
			for o := range api.ListObjectsIter(ctx, "full-box", minio.ListObjectsOptions{Recursive: true, WithVersions: true}) {
				if o.Err != nil {
					t.Fatal(o.Err)
				}
				if strings.HasPrefix(o.Key, "zmany") {
					continue
				}
				if o.IsLatest {
					latest++
				}
				keys = append(keys, o.Key)
			}
			if latest != 3 {
				t.Errorf("%d states are the latest of their objects, there are 3 objects: %q", latest, keys)
			}
			_, _, err = s.run(fns["drop"].(starlark.Callable), "lab", effect.Apply)
			if fault.KindOf(err) != fault.Exists || !strings.Contains(fault.HintOf(err), "force = True") {
				t.Fatalf("%v (%v)", err, fault.HintOf(err))
			}
			if _, _, err := s.run(fns["clear"].(starlark.Callable), "lab", effect.Apply); err != nil {
				t.Fatal(startest.Explain(err))
			}
			left, err := s.client("lab").Send(ctx, client.Call{Service: client.ObjectStorage, Method: http.MethodGet, Query: url.Values{"format": {"json"}}})
			if err != nil || string(left.Body) != "[]" {
				t.Errorf("it left %s, %v", left.Body, err)
			}
		})
	}
}
