package openstack_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/ec2credentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/minio/minio-go/v7/pkg/signer"

	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

// A key is what a request is signed by.
type key struct{ access, secret, region string }

// whose returns the ids of the project and the user of a login.
func whose(t *testing.T, p *gophercloud.ProviderClient) (project, user string) {
	t.Helper()
	r := p.GetAuthResult().(tokens.CreateResult)
	return must[*tokens.Project](t, "project")(r.ExtractProject()).ID, must[*tokens.User](t, "user")(r.ExtractUser()).ID
}

// keyOf makes an EC2 credential of whoever is logged in.
func (l *lab) keyOf(p *gophercloud.ProviderClient, user, project string) key {
	l.t.Helper()
	c := must[*ec2credentials.Credential](l.t, "credential")(ec2credentials.Create(l.ctx, l.service(p, "identity"), user, ec2credentials.CreateOpts{TenantID: project}).Extract())
	return key{c.Access, c.Secret, "RegionOne"}
}

// amazon signs a call by the clock of the lab, which change may spoil before and
// after, and returns the status and the answer's body.
func (l *lab) amazon(k key, method, path, body string, before, after func(*http.Request)) (int, string) {
	l.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, l.url+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(body))
	req.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	if before != nil {
		before(req)
	}
	signed := signer.SignV4(*req, k.access, k.secret, "", k.region)
	if after != nil {
		after(signed)
	}
	answer, err := http.DefaultClient.Do(signed)
	if err != nil {
		l.t.Fatal(err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return answer.StatusCode, string(got)
}

// TestS3Signatures is about what lets a request in, and what doesn't.
func TestS3Signatures(t *testing.T) {
	l := newLab(t, func(c *openstack.Config) { c.Clock = nil }) // the library signs by the wall's
	project, user := whose(t, l.demo)
	mine := l.keyOf(l.demo, user, project)
	other := l.login(gophercloud.AuthOptions{Username: "other", Password: "secret", DomainName: "Default", TenantName: "other"})
	theirProject, theirUser := whose(t, other)
	theirs := l.keyOf(other, theirUser, theirProject)
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	old := time.Now().Add(-time.Hour).UTC().Format("20060102T150405Z")
	for _, c := range []struct {
		name          string
		by            key
		call          string
		body          string
		before, after func(*http.Request)
		status        int
		want          string
	}{
		{"a bucket", mine, "PUT /box-1", "", nil, nil, 200, ""},
		{"its list", mine, "GET /box-1", "", nil, nil, 200, "<Name>box-1</Name>"},
		{"odd characters", mine, "PUT /box-1/%C3%A4%20b%2Bc~(1)", "text", nil, nil, 200, ""},
		{"and a query", mine, "GET /box-1?prefix=%C3%A4%20b%2B&delimiter=%2F&list-type=2", "", nil, nil, 200, "<Key>ä b+c~(1)</Key>"},
		{"a region in small letters", key{mine.access, mine.secret, "regionone"}, "GET /", "", nil, nil, 200, "<Name>box-1</Name>"},
		{"another region", key{mine.access, mine.secret, "elsewhere"}, "GET /", "", nil, nil, 400, "<Region>RegionOne</Region>"},
		{"another secret", key{mine.access, theirs.secret, "RegionOne"}, "GET /", "", nil, nil, 403, "SignatureDoesNotMatch"},
		{"no such key", key{"abc", mine.secret, "RegionOne"}, "GET /", "", nil, nil, 403, "SignatureDoesNotMatch"},
		{"another's project has other buckets", theirs, "GET /box-1", "", nil, nil, 404, "NoSuchBucket"},
		{"another path than was signed", mine, "GET /box-1", "", nil, func(r *http.Request) { r.URL.Path = "/box-1/other" }, 403, "SignatureDoesNotMatch"},
		{"another query", mine, "GET /box-1", "", nil, func(r *http.Request) { r.URL.RawQuery = "versions=" }, 403, "SignatureDoesNotMatch"},
		{"another body", mine, "PUT /box-1/two", "text", nil, func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("evil")) }, 400, "BadDigest"},
		{"an hour ago", mine, "GET /", "", nil, set("X-Amz-Date", old), 403, "RequestTimeTooSkewed"},
		{"metadata that isn't signed", mine, "PUT /box-1/two", "", nil, set("X-Amz-Meta-A", "b"), 403, "not signed"},
		{"metadata that is", mine, "PUT /box-1/two", "", set("X-Amz-Meta-A", "b"), nil, 200, ""},
		{"without a digest", mine, "GET /", "", nil, func(r *http.Request) { r.Header.Del("X-Amz-Content-Sha256") }, 400, "InvalidRequest"},
		{"twice", mine, "PUT /box-1", "", nil, nil, 409, "BucketAlreadyOwnedByYou"},
		{"elsewhere", mine, "PUT /box-2", "<CreateBucketConfiguration><LocationConstraint>elsewhere</LocationConstraint></CreateBucketConfiguration>", nil, nil, 400, "InvalidLocationConstraint"},
		{"no name", mine, "PUT /Box_2", "", nil, nil, 400, "InvalidBucketName"},
		{"rules that it doesn't know", mine, "PUT /box-1?lifecycle=", "<LifecycleConfiguration/>", nil, nil, 400, "MalformedXML"},
		{"nor shows", mine, "GET /box-1?lifecycle=", "", nil, nil, 200, "<ListBucketResult>"},
		{"tags that it doesn't know", mine, "PUT /box-1?tagging=", "<Tagging/>", nil, nil, 501, "NotImplemented"},
		{"but shows", mine, "GET /box-1?tagging=", "", nil, nil, 200, "<Tagging>"},
		{"something in it", mine, "DELETE /box-1", "", nil, nil, 409, "BucketNotEmpty"},
	} {
		method, path, _ := strings.Cut(c.call, " ")
		if status, body := l.amazon(c.by, method, path, c.body, c.before, c.after); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s, want %d %s", c.name, status, body, c.status, c.want)
		}
	}
	// What a login by an application credential makes ends with that.
	app := must[*applicationcredentials.ApplicationCredential](t, "application credential")(applicationcredentials.Create(l.ctx, l.service(l.demo, "identity"), user,
		applicationcredentials.CreateOpts{Name: "short", Unrestricted: true}).Extract())
	byApp := l.login(gophercloud.AuthOptions{ApplicationCredentialID: app.ID, ApplicationCredentialSecret: app.Secret})
	made := key{"0123456789", "by-an-application-credential", "RegionOne"}
	answer := l.send(byApp, "POST", "/identity/v3/credentials", fmt.Sprintf(`{"credential": {"type": "ec2", "user_id": %q, "project_id": %q, "blob": "{\"access\": \"%s\", \"secret\": \"%s\"}"}}`, user, project, made.access, made.secret))
	answer.Body.Close()
	if answer.StatusCode != 201 {
		t.Fatal(answer.Status)
	}
	if status, body := l.amazon(made, "GET", "/", "", nil, nil); status != 200 {
		t.Errorf("by what an application credential made: %d %s", status, body)
	}
	if err := applicationcredentials.Delete(l.ctx, l.service(l.demo, "identity"), user, app.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	if status, body := l.amazon(made, "GET", "/", "", nil, nil); status != 403 {
		t.Errorf("after its end: %d %s", status, body)
	}
	logged := l.cloud.Requests(0)
	if last := logged[len(logged)-1]; last.Service != "object-store" || last.Path != "/" || last.Status != 403 {
		t.Errorf("the log ends with %+v", last)
	}
}
