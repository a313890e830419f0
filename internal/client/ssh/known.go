package ssh

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // known_hosts hashes names with SHA-1; nothing is trusted because of it
	"encoding/base64"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A trust is what a host may prove itself with.
type trust struct {
	keys        []ssh.PublicKey
	authorities []ssh.PublicKey // whose certificates count
	revoked     []ssh.PublicKey // keys and authorities that don't count whatever else says so

	keep   func(shown ssh.PublicKey) error // takes the first key that is shown; nil where one is known
	forget string                          // how a person has the key forgotten that was kept
}

// The markers that a line of known_hosts may begin with.
const (
	authorityMarker = "@cert-authority"
	revokedMarker   = "@revoked"
)

// parseTrust reads what is known of the host. A line of HostKeys is a public
// key as a console log or a .pub file has it, or a line of known_hosts; one of
// KnownHosts begins with names. A line with names counts if it is for this host.
func parseTrust(c *Config) (*trust, error) {
	t := new(trust)
	others := 0
	read := func(source, text string, named bool) error {
		n := 0
		for line := range strings.SplitSeq(text, "\n") {
			n++
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			taken, err := t.add(c, line, named)
			if err != nil {
				if named {
					source = fmt.Sprintf("known_hosts line %d", n)
				}
				return fault.Hinted(fault.Invalid, keyHint(named), "%s of %s: %v", source, c.label(), err)
			}
			if !taken {
				others++
			}
		}
		return nil
	}
	for _, text := range c.HostKeys {
		if err := read("host key", text, false); err != nil {
			return nil, err
		}
	}
	if err := read("", c.KnownHosts, true); err != nil {
		return nil, err
	}
	if len(t.keys)+len(t.authorities) > 0 {
		return t, nil
	}
	hint := "pass host_key, for example the one that the server printed on its console"
	if others > 0 {
		return nil, fault.Hinted(fault.Invalid, hint, "%s: none of the %d known_hosts lines given is for this host", c.label(), others)
	}
	return nil, fault.Hinted(fault.Invalid, hint, "%s: no host key is given, and none is accepted blindly", c.label())
}

func keyHint(named bool) string {
	if named {
		return `a line of known_hosts looks like "gw.example.org,203.0.113.7 ssh-ed25519 AAAA..."`
	}
	return `a host key looks like "ssh-ed25519 AAAA...", an authority like "@cert-authority *.example.org ssh-ed25519 AAAA..."`
}

// add takes the key of a line, unless the line is for other hosts. With named,
// the line must begin with names.
func (t *trust) add(c *Config, line string, named bool) (taken bool, err error) {
	marker := ""
	if strings.HasPrefix(line, "@") {
		if marker, line = cutField(line); marker != authorityMarker && marker != revokedMarker {
			return false, fmt.Errorf("the marker %s isn't known, only %s and %s", shorten(marker, 30), authorityMarker, revokedMarker)
		}
		named = true
	}
	if names, rest := cutField(line); named && len(strings.Fields(rest)) >= 2 && !c.isNamed(names, marker != "") {
		return false, nil // whatever its key is
	}
	key, names, err := parseHostKeyLine(line)
	switch {
	case err != nil:
		return false, err
	case names == "" && marker == authorityMarker:
		return false, fmt.Errorf("%s needs the names of the hosts that the authority is for before its key, or * for all", marker)
	case names == "" && named:
		return false, fmt.Errorf("there are no host names before the key")
	case names != "" && !c.isNamed(names, marker != ""):
		return false, nil
	}
	switch marker {
	case authorityMarker:
		t.authorities = append(t.authorities, key)
	case revokedMarker:
		t.revoked = append(t.revoked, key)
	default:
		t.keys = append(t.keys, key)
	}
	return true, nil
}

// cutField returns the first field of a line, and what follows it.
func cutField(line string) (field, rest string) {
	end := strings.IndexAny(line, " \t")
	if end < 0 {
		return line, ""
	}
	return line[:end], strings.TrimSpace(line[end:])
}

// parseHostKeyLine returns the key in line, and the names before it.
func parseHostKeyLine(line string) (key ssh.PublicKey, names string, err error) {
	fields := strings.Fields(line)
	for i := 0; i < len(fields)-1 && i < 2; i++ {
		raw, err := base64.StdEncoding.DecodeString(fields[i+1])
		if err != nil || len(raw) < 16 {
			continue
		}
		key, err := ssh.ParsePublicKey(raw)
		if err != nil {
			return nil, "", fmt.Errorf("unreadable key of type %q: %w", fields[i], err)
		}
		if key.Type() != fields[i] {
			return nil, "", fmt.Errorf("the line says %q, the key is %q", fields[i], key.Type())
		}
		if _, ok := key.(*ssh.Certificate); ok {
			return nil, "", fmt.Errorf("it is a certificate: give the public key of the authority that signed it, in a line with %s", authorityMarker)
		}
		if i == 1 {
			names = fields[0]
		}
		return key, names, nil
	}
	return nil, "", fmt.Errorf("no public key in %q", shorten(line, 60))
}

// names returns what the host may be called in known_hosts. Authorities and
// what is revoked count for a host whatever its port is.
func (c *Config) names(anyPort bool) []string {
	plain := []string{c.Address, c.Name}
	if c.Port == 22 {
		return plain
	}
	at := []string{fmt.Sprintf("[%s]:%d", c.Address, c.Port), fmt.Sprintf("[%s]:%d", c.Name, c.Port)}
	if anyPort {
		return append(at, plain...)
	}
	return at
}

// isNamed reports whether the name field of a known_hosts line is for this
// host. A field that can't be a host's name, such as the "ec2:" of a console
// log, is no restriction.
func (c *Config) isNamed(field string, anyPort bool) bool {
	if strings.HasSuffix(field, ":") {
		return true
	}
	found := false
	for pattern := range strings.SplitSeq(field, ",") {
		pattern, not := strings.CutPrefix(pattern, "!")
		for _, name := range c.names(anyPort) {
			if isHashOf(pattern, name) || matches(strings.ToLower(pattern), strings.ToLower(name)) {
				if not {
					return false
				}
				found = true
			}
		}
	}
	return found
}

// matches reports whether a pattern with * and ? is for name.
func matches(pattern, name string) bool {
	// Where the last * was, and how much of the name it covers so far.
	star, covered := -1, 0
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, covered = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			covered++
			p, n = star+1, covered
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// isHashOf reports whether pattern is a hashed form of name: |1|salt|hash.
func isHashOf(pattern, name string) bool {
	parts := strings.Split(pattern, "|")
	if len(parts) != 4 || parts[1] != "1" {
		return false
	}
	salt, err1 := base64.StdEncoding.DecodeString(parts[2])
	want, err2 := base64.StdEncoding.DecodeString(parts[3])
	if err1 != nil || err2 != nil {
		return false
	}
	mac := hmac.New(sha1.New, salt)
	mac.Write([]byte(strings.ToLower(name)))
	return hmac.Equal(mac.Sum(nil), want)
}
