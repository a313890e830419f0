package openstack

import (
	"strings"

	"golang.org/x/crypto/ssh"
)

// HostKeys returns the public host keys that cloud-init wrote to a console:
// the lines between its BEGIN and END SSH HOST KEY KEYS, without comments.
// Prefixes that consoles put before lines (a time, a tag) are skipped. A block
// without an end, and lines that are no key, give nothing: the log is still
// being written, or something else was written in between.
func HostKeys(console string) []string {
	const begin, end = "-----BEGIN SSH HOST KEY KEYS-----", "-----END SSH HOST KEY KEYS-----"
	// The last block counts: a rebuilt server writes another.
	at := strings.LastIndex(console, begin)
	for at >= 0 {
		if block, _, complete := strings.Cut(console[at+len(begin):], end); complete {
			return keysIn(block)
		}
		at = strings.LastIndex(console[:at], begin)
	}
	return nil
}

func keysIn(block string) []string {
	var keys []string
	for line := range strings.Lines(block) {
		fields := strings.Fields(line)
		for i, f := range fields {
			if i+1 >= len(fields) || !strings.HasPrefix(f, "ssh-") && !strings.HasPrefix(f, "ecdsa-") && !strings.HasPrefix(f, "sk-") {
				continue
			}
			if key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(f + " " + fields[i+1])); err == nil {
				keys = append(keys, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))))
			}
			break
		}
	}
	return keys
}
