package openstack

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// SnapshotAge is how old what a glance sees may be.
const SnapshotAge = 10 * time.Second

// mostKept is the number of resources of a kind above which they aren't kept:
// asking for one is cheaper than listing so many.
const mostKept = 2000

// glanceKey is where a context says that its calls may be answered from
// snapshots.
type glanceKey struct{}

// Glance lets calls under the returned context be answered from snapshots: one
// list of a kind in place of a call for each resource of it. What they show is
// at most SnapshotAge old, no older than the last write of this client, and was
// seen for the same run, which is any value that can be compared. It is good for
// seeing that nothing is to be done; whoever sees otherwise looks again without.
func Glance(ctx context.Context, run any) context.Context {
	return context.WithValue(ctx, glanceKey{}, run)
}

// Glancing reports whether ctx is one of Glance.
func Glancing(ctx context.Context) bool { return ctx.Value(glanceKey{}) != nil }

// A kept is a kind of resource that snapshots are taken of.
type kept struct {
	service Service
	path    string   // of one resource, above its id: "/servers"
	list    string   // of all of them, if that is another: "/servers/detail"
	key     string   // of a list
	one     string   // key of one resource
	filters []string // fields of the resources that a query may filter by
	id      string   // the field by which one is called; "" means id
	query   string   // of the list, such as one for large pages
	pattern bool     // the filter name is a regular expression
	wrapped bool     // each in a list is an object of its key one
}

// keptKinds lists the kinds whose lists show all that a call for one shows.
func keptKinds() []kept {
	neutron := func(path, key, one string, filters ...string) kept {
		return kept{service: Network, path: path, key: key, one: one, filters: append([]string{"id", "name", "description", "project_id"}, filters...)}
	}
	return []kept{
		neutron("/networks", "networks", "network"),
		neutron("/subnets", "subnets", "subnet", "network_id"),
		neutron("/ports", "ports", "port", "network_id", "device_id", "device_owner"),
		neutron("/routers", "routers", "router"),
		neutron("/floatingips", "floatingips", "floatingip", "floating_network_id", "router_id", "port_id"),
		neutron("/security-groups", "security_groups", "security_group"),
		neutron("/security-group-rules", "security_group_rules", "security_group_rule", "security_group_id"),
		{service: Compute, path: "/servers", list: "/servers/detail", key: "servers", one: "server", filters: []string{"name"}, pattern: true},
		{service: Compute, path: "/flavors", list: "/flavors/detail", key: "flavors", one: "flavor"},
		{service: Compute, path: "/os-keypairs", key: "keypairs", one: "keypair", id: "name", wrapped: true},
		{service: Image, path: "/images", key: "images", filters: []string{"name", "owner"}, query: "limit=200"},
		{service: Compute, path: "/os-server-groups", key: "server_groups", one: "server_group"},
		{service: LoadBalancer, path: "/lbaas/loadbalancers", key: "loadbalancers", one: "loadbalancer", filters: []string{"id", "name", "description", "project_id"}},
		{service: Identity, path: "/projects", key: "projects", one: "project", filters: []string{"name", "domain_id"}},
		{service: Identity, path: "/users", key: "users", one: "user", filters: []string{"name", "domain_id"}},
		{service: Identity, path: "/groups", key: "groups", one: "group", filters: []string{"name", "domain_id"}},
		{service: BlockStorage, path: "/volumes", list: "/volumes/detail", key: "volumes", one: "volume", filters: []string{"name"}},
	}
}

// snapshots are those of a client.
type snapshots struct {
	mu     sync.Mutex
	writes int           // counts writes, each once before and once after it
	run    any           // that they were taken for
	later  time.Duration // added to the clock by tests
	taken  map[string]*snapshot
}

// A snapshot is a list of resources, or one under way.
type snapshot struct {
	done   chan struct{}
	writes int // when it was begun
	at     time.Time
	all    []Object
	err    error
	many   bool // there are too many to keep
}

// wrote forgets what was seen before a write.
func (s *snapshots) wrote() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
}

// current reports whether what a snapshot shows may still be said.
func (s *snapshots) current(x *snapshot, now time.Time) bool {
	select {
	case <-x.done:
		return x.many || x.err == nil && x.writes == s.writes && now.Sub(x.at) < SnapshotAge
	default:
		return x.writes == s.writes
	}
}

// snapshotOf returns what list shows, once for all that ask at the same time;
// false if there is too much of it.
func (c *Client) snapshotOf(ctx context.Context, name string, list func(ctx context.Context, most int) ([]Object, error)) ([]Object, bool, error) {
	s := &c.snapshots
	for {
		s.mu.Lock()
		if run := ctx.Value(glanceKey{}); s.taken == nil || s.run != run {
			s.run, s.taken = run, make(map[string]*snapshot)
		}
		x := s.taken[name]
		now := time.Now().Add(s.later)
		mine := x == nil || !s.current(x, now)
		if mine {
			x = &snapshot{done: make(chan struct{}), writes: s.writes, at: now}
			s.taken[name] = x
		}
		s.mu.Unlock()
		if mine {
			x.all, x.err = list(ctx, mostKept)
			x.many = len(x.all) > mostKept
			if x.many {
				x.all = nil
			}
			close(x.done)
			return x.all, !x.many, x.err
		}
		select {
		case <-x.done:
		case <-ctx.Done():
			return nil, false, fault.FromContext(ctx)
		}
		switch fault.KindOf(x.err) {
		case "":
			return x.all, !x.many, nil
		case fault.Cancelled, fault.Timeout: // that one was given up says nothing about the cloud
		default:
			return nil, false, x.err
		}
	}
}

// glanceList answers a list from a snapshot; false if it can't.
func (c *Client) glanceList(ctx context.Context, call Call, key string) ([]Object, bool, error) {
	if !Glancing(ctx) {
		return nil, false, nil
	}
	i := slices.IndexFunc(keptKinds(), func(k kept) bool {
		return k.of(c) && k.service == call.Service && k.listPath() == call.Path && k.key == key
	})
	if i < 0 {
		return nil, false, nil
	}
	k := keptKinds()[i]
	whole, filters, ok := c.widen(k, call.Query)
	if !ok {
		return nil, false, nil
	}
	call.Query = whole
	all, ok, err := c.snapshotOf(ctx, k.name(call), func(ctx context.Context, most int) ([]Object, error) { return c.list(ctx, call, key, most) })
	if err != nil || !ok {
		return nil, false, err
	}
	out := []Object{}
	for _, o := range all {
		if filters.fit(k, o) {
			out = append(out, copied(o).(Object))
		}
	}
	return out, true, nil
}

// glanceOne answers a call for one resource from a snapshot; false if it can't,
// as for one that the list of the project's own doesn't have.
func (c *Client) glanceOne(ctx context.Context, call Call, key string) (Object, bool, error) {
	if !Glancing(ctx) || call.Method != http.MethodGet || len(call.Query) > 0 {
		return nil, false, nil
	}
	for _, k := range keptKinds() {
		id, ok := strings.CutPrefix(call.Path, k.path+"/")
		if !ok || !k.of(c) || k.service != call.Service || k.one != key || strings.Contains(id, "/") {
			continue
		}
		id, err := url.PathUnescape(id)
		if err != nil {
			return nil, false, nil
		}
		whole, _, _ := c.widen(k, c.own(k))
		call := Call{Service: k.service, Version: call.Version, Path: k.listPath(), Query: whole}
		all, ok, err := c.snapshotOf(ctx, k.name(call), func(ctx context.Context, most int) ([]Object, error) { return c.list(ctx, call, k.key, most) })
		if err != nil || !ok {
			return nil, false, err
		}
		for _, o := range all {
			if k.wrapped {
				o, _ = o[k.one].(Object)
			}
			if str(o, k.idField()) == id {
				return copied(o).(Object), true, nil
			}
		}
	}
	return nil, false, nil
}

func (k kept) listPath() string {
	if k.list != "" {
		return k.list
	}
	return k.path
}

func (k kept) idField() string {
	if k.id != "" {
		return k.id
	}
	return "id"
}

// projected reports whether a list is of all projects that the login may see.
func (k kept) projected() bool { return slices.Contains(k.filters, "project_id") }

// of reports whether the client may list all of the kind.
func (k kept) of(c *Client) bool { return k.service != Identity || c.wide }

// name is what a snapshot of the kind is kept under.
func (k kept) name(call Call) string {
	return string(call.Service) + " " + call.Version + " " + call.Path + "?" + call.Query.Encode()
}

// own is the query for what the login's project has.
func (c *Client) own(k kept) url.Values {
	q := url.Values{}
	if k.projected() && c.project != "" {
		q.Set("project_id", c.project)
	}
	return q
}

// wants are the filters of a query that are applied here.
type wants map[string]string

// widen returns the query for all of which a query wants a part, and the
// filters for that part; false if it filters by what can't be told from the
// resources.
func (c *Client) widen(k kept, query url.Values) (url.Values, wants, bool) {
	whole, filters := url.Values{}, wants{}
	fixed, _ := url.ParseQuery(k.query)
	for name, values := range query {
		switch {
		case fixed.Has(name):
		case len(values) != 1 || !slices.Contains(k.filters, name) && !(k.service == Image && strings.HasPrefix(name, "gsrun_")):
			return nil, nil, false
		default:
			filters[name] = values[0]
		}
	}
	for name, values := range fixed {
		whole[name] = values
	}
	// Who sees every project asks for one at a time: of names without one that
	// is each by itself. Others see what is theirs and what is shared with them.
	if _, projected := filters["project_id"]; c.wide && k.projected() {
		if !projected {
			return query, wants{}, true
		}
		whole.Set("project_id", filters["project_id"])
	}
	if _, owned := filters["owner"]; k.service == Image {
		if !owned {
			return query, wants{}, true
		}
		whole.Set("owner", filters["owner"])
	}
	return whole, filters, true
}

// fit reports whether a resource is among those that are wanted.
func (w wants) fit(k kept, o Object) bool {
	for name, value := range w {
		have := ""
		switch v := o[name].(type) {
		case nil:
		case string:
			have = v
		default:
			have = fmt.Sprint(v)
		}
		if name == "name" && k.pattern {
			if re, err := regexp.Compile(value); err != nil || !re.MatchString(have) {
				return false
			}
		} else if have != value {
			return false
		}
	}
	return true
}

// copied returns JSON that can be changed by whoever gets it.
func copied(x any) any {
	switch x := x.(type) {
	case Object:
		out := make(Object, len(x))
		for k, v := range x {
			out[k] = copied(v)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = copied(v)
		}
		return out
	}
	return x
}
