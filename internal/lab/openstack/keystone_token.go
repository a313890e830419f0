package openstack

import (
	"net/http"
	"time"
)

type token struct {
	id              string
	methods         []string
	user            *user
	project         *project // nil: not of a project
	domain          *domain  // nil: not of a domain
	roles           []string
	admin           bool
	credential      *credential
	issued, expires time.Time
	audit           string
}

// valid looks a token up; nil if it is unknown, expired, or its account, scope or last role has gone.
func (i *identity) valid(id string, now time.Time) *token {
	t := i.tokens[id]
	if t == nil || !now.Before(t.expires) || i.users[t.user.id] == nil || !t.user.enabled || !i.domains[t.user.domain].enabled {
		return nil
	}
	if t.credential != nil && i.credentials[t.credential.id] == nil {
		return nil
	}
	i.fill(t)
	switch {
	case t.project != nil:
		if i.projects[t.project.id] == nil || !t.project.enabled || len(t.roles) == 0 {
			return nil
		}
	case t.domain != nil:
		if i.domains[t.domain.id] == nil || !t.domain.enabled || len(t.roles) == 0 {
			return nil
		}
	}
	return t
}

// fill sets the roles that a token gives now.
func (i *identity) fill(t *token) {
	switch {
	case t.credential != nil:
		t.roles = i.rolesBy(t.credential)
	case t.project != nil:
		t.roles = i.rolesOf(t.user.id, t.project.id)
	case t.domain != nil:
		t.roles = i.rolesIn(t.user.id, t.domain.id)
	}
	t.admin = false
	for _, id := range t.roles {
		t.admin = t.admin || i.roles[id] == "admin"
	}
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
			if t.user == nil || !t.user.enabled || !c.identity.domains[t.user.domain].enabled || t.user.password != str(object(part, "user"), "password") || t.user.password == "" {
				return answer{}, c.unauthorized(r)
			}
		case "token":
			old := c.identity.valid(str(part, "id"), c.now())
			if old == nil || old.credential != nil {
				return answer{}, c.unauthorized(r)
			}
			t.user, t.project, t.domain, t.expires = old.user, old.project, old.domain, old.expires
		case "application_credential":
			if has(auth, "scope") {
				return answer{}, refuse(401, "Error authenticating with application credential: Application credentials cannot request a scope.")
			}
			if err := c.byCredential(r, t, part); err != nil {
				return answer{}, err
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
	c.identity.dropTokens(func(old *token) bool { return !c.now().Before(old.expires) })
	c.identity.tokens[t.id] = t
	r.token = t
	body := c.tokenDoc(r, t)
	if t.credential != nil && t.expires.Equal(t.credential.expires) {
		body["token"].(doc)["expires_at"] = t.expires.Format("2006-01-02T15:04:05") // Keystone forgets the zone here
	}
	return answer{status: 201, body: body, header: http.Header{"X-Subject-Token": {t.id}}}, nil
}

// byCredential logs in by an application credential.
func (c *Cloud) byCredential(r *request, t *token, part doc) error {
	a := c.identity.findCredential(part)
	switch {
	case a == nil && str(part, "id") != "":
		return refuse(404, "Could not find Application Credential: %s.", str(part, "id"))
	case a == nil, a.secret != str(part, "secret"), !a.expires.IsZero() && !c.now().Before(a.expires), !a.user.enabled:
		return c.unauthorized(r)
	}
	p := c.identity.projects[a.project]
	if p == nil {
		return refuse(404, "Could not find project: %s.", a.project)
	}
	t.user, t.project, t.credential = a.user, p, a
	if c.identity.fill(t); len(t.roles) == 0 || !p.enabled {
		return c.unauthorized(r)
	}
	if !a.expires.IsZero() && a.expires.Before(t.expires) {
		t.expires = a.expires
	}
	return nil
}

// scopeToken sets the project or domain that the body asks for, or else the user's default project if it can be had.
func (c *Cloud) scopeToken(r *request, t *token, auth doc) error {
	switch scope := auth["scope"].(type) {
	case nil:
		p := t.project
		if p == nil {
			p = c.identity.projects[t.user.defaultProject]
		}
		if t.project = p; p != nil && (!p.enabled || len(c.identity.rolesOf(t.user.id, p.id)) == 0) {
			t.project = nil
		}
		c.identity.fill(t)
		return nil
	case string:
		if scope != "unscoped" {
			return missing("project", "scope")
		}
		t.project, t.domain = nil, nil
		return nil
	case doc:
		t.project, t.domain = nil, nil
		switch {
		case has(scope, "unscoped"):
			return nil
		case has(scope, "domain"):
			t.domain = c.identity.domainOf(object(scope, "domain"))
			if t.domain == nil || !t.domain.enabled {
				return c.unauthorized(r)
			}
		case has(scope, "project"):
			want := object(scope, "project")
			t.project = c.identity.projects[str(want, "id")]
			if m := c.identity.domainOf(object(want, "domain")); str(want, "name") != "" && m != nil {
				t.project = c.identity.projectNamed(str(want, "name"), m.id)
			}
			if t.project == nil || !t.project.enabled {
				return c.unauthorized(r)
			}
		default:
			return c.unauthorized(r) // nobody has a role on the system
		}
	}
	if c.identity.fill(t); len(t.roles) == 0 {
		return c.unauthorized(r)
	}
	return nil
}

func (c *Cloud) tokenDoc(r *request, t *token) doc {
	d := doc{"methods": t.methods, "user": doc{"id": t.user.id, "name": t.user.name, "domain": c.named("domain", t.user.domain, true), "password_expires_at": nil},
		"audit_ids": []string{t.audit}, "issued_at": stampK(t.issued), "expires_at": stampK(t.expires)}
	if t.project != nil {
		d["project"] = c.named("project", t.project.id, true)
		d["is_domain"] = false
	} else if t.domain != nil {
		d["domain"] = c.named("domain", t.domain.id, true)
	}
	if t.project != nil || t.domain != nil {
		d["roles"] = c.roleDocs(t.roles)
		if !r.query.Has("nocatalog") {
			d["catalog"] = c.catalog(r, t.project.id)
		}
	}
	if t.credential != nil {
		by := doc{"id": t.credential.id, "name": t.credential.name, "restricted": t.credential.unrestricted != true}
		if len(t.credential.rules) > 0 {
			by["access_rules"] = c.ruleDocs(t.credential.rules)
		}
		d["application_credential"] = by
	}
	return doc{"token": d}
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
	if r.token.project == nil && r.token.domain == nil {
		return answer{}, forbidden(r, "identity:get_auth_catalog")
	}
	return r.collection("catalog", c.catalog(r, r.token.project.id))
}

func (c *Cloud) authProjects(r *request) (answer, error) {
	return r.collection("projects", c.projectsOf(r, r.token.user.id))
}
