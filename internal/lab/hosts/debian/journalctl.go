package debian

import (
	"context"
	"fmt"
	"strconv"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

// entries returns the last n lines of a unit's journal; n < 0 means all.
func (m *services) entries(unit string, n int) []entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []entry
	for _, e := range m.log {
		if unit == "" || e.unit == unit {
			out = append(out, e)
		}
	}
	if n >= 0 {
		out = out[max(0, len(out)-n):]
	}
	return out
}

func (s *System) journalLine(e entry) string {
	return fmt.Sprintf("%s %s %s[1]: %s", e.at.UTC().Format("Jan 02 15:04:05"), s.Hostname(), e.tag, e.text)
}

func (s *System) journalctl(ctx context.Context, p *machine.Proc) int {
	o := p.Options("u|unit: n|lines: no-pager o|output: f|follow b|boot? k|dmesg e|pager-end x|catalog q|quiet since: until: S: U: r|reverse p|priority: " +
		"t|identifier: vacuum-time: vacuum-size: rotate disk-usage g|grep: a all no-hostname flush sync")
	if o == nil {
		return 1
	}
	n := -1
	if v := o.Get("n"); v != "" && v != "all" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			return p.Fail(1, "Failed to parse lines '%s'", v)
		}
	}
	unit := ""
	if o.Has("u") {
		unit = unitName(o.Get("u"))
	}
	all := s.services.entries(unit, n)
	if len(all) == 0 {
		p.Printf("-- No entries --\n")
	}
	for _, e := range all {
		if o.Get("o") == "cat" {
			p.Printf("%s\n", e.text)
		} else {
			p.Printf("%s\n", s.journalLine(e))
		}
	}
	if o.Has("f") {
		<-ctx.Done()
	}
	return 0
}
