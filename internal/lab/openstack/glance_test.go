package openstack_test

import (
	"bytes"
	"crypto/md5"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

func (l *lab) newImage(name string) *images.Image {
	l.t.Helper()
	return must[*images.Image](l.t, "image")(images.Create(l.ctx, l.image, images.CreateOpts{Name: name, DiskFormat: "raw", ContainerFormat: "bare",
		Properties: map[string]string{"os_distro": "debian"}, Tags: []string{"lab"}}).Extract())
}

func TestImageUpload(t *testing.T) {
	l := newLab(t, nil)
	data := bytes.Repeat([]byte("tiny image "), 200000)
	sum, check := sha512.Sum512(data), md5.Sum(data)
	for name, body := range map[string]io.Reader{"length": bytes.NewReader(data), "chunked": struct{ io.Reader }{bytes.NewReader(data)}} {
		im := l.newImage(name)
		if im.Status != "queued" || im.Properties["os_distro"] != "debian" || im.Tags[0] != "lab" {
			t.Errorf("%s: created %+v", name, im)
		}
		if err := imagedata.Upload(l.ctx, l.image, im.ID, body).ExtractErr(); err != nil {
			t.Fatal(err)
		}
		im = must[*images.Image](t, "get")(images.Get(l.ctx, l.image, im.ID).Extract())
		if im.Status != "active" || im.SizeBytes != int64(len(data)) || im.Checksum != hex.EncodeToString(check[:]) ||
			im.Properties["os_hash_algo"] != "sha512" || im.Properties["os_hash_value"] != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: uploaded %+v", name, im)
		}
		r := must[io.ReadCloser](t, "download")(imagedata.Download(l.ctx, l.image, im.ID).Extract())
		got, err := io.ReadAll(r)
		r.Close()
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: downloaded %d bytes, %v", name, len(got), err)
		}
		wantStatus(t, imagedata.Upload(l.ctx, l.image, im.ID, bytes.NewReader(data)).ExtractErr(), 409, "Image status transition from active to saving is not allowed")
	}
}

// torn gives some data, then an error.
type torn struct{ left int }

func (r *torn) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, errors.New("the disk broke")
	}
	n := min(len(p), r.left)
	r.left -= n
	return n, nil
}

func TestInterruptedUploadCanBeRepeated(t *testing.T) {
	l := newLab(t, nil)
	im := l.newImage("im")
	if err := imagedata.Upload(l.ctx, l.image, im.ID, &torn{1 << 16}).ExtractErr(); err == nil {
		t.Fatal("a torn upload succeeded")
	}
	// The client is back before the server has seen the end of the connection, so the log tells when.
	over := func() bool {
		return slices.ContainsFunc(l.cloud.Requests(0), func(q openstack.Request) bool { return q.Method == "PUT" && q.Status == 400 })
	}
	for !over() {
		if l.ctx.Err() != nil {
			t.Fatal("the torn upload never ended")
		}
		runtime.Gosched()
	}
	if got := must[*images.Image](t, "get")(images.Get(l.ctx, l.image, im.ID).Extract()); got.Status != "queued" {
		t.Fatalf("after a torn upload: %s", got.Status)
	}
	if err := imagedata.Upload(l.ctx, l.image, im.ID, bytes.NewReader([]byte("whole"))).ExtractErr(); err != nil {
		t.Fatal(err)
	}
}

func TestImageRules(t *testing.T) {
	l := newLab(t, nil)
	im := l.newImage("im")
	update := func(changes ...images.Patch) error {
		var o images.UpdateOpts
		o = append(o, changes...)
		_, err := images.Update(l.ctx, l.image, im.ID, o).Extract()
		return err
	}
	if err := update(images.UpdateImageProperty{Op: images.AddOp, Name: "k", Value: "v"}, images.ReplaceImageProtected{NewProtected: true}, images.ReplaceImageName{NewName: "other"}); err != nil {
		t.Fatal(err)
	}
	got := must[*images.Image](t, "get")(images.Get(l.ctx, l.image, im.ID).Extract())
	if got.Name != "other" || got.Properties["k"] != "v" || !got.Protected {
		t.Errorf("patched: %+v", got)
	}
	wantStatus(t, images.Delete(l.ctx, l.image, im.ID).ExtractErr(), 403, "is protected and cannot be deleted.")
	wantStatus(t, update(images.UpdateImageProperty{Op: images.RemoveOp, Name: "nothing"}), 409, "Property nothing does not exist.")
	wantStatus(t, update(images.UpdateImageProperty{Op: images.AddOp, Name: "status", Value: "active"}), 403, "is read-only")
	wantStatus(t, update(images.UpdateVisibility{Visibility: images.ImageVisibilityPublic}), 403, `"code":"403 Forbidden"`)
	if err := update(images.ReplaceImageProtected{NewProtected: false}); err != nil {
		t.Fatal(err)
	}
	if err := images.Delete(l.ctx, l.image, im.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	_, err := images.Get(l.ctx, l.image, im.ID).Extract()
	wantStatus(t, err, 404, "No image found with ID "+im.ID)
	_, err = images.Create(l.ctx, l.image, images.CreateOpts{Name: "x", DiskFormat: "nonsense"}).Extract()
	wantStatus(t, err, 400, "is not one of [None, ")
	bare := must[*images.Image](t, "no format")(images.Create(l.ctx, l.image, images.CreateOpts{Name: "x"}).Extract())
	wantStatus(t, imagedata.Upload(l.ctx, l.image, bare.ID, bytes.NewReader(nil)).ExtractErr(), 400, "Properties disk_format, container_format must be set prior to saving data.")
}

func TestImageLists(t *testing.T) {
	l := newLab(t, nil)
	for i := range 60 {
		l.newImage(fmt.Sprintf("im-%02d", i))
	}
	list := func(o images.ListOpts) []images.Image {
		pages, err := images.List(l.image, o).AllPages(l.ctx)
		if err != nil {
			t.Fatal(err)
		}
		return must[[]images.Image](t, "list")(images.ExtractImages(pages))
	}
	for name, c := range map[string]struct {
		opts images.ListOpts
		want int
	}{"all": {images.ListOpts{}, 61}, "pages of 7": {images.ListOpts{Limit: 7}, 61}, "name": {images.ListOpts{Name: "im-07"}, 1}, "names": {images.ListOpts{Name: "in:im-07,im-08"}, 2},
		"tag": {images.ListOpts{Tags: []string{"lab"}}, 60}, "status": {images.ListOpts{Status: images.ImageStatusActive}, 1},
		"public": {images.ListOpts{Visibility: images.ImageVisibilityPublic}, 1}, "shared": {images.ListOpts{Visibility: images.ImageVisibilityShared}, 60}} {
		seen := map[string]bool{}
		for _, im := range list(c.opts) {
			seen[im.ID] = true
		}
		if len(seen) != c.want {
			t.Errorf("%s: %d images, want %d", name, len(seen), c.want)
		}
	}
	if sorted := list(images.ListOpts{SortKey: "name", SortDir: "asc"}); sorted[0].Name != "im-00" || sorted[60].Name != "lab-tiny" {
		t.Errorf("sorted: %s to %s", sorted[0].Name, sorted[60].Name)
	}
}

// TestImageMembers shares an image with another project, which has to accept it
// before its lists show it.
func TestImageMembers(t *testing.T) {
	l := newLab(t, nil)
	im := l.newImage("shared")
	other := l.login(gophercloud.AuthOptions{Username: "other", Password: "secret", DomainName: "Default", TenantName: "other"})
	project := must[*tokens.Project](t, "project")(tokens.Get(l.ctx, l.service(other, "identity"), other.Token()).ExtractProject()).ID
	v, d := "/image/v2/images", l.demo
	one := v + "/" + im.ID
	l.run([]call{
		{other, "GET " + one, "", 404, "No image found with ID"},
		{d, "GET " + one + "/members", "", 200, `"members":[]`},
		{d, "POST " + one + "/members", `{}`, 400, "Member to be added not specified"},
		{d, "POST " + one + "/members", `{"member":""}`, 400, "Member can't be empty"},
		{d, "POST " + one + "/members", `{"member":"` + project + `"}`, 200, `"status":"pending"`},
		{d, "POST " + one + "/members", `{"member":"` + project + `"}`, 409, "is duplicated for image"},
		{other, "GET " + one, "", 200, `"name":"shared"`},
		{other, "GET " + v + "?visibility=shared", "", 200, `"images":[]`},
		{other, "GET " + v + "?visibility=shared&member_status=pending", "", 200, im.ID},
		{d, "PUT " + one + "/members/" + project, `{"status":"accepted"}`, 403, "Not allowed to update members for image"},
		{other, "PUT " + one + "/members/" + project, `{"status":"accepted"}`, 200, `"status":"accepted"`},
		{other, "GET " + v + "?visibility=shared", "", 200, im.ID},
		{other, "DELETE " + one, "", 403, "You are not authorized to complete delete_image action."},
		{d, "DELETE " + one + "/members/" + project, "", 204, ""},
		{d, "DELETE " + one + "/members/" + project, "", 404, "not found in the member list of the image"},
		{d, "PATCH " + one, `[{"op":"replace","path":"/visibility","value":"private"}]`, 200, ""},
		{d, "GET " + one + "/members", "", 403, "Only shared images have members."},
		{d, "POST " + one + "/members", `{"member":"` + project + `"}`, 403, "Not allowed to create members for image"},
		{d, "GET /image/v2/info/import", "", 200, `"value":["glance-direct"]`},
		{d, "POST " + one + "/import", `{"method":{"name":"web-download","uri":"http://127.0.0.1:1/x"}}`, 400, "Unknown import method name 'web-download'."},
		{d, "POST " + one + "/import", `{"method":{"name":"glance-direct"}}`, 409, "Image needs to be staged before 'glance-direct' method can be used"},
		{d, "PUT " + one + "/stage", "staged", 204, ""},
		{d, "GET " + one, "", 200, `"status":"uploading"`},
		{d, "POST " + one + "/import", `{"method":{"name":"glance-direct"}}`, 202, ""},
	})
	l.clock.Advance(time.Second)
	l.run([]call{{d, "GET " + one, "", 200, `"status":"active" | "size":6`}})
}
