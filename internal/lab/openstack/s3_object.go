package openstack

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/xml"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A version is one state of an object of a container that keeps them; without an object it is the mark of a deletion.
type version struct {
	name, id string
	object   *storedObject
}

// keep notes a new state of an object, where its container keeps versions. What was there before becomes one.
func (c *Cloud) keep(box *container, name string, before, now *storedObject) {
	if box.header.Get("X-Versions-Enabled") != "True" {
		return
	}
	if before != nil && !slices.ContainsFunc(box.versions, func(v version) bool { return v.object == before }) {
		box.versions = append(box.versions, version{name, box.stamp(before.changed), before})
	}
	box.versions = append(box.versions, version{name, box.stamp(c.now()), now})
}

// stamp is the id of a version, which no other of the container has.
func (b *container) stamp(t time.Time) string {
	b.stamps++
	return swiftStamp(t) + strconv.Itoa(b.stamps)
}

// s3Versions lists what a bucket holds with all that it held, the newest state of each object first.
func (c *Cloud) s3Versions(r *request, box *container, limit int) (answer, error) {
	type owner struct{ ID, DisplayName string }
	type entry struct {
		XMLName      xml.Name
		Key          string
		VersionId    string
		IsLatest     bool
		LastModified string
		ETag         string `xml:",omitempty"`
		Size         int
		Owner        owner
	}
	var out struct {
		XMLName             xml.Name `xml:"ListVersionsResult"`
		Name, Prefix        string
		KeyMarker           string
		NextKeyMarker       string `xml:",omitempty"`
		NextVersionIdMarker string `xml:",omitempty"`
		EncodingType        string `xml:",omitempty"`
		MaxKeys             int
		IsTruncated         bool
		Entries             []entry
	}
	out.Name, out.Prefix, out.MaxKeys, out.KeyMarker, out.EncodingType = r.arg("container"), r.query.Get("prefix"), limit, r.query.Get("key-marker"), r.query.Get("encoding-type")
	names := map[string]bool{}
	for name := range box.objects {
		names[name] = true
	}
	for _, v := range box.versions {
		names[v.name] = true
	}
	me := r.token.project.name + ":" + r.token.user.name
	after := r.query.Get("version-id-marker")
	if after == "null" { // what a page ends with, and what leads nowhere
		names = nil
	}
	for _, name := range sortedKeys(names) {
		if !strings.HasPrefix(name, out.Prefix) || name < out.KeyMarker || name == out.KeyMarker && after == "" {
			continue
		}
		var states []version
		if o := box.objects[name]; o != nil && !slices.ContainsFunc(box.versions, func(v version) bool { return v.object == o }) {
			states = append(states, version{name, "null", o})
		}
		for _, v := range slices.Backward(box.versions) {
			if v.name == name {
				states = append(states, v)
			}
		}
		passed := name != out.KeyMarker
		for i, v := range states {
			if !passed {
				passed = v.id == after
				continue
			}
			if len(out.Entries) == limit {
				out.IsTruncated, out.NextKeyMarker, out.NextVersionIdMarker = true, out.Entries[limit-1].Key, "null"
				return xmlAnswer(out), nil
			}
			e := entry{XMLName: xml.Name{Local: "DeleteMarker"}, Key: r.s3Name(name), VersionId: v.id, IsLatest: i == 0, LastModified: c.now().Format(s3Stamp), Owner: owner{me, me}}
			if o := v.object; o != nil {
				e.XMLName.Local, e.ETag, e.Size, e.LastModified = "Version", `"`+o.etag+`"`, len(o.data), o.changed.Format(s3Stamp)
			}
			out.Entries = append(out.Entries, e)
		}
	}
	return xmlAnswer(out), nil
}

// s3Object stores, reads or deletes an object, or begins and ends an upload in parts.
func (c *Cloud) s3Object(r *request, box *container) (answer, error) {
	key := r.arg("object")
	switch method := r.http.Method; {
	case method == "POST" && r.query.Has("uploads"):
		return c.s3Begin(r)
	case r.query.Has("uploadId"):
		return c.s3Abort(r)
	case method == "PUT":
		a, err := c.objectWrite(r)
		if ref, is := err.(*refusal); is && ref.status == http.StatusRequestEntityTooLarge {
			return answer{}, s3Refuse("EntityTooLarge", ref.message)
		}
		a.status = http.StatusOK
		if etag := a.header.Get("Etag"); etag != "" {
			a.header.Set("Etag", `"`+etag+`"`)
		}
		return a, err
	case method == "DELETE":
		c.s3Delete(box, key, r.query.Get("versionId"))
		return noContent()
	case box.objects[key] == nil:
		return answer{}, s3Refuse("NoSuchKey", "")
	case method == "GET" || method == "HEAD":
		o := box.objects[key]
		h := http.Header{"Etag": {`"` + o.etag + `"`}, "Last-Modified": {o.changed.UTC().Format(http.TimeFormat)}, "Content-Type": {o.header.Get("Content-Type")}}
		return answer{status: 200, header: h, body: o.data}, nil
	}
	return answer{}, s3Refuse("MethodNotAllowed", "")
}

// s3Delete deletes an object, or one of its versions.
func (c *Cloud) s3Delete(box *container, key, id string) {
	o := box.objects[key]
	switch {
	case id == "" && o != nil:
		c.keep(box, key, o, nil)
		delete(box.objects, key)
	case id == "null":
		delete(box.objects, key)
	case id != "":
		box.versions = slices.DeleteFunc(box.versions, func(v version) bool {
			if v.name != key || v.id != id {
				return false
			}
			if v.object != nil && v.object == o {
				delete(box.objects, key)
			}
			return true
		})
	}
}

func (c *Cloud) s3DeleteMany(r *request, box *container) (answer, error) {
	type one struct {
		Key       string
		VersionId string `xml:",omitempty"`
	}
	var in struct {
		XMLName xml.Name `xml:"Delete"`
		Quiet   bool
		Object  []one
	}
	sum := md5.Sum(r.body)
	switch got := r.http.Header.Get("Content-Md5"); {
	case got == "":
		return answer{}, s3Refuse("InvalidRequest", "Missing required header for this request: Content-MD5")
	case got != base64.StdEncoding.EncodeToString(sum[:]):
		return answer{}, s3Refuse("BadDigest", "")
	case xml.Unmarshal(r.body, &in) != nil || len(in.Object) > s3Page:
		return answer{}, s3Refuse("MalformedXML", "")
	}
	var out struct {
		XMLName xml.Name `xml:"DeleteResult"`
		Deleted []one
	}
	for _, o := range in.Object {
		c.s3Delete(box, o.Key, o.VersionId)
		if !in.Quiet {
			out.Deleted = append(out.Deleted, one{Key: o.Key})
		}
	}
	return xmlAnswer(out), nil
}

// s3Begin begins an upload in parts: its mark lies in a container beside the bucket.
func (c *Cloud) s3Begin(r *request) (answer, error) {
	all, err := c.account(r)
	if err != nil {
		return answer{}, err
	}
	beside := r.arg("container") + segmentsSuffix
	if all[beside] == nil {
		all[beside] = &container{header: http.Header{}, objects: map[string]*storedObject{}, created: c.now(), changed: c.now()}
	}
	id := c.ids.hex()
	all[beside].objects[r.arg("object")+"/"+id] = &storedObject{header: http.Header{}, etag: "d41d8cd98f00b204e9800998ecf8427e", changed: c.now()}
	return xmlAnswer(struct {
		XMLName               xml.Name `xml:"InitiateMultipartUploadResult"`
		Bucket, Key, UploadId string
	}{Bucket: r.arg("container"), Key: r.arg("object"), UploadId: id}), nil
}

func (c *Cloud) s3Abort(r *request) (answer, error) {
	all, err := c.account(r)
	if err != nil {
		return answer{}, err
	}
	if r.http.Method != "DELETE" {
		return answer{}, s3Refuse("NotImplemented", "")
	}
	name := r.arg("object") + "/" + r.query.Get("uploadId")
	beside := all[r.arg("container")+segmentsSuffix]
	if beside == nil || beside.objects[name] == nil {
		return answer{}, s3Refuse("NoSuchUpload", "")
	}
	delete(beside.objects, name)
	return noContent()
}

func (c *Cloud) s3Uploads(r *request, all map[string]*container) (answer, error) {
	limit, err := r.s3Limit("max-uploads")
	if err != nil {
		return answer{}, err
	}
	type upload struct{ Key, UploadId, Initiated string }
	var out struct {
		XMLName                           xml.Name `xml:"ListMultipartUploadsResult"`
		Bucket                            string
		NextKeyMarker, NextUploadIdMarker string
		MaxUploads                        int
		IsTruncated                       bool
		Upload                            []upload
		CommonPrefixes                    *struct{ Prefix string }
	}
	out.Bucket, out.MaxUploads = r.arg("container"), limit
	if r.query.Has("delimiter") && r.query.Get("delimiter") == "" { // every key has that in it
		out.CommonPrefixes = &struct{ Prefix string }{}
		return xmlAnswer(out), nil
	}
	if beside := all[r.arg("container")+segmentsSuffix]; beside != nil {
		marker := r.query.Get("key-marker") + "/" + r.query.Get("upload-id-marker")
		for _, name := range sortedKeys(beside.objects) {
			cut := strings.LastIndex(name, "/")
			if cut < 0 {
				return answer{}, s3Refuse("InternalError", "") // it isn't S3's, which isn't foreseen
			}
			if strings.Trim(name[cut+1:], "0123456789") == "" {
				continue // a part
			}
			if marker != "/" && name <= marker || len(out.Upload) == limit {
				continue
			}
			out.Upload = append(out.Upload, upload{name[:cut], name[cut+1:], beside.objects[name].changed.Format(s3Stamp)})
		}
	}
	if out.IsTruncated = len(out.Upload) == limit; out.IsTruncated && limit > 0 {
		out.NextKeyMarker, out.NextUploadIdMarker = out.Upload[limit-1].Key, out.Upload[limit-1].UploadId
	}
	return xmlAnswer(out), nil
}
