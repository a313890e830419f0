package openstack

import (
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
)

// str returns a field as text; "" if it is absent or null.
func str(obj client.Object, key string) string {
	s, _ := obj[key].(string)
	return s
}

// objects returns a field that is a list of objects.
func objects(obj client.Object, key string) []client.Object {
	l, _ := obj[key].([]any)
	out := make([]client.Object, 0, len(l))
	for _, x := range l {
		if m, ok := x.(client.Object); ok {
			out = append(out, m)
		}
	}
	return out
}

// ids names the resources by their ids.
func ids(objs []client.Object) string {
	out := make([]string, len(objs))
	for i, o := range objs {
		out[i] = str(o, "id")
	}
	return strings.Join(out, ", ")
}

// isID reports whether s has the form of OpenStack's ids: a UUID, with or
// without dashes.
func isID(s string) bool {
	plain := strings.ReplaceAll(s, "-", "")
	if len(plain) != 32 || len(s) != 32 && len(s) != 36 {
		return false
	}
	return strings.Trim(plain, "0123456789abcdefABCDEF") == ""
}
