package openstack

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// BucketMark is the header of Swift's containers that holds the owner mark of
// what is made as a bucket. S3 has no field for one that a create sets.
const BucketMark = "X-Container-Meta-Gsrun-Bucket"

// SegmentsSuffix is what Swift puts behind a bucket's name for the container
// that holds the parts of its uploads.
const SegmentsSuffix = "+segments"

// A Store says where S3 is spoken, and by which key.
type Store struct {
	Endpoint string // SCHEME://HOST[:PORT]; empty is the cloud's own
	Region   string // what requests are signed for; empty is found out
	Access   string
	Secret   string
}

// A Buckets sends S3's calls to one store. It is safe for concurrent use. Its
// transport is the client's: certificates, deadlines and bounds are the same.
type Buckets struct {
	client   *Client
	store    Store
	endpoint *url.URL
	outside  *http.Transport // of a store that isn't the cloud's; nil for the cloud's own

	mu     sync.Mutex
	region string
	api    *minio.Core
}

// Buckets returns what speaks S3 to a store. No call is made yet.
func (c *Client) Buckets(s Store) (*Buckets, error) {
	b := &Buckets{client: c, store: s, region: cmp.Or(s.Region, c.entry.Region, "us-east-1")}
	address := s.Endpoint
	if address == "" {
		address = c.s3Endpoint()
	}
	if address == "" {
		return nil, fault.Hinted(fault.Invalid, "give endpoint = the address where S3 is spoken, or set s3_endpoint_override", "cloud %s has no object storage: its catalog has neither s3 nor object-store", c.entry.Name)
	}
	var err error
	if b.endpoint, err = url.Parse(address); err != nil || b.endpoint.Host == "" || b.endpoint.Scheme != "http" && b.endpoint.Scheme != "https" || strings.Trim(b.endpoint.Path, "/") != "" || b.endpoint.User != nil {
		return nil, fault.Hinted(fault.Invalid, "it looks like https://s3.example.org or http://192.0.2.1:8080", "%q is no address of an S3 endpoint", redacted(address))
	}
	if s.Endpoint != "" {
		b.region = cmp.Or(s.Region, "us-east-1")
		b.outside = c.outsideTransport()
	}
	return b, b.connect(b.region)
}

func redacted(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Redacted()
	}
	return "it"
}

// s3Endpoint is where the cloud speaks S3: what the catalog or an override
// calls s3, else the root of the host of its object storage.
func (c *Client) s3Endpoint() string {
	for _, s := range []Service{S3, ObjectStorage} {
		if u, err := url.Parse(c.endpoints[s]); err == nil && u.Host != "" {
			return u.Scheme + "://" + u.Host
		}
	}
	return ""
}

// outsideTransport is the client's for stores that aren't the cloud's: the
// system's certificates count too, and the client's own isn't shown.
func (c *Client) outsideTransport() *http.Transport {
	t := c.transport.Clone()
	t.TLSClientConfig.Certificates = nil
	if c.entry.CACert != "" {
		if pool, err := x509.SystemCertPool(); err == nil {
			pool.AppendCertsFromPEM([]byte(c.entry.CACert))
			t.TLSClientConfig.RootCAs = pool
		}
	}
	return t
}

// Close ends the connections to a store that isn't the cloud's.
func (b *Buckets) Close() {
	if b.outside != nil {
		b.outside.CloseIdleConnections()
	}
}

// connect makes the library's client, which knows one region.
func (b *Buckets) connect(region string) error {
	api, err := minio.NewCore(b.endpoint.Host, &minio.Options{
		Creds: credentials.NewStaticV4(b.store.Access, b.store.Secret, ""), Secure: b.endpoint.Scheme == "https", Transport: b,
		Region: region, BucketLookup: minio.BucketLookupPath, MaxRetries: 1}) // the door tries again
	if err != nil {
		return fault.New(fault.Invalid, "S3 at %s: %v", b.Endpoint(), err)
	}
	b.region, b.api = region, api
	return nil
}

// Endpoint returns the address where S3 is spoken.
func (b *Buckets) Endpoint() string { return b.endpoint.Scheme + "://" + b.endpoint.Host }

// Region returns what requests are signed for.
func (b *Buckets) Region() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.region
}

// do makes a call. A region that nobody asked for is corrected once by what
// the store says.
func (b *Buckets) do(ctx context.Context, what string, call func(*minio.Core) error) error {
	b.mu.Lock()
	api, region := b.api, b.region
	b.mu.Unlock()
	err := call(api)
	var said minio.ErrorResponse
	if err != nil && b.store.Region == "" && errors.As(err, &said) && said.Code == "AuthorizationHeaderMalformed" && said.Region != "" && said.Region != region {
		b.mu.Lock()
		cerr := b.connect(said.Region)
		api = b.api
		b.mu.Unlock()
		if cerr != nil {
			return cerr
		}
		err = call(api)
	}
	if err == nil {
		return nil
	}
	return b.explain(ctx, what, err)
}

type markKey struct{}
type exchangeKey struct{}

// An exchange keeps of the last request of a call what the library doesn't
// pass on.
type exchange struct {
	status int
	header http.Header
	err    error // of the connection
}

// asking returns ctx for one call.
func asking(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, new(exchange))
}

func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return new(exchange)
}

// RoundTrip sends one request, within the bounds and deadline of the client.
// It is for the library.
func (b *Buckets) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	leave, err := enter(ctx, b.client.slots[ObjectStorage])
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeoutCause(ctx, b.client.entry.Timeout, tooSlow(S3, b.client.entry.Timeout))
	defer cancel()
	req = req.Clone(ctx)
	writes := req.Method != http.MethodGet && req.Method != http.MethodHead
	// The mark isn't part of S3, nor of what is signed.
	if mark, _ := ctx.Value(markKey{}).(string); mark != "" && req.Method == http.MethodPut && req.URL.RawQuery == "" {
		req.Header.Set(BucketMark, mark)
	}
	transport := b.client.transport
	if b.outside != nil {
		transport = b.outside
	}
	x := exchangeOf(ctx)
	*x = exchange{}
	broke := func(err error) (*http.Response, error) {
		x.err = translate(ctx, S3, &url.Error{Op: req.Method, URL: b.Endpoint(), Err: err})
		return nil, x.err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return broke(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body) // nothing that is asked for is long
	if err != nil {
		return broke(err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	x.status, x.header = resp.StatusCode, resp.Header
	if writes && resp.StatusCode < 300 && b.client.entry.Wrote != nil {
		b.client.entry.Wrote(ctx)
	}
	return resp, nil
}

// explain makes an error of the library a fault:
//
//	BucketAlreadyExists             Exists
//	BucketAlreadyOwnedByYou         Conflict: it came meanwhile
//	SignatureDoesNotMatch, 403      Denied
//	NoSuchBucket, 404               NotFound
//	QuotaExceeded, TooManyBuckets   Quota
//	NotImplemented                  Invalid
//
// and others as those of OpenStack's services are.
func (b *Buckets) explain(ctx context.Context, what string, err error) error {
	x := exchangeOf(ctx)
	if x.err != nil {
		return x.err
	}
	if cerr := fault.FromContext(ctx); cerr != nil {
		return cerr
	}
	var said minio.ErrorResponse
	if !errors.As(err, &said) || said.StatusCode == 0 {
		kind := fault.Invalid // the library refuses it
		if x.status != 0 {
			kind = fault.Unavailable
		}
		return fault.New(kind, "S3 at %s: %s: %v", b.Endpoint(), what, err)
	}
	f := &fault.Error{Kind: kindOf(S3, said.StatusCode, said.Code, said.Message)}
	switch said.Code {
	case "BucketAlreadyExists":
		f.Kind, f.Hint = fault.Exists, "another account of this object storage has a bucket of that name: choose another name"
	case "QuotaExceeded", "TooManyBuckets":
		f.Kind = fault.Quota
	case "SignatureDoesNotMatch", "InvalidAccessKeyId":
		f.Kind, f.Hint = fault.Denied, "the access key isn't known there, or its secret is another one"
	case "RequestTimeTooSkewed":
		f.Kind, f.Hint = fault.Denied, "this machine's clock differs too much from the storage's: set it"
	case "AccessDenied", "AllAccessDisabled":
		f.Hint = "the key's user may not do it, or the bucket is another account's"
	case "AuthorizationHeaderMalformed", "InvalidRegion", "InvalidLocationConstraint", "IllegalLocationConstraintException":
		if f.Hint = "give region = as the object storage calls itself"; said.Region != "" {
			f.Hint = fmt.Sprintf("give region = %q", said.Region)
		}
	case "NotImplemented":
		f.Hint = "this object storage doesn't have that"
	}
	where := what
	if said.RequestID != "" {
		where += ", request " + said.RequestID
	}
	f.Err = fmt.Errorf("S3 answered %d %s: %s (%s)", said.StatusCode, said.Code, clip(said.Message), where)
	f.After = fault.RetryAfter(x.header.Get("Retry-After"), x.header.Get("Date"))
	if said.StatusCode == http.StatusTooManyRequests || said.Code == "SlowDown" {
		f.Err = notDone{f.Err}
	}
	return f
}

// code returns what S3 calls the error.
func code(err error) string {
	var said minio.ErrorResponse
	if errors.As(err, &said) {
		return said.Code
	}
	return ""
}
