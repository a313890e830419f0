package openstack_test

import (
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A gateway is an object storage that speaks S3 and has what Swift lacks: tags,
// lifecycle rules, and names that all accounts share. An account is the
// access key; signatures are the simulator's to check.
type gateway struct {
	url string

	mu      sync.Mutex
	buckets map[string]*gatewayBucket
	writes  []string
	cut     string // the write before which the connection breaks from now on
}

type gatewayBucket struct {
	owner, versioning string
	tags, rules       []byte
	objects           []string
}

func newGateway(t *testing.T) *gateway {
	g := &gateway{buckets: make(map[string]*gatewayBucket)}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	g.url = server.URL
	return g
}

// take returns the writes so far, and forgets them.
func (g *gateway) take() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.writes
	g.writes = nil
	return out
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	refuse := func(status int, code string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>so it is</Message><RequestId>r1</RequestId></Error>", code)
	}
	_, rest, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	account, _, _ := strings.Cut(rest, "/")
	name, key, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	asks, _, _ := strings.Cut(r.URL.RawQuery, "=")
	for _, known := range []string{"delete", "lifecycle", "tagging", "uploads", "versioning", "versions"} {
		if r.URL.Query().Has(known) {
			asks = known
		}
	}
	if r.Method != http.MethodGet {
		write := r.Method + " " + name + "?" + asks
		if write == g.cut {
			panic(http.ErrAbortHandler)
		}
		g.writes = append(g.writes, write)
	}
	b := g.buckets[name]
	switch what := r.Method + " " + asks; {
	case name == "":
		io.WriteString(w, "<ListAllMyBucketsResult><Buckets>")
		for _, n := range slices.Sorted(maps.Keys(g.buckets)) {
			if g.buckets[n].owner == account {
				fmt.Fprintf(w, "<Bucket><Name>%s</Name><CreationDate>2009-02-03T16:45:09.000Z</CreationDate></Bucket>", n)
			}
		}
		io.WriteString(w, "</Buckets></ListAllMyBucketsResult>")
	case what == "PUT " && b != nil && b.owner != account:
		refuse(409, "BucketAlreadyExists")
	case what == "PUT " && strings.Contains(string(body), "LocationConstraint"):
		refuse(400, "InvalidLocationConstraint")
	case what == "PUT ":
		g.buckets[name] = &gatewayBucket{owner: account}
	case b == nil:
		refuse(404, "NoSuchBucket")
	case b.owner != account:
		refuse(403, "AccessDenied")
	case what == "PUT versioning":
		b.versioning = string(body)
	case what == "GET versioning":
		io.WriteString(w, b.versioning+strings.Repeat("<VersioningConfiguration></VersioningConfiguration>", max(0, 1-len(b.versioning))))
	case what == "PUT tagging":
		b.tags = body
	case what == "GET tagging" && b.tags == nil:
		refuse(404, "NoSuchTagSet")
	case what == "GET tagging":
		w.Write(b.tags)
	case what == "DELETE tagging":
		b.tags = nil
	case what == "PUT lifecycle":
		b.rules = body
	case what == "GET lifecycle" && b.rules == nil:
		refuse(404, "NoSuchLifecycleConfiguration")
	case what == "GET lifecycle":
		w.Write(b.rules)
	case what == "DELETE lifecycle":
		b.rules = nil
	case what == "GET versions":
		io.WriteString(w, "<ListVersionsResult>")
		for _, o := range b.objects[:min(len(b.objects), 2)] { // a short page
			fmt.Fprintf(w, "<Version><Key>%s</Key><VersionId>null</VersionId><IsLatest>true</IsLatest><LastModified>2009-02-03T16:45:09.000Z</LastModified><Size>1</Size></Version>", o)
		}
		io.WriteString(w, "</ListVersionsResult>")
	case what == "GET uploads":
		io.WriteString(w, "<ListMultipartUploadsResult></ListMultipartUploadsResult>")
	case what == "POST delete":
		var in struct{ Object []struct{ Key string } }
		if xml.Unmarshal(body, &in) != nil {
			refuse(400, "MalformedXML")
			return
		}
		io.WriteString(w, "<DeleteResult>")
		for _, o := range in.Object {
			if o.Key == "locked" {
				io.WriteString(w, "<Error><Key>locked</Key><Code>AccessDenied</Code><Message>it is locked</Message></Error>")
				continue
			}
			b.objects = slices.DeleteFunc(b.objects, func(x string) bool { return x == o.Key })
			fmt.Fprintf(w, "<Deleted><Key>%s</Key></Deleted>", o.Key)
		}
		io.WriteString(w, "</DeleteResult>")
	case what == "DELETE " && key == "" && len(b.objects) > 0:
		refuse(409, "BucketNotEmpty")
	case what == "DELETE " && key == "":
		delete(g.buckets, name)
		w.WriteHeader(http.StatusNoContent)
	default:
		refuse(501, "NotImplemented")
	}
}
