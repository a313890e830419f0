package openstack

import (
	"bytes"
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// handClock is moved by its test.
type handClock struct{ now time.Time }

func (c *handClock) Now() time.Time { return c.now }

func (c *handClock) Sleep(context.Context, time.Duration) error {
	panic("reading a file waits for nothing")
}

// TestUploadProgress reads files to be uploaded, a quarter each second: what takes long
// tells how far it is, in a unit that fits.
func TestUploadProgress(t *testing.T) {
	for _, c := range []struct {
		size int64
		want []string
	}{
		{1<<20 - 4, nil},
		{1 << 20, []string{"uploading debian: 25% of 1 MiB", "uploading debian: 75% of 1 MiB"}},
	} {
		var got []string
		clock := &handClock{now: time.Unix(0, 0)}
		door := &effect.Door{Clock: clock, Emit: func(e effect.Event) { got = append(got, e.Message) }}
		ctx := effect.With(t.Context(), effect.NewScope(door, effect.Owner{}, "image", nil))
		u := &upload{file: bytes.NewReader(make([]byte, c.size)), size: c.size, ctx: ctx, name: "debian"}
		if err := u.rewind(); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			clock.now = clock.now.Add(time.Second)
			if _, err := io.ReadFull(u, make([]byte, c.size/4)); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d bytes: %q, want %q", c.size, got, c.want)
		}
	}
	for n, want := range map[int64]string{1 << 20: "1 MiB", 1023 << 20: "1023 MiB", 1 << 30: "1.0 GiB", 2560 << 20: "2.5 GiB"} {
		if got := sizeText(n); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
	}
}
