package artifact

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	"git.vanillacore.net/govstack/gsrun/internal/durable"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// lockVersion is the version of the lock file's form that this package writes.
const lockVersion = 1

// The kinds of pin.
const (
	KindFile   = "file"   // a file behind an https URL
	KindOCI    = "oci"    // an image or chart in a registry
	KindPlugin = "plugin" // a WASM plugin
	KindModule = "module" // a recipe module
)

// A Pin is the digest that one source had when it was recorded.
type Pin struct {
	Kind   string `json:"kind"`
	Source string `json:"source"`         // a URL, or an OCI reference
	SHA256 string `json:"sha256"`         // 64 lower-case hex digits
	Size   int64  `json:"size,omitempty"` // in bytes; 0 if it wasn't recorded
}

type pinKey struct{ kind, source string }

// A Lock is what a site has pinned: the content of gsrun.lock. It is JSON
// lines, a header and then one pin a line, sorted, so that two people who pin
// different things don't meet in one line. Its methods may be called by
// several goroutines at once.
type Lock struct {
	name string

	mu   sync.RWMutex
	pins map[pinKey]Pin
}

// NewLock returns an empty lock; name is what messages call it.
func NewLock(name string) *Lock { return &Lock{name: name, pins: make(map[pinKey]Pin)} }

type header struct {
	Version int `json:"gsrun.lock"`
}

// ParseLock reads the content of a lock file. Errors are of kind
// fault.Invalid and name the line.
func ParseLock(name string, data []byte) (*Lock, error) {
	l := NewLock(name)
	seenHeader := false
	for i, line := range bytes.Split(data, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if !seenHeader {
			if err := parseHeader(line); err != nil {
				return nil, l.invalid(i+1, err)
			}
			seenHeader = true
			continue
		}
		var p Pin
		if err := decodeStrict(line, &p); err != nil {
			return nil, l.invalid(i+1, err)
		}
		if err := p.check(); err != nil {
			return nil, l.invalid(i+1, err)
		}
		k := pinKey{p.Kind, p.Source}
		if have, ok := l.pins[k]; ok && have != p {
			return nil, l.invalid(i+1, fmt.Errorf("%s is pinned twice, to %s and to %s", p.Source, have.SHA256, p.SHA256))
		}
		l.pins[k] = p
	}
	return l, nil
}

func parseHeader(line []byte) error {
	var h header
	if err := decodeStrict(line, &h); err != nil {
		return fmt.Errorf(`the first line must be {"gsrun.lock":%d}: %w`, lockVersion, err)
	}
	if h.Version != lockVersion {
		return fmt.Errorf("version %d of the lock file isn't known to this gsrun, which knows version %d", h.Version, lockVersion)
	}
	return nil
}

func decodeStrict(line []byte, dst any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(dst); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value in the line")
	}
	return nil
}

func (p Pin) check() error {
	switch p.Kind {
	case KindFile, KindOCI, KindPlugin, KindModule:
	default:
		return fmt.Errorf("unknown kind %q", p.Kind)
	}
	if p.Source == "" {
		return errors.New("the source is missing")
	}
	if !isDigest(p.SHA256) {
		return fmt.Errorf("%q is no SHA-256 digest of 64 lower-case hex digits", p.SHA256)
	}
	if p.Size < 0 {
		return fmt.Errorf("negative size %d", p.Size)
	}
	return nil
}

func isDigest(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == 32 && hex.EncodeToString(raw) == s
}

func (l *Lock) invalid(line int, err error) error {
	return &fault.Error{Op: "reading", Target: fmt.Sprintf("%s:%d", l.name, line), Kind: fault.Invalid,
		Hint: "repair the line, or delete the file and run `gsrun vendor`", Err: err}
}

// ReadLock reads the lock file at path. A file that isn't there is an empty
// lock.
func ReadLock(path string) (*Lock, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return NewLock(path), nil
	}
	if err != nil {
		return nil, &fault.Error{Op: "reading", Target: path, Kind: fault.Invalid, Err: err}
	}
	return ParseLock(path, data)
}

// Name returns what messages call the lock.
func (l *Lock) Name() string { return l.name }

// Find returns the pin of a source.
func (l *Lock) Find(kind, source string) (Pin, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	p, ok := l.pins[pinKey{kind, source}]
	return p, ok
}

// Set records p in place of what was recorded for its source.
func (l *Lock) Set(p Pin) error {
	if err := p.check(); err != nil {
		return &fault.Error{Op: "pinning", Target: p.Source, Kind: fault.Invalid, Err: err}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pins[pinKey{p.Kind, p.Source}] = p
	return nil
}

// Remove forgets a source.
func (l *Lock) Remove(kind, source string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pins, pinKey{kind, source})
}

// Pins returns all pins, sorted by kind and source.
func (l *Lock) Pins() []Pin {
	l.mu.RLock()
	defer l.mu.RUnlock()
	out := make([]Pin, 0, len(l.pins))
	for _, p := range l.pins {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Pin) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Source, b.Source))
	})
	return out
}

// Bytes returns the content of the lock file: the same for the same pins.
func (l *Lock) Bytes() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(header{lockVersion}) // plain structs into memory always encode
	for _, p := range l.Pins() {
		_ = e.Encode(p)
	}
	return b.Bytes()
}

// Write stores the lock at path, atomically.
func (l *Lock) Write(path string) error {
	if err := durable.WriteFile(path, l.Bytes(), 0o644); err != nil {
		return &fault.Error{Op: "writing", Target: path, Kind: fault.Failed, Err: err}
	}
	return nil
}
