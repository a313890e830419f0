package debian

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

// jq knows paths, -r, -e and -c.
func (s *System) jq(ctx context.Context, p *machine.Proc) int {
	o := p.Options("r|raw-output e|exit-status c|compact-output n s M S")
	if o == nil || len(o.Args) == 0 {
		return 2
	}
	code := 0
	status := p.Each(ctx, o.Args[1:], func(_ string, r io.Reader) error {
		var v any
		if err := json.Unmarshal([]byte(readAll(r)), &v); err != nil {
			code = p.Fail(2, "error (at <stdin>:1): %v", err)
			return nil
		}
		vals, err := jqPath(o.Args[0], v)
		if err != nil {
			code = p.Fail(5, "error: %v", err)
			return nil
		}
		for _, v := range vals {
			if text, ok := v.(string); ok && o.Has("r") {
				p.Printf("%s\n", text)
			} else {
				b, err := json.MarshalIndent(v, "", "  ")
				if o.Has("c") {
					b, err = json.Marshal(v)
				}
				if err != nil {
					return err
				}
				p.Printf("%s\n", b)
			}
			if o.Has("e") && (v == nil || v == false) {
				code = 1
			}
		}
		return nil
	})
	return max(code, status)
}

func jqPath(filter string, v any) ([]any, error) {
	vals := []any{v}
	filter = strings.TrimSpace(filter)
	for filter != "" && filter != "." {
		var next []any
		filter = strings.TrimPrefix(filter, ".")
		switch {
		case strings.HasPrefix(filter, "[]"):
			filter = filter[2:]
			for _, v := range vals {
				list, ok := v.([]any)
				if !ok {
					return nil, fmt.Errorf("Cannot iterate over %T", v)
				}
				next = append(next, list...)
			}
		case strings.HasPrefix(filter, "["):
			index, rest, _ := strings.Cut(filter[1:], "]")
			filter = rest
			n, err := strconv.Atoi(index)
			for _, v := range vals {
				list, _ := v.([]any)
				object, _ := v.(map[string]any)
				switch {
				case err != nil:
					next = append(next, object[strings.Trim(index, `"`)])
				case n >= 0 && n < len(list):
					next = append(next, list[n])
				case n < 0 && -n <= len(list):
					next = append(next, list[len(list)+n])
				default:
					next = append(next, nil)
				}
			}
		default:
			end := strings.IndexAny(filter, ".[ |")
			if end < 0 {
				end = len(filter)
			}
			name := strings.Trim(filter[:end], `"?`)
			if name == "" || strings.ContainsAny(filter[end:], "|") {
				return nil, fmt.Errorf("the filter %q is beyond this jq", filter)
			}
			filter = filter[end:]
			for _, v := range vals {
				object, ok := v.(map[string]any)
				if !ok && v != nil {
					return nil, fmt.Errorf("Cannot index %T with \"%s\"", v, name)
				}
				next = append(next, object[name])
			}
		}
		vals = next
	}
	return vals, nil
}
