package openstack

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/lifecycle"
	"github.com/minio/minio-go/v7/pkg/tags"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// The ids of the lifecycle rules that are ours.
const (
	expireRule = "gsrun-expire"
	oldRule    = "gsrun-expire-old"
)

// A Bucket is what a store says of one.
type Bucket struct {
	Name       string
	Versioning bool
	Tags       map[string]string
	Taggable   bool // the store has tags for buckets
	ExpireDays int  // objects go after so many days; 0 for never
	OldDays    int  // old versions do
	OtherRules int  // lifecycle rules that aren't ours
}

// Names lists the key's buckets.
func (b *Buckets) Names(ctx context.Context) ([]string, error) {
	ctx = asking(ctx)
	var out []string
	err := b.do(ctx, "GET /", func(api *minio.Core) error {
		all, err := api.ListBuckets(ctx)
		out = nil
		for _, x := range all {
			out = append(out, x.Name)
		}
		return err
	})
	slices.Sort(out)
	return out, err
}

// Get returns a bucket, without what Describe adds; an error of kind NotFound
// if there is none.
func (b *Buckets) Get(ctx context.Context, name string) (*Bucket, error) {
	out := &Bucket{Name: name, Tags: map[string]string{}}
	ctx = asking(ctx)
	// Of the calls that tell whether it is there this one has a body, which says why not.
	err := b.do(ctx, "GET /"+name+"?versioning", func(api *minio.Core) error {
		v, err := api.GetBucketVersioning(ctx, name)
		out.Versioning = v.Enabled()
		return err
	})
	return out, err
}

// Describe adds the tags of a bucket and its lifecycle rules, which Swift has
// neither of.
func (b *Buckets) Describe(ctx context.Context, of *Bucket) error {
	set, ok, err := optional(ctx, b, "GET /"+of.Name+"?tagging", "NoSuchTagSet", func(ctx context.Context, api *minio.Core) (*tags.Tags, error) {
		return api.GetBucketTagging(ctx, of.Name)
	})
	if err != nil {
		return err
	}
	if set != nil {
		of.Tags = set.ToMap()
	}
	// Swift has no tags, and says that there are none; others say that there is no set.
	of.Taggable = ok && (set == nil || len(of.Tags) > 0)
	conf, _, err := b.rules(ctx, of.Name)
	for _, r := range conf.Rules {
		switch r.ID {
		case expireRule:
			of.ExpireDays = int(r.Expiration.Days)
		case oldRule:
			of.OldDays = int(r.NoncurrentVersionExpiration.NoncurrentDays)
		default:
			of.OtherRules++
		}
	}
	return err
}

// optional asks for what a bucket may lack, which the store says by a code, and
// which stores may lack altogether: then ok is false. Swift answers a question
// that it doesn't know with what it does know, a list of the bucket.
func optional[T any](ctx context.Context, b *Buckets, what, none string, ask func(context.Context, *minio.Core) (*T, error)) (value *T, ok bool, err error) {
	ctx = asking(ctx)
	ok = true
	err = b.do(ctx, what, func(api *minio.Core) error {
		v, err := ask(ctx, api)
		switch c := code(err); {
		case err == nil:
			value = v
		case c == none:
			return nil
		case c == "NotImplemented", c == "MethodNotAllowed", c == "" && exchangeOf(ctx).status == http.StatusOK:
			ok = false
			return nil
		}
		return err
	})
	return value, ok, err
}

// rules returns the lifecycle rules of a bucket; ok is false if the store has none for any.
func (b *Buckets) rules(ctx context.Context, name string) (conf lifecycle.Configuration, ok bool, err error) {
	found, ok, err := optional(ctx, b, "GET /"+name+"?lifecycle", "NoSuchLifecycleConfiguration", func(ctx context.Context, api *minio.Core) (*lifecycle.Configuration, error) {
		return api.GetBucketLifecycle(ctx, name)
	})
	if found != nil {
		conf = *found
	}
	return conf, ok, err
}

// Create makes a bucket. The mark goes with the call, for a store that is Swift.
func (b *Buckets) Create(ctx context.Context, name, mark string) error {
	ctx = asking(context.WithValue(ctx, markKey{}, mark))
	what := "PUT /" + name
	create := func(region string) func(*minio.Core) error {
		return func(api *minio.Core) error {
			return api.MakeBucket(ctx, name, minio.MakeBucketOptions{Region: region})
		}
	}
	refused := ""
	err := b.do(ctx, what, func(api *minio.Core) error {
		err := create("")(api)
		refused = code(err)
		return err
	})
	// A gateway of Ceph knows no place of the cloud's region's name, and checks none that it is signed for.
	if refused == "InvalidLocationConstraint" && b.store.Region == "" {
		err = b.do(ctx, what, create("us-east-1"))
	}
	return err
}

// Delete deletes a bucket; an error of kind Conflict if it isn't empty.
func (b *Buckets) Delete(ctx context.Context, name string) error {
	ctx = asking(ctx)
	return b.do(ctx, "DELETE /"+name, func(api *minio.Core) error { return api.RemoveBucket(ctx, name) })
}

// SetVersioning has old versions kept, or no more.
func (b *Buckets) SetVersioning(ctx context.Context, name string, on bool) error {
	ctx = asking(ctx)
	return b.do(ctx, "PUT /"+name+"?versioning", func(api *minio.Core) error {
		if on {
			return api.EnableVersioning(ctx, name)
		}
		return api.SuspendVersioning(ctx, name)
	})
}

// SetTags replaces a bucket's tags. It mustn't be asked for none where there
// are none: a Swift that knows no tags would delete the bucket.
func (b *Buckets) SetTags(ctx context.Context, name string, all map[string]string) error {
	set, err := tags.MapToBucketTags(all)
	if err != nil {
		return fault.New(fault.Invalid, "bucket %s: tags: %v", name, err)
	}
	ctx = asking(ctx)
	return b.do(ctx, "PUT /"+name+"?tagging", func(api *minio.Core) error {
		if len(all) == 0 {
			return api.RemoveBucketTagging(ctx, name)
		}
		return api.SetBucketTagging(ctx, name, set)
	})
}

// SetExpiry says after how many days objects and old versions go, 0 for never.
// Rules that aren't ours stay, unless exact.
func (b *Buckets) SetExpiry(ctx context.Context, name string, days, old int, exact bool) error {
	have, ok, err := b.rules(ctx, name)
	if err != nil {
		return err
	}
	conf := lifecycle.NewConfiguration()
	for _, r := range have.Rules {
		if !exact && r.ID != expireRule && r.ID != oldRule {
			conf.Rules = append(conf.Rules, r)
		}
	}
	if days > 0 {
		conf.Rules = append(conf.Rules, lifecycle.Rule{ID: expireRule, Status: "Enabled", Expiration: lifecycle.Expiration{Days: lifecycle.ExpirationDays(days)}})
	}
	if old > 0 {
		conf.Rules = append(conf.Rules, lifecycle.Rule{ID: oldRule, Status: "Enabled", NoncurrentVersionExpiration: lifecycle.NoncurrentVersionExpiration{NoncurrentDays: lifecycle.ExpirationDays(old)}})
	}
	switch {
	case len(have.Rules) == 0 && len(conf.Rules) == 0:
		return nil
	case !ok:
		// Swift would take the deletion of rules for that of the bucket.
		return fault.New(fault.Invalid, "S3 at %s has no lifecycle rules, by which objects expire", b.Endpoint())
	}
	ctx = asking(ctx)
	return b.do(ctx, "PUT /"+name+"?lifecycle", func(api *minio.Core) error { return api.SetBucketLifecycle(ctx, name, conf) })
}

// Holds returns the key of something that a bucket holds, "" if it is empty.
func (b *Buckets) Holds(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithCancel(asking(ctx))
	defer cancel()
	found := ""
	err := b.do(ctx, "GET /"+name+"?versions", func(api *minio.Core) error {
		for o := range api.ListObjectsIter(ctx, name, minio.ListObjectsOptions{Recursive: true, WithVersions: true, MaxKeys: 1}) {
			found = o.Key
			return o.Err
		}
		return nil
	})
	return found, err
}

// page is how many objects are deleted by one call.
const page = 1000

// Clear deletes all that a bucket holds, page by page: objects with their old
// versions, and uploads that were begun. Each page is the first of what is
// left: Swift's don't lead to one another. It doesn't list uploads for who asks
// as the library does; those go with the bucket there.
func (b *Buckets) Clear(ctx context.Context, name string) error {
	ctx = asking(ctx)
	for {
		var some []minio.ObjectInfo
		err := b.do(ctx, "GET /"+name+"?versions", func(api *minio.Core) error {
			some = nil
			for o := range api.ListObjectsIter(ctx, name, minio.ListObjectsOptions{Recursive: true, WithVersions: true, MaxKeys: page}) {
				if o.Err != nil {
					return o.Err
				}
				if some = append(some, o); len(some) == page {
					break
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if len(some) == 0 {
			break
		}
		if err := b.removeSome(ctx, name, some); err != nil {
			return err
		}
	}
	for {
		n := 0
		err := b.do(ctx, "GET /"+name+"?uploads", func(api *minio.Core) error {
			found, err := api.ListMultipartUploads(ctx, name, "", "", "", "", page)
			if code(err) == "NotImplemented" {
				return nil
			}
			n = len(found.Uploads)
			for _, u := range found.Uploads {
				if err := api.AbortMultipartUpload(ctx, name, u.Key, u.UploadID); err != nil && code(err) != "NoSuchUpload" {
					return err
				}
			}
			return err
		})
		if err != nil || n == 0 {
			return err
		}
	}
}

// removeSome deletes one page of objects.
func (b *Buckets) removeSome(ctx context.Context, name string, some []minio.ObjectInfo) error {
	return b.do(ctx, "POST /"+name+"?delete", func(api *minio.Core) error {
		all, err := api.RemoveObjectsWithIter(ctx, name, slices.Values(some), minio.RemoveObjectsOptions{})
		if err != nil {
			return err
		}
		var first error
		for r := range all {
			if r.Err != nil && first == nil && !strings.HasPrefix(code(r.Err), "NoSuch") {
				first = r.Err
				if said, ok := r.Err.(minio.ErrorResponse); ok && said.StatusCode == 0 {
					said.StatusCode, said.Message = http.StatusConflict, r.ObjectName+": "+said.Message
					first = said
				}
			}
		}
		return first
	})
}
