package effect

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A Redactor removes the secrets of a run from text: as they are, and in
// base64, URL-escaped and JSON-escaped form. One Redactor serves every output
// of a run. The zero value is ready for use.
type Redactor struct {
	mu       sync.Mutex
	seen     map[string]bool
	forms    []string // longest first, so that a secret which begins with another goes as a whole
	replacer atomic.Pointer[strings.Replacer]
}

// minLine is the length from which a single line of a secret of several lines
// (a private key, a kubeconfig) is removed on its own: an output may indent or
// fold it.
const minLine = 16

// Add makes r remove plain from now on.
func (r *Redactor) Add(plain string) {
	if plain == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[plain] {
		return
	}
	if r.seen == nil {
		r.seen = make(map[string]bool)
	}
	r.seen[plain] = true
	r.forms = append(r.forms, forms(plain)...)
	if trimmed := strings.TrimSpace(plain); trimmed != plain && len(trimmed) >= MinSecret {
		r.forms = append(r.forms, forms(trimmed)...)
	}
	if trimmed := strings.TrimSpace(plain); strings.Contains(trimmed, "\n") {
		for line := range strings.SplitSeq(trimmed, "\n") {
			line = strings.TrimSpace(line)
			if len(line) < minLine || strings.HasPrefix(line, "-----") || isPublicLine(line) {
				continue
			}
			r.forms = append(r.forms, forms(line)...)
		}
	}
	slices.SortStableFunc(r.forms, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(r.forms))
	for _, f := range r.forms {
		pairs = append(pairs, f, Mask)
	}
	r.replacer.Store(strings.NewReplacer(pairs...))
}

// isPublicLine tells lines of structured secrets (kubeconfigs) that hold no
// secret themselves: a key with a short, readable value. Without this every
// server address of a kubeconfig would vanish from the logs.
func isPublicLine(line string) bool {
	key, value, ok := strings.Cut(line, ": ")
	if !ok || strings.ContainsAny(key, " /+=") {
		return false
	}
	return len(value) < 64 && !strings.Contains(strings.ToLower(key), "token") &&
		!strings.Contains(strings.ToLower(key), "password") && !strings.Contains(strings.ToLower(key), "secret") &&
		!strings.Contains(strings.ToLower(key), "key")
}

func forms(plain string) []string {
	b := []byte(plain)
	out := []string{plain}
	add := func(s string) {
		for _, have := range out {
			if have == s {
				return
			}
		}
		out = append(out, s)
	}
	quoted, _ := json.Marshal(plain) // a string always marshals
	add(string(quoted[1 : len(quoted)-1]))
	add(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(quoted[1 : len(quoted)-1])))
	add(url.QueryEscape(plain))
	add(url.PathEscape(plain))
	add(base64.StdEncoding.EncodeToString(b))
	add(base64.RawStdEncoding.EncodeToString(b))
	add(base64.URLEncoding.EncodeToString(b))
	add(base64.RawURLEncoding.EncodeToString(b))
	return out
}

// String returns s without the secrets.
func (r *Redactor) String(s string) string {
	if r == nil {
		return s
	}
	if p := r.replacer.Load(); p != nil {
		return p.Replace(s)
	}
	return s
}

// cleaned returns attributes without the secrets that they hold as plain text,
// such as what a command printed. Values of the type Secret stay: the journal
// has its own way with them.
func (d *Door) cleaned(attrs map[string]any) map[string]any {
	if attrs == nil || d.Redactor == nil {
		return attrs
	}
	return cleanData(attrs, d.Redactor).(map[string]any)
}

func cleanData(x any, r *Redactor) any {
	switch x := x.(type) {
	case string:
		return r.String(x)
	case []string:
		out := make([]string, len(x))
		for i, s := range x {
			out[i] = r.String(s)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = cleanData(v, r)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, v := range x {
			out[k] = cleanData(v, r)
		}
		return out
	case map[string]string:
		out := make(map[string]string, len(x))
		for k, v := range x {
			out[k] = r.String(v)
		}
		return out
	}
	return x
}
