package openstack

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// webDownload is the way of importing by which Glance fetches an image itself.
const webDownload = "web-download"

// importable refuses to import where the cloud doesn't fetch images itself.
func importable(ctx context.Context, cl *client.Client) error {
	info, err := cl.Do(ctx, client.Call{Service: client.Image, Method: http.MethodGet, Path: "/info/import"})
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return err
	}
	methods, _ := info["import-methods"].(client.Object)
	known, _ := methods["value"].([]any)
	if slices.Contains(known, any(webDownload)) {
		return nil
	}
	return fault.Hinted(fault.Invalid, "fetch it with artifact.fetch and pass it as file", "the cloud doesn't fetch images from a URL: it offers %s of the ways to import, and not %s", show(known), webDownload)
}

// fetchInto has Glance fetch a queued image from the URL, and compares what it
// got with the digest that is wanted.
func (o *imageOp) fetchInto(ctx context.Context, cl *client.Client, id string) error {
	body := client.Object{"method": client.Object{"name": webDownload, "uri": o.args.URL.Reveal()}}
	if _, err := cl.Do(ctx, client.Call{Service: client.Image, Method: http.MethodPost, Path: "/images/" + id + "/import", Body: body}); err != nil {
		return err
	}
	obj, err := o.awaitActive(ctx, cl, id)
	if err != nil {
		if str(obj, "status") == "queued" {
			return fault.Hinted(fault.Failed, "see that the cloud reaches the URL: `openstack image task list` tells the operators more", "Glance couldn't fetch image %s (%s)", o.args.Name, id)
		}
		return err
	}
	return o.genuine(ctx, cl, obj)
}

// genuine deletes an image whose content isn't what was asked for by its digest.
func (o *imageOp) genuine(ctx context.Context, cl *client.Client, obj client.Object) error {
	id, got := str(obj, "id"), str(obj, "os_hash_value")
	want := strings.ToLower(o.args.SHA512)
	switch {
	case want == "" || got == want:
		return nil
	case str(obj, "os_hash_algo") != "sha512":
		return fault.Hinted(fault.Invalid, "leave out sha512", "the cloud makes no SHA-512 of images, but %s", show(obj["os_hash_algo"]))
	}
	wrong := fault.Hinted(fault.Untrusted, "what lies at the URL has changed, or something between changes data", "image %s (%s) has sha512 %s, not %s", o.args.Name, id, got, want)
	if err := removeImage(ctx, o.cloud, cl, id); err != nil {
		return fmt.Errorf("%w; and deleting the image: %v", wrong, err)
	}
	return wrong
}
