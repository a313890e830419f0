package openstack

import (
	"bytes"
	"crypto/md5"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"io"
	"net/http"
	"strings"
	"time"
)

// hashes sums image data up in both ways that Glance records.
type hashes struct{ md5, sha512 hash.Hash }

func newHashes() hashes { return hashes{md5.New(), sha512.New()} }

func (h hashes) Write(p []byte) (int, error) {
	h.md5.Write(p) // a hash never fails
	return h.sha512.Write(p)
}

func (m *image) activate(data []byte, h hashes, now time.Time) {
	m.data, m.status, m.updated = data, "active", now
	m.md5, m.sha512 = hex.EncodeToString(h.md5.Sum(nil)), hex.EncodeToString(h.sha512.Sum(nil))
}

// imageUpload takes the data as it comes, without the Cloud's lock. An upload that breaks off leaves the
// image queued, so that it can be tried again.
func (c *Cloud) imageUpload(r *request) (answer, error) {
	m, err := c.beginUpload(r)
	if err != nil {
		return answer{}, err
	}
	var data bytes.Buffer
	h := newHashes()
	_, readErr := io.Copy(io.MultiWriter(&data, h), r.http.Body)

	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance()
	switch {
	case c.image.all[m.id] != m:
		return answer{}, refuse(410, "Image %s could not be found after upload. The image may have been deleted during the upload, cleaning up the chunks uploaded.", m.id)
	case readErr != nil:
		m.status = "queued"
		return answer{}, refuse(400, "The upload of image %s broke off.", m.id)
	}
	m.activate(data.Bytes(), h, c.now())
	return noContent()
}

func (c *Cloud) beginUpload(r *request) (*image, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance()
	if err := c.admit(r, route{}); err != nil {
		return nil, err
	}
	if kind := r.http.Header.Get("Content-Type"); kind != "application/octet-stream" {
		return nil, refuse(415, "The request media type %s is not supported by this server.", kind)
	}
	m, err := c.findImage(r, "upload_image", true)
	if err != nil {
		return nil, err
	}
	if m.status != "queued" {
		return nil, refuse(409, "Image status transition from %s to saving is not allowed", m.status)
	}
	var missing []string
	if m.diskFormat == nil {
		missing = append(missing, "disk_format")
	}
	if m.containerFormat == nil {
		missing = append(missing, "container_format")
	}
	if missing != nil {
		return nil, refuse(400, "Properties %s must be set prior to saving data.", strings.Join(missing, ", "))
	}
	m.status, m.updated = "saving", c.now()
	return m, nil
}

func (c *Cloud) imageDownload(r *request) (answer, error) {
	m, err := c.findImage(r, "download_image", false)
	if err != nil {
		return answer{}, err
	}
	switch {
	case m.status == "deactivated" && !r.token.admin:
		return answer{}, refuse(403, "The requested image has been deactivated. Image data download is forbidden.")
	case m.md5 == "":
		return noContent()
	}
	return answer{status: 200, body: m.data, header: http.Header{"Content-Type": {"application/octet-stream"}, "Content-Md5": {m.md5}}}, nil
}
