package openstack

import (
	"slices"
	"strings"
)

// cleanACL returns the form of an ACL that Swift keeps and shows.
func cleanACL(acl string, write bool) (string, error) {
	var out []string
	for raw := range strings.SplitSeq(acl, ",") {
		raw = strings.TrimSpace(raw)
		first, host, pair := strings.Cut(raw, ":")
		first, host = strings.TrimSpace(first), strings.TrimSpace(host)
		switch {
		case raw == "":
		case !pair, !strings.HasPrefix(first, "."):
			out = append(out, raw)
		case !slices.Contains([]string{".r", ".ref", ".referer", ".referrer"}, first):
			return "", refuse(400, "Unknown designator '%s' in ACL: '%s'", first, raw)
		case write:
			return "", refuse(400, "Referrers not allowed in write ACL: '%s'", raw)
		default:
			host, denied := strings.CutPrefix(host, "-")
			if host = strings.TrimSpace(host); host != "*" {
				host = strings.TrimSpace(strings.TrimPrefix(host, "*"))
			}
			if host == "" || host == "." {
				return "", refuse(400, "No host/domain value after referrer designation in ACL: '%s'", raw)
			}
			if denied {
				host = "-" + host
			}
			out = append(out, ".r:"+host)
		}
	}
	return strings.Join(out, ","), nil
}
