package kube

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// SecretValue returns a value of a Secret. An error of kind NotFound names the
// keys that there are; no error holds a part of a value.
func SecretValue(secret *Object, key string) ([]byte, error) {
	held, _ := secret.Object["data"].(map[string]any)
	text, ok := held[key].(string)
	if !ok {
		return nil, fault.Hinted(fault.NotFound, "it has "+strings.Join(slices.Sorted(maps.Keys(held)), ", "), "it has no key %q", key)
	}
	plain, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fault.New(fault.Invalid, "key %q isn't base64", key)
	}
	return plain, nil
}
