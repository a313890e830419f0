package kube

import (
	"net/url"

	kubeclient "git.vanillacore.net/govstack/gsrun/internal/client/kube"
)

// addressesOf returns the address of the API server that a client speaks to.
func addressesOf(client *kubeclient.Client) []string {
	u, err := url.Parse(client.Server())
	if err != nil || u.Hostname() == "" {
		return nil
	}
	return []string{u.Hostname()}
}
