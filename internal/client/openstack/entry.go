package openstack

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// An Entry is what is said of one cloud, in a clouds.yaml, the environment or
// by a caller, checked.
type Entry struct {
	Name    string
	AuthURL string
	Method  Method

	Username, UserID, Password         string
	UserDomainName, UserDomainID       string
	ProjectName, ProjectID             string
	ProjectDomainName, ProjectDomainID string
	DomainName, DomainID               string // the scope, where it is no project
	System                             bool   // the scope is the whole system
	CredentialID, CredentialName       string // of an application credential
	CredentialSecret                   string
	Token                              string

	Region    string
	Interface string // public, internal or admin
	CACert    string // certificates to trust instead of the system's, in PEM form
	Cert, Key string // a client certificate, in PEM form
	Endpoints map[Service]string
	Timeout   time.Duration // of one call, uploads excepted
	Creates   int           // bound of the creates that one service is sent at the same time; 0 means 5

	// Wrote is called once a call that changes something was carried out, by
	// several goroutines at once; nil is told nothing.
	Wrote func(context.Context)

	names  map[string]string // how the source spells each field
	at     map[string]string // where it is said, as far as it is
	source string            // "cloud lab in clouds.yaml"
	beside string
}

// A Method is a way to log in.
type Method string

// The methods.
const (
	ByPassword   Method = "password"
	ByCredential Method = "v3applicationcredential"
	ByToken      Method = "token"
)

// Secrets returns the values of e that must never be shown.
func (e Entry) Secrets() []string {
	var out []string
	for _, s := range []string{e.Password, e.CredentialSecret, e.Token, e.Key} {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

// named names fields as whoever can correct them knows them: "auth.auth_url
// of cloud lab in clouds.yaml".
func (e Entry) named(fields ...string) string {
	spelt := make([]string, len(fields))
	for i, f := range fields {
		spelt[i] = e.names[f]
	}
	list := spelt[len(spelt)-1]
	if len(spelt) > 1 {
		list = strings.Join(spelt[:len(spelt)-1], ", ") + " and " + list
	}
	return list + " of " + e.source + e.beside
}

// wrong returns an error about a field, with where it is said.
func (e Entry) wrong(field, hint, format string, args ...any) error {
	return fault.Hinted(fault.Invalid, hint, "%s: cloud %q: %s: %s", cmp.Or(e.at[field], e.source), e.Name, e.names[field], fmt.Sprintf(format, args...))
}

// An entryReader collects everything that is wrong with what is said of a cloud.
type entryReader struct {
	said    settings
	dir     string // folder that files are relative to
	at      string // where what is missing would stand
	label   string // of the cloud in messages, with a colon: `cloud "lab": `
	source  string
	beside  string
	spell   func(field string) string // nil keeps the names of clouds.yaml
	suggest Suggest

	wrong []flaw
	hint  string
}

type flaw struct{ at, text string }

// name returns how the source of a field spells it.
func (r *entryReader) name(field string) string {
	switch s, ok := r.said[field]; {
	case ok:
		return s.name
	case r.spell != nil:
		return r.spell(field)
	}
	return field
}

// bad notes that a field is wrong.
func (r *entryReader) bad(field, format string, args ...any) {
	r.wrong = append(r.wrong, flaw{cmp.Or(r.said[field].at, r.at), r.name(field) + " " + fmt.Sprintf(format, args...)})
}

// missing notes that a field is missing for which others could stand.
func (r *entryReader) missing(field string, others ...string) {
	if s, ok := r.said[field]; ok && s.kind != isText {
		return // that it is no text has been noted
	}
	spelt := []string{r.name(field)}
	for _, f := range others {
		if n := r.name(f); !slices.Contains(spelt, n) {
			spelt = append(spelt, n)
		}
	}
	text := spelt[0]
	if len(spelt) > 1 {
		text += " (or " + strings.Join(spelt[1:], " or ") + ")"
	}
	r.wrong = append(r.wrong, flaw{r.at, text + " is missing"})
}

// err returns all that is wrong, those of one line together.
func (r *entryReader) err() error {
	if len(r.wrong) == 0 {
		return nil
	}
	var places []string
	texts := make(map[string][]string)
	for _, w := range r.wrong {
		if texts[w.at] == nil {
			places = append(places, w.at)
		}
		texts[w.at] = append(texts[w.at], w.text)
	}
	for i, at := range places {
		places[i] = at + ": " + r.label + strings.Join(texts[at], "; ")
	}
	return fault.Hinted(fault.Invalid, r.hint, "%s", strings.Join(places, "\n"))
}

// text reads a field as text; numbers are taken as they are written.
func (r *entryReader) text(field string) string {
	s := r.said[field]
	if s.kind != isText {
		r.bad(field, "is no text")
		return ""
	}
	return s.text
}

// authFields are the fields of auth that are known.
func authFields() []string {
	return []string{"auth_url", "username", "user_id", "password", "user_domain_name", "user_domain_id",
		"project_name", "project_id", "project_domain_name", "project_domain_id", "tenant_name", "tenant_id",
		"domain_name", "domain_id", "default_domain", "default_domain_name", "default_domain_id", "system_scope",
		"application_credential_id", "application_credential_name", "application_credential_secret", "token"}
}

func (r *entryReader) entry(name string) (Entry, error) {
	e := Entry{Name: name, Endpoints: make(map[Service]string), source: r.source, beside: r.beside}
	if r.lacksAuth() {
		return e, r.err()
	}
	r.unknown()
	a := func(name string) string { return r.text("auth." + name) }
	e.AuthURL = a("auth_url")
	switch u, err := url.Parse(e.AuthURL); {
	case e.AuthURL == "":
		r.missing("auth.auth_url")
		r.profiles()
	case HoldsLogin(e.AuthURL):
		r.holdsLogin("auth.auth_url")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		r.bad("auth.auth_url", "is no http or https address: %q", e.AuthURL)
	case strings.HasSuffix(strings.TrimRight(e.AuthURL, "/"), "/v2.0"):
		r.bad("auth.auth_url", "names Identity v2.0, which no longer exists; name /v3")
	}
	e.Username, e.UserID, e.Password = a("username"), a("user_id"), a("password")
	domainName := cmp.Or(a("default_domain_name"), a("default_domain"))
	domainID := a("default_domain_id")
	e.UserDomainName, e.UserDomainID = orPair(a("user_domain_name"), a("user_domain_id"), domainName, domainID)
	e.ProjectName, e.ProjectID = cmp.Or(a("project_name"), a("tenant_name")), cmp.Or(a("project_id"), a("tenant_id"))
	e.ProjectDomainName, e.ProjectDomainID = orPair(a("project_domain_name"), a("project_domain_id"), domainName, domainID)
	e.DomainName, e.DomainID = a("domain_name"), a("domain_id")
	switch system := a("system_scope"); {
	case system == "all":
		e.System = true
		if r.said.has("auth.project_name", "auth.project_id", "auth.domain_name", "auth.domain_id") {
			r.bad("auth.system_scope", "goes with neither a project nor a domain")
		}
	case system != "":
		r.bad("auth.system_scope", "is %q; all is known", system)
	}
	e.CredentialID, e.CredentialName, e.CredentialSecret = a("application_credential_id"), a("application_credential_name"), a("application_credential_secret")
	e.Token = a("token")
	r.method(&e)
	r.place(&e)
	e.names, e.at = make(map[string]string), make(map[string]string)
	for _, f := range append([]string{"region_name", "interface", "cacert", "cert", "key", "api_timeout"}, prefixed("auth.", authFields())...) {
		e.names[f], e.at[f] = r.name(f), r.said[f].at
	}
	return e, r.err()
}

// HoldsLogin reports whether an address has a user name or password before its
// host. Addresses are shown everywhere, so it has no place in them; nor may one
// that has it be shown in an error.
func HoldsLogin(address string) bool {
	u, err := url.Parse(address)
	return strings.Contains(address, "@") && (err != nil || u.User != nil || u.Host == "")
}

// LoginHint says where the name and password of an address belong.
const LoginHint = "addresses are shown in messages and journals: say who logs in by user name and password, or by an application credential"

func (r *entryReader) holdsLogin(field string) {
	r.bad(field, "has a user name or password in it")
	r.hint = LoginHint
}

func prefixed(prefix string, names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = prefix + n
	}
	return out
}

// lacksAuth notes that there is no auth at all.
func (r *entryReader) lacksAuth() bool {
	for name := range r.said {
		if strings.HasPrefix(name, "auth.") {
			return false
		}
	}
	if r.spell != nil {
		return false // nobody knows the word there
	}
	if _, ok := r.said["auth"]; ok && r.said["auth"].kind == isOther && r.said["auth"].text == "" {
		return false
	}
	r.wrong = append(r.wrong, flaw{r.at, "auth is missing"})
	r.profiles()
	return true
}

// profiles says that what names a vendor's profile gets nothing from it.
func (r *entryReader) profiles() {
	for _, f := range []string{"profile", "cloud"} {
		if s, ok := r.said[f]; ok && r.hint == "" {
			r.hint = "profiles of vendors (" + s.name + ": " + s.text + ", clouds-public.yaml) aren't looked up: write auth_url and the rest into the entry"
		}
	}
}

// unknown notes fields of auth that nobody would read.
func (r *entryReader) unknown() {
	r.misspelt()
	known := authFields()
	var unknown []string
	for name := range r.said {
		if f, ok := strings.CutPrefix(name, "auth."); ok && !slices.Contains(known, f) {
			unknown = append(unknown, f)
		}
	}
	slices.Sort(unknown)
	for _, f := range unknown {
		switch f {
		case "trust_id", "passcode", "identity_provider", "protocol", "access_token", "mutual_auth":
			r.bad("auth."+f, "is of a way to log in that isn't supported")
			r.hint = otherWays
		default:
			r.bad("auth."+f, "is unknown")
			if near := r.suggest(f, known); near != "" && r.hint == "" {
				r.hint = "did you mean auth." + near + "?"
			}
		}
	}
}

// misspelt notes settings that nobody would read and that are spelt nearly like
// known ones. Others stay: other clients have many of their own.
func (r *entryReader) misspelt() {
	known := []string{"auth", "auth_type", "profile", "cloud", "region_name", "regions", "interface", "endpoint_type", "cacert", "cert", "key", "verify", "insecure", "api_timeout"}
	for _, s := range Services() {
		for _, t := range s.types() {
			known = append(known, overrideField(t))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.said)) {
		if strings.HasPrefix(name, "auth.") || slices.Contains(known, name) {
			continue
		}
		if near := r.suggest(name, known); near != "" && alike(name, near) {
			r.bad(name, "is unknown")
			r.hint = cmp.Or(r.hint, "did you mean "+near+"?")
		}
	}
}

// alike reports whether two names have the same letters but for two.
func alike(a, b string) bool {
	count := make(map[rune]int)
	for _, c := range strings.ToLower(a) {
		count[c]++
	}
	for _, c := range strings.ToLower(b) {
		count[c]--
	}
	n := 0
	for _, d := range count {
		n += max(d, -d)
	}
	return n <= 2
}

// otherWays is the hint for who wants to log in in a way that isn't supported.
const otherWays = "trusts, TOTP, OpenID Connect, SAML and Kerberos aren't supported: make an application credential with them (openstack application credential create), and log in with that"

// method checks that the entry has what its way to log in needs.
func (r *entryReader) method(e *Entry) {
	switch kind := r.text("auth_type"); kind {
	case "":
		switch {
		case e.CredentialSecret != "" || e.CredentialID != "" || e.CredentialName != "":
			e.Method = ByCredential
		case e.Token != "" && e.Password == "":
			e.Method = ByToken
		default:
			e.Method = ByPassword
		}
	case "password", "v3password":
		e.Method = ByPassword
	case "v3applicationcredential":
		e.Method = ByCredential
	case "token", "v3token":
		e.Method = ByToken
	default:
		r.bad("auth_type", "is %q; password, v3applicationcredential and token are known", kind)
		r.hint = otherWays
		return
	}
	user := func() {
		if e.Username == "" && e.UserID == "" {
			r.missing("auth.username", "auth.user_id")
		}
		if e.UserID == "" && e.Username != "" && e.UserDomainName == "" && e.UserDomainID == "" {
			r.missing("auth.user_domain_name", "auth.user_domain_id")
		}
	}
	scoped := e.ProjectName != "" || e.ProjectID != ""
	switch e.Method {
	case ByPassword:
		user()
		if e.Password == "" {
			r.missing("auth.password")
		}
		if !scoped && e.DomainName == "" && e.DomainID == "" && !e.System {
			r.missing("auth.project_name", "auth.project_id")
		}
	case ByCredential:
		if e.CredentialSecret == "" {
			r.missing("auth.application_credential_secret")
		}
		if e.CredentialID == "" && e.CredentialName == "" {
			r.missing("auth.application_credential_id", "auth.application_credential_name")
		}
		if e.CredentialID == "" && e.CredentialName != "" {
			user()
		}
		for _, f := range scopeSettings {
			if r.said.has(f) {
				r.bad(f, "doesn't go with an application credential, which has its own project")
			}
		}
	case ByToken:
		if e.Token == "" {
			r.missing("auth.token")
		}
	}
	if e.ProjectName != "" && e.ProjectID == "" && e.ProjectDomainName == "" && e.ProjectDomainID == "" {
		r.missing("auth.project_domain_name", "auth.project_domain_id")
	}
}

// orPair returns the first pair that isn't empty.
func orPair(name, id, otherName, otherID string) (string, string) {
	if name != "" || id != "" {
		return name, id
	}
	return otherName, otherID
}
