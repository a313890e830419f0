package artifact

import (
	"context"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// vendorTries is how often Vendor asks for a file before it gives up.
const vendorTries = 4

// Vendor fetches the files at urls, whether they are pinned or not, and
// returns a pin for each, in order. A file that is pinned and whose content
// differs is reported by the changed function, which decides: an error ends
// the call. Nothing is written to the client's lock. It is what `gsrun vendor`
// does.
func Vendor(ctx context.Context, c *Client, urls []string, changed func(old, now Pin) error) ([]Pin, error) {
	free := &Client{Lock: NewLock(""), Mirror: c.Mirror, Cache: c.Cache, AllowUnlocked: true, HTTP: c.HTTP,
		MaxSize: c.MaxSize, Progress: c.Progress, Sleep: c.Sleep}
	defer free.CloseIdle()
	pins := make([]Pin, 0, len(urls))
	for _, u := range urls {
		f, err := free.patiently(ctx, u)
		if err != nil {
			return nil, err
		}
		now := Pin{Kind: KindFile, Source: u, SHA256: f.SHA256, Size: f.Size}
		if c.Lock != nil && changed != nil {
			if old, ok := c.Lock.Find(KindFile, u); ok && old.SHA256 != now.SHA256 {
				if err := changed(old, now); err != nil {
					return nil, err
				}
			}
		}
		pins = append(pins, now)
	}
	return pins, nil
}

// patiently fetches source, again if it fails in a way that may pass.
func (c *Client) patiently(ctx context.Context, source string) (File, error) {
	pause := time.Second
	for try := 1; ; try++ {
		f, err := c.Fetch(ctx, source)
		if err == nil || !fault.KindOf(err).Retryable() || try == vendorTries {
			return f, err
		}
		if serr := c.sleep(ctx, max(pause, fault.AfterOf(err))); serr != nil {
			return File{}, fault.Wrap("fetching", source, serr)
		}
		pause *= 2
	}
}

func (c *Client) sleep(ctx context.Context, d time.Duration) error {
	if c.Sleep != nil {
		return c.Sleep(ctx, d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fault.FromContext(ctx)
	}
}
