package openstack

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/sync/errgroup"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

const (
	bucketKind = "bucket"
	bucketTag  = "gsrun-owner" // the tag that holds the owner mark, where the store has tags
)

func bucketAttrs() []builtin.Attr {
	return []builtin.Attr{
		{Name: "id", Type: "str", Doc: "Its name, by which S3 knows it."},
		{Name: "name", Type: "str", Doc: "The name."},
		{Name: "endpoint", Type: "str", Doc: "Where S3 is spoken: https://HOST[:PORT]."},
		{Name: "region", Type: "str", Doc: "The region that requests have to be signed for."},
		{Name: "versioning", Type: "bool", Doc: "Whether old versions of objects are kept."},
		{Name: "tags", Type: "dict[str, str]", Doc: "Its tags, without the owner mark."},
		{Name: "expire_days", Type: "int", Doc: "After how many days objects go, by the rule that is this module's; None for never."},
		{Name: "expire_old_days", Type: "int", Doc: "After how many days old versions of objects go, by that module's rule; None for never."},
		{Name: "quota_bytes", Type: "int", Doc: "How many bytes it may hold; None for no limit, or where S3 alone is spoken, which has none."},
		{Name: "mark", Type: "str", Doc: "The owner mark; empty if it has none."},
	}
}

// A bucketPlace is where buckets are, and by which key they are reached.
type bucketPlace struct {
	cloud   *Cloud
	store   client.Store
	project string // that the key is for, as far as it is said
	known   bool
}

// bucketPlaceOf checks the arguments that all verbs have.
func bucketPlaceOf(c *Cloud, verb string, credential effect.Data, endpoint effect.Text, region string) (bucketPlace, error) {
	p := bucketPlace{cloud: c, store: client.Store{Endpoint: strings.TrimRight(endpoint.Reveal(), "/"), Region: region}, known: endpoint.Known()}
	wrong := fault.Hinted(fault.Invalid, "give what ec2_credential.ensure returns, or struct(access = ..., secret = secret(\"name\"))",
		"bucket.%s: credential is no EC2 credential: it lacks access or secret", verb)
	if _, ok := credential.V.(effect.Unknown); ok {
		p.known = false
		return p, nil
	}
	m, ok := credential.V.(map[string]any)
	if !ok {
		return p, wrong
	}
	for key, into := range map[string]*string{"access": &p.store.Access, "secret": &p.store.Secret, "project_id": &p.project} {
		switch v := m[key].(type) {
		case effect.Unknown:
			p.known = false
			continue
		case *effect.Secret:
			*into = v.Reveal()
		case string:
			if key == "secret" && v != "" {
				return p, fault.Hinted(fault.Invalid, "give what ec2_credential.ensure returns, or get it by secret()", "bucket.%s: the secret of credential is no secret, and would show", verb)
			}
			*into = v
		}
		if *into == "" && key != "project_id" {
			return p, wrong
		}
	}
	return p, nil
}

func (p bucketPlace) target(name string) effect.Target {
	if u, err := url.Parse(p.store.Endpoint); err == nil && u.Host != "" && name != "" {
		name = u.Host + "/" + name
	}
	t := p.cloud.target(bucketKind, name)
	t.Unknown = t.Unknown || !p.known
	return t
}

// open returns what calls the place, which is to be closed.
func (p bucketPlace) open(ctx context.Context) (*client.Client, *client.Buckets, error) {
	cl, err := p.cloud.client(ctx)
	if err != nil {
		return nil, nil, err
	}
	b, err := cl.Buckets(p.store)
	return cl, b, err
}

// ofSwift reports whether a bucket of the place is the container of that name
// of the login's project, whose mark a create sets and Swift shows.
func (p bucketPlace) ofSwift(cl *client.Client) bool {
	return p.store.Endpoint == "" && cl.Offers(client.ObjectStorage) && !cl.Offers(client.S3) && (p.project == "" || p.project == cl.Project())
}

// A seenBucket is what there is of a bucket.
type seenBucket struct {
	*client.Bucket
	attrs map[string]any
	mark  string
	swift bool // the mark would have been set by the create
}

// read returns a bucket; an error of kind NotFound if there is none.
func (p bucketPlace) read(ctx context.Context, cl *client.Client, b *client.Buckets, name string) (*seenBucket, error) {
	have, err := b.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	s := &seenBucket{Bucket: have}
	var quota any
	if p.ofSwift(cl) {
		a, err := sendContainer(ctx, cl, client.Call{Method: http.MethodHead, Path: containerPath(name)})
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return nil, err
		}
		s.mark, s.swift = a.Header.Get(client.BucketMark), err == nil
		quota = headerNumber(a.Header, quotaBytes)
	}
	if s.mark == "" { // else the mark went with a create by S3: it is Swift
		if err := b.Describe(ctx, have); err != nil {
			return nil, err
		}
		s.mark, s.swift = have.Tags[bucketTag], s.swift && !have.Taggable
	}
	tags := map[string]any{}
	for k, v := range have.Tags {
		if k != bucketTag {
			tags[k] = v
		}
	}
	days := func(n int) any {
		if n == 0 {
			return nil
		}
		return n
	}
	s.attrs = map[string]any{"id": name, "name": name, "endpoint": b.Endpoint(), "region": b.Region(), "versioning": have.Versioning, "tags": tags,
		"expire_days": days(have.ExpireDays), "expire_old_days": days(have.OldDays), "quota_bytes": quota, "mark": s.mark}
	return s, nil
}

// own refuses a bucket that is somebody else's. One without a mark is ours
// where nothing can hold a mark; where tags do, if it is empty: a run that was
// killed between its two calls leaves such a one, which then lacks the mark.
func (s *seenBucket) own(ctx context.Context, b *client.Buckets, mark string, adopt bool) (lacks bool, err error) {
	if s.mark == mark || adopt {
		return false, nil
	}
	other := "has no owner mark"
	switch {
	case s.mark != "":
		other = "is owned by " + s.mark
	case s.Taggable:
		held, err := b.Holds(ctx, s.Name)
		if err != nil {
			return false, err
		}
		if held == "" {
			return true, nil
		}
		other += ", and isn't empty"
	case !s.swift:
		return false, nil
	}
	return false, fault.Hinted(fault.Exists, adoptHint, "a bucket %q exists that isn't ours: it %s, ours would be %s", s.Name, other, mark)
}

// removeBucket deletes a bucket; with force what it holds before.
func removeBucket(ctx context.Context, b *client.Buckets, name string, force bool) error {
	return removeHolder("bucket "+name, force, func() error { return b.Clear(ctx, name) }, func() error { return b.Delete(ctx, name) })
}

// bucketHolding is of what was made as buckets in the login's own Swift.
func bucketHolding() holding {
	one := func(ctx context.Context, cl *client.Client, name string) (client.Object, error) {
		a, err := sendContainer(ctx, cl, client.Call{Method: http.MethodHead, Path: containerPath(name)})
		return client.Object{"id": name, "name": name, "mark": a.Header.Get(client.BucketMark), "objects": a.Header.Get("X-Container-Object-Count"), "versions": a.Header.Get("X-Versions-Enabled")}, err
	}
	return holding{kind: bucketKind, one: one,
		list: func(ctx context.Context, cl *client.Client) ([]client.Object, error) {
			if !cl.Offers(client.ObjectStorage) {
				return nil, nil
			}
			var out []client.Object
			all, err := eachContainer(ctx, cl, url.Values{}, func(ctx context.Context, name string) (map[string]any, error) { return one(ctx, cl, name) })
			for _, o := range all {
				if str(o, "mark") != "" {
					out = append(out, o)
				}
			}
			return out, err
		},
		mark: func(o client.Object) string { return str(o, "mark") },
		remove: func(ctx context.Context, _ *Cloud, cl *client.Client, o client.Object) error {
			name := str(o, "name")
			// The parts of uploads that weren't ended lie beside it. They go first, so that
			// a kill leaves no stray, unless old versions may keep the bucket.
			parts := func() error { return removeContainer(ctx, cl, name+client.SegmentsSuffix, true) }
			if o["objects"] == "0" && o["versions"] == "" {
				if err := parts(); err != nil {
					return err
				}
			}
			if err := removeContainer(ctx, cl, name, false); err != nil {
				return err
			}
			return parts()
		},
	}
}

type bucketArgs struct {
	Name       string                 `star:"name,required" doc:"The name: 3 to 63 small letters, digits, dots and dashes."`
	Credential effect.Data            `star:"credential,required" doc:"The key to reach it by: an object with access and secret, as ec2_credential.ensure returns it."`
	Endpoint   effect.Text            `star:"endpoint" doc:"Address of another object storage that speaks S3, such as \"https://s3.example.org\". Default: the cloud's own: the catalog's s3, or the host of its object-store."`
	Region     string                 `star:"region" doc:"Region to sign for. Default: the cloud's, or what the object storage says that it is; of another storage us-east-1."`
	Versioning *bool                  `star:"versioning" doc:"Whether to keep old versions of objects."`
	Tags       map[string]effect.Text `star:"tags" secret:"never" doc:"Tags to have; others stay, unless exact, and one of an empty value goes. Swift has none."`
	Expire     *int                   `star:"expire_days" doc:"After how many days objects go; -1 for never. Swift has no such rules."`
	ExpireOld  *int                   `star:"expire_old_days" doc:"After how many days old versions of objects go; -1 for never."`
	Quota      *int                   `star:"quota_bytes" doc:"How many bytes it may hold; -1 for no limit. Only the cloud's own Swift has quotas."`
	Exact      bool                   `star:"exact" doc:"Remove other tags, and other rules by which objects go."`
	Adopt      bool                   `star:"adopt" doc:"Take over a bucket of that name that lacks this recipe's mark."`
}

type bucketGetArgs struct {
	Name       string      `star:"name,required" doc:"The name."`
	Credential effect.Data `star:"credential,required" doc:"The key to reach it by, as ec2_credential.ensure returns it."`
	Endpoint   effect.Text `star:"endpoint" doc:"Address of another object storage. Default: the cloud's own."`
	Region     string      `star:"region" doc:"Region to sign for, as for ensure."`
}

type bucketListArgs struct {
	Credential effect.Data `star:"credential,required" doc:"The key whose buckets are meant, as ec2_credential.ensure returns it."`
	Prefix     string      `star:"prefix" doc:"Only those whose names begin so."`
	Mark       string      `star:"mark" doc:"Only those whose owner mark begins so."`
	Endpoint   effect.Text `star:"endpoint" doc:"Address of another object storage. Default: the cloud's own."`
	Region     string      `star:"region" doc:"Region to sign for, as for ensure."`
}

type bucketDeleteArgs struct {
	Name       string      `star:"name,required" doc:"The name that it was ensured with."`
	Credential effect.Data `star:"credential,required" doc:"The key to reach it by, as ec2_credential.ensure returns it."`
	Endpoint   effect.Text `star:"endpoint" doc:"Address of another object storage. Default: the cloud's own."`
	Region     string      `star:"region" doc:"Region to sign for, as for ensure."`
	Force      bool        `star:"force" doc:"Delete what is in it too: objects, their old versions, and uploads that were begun."`
	Adopt      bool        `star:"adopt" doc:"Delete it even if it lacks this recipe's owner mark."`
}

func bucketVerbs() builtin.Noun {
	key := "key = cloud.ec2_credential.ensure(\"backups\")\n"
	return builtin.Noun{
		Name: bucketKind, Identity: builtin.NaturalKey, Attrs: bucketAttrs(),
		Doc: "A bucket of an object storage that speaks S3, reached by an access key: the cloud's own, whose Swift or Ceph has it as the container of that name, or another. " +
			"S3 has no field for an owner mark that a create sets. Swift has one, beside S3, and the mark is there. Elsewhere it is a tag that is set right after the create, and an empty bucket without one counts as one whose making was cut off. " +
			"Where there are neither, the name is what tells whose it is. " +
			"Requests are signed by version 4 and name buckets in the path; the cloud's entry says which certificates are trusted, and for another storage the system's are as well.",
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Cloud, bucketArgs]{
				Name:    "ensure",
				Doc:     "Make a bucket be there with the given settings. What isn't given isn't compared.",
				Returns: "openstack.bucket",
				Example: key + `box = cloud.bucket.ensure("backups", credential = key, versioning = True)`,
				Effect:  builtin.Changes,
				Errors:  []fault.Kind{fault.Exists, fault.Invalid, fault.Denied},
				Run: func(ctx context.Context, c *Cloud, a bucketArgs) (any, error) {
					op, err := newBucketOp(ctx, c, a)
					if err != nil {
						return nil, err
					}
					return c.do(ctx, op)
				},
			}),
			builtin.Of(builtin.Spec[*Cloud, bucketGetArgs]{
				Name:    "get",
				Doc:     "Return the bucket of that name, or None.",
				Returns: "openstack.bucket or None",
				Example: key + `box = cloud.bucket.get("backups", credential = key)`,
				Effect:  builtin.Reads,
				Errors:  []fault.Kind{fault.Denied},
				Run: func(ctx context.Context, c *Cloud, a bucketGetArgs) (any, error) {
					p, err := bucketPlaceOf(c, "get", a.Credential, a.Endpoint, a.Region)
					if err != nil {
						return nil, err
					}
					t := p.target(a.Name)
					return effect.Read(ctx, effect.Query{Target: t, Scope: t.String(), Absent: true}, func(ctx context.Context) (effect.State, error) {
						cl, b, err := p.open(ctx)
						if err != nil {
							return effect.State{}, err
						}
						defer b.Close()
						s, err := p.read(ctx, cl, b, a.Name)
						if err != nil {
							return effect.State{}, err
						}
						return effect.State{Exists: true, Attrs: s.attrs}, nil
					})
				},
			}),
			builtin.Of(builtin.Spec[*Cloud, bucketListArgs]{
				Name:    "list",
				Doc:     "Return the key's buckets, sorted by name. It takes a few calls for each.",
				Returns: "list[openstack.bucket]",
				Example: key + `names = [x.name for x in cloud.bucket.list(credential = key)]`,
				Effect:  builtin.Reads,
				Errors:  []fault.Kind{fault.Denied},
				Run: func(ctx context.Context, c *Cloud, a bucketListArgs) (any, error) {
					p, err := bucketPlaceOf(c, "list", a.Credential, a.Endpoint, a.Region)
					if err != nil {
						return nil, err
					}
					t := p.target("")
					return effect.Read(ctx, effect.Query{Target: t, Scope: t.String()}, func(ctx context.Context) ([]any, error) {
						return p.list(ctx, a)
					})
				},
			}),
			builtin.Of(builtin.Spec[*Cloud, bucketDeleteArgs]{
				Name:    "delete",
				Doc:     "Delete the bucket of that name. That there is none is no error; one that isn't this recipe's, or isn't empty, is refused.",
				Returns: "None",
				Example: key + `cloud.bucket.delete("backups", credential = key, force = True)`,
				Effect:  builtin.Changes,
				Errors:  []fault.Kind{fault.Exists, fault.Denied},
				Run: func(ctx context.Context, c *Cloud, a bucketDeleteArgs) (any, error) {
					op, err := newBucketOp(ctx, c, bucketArgs{Name: a.Name, Credential: a.Credential, Endpoint: a.Endpoint, Region: a.Region, Adopt: a.Adopt})
					if err != nil {
						return nil, err
					}
					_, err = c.do(ctx, op.deletion(a.Force))
					return nil, err
				},
			}),
		},
	}
}

// list returns the buckets that are asked for.
func (p bucketPlace) list(ctx context.Context, a bucketListArgs) ([]any, error) {
	cl, b, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	names, err := b.Names(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]*seenBucket, len(names))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i, name := range names {
		if !strings.HasPrefix(name, a.Prefix) {
			continue
		}
		group.Go(func() error {
			s, err := p.read(gctx, cl, b, name)
			if fault.KindOf(err) == fault.NotFound {
				return nil // it went meanwhile
			}
			all[i] = s
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	out := []any{}
	for _, s := range all {
		if s != nil && strings.HasPrefix(s.mark, a.Mark) {
			out = append(out, effect.NewObject("openstack.bucket", s.attrs))
		}
	}
	return out, nil
}
