package openstack_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

// TestImageFromURL has the cloud fetch an image: what it got is compared, and
// what couldn't be fetched is fetched by the next run into the same image.
func TestImageFromURL(t *testing.T) {
	content := []byte("what lies at the URL")
	missing := true
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if missing {
			http.NotFound(rw, r)
			return
		}
		rw.Write(content)
	}))
	defer server.Close()
	sum := sha512.Sum512(content)
	w := newWorld(t, lab.Config{ImportMethods: []string{"glance-direct", "web-download"}})
	ensure := func(digest string) error {
		return w.run(context.Background(), w.newModule(), startest.NewDoor(effect.Apply),
			fmt.Sprintf(`i = cloud.image.ensure("fetched", url = %q, sha512 = %q, disk_format = "raw")
if (i.status, i.sha512, i.source) != ("active", %[2]q, %[1]q): fail(i)`, server.URL+"/x", digest))
	}
	right := hex.EncodeToString(sum[:])
	if err := ensure(right); fault.KindOf(err) != fault.Failed || !strings.Contains(err.Error(), "couldn't fetch image fetched") {
		t.Fatalf("got %v (%s)", err, fault.KindOf(err))
	}
	missing = false
	since := len(w.cloud.Requests(0))
	if err := ensure(right); err != nil {
		t.Fatal(startest.Explain(err))
	}
	if writes := w.writes(since); len(writes) != 1 || !strings.HasSuffix(writes[0], "/import") {
		t.Errorf("the image that was left is filled by %v", writes)
	}
	since = len(w.cloud.Requests(0))
	if err := ensure(right); err != nil || len(w.writes(since)) > 0 {
		t.Errorf("the second time: %v, %v", err, w.writes(since))
	}
	w.must(`cloud.image.delete("fetched")`)
	wrong := strings.Repeat("0", 128)
	if err := ensure(wrong); fault.KindOf(err) != fault.Untrusted || !strings.Contains(err.Error(), "has sha512 "+right+", not "+wrong) {
		t.Errorf("got %v (%s)", err, fault.KindOf(err))
	}
	w.must(`if cloud.image.get("fetched") != None: fail("it is kept")`)
}

// big makes a file that doesn't fit into the buffers of a connection.
func (w *world) big() string {
	w.t.Helper()
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	path := filepath.Join(w.dir, "big.raw")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprintf(`struct(path = %q, sha256 = "%x")`, path, sha256.Sum256(data))
}

// TestUploadThatStalls is given up, and begun anew on the same image.
func TestUploadThatStalls(t *testing.T) {
	w := newWorld(t, lab.Config{})
	if _, err := w.cloud.Inject(lab.Fault{Service: "image", Method: "PUT", Path: "/file$", DelayMS: 1500}); err != nil {
		t.Fatal(err)
	}
	door := startest.NewDoor(effect.Apply)
	door.Retry = effect.Retry{Tries: 1}
	file := w.big()
	source := func(stall string) string {
		return fmt.Sprintf(`i = cloud.image.ensure("slow", file = %s, disk_format = "raw", stall = %q)
if (i.status, i.size) != ("active", 16 << 20): fail(i)`, file, stall)
	}
	if err := w.run(context.Background(), w.newModule(), door, source("200ms")); fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "took nothing of image slow for 200ms") {
		t.Fatalf("got %v (%s)", err, fault.KindOf(err))
	}
	w.must(source("1m"))
	if images := w.cloud.State(false)["image"]; len(images) != 2 { // the lab's own, and one
		t.Errorf("%d images", len(images))
	}
}

// TestUploadThatIsCut has the connection reset in the middle: the data is sent
// again to the same image, within the run and by the next one.
func TestUploadThatIsCut(t *testing.T) {
	for count, runs := range map[int]int{1: 1, 10: 2} {
		w := newWorld(t, lab.Config{})
		if _, err := w.cloud.Inject(lab.Fault{Service: "image", Method: "PUT", Path: "/file$", Bytes: 1 << 20, Count: count}); err != nil {
			t.Fatal(err)
		}
		source := `cloud.image.ensure("cut", file = ` + w.big() + `, disk_format = "raw")`
		for run := 1; run < runs; run++ {
			if err := w.run(context.Background(), w.newModule(), startest.NewDoor(effect.Apply), source); fault.KindOf(err) != fault.Unreachable {
				t.Errorf("got %v (%s)", err, fault.KindOf(err))
			}
			w.cloud.ClearFaults("")
		}
		w.must(source)
		images := w.cloud.State(false)["image"]
		if len(images) != 2 { // the lab's own, and one
			t.Errorf("%d images", len(images))
		}
	}
}
