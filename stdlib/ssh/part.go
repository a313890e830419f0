package ssh

import (
	"context"
	"regexp"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// as makes the act of a file that of a thing which the file holds. Its data is
// attrs, once the file is as wanted.
func (a *act) as(kind, name, path string, attrs map[string]any) *act {
	file := *a
	a.kind, a.name = kind, name
	a.reach = append(a.reach, a.host.scope()+"/file"+path)
	a.observe = func(ctx context.Context) (effect.State, error) {
		s, err := file.observe(ctx)
		if err != nil {
			return effect.State{}, err
		}
		c, err := file.diff(s)
		part := effect.State{Exists: s.Exists, Raw: s}
		if c.Kind == effect.None {
			part.Attrs = attrs
		}
		return part, err
	}
	a.diff = func(s effect.State) (effect.Change, error) {
		inner, _ := s.Raw.(effect.State)
		c, err := file.diff(inner)
		c.After, c.Relative = attrs, nil
		if c.Kind == effect.None {
			c.After = nil
		}
		return c, err
	}
	a.apply = func(ctx context.Context, c effect.Change) (effect.State, error) {
		c.Before, _ = c.Before.Raw.(effect.State)
		s, err := file.apply(ctx, c)
		s.Attrs = attrs
		return s, err
	}
	return a
}

// partsOf returns the reach of a change of a file: the things that are made of
// it, such as a unit of systemd.
func (h *Host) partsOf(path string) []string {
	var reach []string
	for _, p := range []struct{ path, kind string }{
		{`/systemd/`, "service/"}, {`/systemd/`, "systemd_unit/"}, {`^/etc/hosts$`, "hosts_entry/"}, {`^/etc/hostname$`, "hostname/"},
		{`^/etc/(localtime|timezone)$`, "timezone/"}, {`^/etc/cron\.d/`, "cron/"},
	} {
		if regexp.MustCompile(p.path).MatchString(path) {
			reach = append(reach, h.scope()+"/"+p.kind)
		}
	}
	return reach
}
