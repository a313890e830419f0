package openstack

import (
	"regexp"
	"slices"
	"strings"
)

// An accessRule allows one kind of call to those who are logged in by an application credential that has rules. A
// user's credentials share the rules that are alike, and a rule stays when the last of them goes.
type accessRule struct{ id, user, service, path, method string }

func (a *accessRule) doc() doc {
	return doc{"id": a.id, "service": a.service, "path": a.path, "method": a.method}
}

func (c *Cloud) ruleDocs(ids []string) []any {
	var out []any
	for _, id := range ids {
		out = append(out, c.identity.rules[id].doc())
	}
	return out
}

var ruleMethods = []string{"POST", "GET", "HEAD", "PATCH", "PUT", "DELETE"}

// wellRuled checks the rules of a body as Keystone's schema does.
func wellRuled(rules []any) error {
	for n, x := range rules {
		d, _ := x.(doc)
		switch path, method := str(d, "path"), str(d, "method"); {
		case has(d, "path") && !strings.HasPrefix(path, "/"):
			return refuse(400, `Invalid input for field 'access_rules/%d/path': '%s' does not match '^\\/.*'`, n, path)
		case has(d, "method") && !slices.Contains(ruleMethods, method):
			return refuse(400, "Invalid input for field 'access_rules/%d/method': '%s' does not match '^(%s)$'", n, method, strings.Join(ruleMethods, "|"))
		case has(d, "service") && str(d, "service") == "":
			return refuse(400, "Invalid input for field 'access_rules/%d/service': '' is too short", n)
		}
	}
	return nil
}

// keepRules returns the ids of the rules asked for, and makes those that the user doesn't have yet.
func (c *Cloud) keepRules(user string, want []any) ([]string, error) {
	var out []string
	for _, x := range want {
		d, _ := x.(doc)
		if id := str(d, "id"); id != "" {
			if c.identity.rules[id] == nil {
				return nil, refuse(404, "Could not find Access Rule: %s.", id)
			}
			out = append(out, id)
			continue
		}
		out = append(out, c.ruleLike(accessRule{user: user, service: str(d, "service"), path: str(d, "path"), method: str(d, "method")}))
	}
	return out, nil
}

// ruleLike returns the id of the rule that says the same, which is made if there is none.
func (c *Cloud) ruleLike(want accessRule) string {
	for id, have := range c.identity.rules {
		if want.id = id; *have == want {
			return id
		}
	}
	want.id = c.ids.hex()
	c.identity.rules[want.id] = &want
	return want.id
}

// allows matches a call as the middleware in front of the services does: * and {name} stand for one part of a path, **
// for any.
func (a *accessRule) allows(service, method, path string) bool {
	if a.service != service || a.method != method {
		return false
	}
	pattern := wildcard.ReplaceAllStringFunc(regexp.QuoteMeta(a.path), func(w string) string {
		if w == `\*\*` {
			return ".*"
		}
		return "[^/]+"
	})
	return regexp.MustCompile("^" + pattern + "$").MatchString(path)
}

// wildcard finds in a quoted pattern what isn't meant literally.
var wildcard = regexp.MustCompile(`\\\*\\\*|\\\*|\\\{[^}]*\\\}`)

// withinRules tells whether the token may make this call to a service. Keystone itself doesn't ask.
func (c *Cloud) withinRules(r *request) bool {
	if r.service == "identity" || r.token.credential == nil || len(r.token.credential.rules) == 0 {
		return true
	}
	kind := r.service
	for _, s := range catalogServices {
		if strings.HasPrefix(s.path+"/", "/"+r.service+"/") {
			kind = s.kind
		}
	}
	return slices.ContainsFunc(r.token.credential.rules, func(id string) bool {
		return c.identity.rules[id].allows(kind, r.http.Method, r.path)
	})
}

func (c *Cloud) linkedRule(r *request, a *accessRule) doc {
	d := a.doc()
	d["links"] = r.self("access_rules/" + a.id)
	return d
}

func (c *Cloud) accessRuleList(r *request) (answer, error) {
	u, err := c.credentialUser(r, "list_access_rules")
	if err != nil {
		return answer{}, err
	}
	var out []any
	for _, id := range sortedKeys(c.identity.rules) {
		a := c.identity.rules[id]
		if a.user == u.id && r.picks(map[string]string{"service": a.service, "path": a.path, "method": a.method}) {
			out = append(out, c.linkedRule(r, a))
		}
	}
	return r.collection("access_rules", out)
}

func (c *Cloud) foundRule(r *request, action string) (*accessRule, error) {
	if _, err := c.credentialUser(r, action); err != nil {
		return nil, err
	}
	a := c.identity.rules[r.arg("id")]
	if a == nil {
		return nil, refuse(404, "Could not find Access Rule: %s.", r.arg("id"))
	}
	return a, nil
}

func (c *Cloud) accessRuleShow(r *request) (answer, error) {
	a, err := c.foundRule(r, "get_access_rule")
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"access_rule": c.linkedRule(r, a)})
}

func (c *Cloud) accessRuleDelete(r *request) (answer, error) {
	a, err := c.foundRule(r, "delete_access_rule")
	if err != nil {
		return answer{}, err
	}
	for _, used := range c.identity.credentials {
		if slices.Contains(used.rules, a.id) {
			return answer{}, refuse(403, "May not delete access rule in use")
		}
	}
	delete(c.identity.rules, a.id)
	return noContent()
}
