package openstack

import "time"

// credential is an application credential.
type credential struct {
	id, name, secret, description string
	user                          *user
	project                       *project
	roles                         []string
	expires                       time.Time
	unrestricted                  bool
	rules                         []any
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

func (c *Cloud) credentialDoc(r *request, a *credential) doc {
	d := doc{"id": a.id, "name": a.name, "description": nil, "project_id": a.project.id, "user_id": a.user.id, "roles": c.roleDocs(a.roles),
		"expires_at": nil, "unrestricted": a.unrestricted, "system": nil,
		"links": doc{"self": r.base + "/identity/v3/users/" + a.user.id + "/application_credentials/" + a.id}}
	if a.description != "" {
		d["description"] = a.description
	}
	if !a.expires.IsZero() {
		d["expires_at"] = a.expires.Format("2006-01-02T15:04:05.000000") // unlike a token, without zone
	}
	if a.rules != nil {
		d["access_rules"] = a.rules
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
		if name := r.query.Get("name"); a.user == u && (name == "" || name == a.name) && c.shown(id) {
			out = append(out, c.credentialDoc(r, a))
		}
	}
	return r.collection("application_credentials", out)
}

func (c *Cloud) credentialCreate(r *request) (answer, error) {
	u, err := c.credentialUser(r, "create_application_credential")
	if err != nil {
		return answer{}, err
	}
	if u != r.token.user || r.token.project == nil {
		return answer{}, forbidden(r, "identity:create_application_credential")
	}
	if r.token.credential != nil && !r.token.credential.unrestricted {
		return answer{}, refuse(403, "Could not create application credential: Using method 'application_credential' is not allowed for managing additional application credentials.")
	}
	d, err := r.object("application_credential")
	if err != nil {
		return answer{}, err
	}
	a := &credential{id: c.ids.hex(), name: str(d, "name"), secret: str(d, "secret"), description: str(d, "description"),
		user: u, project: r.token.project, rules: list(d, "access_rules")}
	if a.name == "" {
		return answer{}, refuse(400, "Invalid input for field 'name': '' is too short")
	}
	for _, other := range c.identity.credentials {
		if other.user == u && other.name == a.name {
			return answer{}, refuse(409, "Conflict occurred attempting to store application_credential - Duplicate entry found with name %s for user %s.", a.name, u.id)
		}
	}
	if a.secret == "" {
		a.secret = newSecret()
	}
	a.unrestricted, _ = d["unrestricted"].(bool)
	if s := str(d, "expires_at"); s != "" {
		if a.expires, err = parseExpiry(s); err != nil {
			return answer{}, err
		}
		if !c.now().Before(a.expires) {
			return answer{}, refuse(400, "Invalid application credential: The 'expires_at' must not be before now. The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.")
		}
	}
	if a.roles, err = c.credentialRoles(r, list(d, "roles")); err != nil {
		return answer{}, err
	}
	c.identity.credentials[a.id] = a
	c.conceal(r, "application_credential", a.id)
	out := c.credentialDoc(r, a)
	out["secret"] = a.secret
	return created(doc{"application_credential": out})
}

// credentialRoles resolves the roles asked for, which must be among the caller's; none means all.
func (c *Cloud) credentialRoles(r *request, want []any) ([]string, error) {
	if len(want) == 0 {
		return r.token.roles, nil
	}
	var ids []string
	for _, w := range want {
		ask, _ := w.(doc)
		id := str(ask, "id")
		if id == "" {
			id = c.identity.roleID(str(ask, "name"))
		}
		found := false
		for _, mine := range r.token.roles {
			found = found || mine == id
		}
		if !found {
			return nil, refuse(400, "Invalid application credential: Could not find role assignment with role: %s, user or group: %s, project, domain, or system: %s. The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.", id, r.token.user.id, r.token.project.id)
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
	return time.Time{}, refuse(400, "Timestamp not in expected format. The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.")
}

func (c *Cloud) ownCredential(r *request, action string) (*credential, error) {
	u, err := c.credentialUser(r, action)
	if err != nil {
		return nil, err
	}
	a := c.identity.credentials[r.arg("id")]
	if a == nil || a.user != u {
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
	a, err := c.ownCredential(r, "delete_application_credential")
	if err != nil {
		return answer{}, err
	}
	if r.token.credential != nil && !r.token.credential.unrestricted {
		return answer{}, refuse(403, "Could not delete application credential: Using method 'application_credential' is not allowed for managing additional application credentials.")
	}
	delete(c.identity.credentials, a.id)
	return noContent()
}
