package effect

import "go.starlark.net/starlark"

// hideOld returns fields with the old value masked where the wanted one is or
// holds a secret: what stands there is likely to be the secret of before, which
// nobody declares any more.
func (d *Door) hideOld(fields []Field) []Field {
	out := fields
	for i, f := range fields {
		if !says(f.Old) || !holdsSecret(f.New, d.Redactor) {
			continue
		}
		if &out[0] == &fields[0] {
			out = append([]Field(nil), fields...) // the op may look at its own again
		}
		out[i].Old = Mask
	}
	return out
}

// says reports whether an old value says anything.
func says(old any) bool {
	switch old := plainData(old).(type) {
	case nil, Unknown, *Secret:
		return false
	case string:
		return old != ""
	}
	return true
}

// HoldsSecret reports whether data is or holds a secret.
func HoldsSecret(x any) bool { return holdsSecret(x, nil) }

// holdsSecret takes a text that r removes something from for one that holds a
// secret.
func holdsSecret(x any, r *Redactor) bool {
	switch x := plainData(x).(type) {
	case *Secret:
		return true
	case string:
		return r.String(x) != x
	case []any:
		return anyHolds(x, r)
	case []string:
		return anyHolds(x, r)
	case []Text:
		return anyHolds(x, r)
	case map[string]any:
		return anyValueHolds(x, r)
	case map[string]string:
		return anyValueHolds(x, r)
	case map[string]Text:
		return anyValueHolds(x, r)
	case starlark.Value:
		return FindSecret(x) != nil
	}
	return false
}

func anyHolds[T any](list []T, r *Redactor) bool {
	for _, x := range list {
		if holdsSecret(x, r) {
			return true
		}
	}
	return false
}

func anyValueHolds[T any](m map[string]T, r *Redactor) bool {
	for _, x := range m {
		if holdsSecret(x, r) {
			return true
		}
	}
	return false
}
