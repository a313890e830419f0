package effect

import (
	"slices"
	"strings"
	"sync"
)

// A Redactor removes the secrets of a run from text, in each of the forms that
// they are written in (see forms). One Redactor serves every output of a run.
// The zero value is ready for use.
//
// It finds every occurrence of every form, those that overlap too, and masks
// what any of them covers. What it costs grows with the text, hardly with the
// number of secrets: a text is looked up eight bytes at a time.
type Redactor struct {
	mu     sync.RWMutex
	seen   map[string]bool
	known  map[form]bool
	index  map[uint64][]place // by the eight bytes that stand there
	filter []uint64           // a bit for each hash of a key of index: most of a text needs no look-up
	public map[string]bool
	shown  []string // parts of secrets that are none, such as the public key within a private one
}

// A form is a text that is masked where it stands.
type form struct {
	text string
	// pieces says that a long enough piece of the form goes, too: what is one
	// unreadable token may be cut off, or wrapped to lines.
	pieces bool
}

// A place is where in a form the eight bytes of a key stand.
type place struct {
	form form
	at   int
}

const (
	keySize  = 8
	stride   = 16                    // of the places in a form that are indexed
	minPiece = stride + keySize      // the shortest piece in which one of them is sure to stand
	hashBits = 20                    // of the filter
	hashMul  = 0x9E37_79B9_7F4A_7C15 // spreads keys over the filter
	minSplit = 2 * minPiece          // forms that are shorter go as a whole only
)

// Add makes r remove plain from now on. A text of fewer than MinSecret bytes is
// left alone: it would take half of every output with it.
func (r *Redactor) Add(plain string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[plain] {
		return
	}
	if r.seen == nil {
		r.seen = make(map[string]bool)
		r.known = make(map[form]bool)
		r.index = make(map[uint64][]place)
		r.filter = make([]uint64, 1<<hashBits/64)
	}
	r.seen[plain] = true
	r.shown = append(r.shown, publicParts(plain)...)
	for _, part := range parts(plain) {
		for _, f := range forms(part) {
			r.add(f)
		}
	}
}

func (r *Redactor) add(f form) {
	if len(f.text) < MinSecret || r.known[f] {
		return
	}
	r.known[f] = true
	for at := 0; at+keySize <= len(f.text); at += stride {
		k := keyAt(f.text, at)
		r.index[k] = append(r.index[k], place{f, at})
		h := k * hashMul >> (64 - hashBits)
		r.filter[h/64] |= 1 << (h % 64)
		if !f.pieces {
			return
		}
	}
}

// keyAt returns the eight bytes of s that begin at i.
func keyAt(s string, i int) uint64 {
	_ = s[i+7]
	return uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
		uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
}

// Publish says that outputs show these words by right, such as the site's name
// or those of steps: they can't be secrets.
func (r *Redactor) Publish(words ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.public == nil {
		r.public = make(map[string]bool)
	}
	for _, w := range words {
		r.public[strings.ToLower(w)] = true
	}
}

// Public reports whether Publish was told of the word. Case doesn't count.
func (r *Redactor) Public(word string) bool {
	if r == nil {
		return false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.public[strings.ToLower(word)]
}

// A span is a part of a text.
type span struct{ from, to int }

// String returns s without the secrets.
func (r *Redactor) String(s string) string {
	spans := r.find(s)
	if len(spans) == 0 {
		return s
	}
	var b strings.Builder
	end := 0
	for _, x := range spans {
		b.WriteString(s[end:x.from])
		b.WriteString(Mask)
		end = x.to
	}
	b.WriteString(s[end:])
	return b.String()
}

// find returns the parts of s that hold secrets, in order; no two of them touch.
func (r *Redactor) find(s string) []span {
	if r == nil || len(s) < keySize {
		return nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.filter == nil {
		return nil
	}
	var spans []span
	covered := 0 // up to where s is masked so far
	k := keyAt(s, 0)
	for i := 0; ; i++ {
		h := k * hashMul >> (64 - hashBits)
		if r.filter[h/64]&(1<<(h%64)) != 0 {
			for _, p := range r.index[k] {
				if p.at > 0 && i+keySize <= covered {
					continue // a piece that reaches further is met again there
				}
				if x, ok := p.span(s, i); ok {
					spans = join(spans, x)
					covered = spans[len(spans)-1].to
				}
			}
		}
		if i+keySize >= len(s) {
			return slices.DeleteFunc(spans, func(x span) bool { return r.shows(s[x.from:x.to]) })
		}
		k = k>>8 | uint64(s[i+keySize])<<56
	}
}

// shows reports whether a piece of a secret is one that may be shown. In base64
// its first and last characters may hold bits of what stands beside it.
func (r *Redactor) shows(piece string) bool {
	if len(piece) < minPiece {
		return false
	}
	piece = piece[2 : len(piece)-2]
	return slices.ContainsFunc(r.shown, func(t string) bool { return strings.Contains(t, piece) })
}

// span returns the part of s that is p's form, or a long enough piece of it,
// given that p's key stands at i.
func (p place) span(s string, i int) (span, bool) {
	t := p.form.text
	if p.at == 0 && strings.HasPrefix(s[i:], t) {
		return span{i, i + len(t)}, true
	}
	if !p.form.pieces {
		return span{}, false
	}
	from, to := i, i+keySize
	for from > 0 && i-from < p.at && s[from-1] == t[p.at-(i-from)-1] {
		from--
	}
	for to < len(s) && p.at+to-i < len(t) && s[to] == t[p.at+to-i] {
		to++
	}
	return span{from, to}, to-from >= minPiece
}

// join adds x to spans, which end no later than x does unless they hold it.
func join(spans []span, x span) []span {
	for n := len(spans); n > 0 && spans[n-1].to >= x.from; n-- {
		x = span{min(x.from, spans[n-1].from), max(x.to, spans[n-1].to)}
		spans = spans[:n-1]
	}
	return append(spans, x)
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
			out[r.String(k)] = cleanData(v, r)
		}
		return out
	case map[string]string:
		out := make(map[string]string, len(x))
		for k, v := range x {
			out[r.String(k)] = r.String(v)
		}
		return out
	}
	return x
}
