package openstack

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"
)

// object decodes the request's body, which must be a JSON object with the member wrap; that member is
// returned when it is an object too.
func (r *request) object(wrap string) (doc, error) {
	whole, err := r.json()
	if err != nil {
		return nil, err
	}
	inner, isObject := whole[wrap].(doc)
	if !isObject {
		return nil, refuse(400, "Invalid input for field/attribute %s. Value: %v. %s", wrap, whole[wrap], "'"+wrap+"' is a required property")
	}
	return inner, nil
}

func (r *request) json() (doc, error) {
	v, err := r.value()
	if err != nil {
		return nil, err
	}
	whole, isObject := v.(doc)
	if !isObject {
		return nil, refuse(400, "Malformed request body: it is not a JSON object.")
	}
	return whole, nil
}

// value decodes the request's body.
func (r *request) value() (any, error) {
	var v any
	if err := json.Unmarshal(r.body, &v); err != nil {
		return nil, refuse(400, "Malformed request body")
	}
	return v, nil
}

// lenientBase64 decodes as Python does, which skips what belongs to no
// alphabet.
func lenientBase64(s string) ([]byte, bool) {
	s = strings.Map(func(c rune) rune {
		if c < 128 && (c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.ContainsRune("+/=", c)) {
			return c
		}
		return -1
	}, s)
	data, err := base64.StdEncoding.DecodeString(s)
	return data, err == nil
}

func (r *request) arg(name string) string { return r.args[name] }

// flag reads a boolean query parameter.
func (r *request) flag(name string) bool {
	v, _ := parseBool(r.query.Get(name))
	return v
}

func str(d doc, key string) string {
	s, _ := d[key].(string)
	return s
}

func object(d doc, key string) doc {
	o, _ := d[key].(doc)
	return o
}

func list(d doc, key string) []any {
	l, _ := d[key].([]any)
	return l
}

func has(d doc, key string) bool {
	_, found := d[key]
	return found
}

// integer reads a number that JSON or a careless client (as text) has sent.
func integer(v any) (int, bool) {
	switch n := v.(type) {
	case float64:
		return int(n), n == float64(int(n))
	case int:
		return n, true
	case string:
		i, err := strconv.Atoi(n)
		return i, err == nil
	}
	return 0, false
}

func parseBool(v any) (value, valid bool) {
	switch b := v.(type) {
	case bool:
		return b, true
	case float64:
		return b == 1, b == 0 || b == 1
	case string:
		switch strings.ToLower(b) {
		case "true", "1", "yes", "on", "t", "y":
			return true, true
		case "false", "0", "no", "off", "f", "n":
			return false, true
		}
	}
	return false, false
}

// texts makes strings of a JSON array; false if an element is none.
func texts(v any) ([]string, bool) {
	l, isList := v.([]any)
	if !isList {
		return nil, v == nil
	}
	out := make([]string, len(l))
	for i, x := range l {
		s, isText := x.(string)
		if !isText {
			return nil, false
		}
		out[i] = s
	}
	return out, true
}

// stringMap makes a map of strings of a JSON object; false if a value is none.
func stringMap(v any) (map[string]string, bool) {
	o, isObject := v.(doc)
	if !isObject {
		return nil, v == nil
	}
	out := make(map[string]string, len(o))
	for k, x := range o {
		s, isText := x.(string)
		if !isText {
			return nil, false
		}
		out[k] = s
	}
	return out, true
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func anyOf[T any](l []T) []any {
	out := make([]any, len(l))
	for i, x := range l {
		out[i] = x
	}
	return out
}

func text(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return x
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

const (
	stampZ     = "2006-01-02T15:04:05Z"        // Nova, Neutron, Glance
	stampMicro = "2006-01-02T15:04:05.000000Z" // Keystone
)

func stamp(t time.Time) string { return t.UTC().Format(stampZ) }
