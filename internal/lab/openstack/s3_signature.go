package openstack

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	s3Algorithm = "AWS4-HMAC-SHA256"
	s3Date      = "20060102T150405Z"
	s3Skew      = 15 * time.Minute
)

// isS3 tells whether a request is signed as Amazon's are: such a one is S3's, whatever its path.
func isS3(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Authorization"), s3Algorithm+" ")
}

// signed checks the request's signature by the EC2 credential whose key it names, and gives the token that
// Keystone would. The lock is held.
func (c *Cloud) signed(r *request) (*token, error) {
	said := map[string]string{}
	for part := range strings.SplitSeq(strings.TrimPrefix(r.http.Header.Get("Authorization"), s3Algorithm+" "), ",") {
		k, v, _ := strings.Cut(strings.TrimSpace(part), "=")
		said[k] = v
	}
	at, err := time.Parse(s3Date, r.http.Header.Get("X-Amz-Date"))
	scope := strings.Split(said["Credential"], "/")
	switch skew := c.now().Sub(at); {
	case err != nil:
		return nil, s3Refuse("AccessDenied", "AWS authentication requires a valid Date or x-amz-date header")
	case skew > s3Skew || skew < -s3Skew:
		return nil, s3Refuse("RequestTimeTooSkewed", "")
	case len(scope) != 5:
		return nil, s3Refuse("AccessDenied", "")
	case said["SignedHeaders"] == "":
		return nil, s3Refuse("AuthorizationHeaderMalformed", "")
	}
	want := []string{at.Format("20060102"), c.cfg.Region, "s3", "aws4_request"}
	for i, name := range []string{"date", "region", "service", "terminal"} {
		got := scope[i+1]
		switch {
		case got == want[i]:
		case name == "region" && got == strings.ToLower(want[i]):
			want[i] = got
		case name == "region":
			e := s3Refuse("AuthorizationHeaderMalformed", "The authorization header is malformed; the region '"+got+"' is wrong; expecting '"+want[i]+"'").(*refusal)
			e.header = http.Header{s3Region: {want[i]}}
			return nil, e
		default:
			return nil, s3Refuse("AuthorizationHeaderMalformed", "Invalid credential "+name+" \""+got+"\".")
		}
	}
	headers := strings.Split(said["SignedHeaders"], ";")
	for name := range r.http.Header {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-amz-meta") && !slices.Contains(headers, lower) {
			return nil, s3Refuse("AccessDenied", "There were headers present in the request which were not signed")
		}
	}
	sum := r.http.Header.Get("X-Amz-Content-Sha256")
	switch {
	case sum == "":
		return nil, s3Refuse("InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
	case strings.HasPrefix(sum, "STREAMING-"):
		return nil, s3Refuse("NotImplemented", "Transfering payloads in multiple chunks using aws-chunked is not supported.")
	case sum != "UNSIGNED-PAYLOAD" && sum != hexSum(r.body):
		return nil, s3Refuse("BadDigest", "The X-Amz-Content-SHA56 you specified did not match what we received.")
	}
	canonical := []string{r.http.Method, s3Escape(r.http.URL.Path, "/"), s3Query(r.query)}
	for _, name := range headers {
		value := r.http.Header.Get(name)
		if name == "host" {
			value = r.http.Host
		}
		if name == "content-length" && value == "" {
			value = text(float64(r.http.ContentLength))
		}
		canonical = append(canonical, name+":"+strings.Join(strings.Fields(value), " "))
	}
	canonical = append(canonical, "", said["SignedHeaders"], sum)
	toSign := strings.Join([]string{s3Algorithm, at.Format(s3Date), strings.Join(want, "/"), hexSum([]byte(strings.Join(canonical, "\n")))}, "\n")
	t := c.tokenByKey(scope[0])
	if t == nil || !hmac.Equal([]byte(said["Signature"]), []byte(s3Sign(t.secret, want, toSign))) {
		return nil, s3Refuse("SignatureDoesNotMatch", "")
	}
	return t.token, nil
}

type keyToken struct {
	*token
	secret string
}

// tokenByKey is what an access key lets in; nil if it is unknown, or what it depends on has gone.
func (c *Cloud) tokenByKey(access string) *keyToken {
	b := c.identity.blobs[keyID(access)]
	if b == nil || b.kind != "ec2" {
		return nil
	}
	content, u, p := b.content(), c.identity.users[b.user], c.identity.projects[b.project]
	app := str(content, "app_cred_id")
	if u == nil || !u.enabled || p == nil || app != "" && c.identity.credentials[app] == nil || str(content, "secret") == "" {
		return nil
	}
	t := &token{user: u, project: p}
	for _, id := range c.identity.rolesOf(u.id, p.id) {
		t.roles = append(t.roles, c.identity.roles[id])
	}
	t.admin = slices.Contains(t.roles, "admin")
	return &keyToken{t, str(content, "secret")}
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// s3Sign is the signature of a text by a key of that scope.
func s3Sign(secret string, scope []string, text string) string {
	key := []byte("AWS4" + secret)
	for _, part := range append(slices.Clone(scope), text) {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	return hex.EncodeToString(key)
}

// s3Escape escapes as signatures are made of: all but RFC 3986's unreserved characters, and those in also.
func s3Escape(s, also string) string {
	var out strings.Builder
	for _, c := range []byte(s) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.~"+also, c) >= 0 {
			out.WriteByte(c)
			continue
		}
		out.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{c})))
	}
	return out.String()
}

func s3Query(q url.Values) string {
	var out []string
	for _, k := range sortedKeys(q) {
		for _, v := range q[k] {
			out = append(out, s3Escape(k, "")+"="+s3Escape(v, ""))
		}
	}
	return strings.Join(out, "&")
}
