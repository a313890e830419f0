package openstack

import (
	"net/http"
	"time"
)

type token struct {
	id              string
	methods         []string
	user            *user
	project         *project // nil: unscoped
	roles           []string
	admin           bool
	credential      *credential
	issued, expires time.Time
	audit           string
}

// valid looks a token up; nil if it is unknown, expired, or its account has gone.
func (i *identity) valid(id string, now time.Time) *token {
	t := i.tokens[id]
	if t == nil || !now.Before(t.expires) {
		return nil
	}
	if i.users[t.user.id] == nil || !t.user.enabled || t.project != nil && (i.projects[t.project.id] == nil || !t.project.enabled) {
		return nil
	}
	if t.credential != nil && i.credentials[t.credential.id] == nil {
		return nil
	}
	return t
}

func missing(attribute, target string) error {
	return refuse(400, "Expecting to find %s in %s. The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.", attribute, target)
}

func (c *Cloud) tokenIssue(r *request) (answer, error) {
	whole, err := r.json()
	if err != nil {
		return answer{}, err
	}
	auth := object(whole, "auth")
	if auth == nil {
		return answer{}, missing("auth", "request body")
	}
	id := object(auth, "identity")
	methods, _ := texts(id["methods"])
	if id == nil || len(methods) == 0 {
		return answer{}, missing("identity", "auth")
	}
	t := &token{id: newToken(), methods: methods, issued: c.now(), audit: newSecret()[:22]}
	t.expires = t.issued.Add(c.cfg.TokenLifetime)
	for _, m := range methods {
		part := object(id, m)
		if part == nil {
			return answer{}, missing(m, "identity")
		}
		switch m {
		case "password":
			t.user = c.identity.findUser(object(part, "user"))
			if t.user == nil || !t.user.enabled || t.user.password != str(object(part, "user"), "password") || t.user.password == "" {
				return answer{}, c.unauthorized(r)
			}
		case "token":
			old := c.identity.valid(str(part, "id"), c.now())
			if old == nil || old.credential != nil {
				return answer{}, c.unauthorized(r)
			}
			t.user, t.project, t.expires = old.user, old.project, old.expires
		case "application_credential":
			if has(auth, "scope") {
				return answer{}, refuse(401, "Error authenticating with application credential: Application credentials cannot request a scope.")
			}
			ac := c.identity.findCredential(part)
			if ac == nil || ac.secret != str(part, "secret") || !ac.expires.IsZero() && !c.now().Before(ac.expires) || !ac.user.enabled {
				return answer{}, c.unauthorized(r)
			}
			t.user, t.project, t.roles, t.credential = ac.user, ac.project, ac.roles, ac
			if !ac.expires.IsZero() && ac.expires.Before(t.expires) {
				t.expires = ac.expires
			}
		default:
			return answer{}, c.unauthorized(r)
		}
	}
	if t.credential == nil {
		if err := c.scopeToken(r, t, auth); err != nil {
			return answer{}, err
		}
	}
	for _, id := range t.roles {
		t.admin = t.admin || c.identity.roles[id] == "admin"
	}
	for id, old := range c.identity.tokens {
		if !c.now().Before(old.expires) {
			delete(c.identity.tokens, id)
		}
	}
	c.identity.tokens[t.id] = t
	r.token = t
	a := answer{status: 201, body: c.tokenDoc(r, t), header: http.Header{"X-Subject-Token": {t.id}}}
	return a, nil
}

// scopeToken sets the project that the body asks for, or else the user's default one if it can be had.
func (c *Cloud) scopeToken(r *request, t *token, auth doc) error {
	switch scope := auth["scope"].(type) {
	case nil:
		p := t.project
		if p == nil {
			p = c.identity.projects[t.user.defaultProject]
		}
		if p == nil || !p.enabled || len(c.identity.rolesOf(t.user.id, p.id)) == 0 {
			t.project = nil
			return nil
		}
		t.project = p
	case string:
		if scope != "unscoped" {
			return missing("project", "scope")
		}
		t.project = nil
		return nil
	case doc:
		want := object(scope, "project")
		if has(scope, "unscoped") {
			t.project = nil
			return nil
		}
		if want == nil {
			return c.unauthorized(r) // no roles on a domain or the system
		}
		t.project = c.identity.projects[str(want, "id")]
		if name := str(want, "name"); name != "" && isDefaultDomain(object(want, "domain")) {
			t.project = c.identity.projectNamed(name)
		}
		if t.project == nil || !t.project.enabled {
			return c.unauthorized(r)
		}
	}
	if t.roles = c.identity.rolesOf(t.user.id, t.project.id); len(t.roles) == 0 {
		return c.unauthorized(r)
	}
	return nil
}

func isDefaultDomain(d doc) bool { return str(d, "id") == "default" || str(d, "name") == "Default" }

func (i *identity) findUser(d doc) *user {
	if id := str(d, "id"); id != "" {
		return i.users[id]
	}
	if !isDefaultDomain(object(d, "domain")) {
		return nil
	}
	return i.userNamed(str(d, "name"))
}

func (c *Cloud) tokenDoc(r *request, t *token) doc {
	domain := doc{"id": "default", "name": "Default"}
	d := doc{"methods": t.methods, "user": doc{"id": t.user.id, "name": t.user.name, "domain": domain, "password_expires_at": nil},
		"audit_ids": []string{t.audit}, "issued_at": stampK(t.issued), "expires_at": stampK(t.expires)}
	if t.project != nil {
		d["project"] = doc{"id": t.project.id, "name": t.project.name, "domain": domain}
		d["is_domain"] = false
		d["roles"] = c.roleDocs(t.roles)
		if !r.query.Has("nocatalog") {
			d["catalog"] = c.catalog(r)
		}
	}
	if t.credential != nil {
		d["application_credential"] = doc{"id": t.credential.id, "name": t.credential.name, "restricted": !t.credential.unrestricted}
	}
	return doc{"token": d}
}

func (c *Cloud) roleDocs(ids []string) []any {
	out := []any{}
	for _, id := range ids {
		out = append(out, doc{"id": id, "name": c.identity.roles[id]})
	}
	return out
}

func (c *Cloud) subject(r *request) (*token, error) {
	t := c.identity.valid(r.http.Header.Get("X-Subject-Token"), c.now())
	if t == nil {
		return nil, refuse(404, "Failed to validate token")
	}
	if t.user != r.token.user && !r.token.admin {
		return nil, forbidden(r, "identity:validate_token")
	}
	return t, nil
}

func (c *Cloud) tokenShow(r *request) (answer, error) {
	t, err := c.subject(r)
	if err != nil {
		return answer{}, err
	}
	return answer{status: 200, body: c.tokenDoc(r, t), header: http.Header{"X-Subject-Token": {t.id}}}, nil
}

func (c *Cloud) tokenRevoke(r *request) (answer, error) {
	t, err := c.subject(r)
	if err != nil {
		return answer{}, err
	}
	delete(c.identity.tokens, t.id)
	return noContent()
}

func (c *Cloud) authCatalog(r *request) (answer, error) {
	if r.token.project == nil {
		return answer{}, forbidden(r, "identity:get_auth_catalog")
	}
	return r.collection("catalog", c.catalog(r))
}

func (c *Cloud) authProjects(r *request) (answer, error) {
	return r.collection("projects", c.projectsOf(r, r.token.user.id))
}
