package ssh

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // known_hosts hashes names with SHA-1; nothing is trusted because of it
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strings"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

func isMissingPassphrase(err error) bool {
	var m *ssh.PassphraseMissingError
	return errors.As(err, &m)
}

// parseHostKeys reads the keys that the host may show. A line is a public key
// as a console log or a .pub file has it, or a line of known_hosts, which
// counts if it is for this host.
func parseHostKeys(c *Config) ([]ssh.PublicKey, error) {
	var keys []ssh.PublicKey
	others := 0
	for _, text := range c.HostKeys {
		for line := range strings.SplitSeq(text, "\n") {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			key, names, err := parseHostKeyLine(line)
			if err != nil {
				return nil, fault.Hinted(fault.Invalid, `a host key looks like "ssh-ed25519 AAAA..."`, "host key of %s: %v", c.label(), err)
			}
			if names != "" && !c.isNamed(names) {
				others++
				continue
			}
			keys = append(keys, key)
		}
	}
	if len(keys) > 0 {
		return keys, nil
	}
	hint := "pass host_key, for example the one that the server printed on its console"
	if others > 0 {
		return nil, fault.Hinted(fault.Invalid, hint, "%s: none of the %d known_hosts lines given is for this host", c.label(), others)
	}
	return nil, fault.Hinted(fault.Invalid, hint, "%s: no host key is given, and none is accepted blindly", c.label())
}

// parseHostKeyLine returns the key in line, and the names before it.
func parseHostKeyLine(line string) (key ssh.PublicKey, names string, err error) {
	fields := strings.Fields(line)
	if strings.HasPrefix(fields[0], "@") {
		return nil, "", fmt.Errorf("lines with %s aren't supported", fields[0])
	}
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
		if i == 1 {
			names = fields[0]
		}
		return key, names, nil
	}
	return nil, "", fmt.Errorf("no public key in %q", shorten(line, 60))
}

// isNamed reports whether the name field of a known_hosts line is for this
// host. A field that can't be a host's name, such as the "ec2:" of a console
// log, is no restriction.
func (c *Config) isNamed(field string) bool {
	if strings.HasSuffix(field, ":") {
		return true
	}
	own := []string{c.Address, c.Name}
	if c.Port != 22 {
		own = []string{fmt.Sprintf("[%s]:%d", c.Address, c.Port), fmt.Sprintf("[%s]:%d", c.Name, c.Port)}
	}
	for pattern := range strings.SplitSeq(field, ",") {
		for _, name := range own {
			if strings.EqualFold(pattern, name) || isHashOf(pattern, name) {
				return true
			}
		}
	}
	return false
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

// algorithms lists the host key algorithms that fit the known keys, so that a
// host with several keys shows one that is known.
func algorithms(keys []ssh.PublicKey) []string {
	var out []string
	seen := make(map[string]bool)
	for _, k := range keys {
		if seen[k.Type()] {
			continue
		}
		seen[k.Type()] = true
		if k.Type() == ssh.KeyAlgoRSA {
			out = append(out, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		out = append(out, k.Type())
	}
	return out
}

// check returns nil if the host showed one of the known keys.
func checkHostKey(c *Config, known []ssh.PublicKey, shown ssh.PublicKey) error {
	var prints []string
	for _, k := range known {
		if bytes.Equal(k.Marshal(), shown.Marshal()) {
			return nil
		}
		prints = append(prints, k.Type()+" "+ssh.FingerprintSHA256(k))
	}
	return fault.Hinted(fault.Untrusted,
		"if the host was rebuilt, read its key anew from the console; if not, somebody else is answering at its address",
		"the host key doesn't match: the host showed %s %s, known is %s", shown.Type(), ssh.FingerprintSHA256(shown), strings.Join(prints, ", "))
}

// callback returns what x/crypto asks. It keeps the verdict in *verdict, since
// the error that it returns reaches the caller only as text.
func callback(c *Config, known []ssh.PublicKey, verdict *error) ssh.HostKeyCallback {
	return func(_ string, _ net.Addr, shown ssh.PublicKey) error {
		*verdict = checkHostKey(c, known, shown)
		return *verdict
	}
}

func shorten(s string, n int) string {
	if len(s) > n {
		return s[:n] + "..."
	}
	return s
}
