package openstack

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// An Entry is what clouds.yaml says of one cloud, checked.
type Entry struct {
	File, Name string
	AuthURL    string
	Method     Method

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
	CACert    string // file with certificates to trust instead of the system's
	Cert, Key string // files with a client certificate
	Endpoints map[Service]string
	Timeout   time.Duration // of one call, uploads excepted
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
	for _, s := range []string{e.Password, e.CredentialSecret, e.Token} {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

// Entry returns the cloud of that name. An error of kind Invalid says which
// clouds there are, or names every field that is missing or wrong.
func (f *CloudsFile) Entry(name string) (Entry, error) {
	raw, ok := f.clouds[name]
	if !ok {
		hint := "the file has: " + strings.Join(f.Names(), ", ")
		if near := f.suggest(name, f.Names()); near != "" {
			hint = "did you mean " + near + "? " + hint
		}
		if len(f.clouds) == 0 {
			hint = "the file has no clouds"
		}
		return Entry{}, fault.Hinted(fault.Invalid, hint, "%s: there is no cloud %q", f.Path, name)
	}
	r := &entryReader{file: f, fields: raw}
	e := r.entry(name)
	if len(r.wrong) > 0 {
		return Entry{}, fault.Hinted(fault.Invalid, r.hint, "%s: cloud %q: %s", f.Path, name, strings.Join(r.wrong, "; "))
	}
	return e, nil
}

// entryReader collects everything that is wrong with an entry.
type entryReader struct {
	file   *CloudsFile
	fields map[string]any
	auth   map[string]any
	wrong  []string
	hint   string
}

func (r *entryReader) bad(format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

// text reads a field as text; numbers are taken as they are written.
func (r *entryReader) text(from map[string]any, prefix, name string) string {
	switch v := from[name].(type) {
	case nil:
		return ""
	case string:
		return v
	case int, int64, float64:
		return fmt.Sprint(v)
	}
	r.bad("%s%s is no text", prefix, name)
	return ""
}

// authFields are the fields of auth that are known.
var authFields = []string{"auth_url", "username", "user_id", "password", "user_domain_name", "user_domain_id",
	"project_name", "project_id", "project_domain_name", "project_domain_id", "tenant_name", "tenant_id",
	"domain_name", "domain_id", "default_domain", "default_domain_name", "default_domain_id", "system_scope",
	"application_credential_id", "application_credential_name", "application_credential_secret", "token"}

func (r *entryReader) entry(name string) Entry {
	e := Entry{File: r.file.Path, Name: name, Endpoints: make(map[Service]string)}
	auth, ok := r.fields["auth"].(map[string]any)
	if !ok {
		r.bad("auth is missing")
		if r.fields["profile"] != nil || r.fields["cloud"] != nil {
			r.hint = "profiles of vendors aren't looked up: write auth_url and the rest into the entry"
		}
		return e
	}
	r.auth = auth
	var unknown []string
	for k := range auth {
		if !slices.Contains(authFields, k) {
			unknown = append(unknown, k)
		}
	}
	slices.Sort(unknown)
	for _, k := range unknown {
		r.bad("auth.%s is unknown", k)
		if near := r.file.suggest(k, authFields); near != "" && r.hint == "" {
			r.hint = "did you mean auth." + near + "?"
		}
	}
	a := func(name string) string { return r.text(auth, "auth.", name) }
	e.AuthURL = a("auth_url")
	switch {
	case e.AuthURL == "":
		r.bad("auth.auth_url is missing")
	case !strings.HasPrefix(e.AuthURL, "http://") && !strings.HasPrefix(e.AuthURL, "https://"):
		r.bad("auth.auth_url is no http or https address: %q", e.AuthURL)
	case strings.HasSuffix(strings.TrimRight(e.AuthURL, "/"), "/v2.0"):
		r.bad("auth.auth_url names Identity v2.0, which no longer exists; name /v3")
	}
	e.Username, e.UserID, e.Password = a("username"), a("user_id"), a("password")
	domainName := cmp.Or(a("default_domain_name"), a("default_domain"))
	domainID := a("default_domain_id")
	e.UserDomainName, e.UserDomainID = orPair(a("user_domain_name"), a("user_domain_id"), domainName, domainID)
	e.ProjectName, e.ProjectID = cmp.Or(a("project_name"), a("tenant_name")), cmp.Or(a("project_id"), a("tenant_id"))
	e.ProjectDomainName, e.ProjectDomainID = orPair(a("project_domain_name"), a("project_domain_id"), domainName, domainID)
	e.DomainName, e.DomainID = a("domain_name"), a("domain_id")
	e.System = a("system_scope") == "all"
	e.CredentialID, e.CredentialName, e.CredentialSecret = a("application_credential_id"), a("application_credential_name"), a("application_credential_secret")
	e.Token = a("token")
	r.method(&e)
	r.place(&e)
	return e
}

// method checks that the entry has what its way to log in needs.
func (r *entryReader) method(e *Entry) {
	kind := r.text(r.fields, "", "auth_type")
	switch kind {
	case "":
		switch {
		case e.CredentialSecret != "" || e.CredentialID != "":
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
		r.bad("auth_type is %q; password, v3applicationcredential and token are known", kind)
		return
	}
	need := func(ok bool, what string) {
		if !ok {
			r.bad("%s is missing", what)
		}
	}
	user := func() {
		need(e.Username != "" || e.UserID != "", "auth.username (or auth.user_id)")
		need(e.UserID != "" || e.Username == "" || e.UserDomainName != "" || e.UserDomainID != "", "auth.user_domain_name (or auth.user_domain_id)")
	}
	switch e.Method {
	case ByPassword:
		user()
		need(e.Password != "", "auth.password")
		scoped := e.ProjectName != "" || e.ProjectID != "" || e.DomainName != "" || e.DomainID != "" || e.System
		need(scoped, "auth.project_name (or auth.project_id)")
	case ByCredential:
		need(e.CredentialSecret != "", "auth.application_credential_secret")
		need(e.CredentialID != "" || e.CredentialName != "", "auth.application_credential_id (or auth.application_credential_name)")
		if e.CredentialID == "" && e.CredentialName != "" {
			user()
		}
		if e.ProjectName != "" || e.ProjectID != "" {
			r.bad("auth.project_name and auth.project_id don't go with an application credential, which has its own project")
		}
	case ByToken:
		need(e.Token != "", "auth.token")
	}
	if e.ProjectName != "" && e.ProjectID == "" && e.ProjectDomainName == "" && e.ProjectDomainID == "" {
		r.bad("auth.project_domain_name (or auth.project_domain_id) is missing")
	}
}

// place reads where the services are and how to trust them.
func (r *entryReader) place(e *Entry) {
	e.Region = r.text(r.fields, "", "region_name")
	if list, ok := r.fields["regions"].([]any); ok && e.Region == "" {
		var names []string
		for _, x := range list {
			switch x := x.(type) {
			case string:
				names = append(names, x)
			case map[string]any:
				names = append(names, fmt.Sprint(x["name"]))
			}
		}
		if len(names) == 1 {
			e.Region = names[0]
		} else if len(names) > 1 {
			r.bad("region_name is missing; regions has %s", strings.Join(names, ", "))
		}
	}
	e.Interface = strings.TrimSuffix(cmp.Or(r.text(r.fields, "", "interface"), r.text(r.fields, "", "endpoint_type"), "public"), "URL")
	if !slices.Contains([]string{"public", "internal", "admin"}, e.Interface) {
		r.bad("interface is %q; public, internal and admin are known", e.Interface)
	}
	if v := r.fields["verify"]; v == false || r.fields["insecure"] == true {
		r.bad("verify is switched off")
		r.hint = "name the certificate authority in cacert instead: certificates are always verified"
	}
	e.Timeout = r.seconds("api_timeout", callTime)
	e.CACert = r.path("cacert")
	e.Cert, e.Key = r.path("cert"), r.path("key")
	if (e.Cert == "") != (e.Key == "") {
		r.bad("cert and key go together")
	}
	for _, s := range Services() {
		for _, t := range s.types() {
			if u := r.text(r.fields, "", overrideField(t)); u != "" && e.Endpoints[s] == "" {
				e.Endpoints[s] = u
			}
		}
	}
}

// overrideField is the field that sets the endpoint of a type of service.
func overrideField(serviceType string) string {
	return strings.ReplaceAll(serviceType, "-", "_") + "_endpoint_override"
}

// seconds reads a field that is a number of seconds.
func (r *entryReader) seconds(name string, fallback time.Duration) time.Duration {
	var n float64
	switch v := r.fields[name].(type) {
	case nil:
		return fallback
	case int:
		n = float64(v)
	case float64:
		n = v
	}
	if n <= 0 {
		r.bad("%s is no number of seconds above 0", name)
	}
	return time.Duration(n * float64(time.Second))
}

// path reads a field that names a file, relative to the folder of clouds.yaml.
func (r *entryReader) path(name string) string {
	p := r.text(r.fields, "", name)
	if p == "" {
		return ""
	}
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			r.bad("%s names the home folder, and there is none", name)
		}
		p = filepath.Join(home, rest)
	}
	if !filepath.IsAbs(p) {
		p = filepath.Join(filepath.Dir(r.file.Path), p)
	}
	if _, err := os.Stat(p); err != nil {
		r.bad("%s: %v", name, err)
	}
	return p
}

// orPair returns the first pair that isn't empty.
func orPair(name, id, otherName, otherID string) (string, string) {
	if name != "" || id != "" {
		return name, id
	}
	return otherName, otherID
}
