package openstack

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// upload sends the file to a queued image, and compares what Glance received
// with what was sent. Content that isn't what the file was declared to be is
// not left behind: the image is deleted.
func (o *imageOp) upload(ctx context.Context, cl *client.Client, id string) error {
	f, err := os.Open(o.args.File.Path)
	if err != nil {
		return fault.New(fault.Invalid, "reading the image's file: %v", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fault.New(fault.Invalid, "reading the image's file: %v", err)
	}
	uctx, cancel := context.WithTimeoutCause(ctx, o.args.Timeout,
		fault.Hinted(fault.Timeout, "give it more time with timeout", "uploading %s took more than %s", o.args.Name, o.args.Timeout))
	defer cancel()
	uctx, stalled := context.WithCancelCause(uctx)
	r := &upload{file: f, size: info.Size(), ctx: ctx, name: o.args.Name, stall: o.args.Stall, stalled: stalled}
	defer r.end()
	if err := r.rewind(); err != nil {
		return err
	}
	_, err = cl.Do(uctx, client.Call{Service: client.Image, Method: http.MethodPut, Path: "/images/" + id + "/file", Stream: r})
	if err != nil {
		return err
	}
	var wrong error
	if got := hex.EncodeToString(r.sha256.Sum(nil)); got != o.args.File.SHA256 {
		wrong = fault.Hinted(fault.Untrusted, "the file changed since it was fetched: fetch it again", "%s has sha256 %s, not %s", o.args.File.Path, got, o.args.File.SHA256)
	} else if wrong, err = o.received(ctx, cl, id, r); err != nil {
		return err
	}
	if wrong == nil {
		return nil
	}
	if err := removeImage(ctx, o.cloud, cl, id); err != nil {
		return fmt.Errorf("%w; and deleting the image: %v", wrong, err)
	}
	return wrong
}

// received returns what is wrong with what Glance received.
func (o *imageOp) received(ctx context.Context, cl *client.Client, id string, sent *upload) (wrong, err error) {
	obj, err := o.awaitActive(ctx, cl, id)
	if err != nil {
		return nil, err
	}
	sum, got, algorithm := sent.sha512, str(obj, "os_hash_value"), str(obj, "os_hash_algo")
	if algorithm != "sha512" { // an old cloud, or one that digests otherwise
		sum, got, algorithm = sent.md5, str(obj, "checksum"), "md5"
	}
	if size, known := obj["size"].(int64); known && size != sent.done {
		return altered(o.args.Name, id, "%d bytes; %d were sent", size, sent.done), nil
	}
	if want := hex.EncodeToString(sum.Sum(nil)); got != "" && got != want {
		return altered(o.args.Name, id, "%s %s; %s was sent", algorithm, got, want), nil
	}
	return nil, nil
}

// altered is the error for an image that isn't what was sent.
func altered(name, id, format string, args ...any) error {
	return fault.Hinted(fault.Untrusted, "something between here and Glance changes data", "image %s (%s) has %s", name, id, fmt.Sprintf(format, args...))
}

// An upload reads a file, digests what is read and reports how far it is.
type upload struct {
	file           io.ReadSeeker
	size, done     int64
	sha256, sha512 hash.Hash
	md5            hash.Hash
	ctx            context.Context // whose progress is reported
	name           string
	reported       time.Time

	stall   time.Duration // how long nothing may be read; 0 means any time
	stalled func(error)   // ends the upload
	mu      sync.Mutex    // for watch: the transport may read on when the call has ended
	watch   *time.Timer
	over    bool
}

// moved notes that something was read, which the cloud therefore takes.
func (u *upload) moved() {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.over || u.stall <= 0:
	case u.done >= u.size:
		u.stop() // the cloud may take its time to store it
	case u.watch == nil:
		u.watch = time.AfterFunc(u.stall, func() {
			u.stalled(fault.Hinted(fault.Unavailable, "stall gives it more time", "the cloud took nothing of image %s for %s", u.name, u.stall))
		})
	default:
		u.watch.Reset(u.stall)
	}
}

// end stops watching for good.
func (u *upload) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
	u.stop()
}

func (u *upload) stop() {
	if u.watch != nil {
		u.watch.Stop()
	}
}

func (u *upload) rewind() error {
	_, err := u.Seek(0, io.SeekStart)
	return err
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.file.Read(p)
	u.sha256.Write(p[:n]) // a hash never fails
	u.sha512.Write(p[:n])
	u.md5.Write(p[:n])
	u.done += int64(n)
	u.moved()
	if u.size < reportedSize {
		return n, err
	}
	if now := effect.From(u.ctx).Door.Clock.Now(); now.Sub(u.reported) >= 2*time.Second {
		u.reported = now
		effect.Progressf(u.ctx, "uploading %s: %d%% of %s", u.name, u.done*100/u.size, sizeText(u.size))
	}
	return n, err
}

// reportedSize is the size from which on an upload takes long enough to tell
// how far it is.
const reportedSize = 1 << 20

// sizeText writes a size of at least 1 MiB in the largest unit that it reaches.
func sizeText(n int64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// Seek goes to the beginning only: data is sent again as a whole.
func (u *upload) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekStart {
		return 0, fmt.Errorf("an upload can only begin again")
	}
	u.done, u.sha256, u.sha512, u.md5 = 0, sha256.New(), sha512.New(), md5.New()
	return u.file.Seek(0, io.SeekStart)
}
