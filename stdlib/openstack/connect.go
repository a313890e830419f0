package openstack

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"strings"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type connectArgs struct {
	Cloud         string            `star:"cloud,positional" doc:"Name of the entry in the clouds.yaml that the site names. Without it env or auth_url says where the cloud is. The other arguments count more than what the entry says."`
	Env           bool              `star:"env" doc:"Read the cloud from the environment (OS_AUTH_URL and the other OS_* variables), and from no file."`
	AuthURL       string            `star:"auth_url" doc:"Address of Keystone, such as \"https://keystone.example.org/v3\"."`
	Credential    effect.Data       `star:"credential" doc:"Application credential to log in by: an object with id and secret, as application_credential.ensure returns it. It has a project of its own."`
	User          effect.Reference  `star:"user" of:"openstack.user" doc:"User to log in as, by name, id or object; with password."`
	UserDomain    string            `star:"user_domain" doc:"Name of the user's domain, and of that of the project unless project_domain says so."`
	Password      effect.Text       `star:"password" secret:"only" doc:"The user's password; a secret."`
	Token         effect.Text       `star:"token" secret:"only" doc:"Token to work with; a secret. It can't be renewed: once it expires, calls are refused."`
	Project       effect.Reference  `star:"project" of:"openstack.project" doc:"Project to work in, by name, id or object: another than the entry's, where the user has a role in it."`
	ProjectDomain string            `star:"project_domain" doc:"Name of the project's domain."`
	Domain        effect.Reference  `star:"domain" doc:"Domain to work on in place of a project, by name, id or object: for who administers users and projects."`
	System        bool              `star:"system" doc:"Work on the whole system in place of a project."`
	Region        string            `star:"region" doc:"Region whose services are called. None means the entry's, or any if the cloud has one."`
	Interface     string            `star:"interface" doc:"Which endpoints are called: public, internal or admin. None means the entry's, or public."`
	CACert        effect.Text       `star:"cacert" doc:"Certificates to trust in place of the system's: the text in PEM form, or an absolute path of a file."`
	Cert          effect.Text       `star:"cert" doc:"Certificate to show to the services: the text in PEM form, or an absolute path."`
	Key           effect.Text       `star:"key" doc:"Private key of cert: the text in PEM form, a secret, or an absolute path."`
	Endpoints     map[string]string `star:"endpoints" doc:"Addresses of services in place of the catalog's, by type: {\"load-balancer\": \"https://lb.example.org\"}."`
	Timeout       time.Duration     `star:"timeout" doc:"Time after which a call that isn't answered has failed; uploads have none. None means the entry's api_timeout, or 90 s."`
	Name          string            `star:"name" doc:"Name in plans and messages. None means that of the entry, with what it is connected to for: \"lab@project\"."`
}

func connect() builtin.Func {
	return builtin.Of(builtin.Spec[*Clouds, connectArgs]{
		Name: "connect",
		Doc: "Return a handle on one project (or domain, or the system) of a cloud. The login is made at the first use and shared by all steps of the run; a token that expires is renewed once for all of them. " +
			"What is read is what is named: an entry of the clouds.yaml that the site names, with the secure.yaml beside it; OS_* variables with env = True, or where the site says `clouds: env`; else only the arguments. " +
			"Profiles of vendors and clouds-public.yaml aren't looked up. Logins by password, application credential and token work; trusts, TOTP, OpenID Connect, SAML and Kerberos don't. Certificates are always verified.",
		Returns: "openstack.cloud",
		Example: `cloud = openstack.connect("openstack")`,
		Effect:  builtin.Connect,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(_ context.Context, c *Clouds, a connectArgs) (any, error) {
			return c.open(a)
		},
	})
}

// open returns the cloud that the arguments describe, the same for all of a
// run.
func (c *Clouds) open(a connectArgs) (*Cloud, error) {
	given, known, err := a.given()
	if err != nil {
		return nil, err
	}
	env := a.Env || a.Cloud != "" && c.config.CloudsEnv
	switch {
	case a.Env && a.Cloud != "":
		return nil, fault.New(fault.Invalid, "openstack.connect: cloud names an entry of a clouds.yaml, and env reads none: give one of the two")
	case a.Cloud == "" && !a.Env && a.AuthURL == "":
		return nil, fault.Hinted(fault.Invalid, `say openstack.connect("NAME") for an entry of the clouds.yaml that the site names`,
			"openstack.connect: the cloud's name is empty, and neither env nor auth_url says where it is")
	case strings.ContainsAny(a.Cloud+a.Name, "/ \n"):
		return nil, fault.New(fault.Invalid, "openstack.connect: the name %q has a slash or a space", a.Cloud+a.Name)
	case env && c.config.LookupEnv == nil:
		return nil, fault.New(fault.Invalid, "openstack.connect: there is no environment here")
	case a.Cloud != "" && !env && c.config.CloudsFile == "":
		return nil, fault.Hinted(fault.Invalid, "name clouds: in site.yaml", "connecting to cloud %q: the site names no clouds.yaml", a.Cloud)
	}
	name := a.label()
	login := login{env: env, cloud: a.Cloud, given: given, known: known}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cloud := c.clouds[name]; cloud != nil {
		if !cloud.login.equal(login) {
			return nil, fault.Hinted(fault.Invalid, "tell the two apart by name = ", "openstack.connect: the run is connected to %s already, with other arguments", name)
		}
		return cloud, nil
	}
	cloud := newCloud(name, login, c.config)
	c.clouds[name] = cloud
	return cloud, nil
}

// A login is where a cloud is and who logs in to it.
type login struct {
	env   bool
	cloud string // entry of the clouds.yaml; "" for none
	given client.Given
	known bool // false in a plan, where a secret or project is still to come
}

func (l login) equal(other login) bool {
	return l.env == other.env && l.cloud == other.cloud && l.known == other.known && reflect.DeepEqual(l.given.Values, other.given.Values)
}

// entry reads where the login is to be made.
func (l login) entry(name string, config Config) (client.Entry, error) {
	switch {
	case l.env:
		return client.EnvironmentEntry(name, config.LookupEnv, l.given)
	case l.cloud == "":
		return client.GivenEntry(name, l.given)
	}
	file, err := client.ReadClouds(config.CloudsFile, builtin.Nearest)
	if err != nil {
		return client.Entry{}, err
	}
	return file.Entry(l.cloud, l.given)
}

// label is what the connection is called in targets and messages.
func (a connectArgs) label() string {
	if a.Name != "" {
		return a.Name
	}
	base := a.Cloud
	if a.Env {
		base = "env"
	} else if base == "" {
		base = a.AuthURL
		if u, err := url.Parse(a.AuthURL); err == nil && u.Host != "" {
			base = u.Host
		}
	}
	plain := func(s string) string {
		return strings.Map(func(r rune) rune {
			if strings.ContainsRune("/ \n", r) {
				return '_'
			}
			return r
		}, s)
	}
	switch c, _ := a.Credential.V.(map[string]any); {
	case a.System:
		base += "@system"
	case !a.Domain.Empty():
		base += "@domain=" + plain(a.Domain.String())
	case !a.Project.Empty():
		base += "@" + plain(a.Project.String())
	case a.Credential.V != nil:
		base += "@credential"
		if name, ok := c["name"].(string); ok {
			base += "=" + plain(name)
		}
	case !a.User.Empty():
		base += "@user=" + plain(a.User.String())
	case !a.Token.Empty():
		base += "@token"
	}
	return base
}

// given returns what the arguments say in clouds.yaml's words, and whether all
// of it is known yet.
func (a connectArgs) given() (client.Given, bool, error) {
	g := client.Given{By: "openstack.connect", Values: make(map[string]string), Names: map[string]string{
		"auth.auth_url": "auth_url", "auth.user_domain_name": "user_domain", "auth.user_domain_id": "user_domain", "auth.project_domain_name": "project_domain", "auth.project_domain_id": "project_domain", "auth.password": "password", "auth.token": "token",
		"auth.username": "user", "auth.user_id": "user", "auth.project_name": "project", "auth.project_id": "project", "auth.domain_name": "domain", "auth.domain_id": "domain",
		"auth.system_scope": "system", "auth.application_credential_id": "credential.id", "auth.application_credential_secret": "credential.secret",
		"region_name": "region", "api_timeout": "timeout"}}
	if client.HoldsLogin(a.AuthURL) {
		return g, false, fault.Hinted(fault.Invalid, client.LoginHint, "openstack.connect: auth_url has a user name or password in it")
	}
	known := true
	set := func(field string, t effect.Text) {
		known = known && t.Known()
		if t.Known() && !t.Empty() {
			g.Values[field] = t.Reveal()
		}
	}
	for field, text := range map[string]string{"auth.auth_url": a.AuthURL, "auth.user_domain_name": a.UserDomain, "auth.project_domain_name": a.ProjectDomain,
		"region_name": a.Region, "interface": a.Interface} {
		set(field, effect.Plain(text))
	}
	for field, text := range map[string]effect.Text{"auth.password": a.Password, "auth.token": a.Token, "cacert": a.CACert, "cert": a.Cert, "key": a.Key} {
		set(field, text)
	}
	if a.ProjectDomain == "" && a.UserDomain != "" && !a.Project.Empty() {
		g.Values["auth.project_domain_name"] = a.UserDomain
	}
	for kind, r := range map[string]effect.Reference{"user": a.User, "project": a.Project, "domain": a.Domain} {
		name := "auth." + kind + "_name"
		if kind == "user" {
			name = "auth.username"
		}
		// An object's id counts, which of a domain needn't look like one.
		if r.Name != "" || r.Known() && isID(r.ID.Reveal()) {
			name = "auth." + kind + "_id"
		}
		set(name, r.ID)
	}
	if a.System {
		g.Values["auth.system_scope"] = "all"
	}
	if a.Timeout > 0 {
		g.Values["api_timeout"] = fmt.Sprint(a.Timeout.Seconds())
	}
	if err := a.endpoints(g.Values); err != nil {
		return g, false, err
	}
	if a.Credential.V != nil {
		ok, err := a.credential(g.Values)
		if err != nil {
			return g, false, err
		}
		known = known && ok
	}
	if strings.Contains(a.Key.Reveal(), "-----BEGIN ") && !a.Key.IsSecret() {
		return g, false, fault.Hinted(fault.Invalid, "get it by secret(), or name a file", "openstack.connect: key is no secret, and would show")
	}
	return g, known, a.clashes()
}

// clashes refuses arguments of which only one can be meant.
func (a connectArgs) clashes() error {
	some := func(what string, is map[string]bool) error {
		var said []string
		for _, name := range []string{"credential", "user", "token", "project", "domain", "system"} {
			if is[name] {
				said = append(said, name)
			}
		}
		if len(said) > 1 {
			return fault.New(fault.Invalid, "openstack.connect: %s are given, and only one can say %s", strings.Join(said, " and "), what)
		}
		return nil
	}
	if err := some("who logs in", map[string]bool{"credential": a.Credential.V != nil, "user": !a.User.Empty(), "token": !a.Token.Empty()}); err != nil {
		return err
	}
	return some("what for", map[string]bool{"credential": a.Credential.V != nil, "project": !a.Project.Empty(), "domain": !a.Domain.Empty(), "system": a.System})
}

// endpoints puts the addresses of services among the values.
func (a connectArgs) endpoints(values map[string]string) error {
	for kind, address := range a.Endpoints {
		field, ok := client.OverrideField(kind)
		if !ok {
			return fault.Hinted(fault.Invalid, "they are "+strings.Join(client.ServiceTypes(), ", "), "openstack.connect: endpoints: there is no type of service %q", kind)
		}
		if client.HoldsLogin(address) {
			return fault.Hinted(fault.Invalid, client.LoginHint, "openstack.connect: endpoints: the address of %s has a user name or password in it", kind)
		}
		values[field] = address
	}
	return nil
}

// credential puts an application credential among the values; false if it
// isn't known yet.
func (a connectArgs) credential(values map[string]string) (bool, error) {
	if _, ok := a.Credential.V.(effect.Unknown); ok {
		return false, nil
	}
	wrong := fault.Hinted(fault.Invalid, "give what application_credential.ensure returns, or struct(id = ..., secret = secret(\"name\"))",
		"openstack.connect: credential is no application credential: it lacks id or secret")
	m, ok := a.Credential.V.(map[string]any)
	if !ok {
		return false, wrong
	}
	out, known := make(map[string]string), true
	for _, key := range []string{"id", "secret"} {
		switch v := m[key].(type) {
		case effect.Unknown:
			known = false
		case *effect.Secret:
			out[key] = v.Reveal()
		case string:
			if key == "secret" && v != "" {
				return false, fault.Hinted(fault.Invalid, "give what application_credential.ensure returns, or get it by secret()", "openstack.connect: the secret of credential is no secret, and would show")
			}
			out[key] = v
		}
		if _, unknown := m[key].(effect.Unknown); out[key] == "" && !unknown {
			return false, wrong
		}
	}
	if known {
		maps.Copy(values, map[string]string{"auth.application_credential_id": out["id"], "auth.application_credential_secret": out["secret"]})
	}
	return known, nil
}
