package openstack

import (
	"encoding/base64"
	"encoding/xml"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// S3 is what Swift's s3api speaks: its buckets are the containers of the project that the access key is for.

const (
	segmentsSuffix = "+segments"
	s3Region       = "X-Lab-Region" // of a refusal: goes into the answer's body
	s3Page         = 1000
)

// s3Codes are the status and the text that go with S3's errors.
var s3Codes = map[string]struct {
	status int
	text   string
}{
	"AccessDenied":                 {403, "Access Denied."},
	"AuthorizationHeaderMalformed": {400, "The authorization header is malformed; the authorization header requires three components: Credential, SignedHeaders, and Signature."},
	"BadDigest":                    {400, "The Content-MD5 you specified did not match what we received."},
	"BucketAlreadyOwnedByYou":      {409, "Your previous request to create the named bucket succeeded and you already own it."},
	"BucketNotEmpty":               {409, "The bucket you tried to delete is not empty"},
	"InternalError":                {500, "We encountered an internal error. Please try again."},
	"InvalidArgument":              {400, "Invalid Argument."},
	"InvalidBucketName":            {400, "The specified bucket is not valid."},
	"InvalidLocationConstraint":    {400, "The specified location constraint is not valid."},
	"InvalidRequest":               {400, "Invalid Request."},
	"MalformedXML":                 {400, "The XML you provided was not well-formed or did not validate against our published schema"},
	"MethodNotAllowed":             {405, "The specified method is not allowed against this resource."},
	"NoSuchBucket":                 {404, "The specified bucket does not exist."},
	"NoSuchKey":                    {404, "The resource you requested does not exist."},
	"NoSuchUpload":                 {404, "The specified multipart upload does not exist. The upload ID might be invalid, or the multipart upload might have been aborted or completed."},
	"NotImplemented":               {501, "Not implemented."},
	"RequestTimeTooSkewed":         {403, "The difference between the request time and the current time is too large."},
	"ServiceUnavailable":           {503, "Please reduce your request rate."},
	"SignatureDoesNotMatch":        {403, "The request signature we calculated does not match the signature you provided. Check your key and signing method."},
	"EntityTooLarge":               {400, "Your proposed upload exceeds the maximum allowed object size."},
}

// s3Refuse is an error of S3; an empty text is the usual one.
func s3Refuse(code, text string) error {
	if text == "" {
		text = s3Codes[code].text
	}
	return &refusal{status: s3Codes[code].status, kind: code, message: text}
}

type s3Error struct {
	XMLName   xml.Name `xml:"Error"`
	Code      string
	Message   string
	RequestID string `xml:"RequestId"`
	Region    string `xml:",omitempty"`
}

// s3Answer renders a refusal. One that was injected has no code.
func s3Answer(r *request, e *refusal) answer {
	code := e.kind
	if _, known := s3Codes[code]; !known {
		code = map[int]string{403: "AccessDenied", 404: "NoSuchBucket", 409: "OperationAborted", 429: "SlowDown", 503: "SlowDown", 501: "NotImplemented"}[e.status]
		if code == "" {
			code = "InternalError"
		}
	}
	a := xmlAnswer(s3Error{Code: code, Message: e.message, RequestID: r.id, Region: e.header.Get(s3Region)})
	a.status = e.status
	return a
}

func xmlAnswer(v any) answer {
	body, err := xml.Marshal(v)
	if err != nil {
		return answer{status: 500}
	}
	return answer{status: 200, header: http.Header{"Content-Type": {"application/xml"}}, body: append([]byte(xml.Header), body...)}
}

// s3 answers a signed request. The lock is held.
func (c *Cloud) s3(r *request) (answer, error) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.http.URL.Path, "/"), "/")
	if bucket != "" && !validBucket(bucket) {
		return answer{}, s3Refuse("InvalidBucketName", "")
	}
	var err error
	if r.token, err = c.signed(r); err != nil {
		return answer{}, err
	}
	if !slices.Contains(r.token.roles, "member") && !r.token.admin {
		return answer{}, s3Refuse("AccessDenied", "")
	}
	r.args = map[string]string{"account": "AUTH_" + r.token.project.id, "container": bucket, "object": key}
	all, err := c.account(r)
	if err != nil {
		return answer{}, err
	}
	asks := func(name string) bool { return r.query.Has(name) }
	switch method := r.http.Method; {
	case bucket == "":
		return c.s3Buckets(r, all)
	case method == "PUT" && key == "" && !asks("versioning") && !asks("tagging"):
		return c.s3Create(r, all)
	case all[bucket] == nil:
		return answer{}, s3Refuse("NoSuchBucket", "")
	case key != "":
		return c.s3Object(r, all[bucket])
	case asks("delete"):
		return c.s3DeleteMany(r, all[bucket])
	case asks("location"):
		return xmlAnswer(struct {
			XMLName xml.Name `xml:"LocationConstraint"`
			Text    string   `xml:",chardata"`
		}{Text: c.cfg.Region}), nil
	case asks("uploads"):
		return c.s3Uploads(r, all)
	case asks("versioning"):
		return c.s3Versioning(r, all[bucket])
	case asks("tagging"):
		if method != "GET" {
			return answer{}, s3Refuse("NotImplemented", "The requested resource is not implemented")
		}
		return xmlAnswer(struct {
			XMLName xml.Name `xml:"Tagging"`
			TagSet  string
		}{}), nil
	case asks("acl"), asks("notification"), asks("policy"), asks("cors"), asks("website"):
		return answer{}, s3Refuse("NotImplemented", "The requested resource is not implemented")
	}
	// What it doesn't know of, lifecycle rules among it, is a question about the bucket itself.
	switch r.http.Method {
	case "HEAD":
		return answer{status: 200}, nil
	case "GET":
		return c.s3List(r, all[bucket])
	case "DELETE":
		return c.s3Drop(r, all)
	}
	return answer{}, s3Refuse("MethodNotAllowed", "")
}

var bucketName = regexp.MustCompile(`^[a-z0-9][-.a-z0-9]{1,61}[a-z0-9]$`)

func validBucket(name string) bool {
	_, err := netip.ParseAddr(name)
	return bucketName.MatchString(name) && err != nil && !strings.Contains(name, "..") && !strings.Contains(name, ".-") && !strings.Contains(name, "-.")
}

func (c *Cloud) s3Buckets(r *request, all map[string]*container) (answer, error) {
	type one struct{ Name, CreationDate string }
	var out struct {
		XMLName xml.Name `xml:"ListAllMyBucketsResult"`
		Owner   struct{ ID, DisplayName string }
		Buckets []one `xml:"Buckets>Bucket"`
	}
	out.Owner.ID = r.token.project.name + ":" + r.token.user.name
	out.Owner.DisplayName = out.Owner.ID
	for _, name := range sortedKeys(all) {
		if validBucket(name) && c.shown(r.arg("account")+"/"+name) {
			out.Buckets = append(out.Buckets, one{name, "2009-02-03T16:45:09.000Z"})
		}
	}
	return xmlAnswer(out), nil
}

func (c *Cloud) s3Create(r *request, all map[string]*container) (answer, error) {
	if len(r.body) > 0 {
		var conf struct {
			XMLName            xml.Name `xml:"CreateBucketConfiguration"`
			LocationConstraint string
		}
		if xml.Unmarshal(r.body, &conf) != nil {
			return answer{}, s3Refuse("MalformedXML", "")
		}
		if conf.LocationConstraint != c.cfg.Region && conf.LocationConstraint != strings.ToLower(c.cfg.Region) {
			return answer{}, s3Refuse("InvalidLocationConstraint", "")
		}
	}
	had := all[r.arg("container")] != nil
	// Headers of Swift's count, as they do for a container.
	if _, err := c.containerWrite(r); err != nil {
		return answer{}, err
	}
	if had {
		return answer{}, s3Refuse("BucketAlreadyOwnedByYou", "")
	}
	return answer{status: 200, header: http.Header{"Location": {"/" + r.arg("container")}}}, nil
}

// s3Drop deletes a bucket with the parts of uploads that weren't ended.
func (c *Cloud) s3Drop(r *request, all map[string]*container) (answer, error) {
	box := all[r.arg("container")]
	switch {
	case len(box.objects) > 0:
		return answer{}, s3Refuse("BucketNotEmpty", "")
	case len(box.versions) > 0:
		return answer{}, s3Refuse("BucketNotEmpty", "The bucket you tried to delete is not empty. You must delete all versions in the bucket.")
	}
	delete(all, r.arg("container")+segmentsSuffix)
	delete(all, r.arg("container"))
	return noContent()
}

func (c *Cloud) s3Versioning(r *request, box *container) (answer, error) {
	var conf struct {
		XMLName xml.Name `xml:"VersioningConfiguration"`
		Status  string   `xml:",omitempty"`
	}
	if r.http.Method == "GET" {
		switch box.header.Get("X-Versions-Enabled") {
		case "True":
			conf.Status = "Enabled"
		case "False":
			conf.Status = "Suspended"
		}
		return xmlAnswer(conf), nil
	}
	if xml.Unmarshal(r.body, &conf) != nil || conf.Status != "Enabled" && conf.Status != "Suspended" {
		return answer{}, s3Refuse("MalformedXML", "")
	}
	box.header.Set("X-Versions-Enabled", map[bool]string{true: "True", false: "False"}[conf.Status == "Enabled"])
	box.changed = c.now()
	return answer{status: 200}, nil
}

// s3Limit is how many entries a page of a list has.
func (r *request) s3Limit(name string) (int, error) {
	n, err := strconv.Atoi(r.query.Get(name))
	if r.query.Get(name) == "" {
		return s3Page, nil
	}
	if err != nil || n < 0 {
		return 0, s3Refuse("InvalidArgument", "")
	}
	return min(n, s3Page), nil
}

// s3Name is a key as the list that is asked for shows it.
func (r *request) s3Name(key string) string {
	if r.query.Get("encoding-type") == "url" {
		return s3Escape(key, "/")
	}
	return key
}

type s3Entry struct {
	Key, LastModified, ETag string
	Size                    int
	StorageClass            string
}

const s3Stamp = "2006-01-02T15:04:05.000Z"

// s3List lists a bucket's objects, or their versions.
func (c *Cloud) s3List(r *request, box *container) (answer, error) {
	limit, err := r.s3Limit("max-keys")
	if err != nil {
		return answer{}, err
	}
	if r.query.Has("versions") {
		return c.s3Versions(r, box, limit)
	}
	marker := r.query.Get("marker")
	second := r.query.Get("list-type") == "2"
	if second {
		marker = r.query.Get("start-after")
		if t := r.query.Get("continuation-token"); t != "" {
			text, err := base64.StdEncoding.DecodeString(t)
			if err != nil {
				return answer{}, s3Refuse("InvalidArgument", "")
			}
			marker = string(text)
		}
	}
	var out struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		Name, Prefix          string
		NextContinuationToken string `xml:",omitempty"`
		EncodingType          string `xml:",omitempty"`
		MaxKeys, KeyCount     int
		IsTruncated           bool
		Contents              []s3Entry
		CommonPrefixes        []struct{ Prefix string }
	}
	out.Name, out.Prefix, out.MaxKeys, out.EncodingType = r.arg("container"), r.query.Get("prefix"), limit, r.query.Get("encoding-type")
	last := ""
	for _, name := range sortedKeys(box.objects) {
		rest, found := strings.CutPrefix(name, out.Prefix)
		if !found || name <= marker || !c.shown(r.arg("account")+"/"+r.arg("container")+"/"+name) {
			continue
		}
		if d := r.query.Get("delimiter"); d != "" {
			if dir, _, cut := strings.Cut(rest, d); cut {
				sub := out.Prefix + dir + d
				if n := len(out.CommonPrefixes); n > 0 && out.CommonPrefixes[n-1].Prefix == r.s3Name(sub) || strings.HasPrefix(marker, sub) {
					continue
				}
				if out.KeyCount == limit {
					out.IsTruncated = true
					break
				}
				out.CommonPrefixes = append(out.CommonPrefixes, struct{ Prefix string }{r.s3Name(sub)})
				out.KeyCount, last = out.KeyCount+1, sub
				continue
			}
		}
		if out.KeyCount == limit {
			out.IsTruncated = true
			break
		}
		o := box.objects[name]
		out.Contents = append(out.Contents, s3Entry{r.s3Name(name), o.changed.Format(s3Stamp), `"` + o.etag + `"`, len(o.data), "STANDARD"})
		out.KeyCount, last = out.KeyCount+1, name
	}
	if out.IsTruncated && second {
		out.NextContinuationToken = base64.StdEncoding.EncodeToString([]byte(last))
	}
	return xmlAnswer(out), nil
}
