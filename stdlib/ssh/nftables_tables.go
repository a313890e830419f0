package ssh

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// nftTables returns the tables of a ruleset, "inet gsrun". It refuses whatever
// is neither a table nor a definition, since that may change other tables.
func nftTables(text string) ([]string, error) {
	table := regexp.MustCompile(`^table\s+(?:(ip|ip6|inet|arp|bridge|netdev)\s+)?([A-Za-z_][A-Za-z0-9_./-]*)$`)
	var tables []string
	var stmt strings.Builder // what stands outside of braces
	depth, line := 0, 1
	end := func(opens bool) error {
		s := strings.TrimSpace(stmt.String())
		stmt.Reset()
		m := table.FindStringSubmatch(s)
		switch {
		case m != nil && opens:
			if m[1] == "" {
				m[1] = "ip"
			}
			if t := m[1] + " " + m[2]; !slices.Contains(tables, t) {
				tables = append(tables, t)
			}
		case s == "" && !opens, strings.HasPrefix(s, "define "):
		default:
			return fmt.Errorf("line %d: %q is no table", line, s)
		}
		return nil
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '#':
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case c == '"':
			n := strings.IndexAny(text[i+1:], "\"\n")
			if n < 0 || text[i+1+n] == '\n' {
				return nil, fmt.Errorf("line %d: a string doesn't end", line)
			}
			if depth == 0 {
				stmt.WriteString(text[i : i+n+2])
			}
			i += n + 1
		case c == '\\' && i+1 < len(text) && text[i+1] == '\n':
			line++
			i++
		case c == '{':
			if depth == 0 && !strings.HasPrefix(strings.TrimSpace(stmt.String()), "define ") {
				if err := end(true); err != nil {
					return nil, err
				}
			}
			depth++
		case c == '}':
			if depth--; depth < 0 {
				return nil, fmt.Errorf("line %d: a } too many", line)
			}
		case depth == 0 && (c == '\n' || c == ';'):
			if err := end(false); err != nil {
				return nil, err
			}
		case depth == 0:
			stmt.WriteByte(c)
		}
		if c == '\n' {
			line++
		}
	}
	if depth > 0 {
		return nil, fmt.Errorf("a { isn't closed")
	}
	if err := end(false); err != nil {
		return nil, err
	}
	if len(tables) == 0 {
		return nil, fmt.Errorf("there is no table")
	}
	return tables, nil
}
