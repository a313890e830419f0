package openstack

import (
	"slices"
	"time"
)

// credential is an application credential. Its project may have gone.
type credential struct {
	id, name, secret string
	description      any // text or null
	user             *user
	project          string
	roles            []string
	expires          time.Time
	unrestricted     any // null unless it was given
	rules            []string
}

func credentialRoutes() []route {
	return []route{
		{method: "GET", pattern: "/v3/users/{user}/application_credentials", handle: (*Cloud).credentialList},
		{method: "POST", pattern: "/v3/users/{user}/application_credentials", handle: (*Cloud).credentialCreate},
		{method: "GET", pattern: "/v3/users/{user}/application_credentials/{id}", handle: (*Cloud).credentialShow},
		{method: "DELETE", pattern: "/v3/users/{user}/application_credentials/{id}", handle: (*Cloud).credentialDelete},
		{method: "GET", pattern: "/v3/users/{user}/access_rules", handle: (*Cloud).accessRuleList},
		{method: "GET", pattern: "/v3/users/{user}/access_rules/{id}", handle: (*Cloud).accessRuleShow},
		{method: "DELETE", pattern: "/v3/users/{user}/access_rules/{id}", handle: (*Cloud).accessRuleDelete},
	}
}

// findCredential looks up by id, or by name and user.
func (i *identity) findCredential(d doc) *credential {
	if id := str(d, "id"); id != "" {
		return i.credentials[id]
	}
	u := i.findUser(object(d, "user"))
	for _, a := range i.credentials {
		if a.user == u && a.name == str(d, "name") {
			return a
		}
	}
	return nil
}

// rolesBy lists the roles that a credential gives now: those of it that its user still has.
func (i *identity) rolesBy(a *credential) []string {
	has := i.rolesOf(a.user.id, a.project)
	return slices.DeleteFunc(slices.Clone(a.roles), func(role string) bool { return !slices.Contains(has, role) })
}

func (c *Cloud) credentialDoc(r *request, a *credential) doc {
	roles := []any{}
	for _, id := range a.roles {
		roles = append(roles, c.roleDoc(id))
	}
	d := doc{"id": a.id, "name": a.name, "description": a.description, "project_id": a.project, "user_id": a.user.id, "roles": roles,
		"expires_at": nil, "unrestricted": a.unrestricted, "system": nil, "links": r.self("application_credentials/" + a.id)}
	if !a.expires.IsZero() {
		d["expires_at"] = a.expires.Format("2006-01-02T15:04:05.000000") // unlike a token, without zone
	}
	if len(a.rules) > 0 {
		d["access_rules"] = c.ruleDocs(a.rules)
	}
	return d
}

func (c *Cloud) credentialUser(r *request, action string) (*user, error) {
	u := c.identity.users[r.arg("user")]
	if u == nil || u != r.token.user && !r.token.admin {
		return nil, forbidden(r, "identity:"+action)
	}
	return u, nil
}

func (c *Cloud) credentialList(r *request) (answer, error) {
	u, err := c.credentialUser(r, "list_application_credentials")
	if err != nil {
		return answer{}, err
	}
	var out []any
	for _, id := range sortedKeys(c.identity.credentials) {
		a := c.identity.credentials[id]
		if a.user == u && r.picks(map[string]string{"name": a.name}) && c.shown(id) {
			out = append(out, c.credentialDoc(r, a))
		}
	}
	return r.collection("application_credentials", out)
}

// mayManage refuses who is logged in by an application credential that mustn't make or delete others.
func (r *request) mayManage() error {
	if a := r.token.credential; a != nil && a.unrestricted != true {
		return forbidden(r, "Using method 'application_credential' is not allowed for managing additional application credentials.")
	}
	return nil
}

func (c *Cloud) credentialCreate(r *request) (answer, error) {
	if r.arg("user") != r.token.user.id {
		return answer{}, forbidden(r, "identity:create_application_credential")
	}
	d, err := r.object("application_credential")
	if err != nil {
		return answer{}, err
	}
	if err := wellNamed(d, 255); err != nil {
		return answer{}, err
	}
	if err := wellRuled(list(d, "access_rules")); err != nil {
		return answer{}, err
	}
	if err := r.mayManage(); err != nil {
		return answer{}, err
	}
	if r.token.project == nil {
		return answer{}, forbidden(r, "identity:create_application_credential")
	}
	a := &credential{id: c.ids.hex(), name: str(d, "name"), secret: str(d, "secret"), description: d["description"],
		user: r.token.user, project: r.token.project.id, unrestricted: d["unrestricted"]}
	if a.roles, err = c.credentialRoles(r, list(d, "roles")); err != nil {
		return answer{}, err
	}
	if s := str(d, "expires_at"); s != "" {
		if a.expires, err = parseExpiry(s); err != nil {
			return answer{}, err
		}
		if !c.now().Before(a.expires) {
			return answer{}, refuse(400, "The 'expires_at' must not be before now."+malformed)
		}
	}
	for _, other := range c.identity.credentials {
		if other.user == a.user && other.name == a.name {
			return answer{}, refuse(409, "Conflict occurred attempting to store application_credential - Duplicate entry found with name %s.", a.name)
		}
	}
	if a.secret == "" {
		a.secret = newSecret()
	}
	if a.rules, err = c.keepRules(a.user.id, list(d, "access_rules")); err != nil {
		return answer{}, err
	}
	c.identity.credentials[a.id] = a
	c.conceal(r, "application_credential", a.id)
	out := c.credentialDoc(r, a)
	out["secret"] = a.secret
	return created(doc{"application_credential": out})
}

// credentialRoles resolves the roles asked for, which must be among the token's; none means all.
func (c *Cloud) credentialRoles(r *request, want []any) ([]string, error) {
	if len(want) == 0 {
		return r.token.roles, nil
	}
	var ids []string
	for _, w := range want {
		ask, _ := w.(doc)
		id := str(ask, "id")
		if id == "" {
			if id = c.identity.roleID(str(ask, "name")); id == "" {
				return nil, refuse(404, "Role %s is not defined", str(ask, "name"))
			}
		}
		if !slices.Contains(r.token.roles, id) {
			return nil, refuse(400, "Invalid application credential: Cannot create an application credential with unassigned role")
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func parseExpiry(s string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999", "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, refuse(400, "Timestamp not in expected format."+malformed)
}

func (c *Cloud) ownCredential(r *request, action string) (*credential, error) {
	if _, err := c.credentialUser(r, action); err != nil {
		return nil, err
	}
	a := c.identity.credentials[r.arg("id")]
	if a == nil {
		return nil, refuse(404, "Could not find Application Credential: %s.", r.arg("id"))
	}
	return a, nil
}

func (c *Cloud) credentialShow(r *request) (answer, error) {
	a, err := c.ownCredential(r, "get_application_credential")
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"application_credential": c.credentialDoc(r, a)})
}

func (c *Cloud) credentialDelete(r *request) (answer, error) {
	if _, err := c.credentialUser(r, "delete_application_credential"); err != nil {
		return answer{}, err
	}
	if err := r.mayManage(); err != nil {
		return answer{}, err
	}
	a, err := c.ownCredential(r, "delete_application_credential")
	if err != nil {
		return answer{}, err
	}
	delete(c.identity.credentials, a.id)
	return noContent()
}
