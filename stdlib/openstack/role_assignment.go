package openstack

import (
	"context"
	"net/http"
	"net/url"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func assignmentAttrs() []builtin.Attr {
	return []builtin.Attr{
		{Name: "id", Type: "str", Doc: "PROJECT/USER/ROLE by their ids: Keystone has no id for it."},
		{Name: "role", Type: "str", Doc: "The role's name."},
		{Name: "role_id", Type: "str", Doc: "The role's id."},
		{Name: "user_id", Type: "str", Doc: "The user's id; empty for a group."},
		{Name: "group_id", Type: "str", Doc: "The group's id; empty for a user."},
		{Name: "project_id", Type: "str", Doc: "The project's id; empty for a domain."},
		{Name: "domain_id", Type: "str", Doc: "The domain's id; empty for a project."},
	}
}

// assignmentData returns what recipes see of an assignment that was listed with names.
func assignmentData(o client.Object) map[string]any {
	part := func(obj client.Object, key string) client.Object {
		p, _ := obj[key].(client.Object)
		return p
	}
	role, scope := part(o, "role"), part(o, "scope")
	out := map[string]any{
		"role": str(role, "name"), "role_id": str(role, "id"), "user_id": str(part(o, "user"), "id"), "group_id": str(part(o, "group"), "id"),
		"project_id": str(part(scope, "project"), "id"), "domain_id": str(part(scope, "domain"), "id"),
	}
	text := func(a, b string) string { return out[a].(string) + out[b].(string) } // one of them is empty
	out["id"] = text("project_id", "domain_id") + "/" + text("user_id", "group_id") + "/" + str(role, "id")
	return out
}

type assignmentArgs struct {
	Role    string           `star:"role,required" doc:"The role, by name or id, such as \"member\"."`
	User    effect.Reference `star:"user" of:"openstack.user" doc:"Who has it: a user, by name or id."`
	Group   effect.Reference `star:"group" doc:"Or a group, whose members have it then."`
	Project effect.Reference `star:"project" of:"openstack.project" doc:"Where: a project, by name or id. Default: the login's."`
	Domain  string           `star:"domain" doc:"Or a domain, by id or name."`
}

func assignmentVerbs() builtin.Noun {
	example := "cloud = openstack.connect(\"admin\")\n" + `u, p = cloud.user.ensure("spoke-1"), cloud.project.ensure("spoke-1")` + "\n"
	return builtin.Noun{
		Name: "role_assignment", Doc: "That a user or group has a role in a project or domain. To change one takes an administrator. It can't bear an owner mark: `gsrun destroy` takes back what the journals say that the recipe gave.",
		Identity: builtin.NaturalKey, Attrs: assignmentAttrs(),
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Cloud, assignmentArgs]{
				Name:    "ensure",
				Doc:     "Give a role to a user or group.",
				Returns: "openstack.role_assignment",
				Example: example + `cloud.role_assignment.ensure("member", user = u, project = p)`,
				Effect:  builtin.Changes,
				Errors:  []fault.Kind{fault.Invalid, fault.NotFound, fault.Denied},
				Run: func(ctx context.Context, c *Cloud, a assignmentArgs) (any, error) {
					op, err := newAssignment(c, a)
					if err != nil {
						return nil, err
					}
					return c.do(ctx, op)
				},
			}),
			assignmentList(),
			builtin.Of(builtin.Spec[*Cloud, assignmentArgs]{
				Name:    "delete",
				Doc:     "Take a role from a user or group. That they don't have it is no error.",
				Returns: "None",
				Example: example + `cloud.role_assignment.delete("member", user = u, project = p)`,
				Effect:  builtin.Changes,
				Errors:  []fault.Kind{fault.Invalid, fault.Denied},
				Run: func(ctx context.Context, c *Cloud, a assignmentArgs) (any, error) {
					op, err := newAssignment(c, a)
					if err != nil {
						return nil, err
					}
					_, err = c.do(ctx, op.removal())
					return nil, err
				},
			}),
		},
	}
}

// An assignmentOp gives a role.
type assignmentOp struct {
	cloud *Cloud
	args  assignmentArgs
	ids   map[string]any // by attribute; an effect.Unknown where it isn't known yet
}

func newAssignment(c *Cloud, a assignmentArgs) (*assignmentOp, error) {
	switch {
	case a.Role == "":
		return nil, fault.New(fault.Invalid, "the role's name is empty")
	case a.User.Empty() == a.Group.Empty():
		return nil, fault.Hinted(fault.Invalid, "give user = or group =", "role %s: one of user and group is to have it", a.Role)
	case !a.Project.Empty() && a.Domain != "":
		return nil, fault.Hinted(fault.Invalid, "give project = or domain =", "role %s: it is in a project or in a domain, not in both", a.Role)
	}
	return &assignmentOp{cloud: c, args: a}, nil
}

func (o *assignmentOp) Target() effect.Target {
	who, where := o.args.User, o.args.Domain
	if who.Empty() {
		who = o.args.Group
	}
	if where == "" {
		if where = o.args.Project.String(); where == "" {
			where = "own"
		}
	}
	t := o.cloud.target("role_assignment", where+"/"+who.String()+"/"+o.args.Role)
	for _, ref := range []effect.Reference{who, o.args.Project} {
		t.Unknown = t.Unknown || !ref.Known() && ref.Name == ""
	}
	return t
}

// resolve finds the ids of all that the assignment connects.
func (o *assignmentOp) resolve(ctx context.Context, cl *client.Client) error {
	role, err := findRole(ctx, cl, o.args.Role)
	if err != nil {
		return err
	}
	o.ids = map[string]any{"role": str(role, "name"), "role_id": str(role, "id"), "user_id": "", "group_id": "", "project_id": "", "domain_id": ""}
	if o.ids["user_id"], err = userNoun().resolve(ctx, o.cloud, cl, o.args.User); err != nil {
		return err
	}
	if o.ids["group_id"], err = groupNoun().resolve(ctx, o.cloud, cl, o.args.Group); err != nil {
		return err
	}
	switch {
	case o.args.Domain != "":
		o.ids["domain_id"], err = findDomain(ctx, cl, o.args.Domain)
	case o.args.Project.Empty():
		if o.ids["project_id"] = cl.Project(); cl.Project() == "" {
			return fault.Hinted(fault.Invalid, "give project = or domain =", "%s: the login has no project", o.Target())
		}
	default:
		o.ids["project_id"], err = projectNoun().resolve(ctx, o.cloud, cl, o.args.Project)
	}
	return err
}

// groupNoun is what groups of users are found by.
func groupNoun() *noun {
	return &noun{name: "group", plural: "groups", path: "/groups", service: client.Identity, whole: true, scans: true}
}

// findRole returns the role of that name or id. Only administrators can list them.
func findRole(ctx context.Context, cl *client.Client, name string) (client.Object, error) {
	all, err := cl.List(ctx, client.Call{Service: client.Identity, Path: "/roles"}, "roles")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, r := range all {
		if str(r, "name") == name || str(r, "id") == name {
			return r, nil
		}
		names = append(names, str(r, "name"))
	}
	hint := "the cloud has: " + joinSome(names)
	if near := builtin.Nearest(name, names); near != "" {
		hint = "did you mean " + near + "? " + hint
	}
	return nil, fault.Hinted(fault.NotFound, hint, "there is no role %q", name)
}

func (o *assignmentOp) Observe(ctx context.Context) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	if err := o.resolve(ctx, cl); err != nil {
		return effect.State{}, err
	}
	query := url.Values{"include_names": {"true"}, "role.id": {o.id("role_id")}}
	for key, attr := range map[string]string{"user.id": "user_id", "group.id": "group_id", "scope.project.id": "project_id", "scope.domain.id": "domain_id"} {
		if !known(o.ids[attr]) {
			return effect.State{}, nil // what isn't there yet has no role
		}
		if id := o.id(attr); id != "" {
			query.Set(key, id)
		}
	}
	all, err := cl.List(ctx, client.Call{Service: client.Identity, Path: "/role_assignments", Query: query}, "role_assignments")
	for _, a := range all {
		if scope, _ := a["scope"].(client.Object); scope["OS-INHERIT:inherited_to"] == nil {
			return effect.State{Exists: true, Attrs: assignmentData(a), Raw: a}, err
		}
	}
	return effect.State{}, err
}

func (o *assignmentOp) id(attr string) string {
	s, _ := o.ids[attr].(string)
	return s
}

func (o *assignmentOp) Diff(st effect.State) (effect.Change, error) {
	if st.Exists {
		return effect.Unchanged(), nil
	}
	names := make([]string, 0, len(assignmentAttrs()))
	for _, a := range assignmentAttrs() {
		names = append(names, a.Name)
	}
	var fields []field
	for attr, id := range o.ids {
		fields = append(fields, field{attr: attr, want: id})
	}
	return effect.Change{Kind: effect.Create, Fields: []effect.Field{{Path: "role", New: o.ids["role"]}}, After: after(o.Target(), names, nil, fields)}, nil
}

// call is a call about the assignment itself.
func (o *assignmentOp) call(method string) client.Call {
	path := "/projects/" + o.id("project_id")
	if o.id("domain_id") != "" {
		path = "/domains/" + o.id("domain_id")
	}
	if o.id("user_id") != "" {
		path += "/users/" + o.id("user_id")
	} else {
		path += "/groups/" + o.id("group_id")
	}
	return client.Call{Service: client.Identity, Method: method, Path: path + "/roles/" + o.id("role_id")}
}

func (o *assignmentOp) Apply(ctx context.Context, _ effect.Change) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	if _, err := cl.Do(ctx, o.call(http.MethodPut)); err != nil {
		return effect.State{}, err
	}
	attrs := map[string]any{}
	for attr, id := range o.ids {
		attrs[attr] = id
	}
	attrs["id"] = o.id("project_id") + o.id("domain_id") + "/" + o.id("user_id") + o.id("group_id") + "/" + o.id("role_id")
	return effect.State{Exists: true, Attrs: attrs}, nil
}

// removal returns the op that takes the role back.
func (o *assignmentOp) removal() *deleteOp {
	return &deleteOp{cloud: o.cloud, kind: "role_assignment", name: o.Target().Name,
		find: func(ctx context.Context, _ *client.Client) (client.Object, error) {
			st, err := o.Observe(ctx)
			if fault.KindOf(err) == fault.NotFound {
				return nil, nil // one of those that it connects has gone, and it went along
			}
			if err != nil || !st.Exists {
				return nil, err
			}
			return client.Object{"id": st.Attrs["id"], "name": o.args.Role}, nil
		},
		remove: func(ctx context.Context, cl *client.Client, _ client.Object) error {
			_, err := cl.Do(ctx, o.call(http.MethodDelete))
			if fault.KindOf(err) == fault.NotFound {
				return nil
			}
			return err
		}}
}

var _ effect.Undoer = (*assignmentOp)(nil)

// Undo returns the assignment as something to delete, before the user and the
// project that it connects.
func (o *assignmentOp) Undo(st effect.State) effect.Owned {
	id, _ := st.Attrs["id"].(string)
	return effect.Owned{Target: o.Target(), ID: id, Same: "role_assignment " + id, Rank: rankOf("application_credential"), Credential: true, Delete: o.removal()}
}

type assignmentListArgs struct {
	User      effect.Reference `star:"user" of:"openstack.user" doc:"Only those of this user, by name or id."`
	Project   effect.Reference `star:"project" of:"openstack.project" doc:"Only those in this project, by name or id."`
	Role      string           `star:"role" doc:"Only those of this role, by name or id."`
	Effective bool             `star:"effective" doc:"With those that come of groups and of other roles, each under the user who has it."`
}

func assignmentList() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, assignmentListArgs]{
		Name:    "list",
		Doc:     "Return who has which role where, as an administrator may see it. Those of the whole system aren't among them.",
		Returns: "list[openstack.role_assignment]",
		Example: "cloud = openstack.connect(\"admin\")\n" + `roles = [a.role for a in cloud.role_assignment.list(user = "demo", project = "demo")]`,
		Effect:  builtin.Reads,
		Errors:  []fault.Kind{fault.NotFound, fault.Denied},
		Run: func(ctx context.Context, c *Cloud, a assignmentListArgs) (any, error) {
			t := c.target("role_assignment", "")
			connected, err := effect.Read(ctx, effect.Query{Target: t}, c.client)
			if err != nil {
				return nil, err
			}
			query := url.Values{"include_names": {"true"}}
			if a.Effective {
				query.Set("effective", "true")
			}
			for key, of := range map[string]func() (any, error){
				"user.id":          func() (any, error) { return userNoun().resolve(ctx, c, connected.(*client.Client), a.User) },
				"scope.project.id": func() (any, error) { return projectNoun().resolve(ctx, c, connected.(*client.Client), a.Project) },
			} {
				switch id, err := of(); {
				case err != nil:
					return nil, err
				case !known(id):
					t.Unknown = true
					return effect.Read(ctx, effect.Query{Target: t}, func(context.Context) ([]any, error) { return nil, nil })
				case id != "":
					query.Set(key, id.(string))
				}
			}
			return readList(ctx, c, "role_assignment", func(ctx context.Context, cl *client.Client) ([]map[string]any, error) {
				if a.Role != "" {
					role, err := findRole(ctx, cl, a.Role)
					if err != nil {
						return nil, err
					}
					query.Set("role.id", str(role, "id"))
				}
				all, err := cl.List(ctx, client.Call{Service: client.Identity, Path: "/role_assignments", Query: query}, "role_assignments")
				if err != nil {
					return nil, err
				}
				var out []map[string]any
				for _, o := range all {
					if attrs := assignmentData(o); attrs["project_id"] != "" || attrs["domain_id"] != "" {
						out = append(out, attrs)
					}
				}
				return out, nil
			})
		},
	})
}
