package openstack_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// gone waits until the client has gone, which shows once the body is read.
func gone(r *http.Request) {
	io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// TestBucketErrors is about what a store's refusals become. None shows the key.
func TestBucketErrors(t *testing.T) {
	refusal := func(status int, code, more string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>so it is</Message><RequestId>req-9</RequestId>%s</Error>", code, more)
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		kind   fault.Kind
		text   string
		hint   string
		after  time.Duration
	}{
		"another account's": {refusal(409, "BucketAlreadyExists", ""), fault.Exists, "S3 answered 409 BucketAlreadyExists: so it is (PUT /box-1, request req-9)", "choose another name", 7 * time.Second},
		"came meanwhile":    {refusal(409, "BucketAlreadyOwnedByYou", ""), fault.Conflict, "", "", 7 * time.Second},
		"wrong key":         {refusal(403, "SignatureDoesNotMatch", ""), fault.Denied, "", "access key", 7 * time.Second},
		"no right":          {refusal(403, "AccessDenied", ""), fault.Denied, "", "another account's", 7 * time.Second},
		"clocks":            {refusal(403, "RequestTimeTooSkewed", ""), fault.Denied, "", "clock", 7 * time.Second},
		"too many":          {refusal(400, "TooManyBuckets", ""), fault.Quota, "", "", 7 * time.Second},
		"slow down":         {refusal(503, "SlowDown", ""), fault.Unavailable, "", "", 7 * time.Second},
		"limited":           {refusal(429, "TooManyRequests", ""), fault.Unavailable, "", "", 7 * time.Second},
		"a defect":          {refusal(500, "InternalError", ""), fault.Unavailable, "", "", 7 * time.Second},
		"not there":         {refusal(501, "NotImplemented", ""), fault.Invalid, "", "doesn't have that", 7 * time.Second},
		"its region":        {refusal(400, "AuthorizationHeaderMalformed", "<Region>eu</Region>"), fault.Invalid, "", `region = "eu"`, 7 * time.Second},
		"no XML": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "a proxy's page", http.StatusBadGateway) },
			fault.Unavailable, "a proxy's page", "", 0},
		"cut off": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, fault.Unreachable, "calling S3 at ", "", 0},
		"no answer": {func(_ http.ResponseWriter, r *http.Request) { gone(r) },
			fault.Unavailable, "S3 didn't answer within 500ms", "api_timeout", 0},
	} {
		t.Run(name, func(t *testing.T) {
			cl := slowly(t, "0.5", c.answer)
			store := openstack.Store{Endpoint: strings.TrimSuffix(cl.Entry().AuthURL, "/v3"), Region: "r1", Access: "the-access", Secret: "not to be seen"}
			b, err := cl.Buckets(store)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			err = b.Create(context.Background(), "box-1", "")
			if fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) || !strings.Contains(fault.HintOf(err), c.hint) || fault.AfterOf(err) != c.after {
				t.Errorf("%s: %v (%s), after %v", fault.KindOf(err), err, fault.HintOf(err), fault.AfterOf(err))
			}
			if strings.Contains(fmt.Sprint(err, fault.HintOf(err)), "not to be seen") {
				t.Error("the secret shows")
			}
		})
	}
}

// TestBucketGivenUp is about who gives up a call before it is answered.
func TestBucketGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cl := fake(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); gone(r) })
	b, err := cl.Buckets(openstack.Store{Endpoint: strings.TrimSuffix(cl.Entry().AuthURL, "/v3"), Access: "a", Secret: "b"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Names(ctx); fault.KindOf(err) != fault.Cancelled {
		t.Errorf("%v", err)
	}
}

// TestBucketTrust is about whose certificates are trusted: what the cloud's
// entry names, for a store beside the cloud too.
func TestBucketTrust(t *testing.T) {
	list := func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<ListAllMyBucketsResult><Buckets><Bucket><Name>box-1</Name></Bucket></Buckets></ListAllMyBucketsResult>")
	}
	var l hall
	server, cl := l.open(t, true, list)
	other := httptest.NewTLSServer(http.HandlerFunc(list)) // whose certificate is the same
	t.Cleanup(other.Close)
	_, plain := new(hall).open(t, false, list)
	for name, c := range map[string]struct {
		cl       *openstack.Client
		endpoint string
		kind     fault.Kind
	}{
		"the cloud's": {cl, server.URL, ""}, "another": {cl, other.URL, ""}, "unknown": {plain, other.URL, fault.Untrusted},
		"no scheme": {cl, "s3.example.org", fault.Invalid}, "a path": {cl, server.URL + "/s3", fault.Invalid}, "a login": {cl, "https://u:p@s3.example.org", fault.Invalid},
		"none in the catalog": {cl, "", fault.Invalid},
	} {
		b, err := c.cl.Buckets(openstack.Store{Endpoint: c.endpoint, Access: "a", Secret: "b"})
		if err == nil {
			_, err = b.Names(context.Background())
			b.Close()
		}
		if fault.KindOf(err) != c.kind || err != nil && strings.Contains(err.Error(), "u:p@") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
