package openstack

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
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
	r := &upload{file: f, size: info.Size(), ctx: ctx, name: o.args.Name}
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
	} else if wrong, err = o.received(ctx, cl, id, hex.EncodeToString(r.sha512.Sum(nil))); err != nil {
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
func (o *imageOp) received(ctx context.Context, cl *client.Client, id, sent string) (wrong, err error) {
	obj, err := o.awaitActive(ctx, cl, id)
	if err != nil {
		return nil, err
	}
	if got := str(obj, "os_hash_value"); str(obj, "os_hash_algo") == "sha512" && got != sent {
		return fault.Hinted(fault.Untrusted, "something between here and Glance changes data", "image %s (%s) has sha512 %s; %s was sent", o.args.Name, id, got, sent), nil
	}
	return nil, nil
}

// An upload reads a file, digests what is read and reports how far it is.
type upload struct {
	file           io.ReadSeeker
	size, done     int64
	sha256, sha512 hash.Hash
	ctx            context.Context // whose progress is reported
	name           string
	reported       time.Time
}

func (u *upload) rewind() error {
	_, err := u.Seek(0, io.SeekStart)
	return err
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.file.Read(p)
	u.sha256.Write(p[:n]) // a hash never fails
	u.sha512.Write(p[:n])
	u.done += int64(n)
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
	u.done, u.sha256, u.sha512 = 0, sha256.New(), sha512.New()
	return u.file.Seek(0, io.SeekStart)
}
