// Package recipes embeds the recipes that come with gsrun, so that the binary
// runs them without a checkout.
package recipes

import "embed"

// FS holds the recipes and, below files, what they read.
//
//go:embed *.star spoke/*.star files
var FS embed.FS
