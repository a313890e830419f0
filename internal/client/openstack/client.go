// Package openstack is a client of OpenStack's APIs for one login to one cloud:
// it logs in, finds the services, sends calls and turns what goes wrong into
// faults. It reads nothing that it isn't told to read: no environment, no search
// path, no proxy settings.
package openstack

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// The bounds of the calls, and of the creates among them, that run at the same
// time against one service. Creates are what services choke on.
const (
	perService        = 10
	createsPerService = 5
)

// callTime bounds one call where api_timeout doesn't. OpenStack's own services give up
// on each other after 60 s, so later answers aren't to be expected.
const callTime = 90 * time.Second

// A Client sends calls to one cloud with one login. It is safe for concurrent
// use. A token that expires is renewed once, whatever number of calls meet it.
type Client struct {
	entry        Entry
	provider     *gophercloud.ProviderClient
	transport    *http.Transport
	project      string
	endpoints    map[Service]string
	slots        map[Service]chan struct{} // of all calls
	creates      map[Service]chan struct{} // of creates
	negotiations map[Service]*negotiation
	renewals     renewals
	snapshots    snapshots
	wide         bool // an administrator, whose lists are of all projects
}

// Connect logs in to the cloud that e describes. The errors have kind Invalid
// for an entry that can't be right, Denied for refused credentials,
// Untrusted for a certificate that doesn't verify, Unreachable and Unavailable
// for what may pass.
func Connect(ctx context.Context, e Entry) (*Client, error) {
	c := &Client{entry: e, endpoints: make(map[Service]string), slots: make(map[Service]chan struct{}),
		creates: make(map[Service]chan struct{}), negotiations: make(map[Service]*negotiation)}
	for _, s := range Services() {
		c.slots[s] = make(chan struct{}, perService)
		c.creates[s] = make(chan struct{}, cmp.Or(max(e.Creates, 0), createsPerService))
		c.negotiations[s] = &negotiation{busy: make(chan struct{}, 1)}
	}
	var err error
	if c.transport, err = newTransport(e); err != nil {
		return nil, err
	}
	c.renewals.ctx, c.renewals.stop = context.WithCancel(context.Background())
	lctx, cancel := context.WithTimeoutCause(ctx, e.Timeout, tooSlow(Identity, e.Timeout))
	defer cancel()
	if c.provider, err = c.login(lctx); err != nil {
		c.Close()
		return nil, c.loginError(lctx, err)
	}
	if err := c.readCatalog(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the connections that are idle, and a renewal that is under way.
func (c *Client) Close() {
	c.renewals.stop()
	c.renewals.all.Wait()
	c.transport.CloseIdleConnections()
}

// Project returns the id of the project that the login is scoped to, or "".
func (c *Client) Project() string { return c.project }

// Entry returns what the client was made from.
func (c *Client) Entry() Entry { return c.entry }

func newTransport(e Entry) (*http.Transport, error) {
	t := &http.Transport{
		Proxy:                 nil, // the environment's isn't asked for
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 5 * time.Minute, // Glance answers an upload once it has stored it
		MaxIdleConnsPerHost:   4 * perService,  // services may share a host
		ForceAttemptHTTP2:     true,            // a dialer and certificates of one's own would switch it off
		IdleConnTimeout:       30 * time.Second,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if e.CACert != "" {
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(e.CACert)) {
			return nil, e.wrong("cacert", "", "it holds no certificate in PEM form")
		}
	}
	if e.Cert != "" {
		pair, err := tls.X509KeyPair([]byte(e.Cert), []byte(e.Key))
		if err != nil {
			return nil, e.wrong("cert", "", "with %s: %v", e.names["key"], err)
		}
		t.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// options returns the login in the library's form.
func (e Entry) options() *gophercloud.AuthOptions {
	o := &gophercloud.AuthOptions{IdentityEndpoint: e.AuthURL} // renewing is this package's own
	switch e.Method {
	case ByToken:
		o.TokenID = e.Token
	case ByCredential:
		o.ApplicationCredentialID, o.ApplicationCredentialName = e.CredentialID, e.CredentialName
		o.ApplicationCredentialSecret = e.CredentialSecret
	case ByPassword:
		o.Password = e.Password
	}
	if e.Method == ByPassword || e.Method == ByCredential && e.CredentialID == "" {
		o.Username, o.UserID = e.Username, e.UserID
		if e.UserID != "" {
			o.Username = ""
		} else if o.DomainID = e.UserDomainID; o.DomainID == "" {
			o.DomainName = e.UserDomainName
		}
	}
	if e.Method != ByCredential {
		o.Scope = e.scope()
	}
	return o
}

func (e Entry) scope() *gophercloud.AuthScope {
	switch {
	case e.ProjectID != "":
		return &gophercloud.AuthScope{ProjectID: e.ProjectID}
	case e.ProjectName != "" && e.ProjectDomainID != "":
		return &gophercloud.AuthScope{ProjectName: e.ProjectName, DomainID: e.ProjectDomainID}
	case e.ProjectName != "":
		return &gophercloud.AuthScope{ProjectName: e.ProjectName, DomainName: e.ProjectDomainName}
	case e.System:
		return &gophercloud.AuthScope{System: true}
	case e.DomainID != "" || e.DomainName != "":
		return &gophercloud.AuthScope{DomainID: e.DomainID, DomainName: e.DomainName}
	}
	return nil
}

// loginError explains why the login failed in terms of the entry.
func (c *Client) loginError(ctx context.Context, err error) error {
	e := c.entry
	f := translate(ctx, Identity, err)
	out := &fault.Error{Op: "logging in to cloud", Target: e.Name, Kind: f.Kind, Hint: f.Hint, After: f.After, Err: f}
	var code gophercloud.ErrUnexpectedResponseCode
	switch {
	case errors.As(err, &code) && code.Actual == http.StatusNotFound && f.Kind != fault.Denied && e.Method != ByToken:
		out.Kind = fault.Invalid
		out.Hint = "check " + e.named("auth.auth_url") + ": " + e.AuthURL
	case f.Kind == fault.Denied:
		switch e.Method {
		case ByCredential:
			out.Hint = "check " + e.named("auth.application_credential_id", "auth.application_credential_secret")
		case ByToken:
			out.Hint = "check " + e.named("auth.token") + "; it may have expired"
		default:
			fields := []string{"auth.username", "auth.password", "auth.user_domain_name"}
			switch {
			case e.System:
				fields = append(fields, "auth.system_scope")
			case e.ProjectID != "":
				fields = append(fields, "auth.project_id")
			case e.ProjectName == "":
				fields = append(fields, "auth.domain_name")
			default:
				fields = append(fields, "auth.project_name")
			}
			out.Hint = "check " + e.named(fields...)
		}
	case f.Kind == fault.Unreachable:
		out.Hint = "check " + e.named("auth.auth_url") + ": " + e.AuthURL
	}
	return out
}

// readCatalog finds the endpoint of each service.
func (c *Client) readCatalog() error {
	var catalog *tokens.ServiceCatalog
	var err error
	// What logging in and looking a token up answer has the same methods, and no type in common.
	if r, ok := c.provider.GetAuthResult().(interface {
		ExtractProject() (*tokens.Project, error)
		ExtractRoles() ([]tokens.Role, error)
		ExtractServiceCatalog() (*tokens.ServiceCatalog, error)
	}); ok {
		if p, perr := r.ExtractProject(); perr == nil && p != nil {
			c.project = p.ID
		}
		roles, _ := r.ExtractRoles()
		c.wide = c.project == "" || slices.ContainsFunc(roles, func(r tokens.Role) bool { return r.Name == "admin" })
		catalog, err = r.ExtractServiceCatalog()
	}
	if err != nil || catalog == nil {
		return fault.New(fault.Failed, "logging in to cloud %s: the answer has no catalog of services", c.entry.Name)
	}
	regions := make(map[string]bool)
	byType := make(map[string][]string)
	for _, svc := range catalog.Entries {
		for _, ep := range svc.Endpoints {
			if ep.Region != "" {
				regions[ep.Region] = true
			}
			if ep.Interface == c.entry.Interface && (c.entry.Region == "" || ep.Region == c.entry.Region || ep.RegionID == c.entry.Region) {
				byType[svc.Type] = append(byType[svc.Type], ep.URL)
			}
		}
	}
	for _, s := range Services() {
		for _, t := range s.types() {
			i := slices.IndexFunc(byType[t], s.serves)
			if i >= 0 {
				c.endpoints[s] = byType[t][i]
				break
			}
		}
	}
	if c.entry.Region != "" && len(regions) > 0 && !regions[c.entry.Region] {
		var names []string
		for n := range regions {
			names = append(names, n)
		}
		slices.Sort(names)
		return c.entry.wrong("region_name", "the cloud has: "+strings.Join(names, ", "), "there is no region %q", c.entry.Region)
	}
	for s, u := range c.entry.Endpoints {
		c.endpoints[s] = u
	}
	return nil
}

// url returns the address of a path of a service.
func (c *Client) url(s Service, path string, query url.Values) (string, error) {
	base, err := c.endpoint(s)
	if err != nil {
		return "", err
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return base + path, nil
}

// endpoint returns where a service's calls begin, with the version.
func (c *Client) endpoint(s Service) (string, error) {
	base := c.endpoints[s]
	if base == "" {
		region := ""
		if c.entry.Region != "" {
			region = " in region " + c.entry.Region
		}
		return "", fault.Hinted(fault.Invalid, "check "+c.entry.named("region_name", "interface")+", or set "+overrideField(string(s)),
			"cloud %s offers no %s service%s with the interface %s", c.entry.Name, s, region, c.entry.Interface)
	}
	base = strings.TrimRight(base, "/")
	if versionIn(base) == "" {
		base += "/" + s.versionPath()
	}
	return base, nil
}

// root returns where a service describes its version: the endpoint without what
// follows the version.
func (c *Client) root(s Service) (string, error) {
	base, err := c.endpoint(s)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(base)
	if err != nil {
		return "", fault.New(fault.Failed, "%s of cloud %s has the endpoint %q, which is no address", title(s), c.entry.Name, base)
	}
	segments := strings.Split(u.Path, "/")
	u.Path = strings.Join(segments[:slices.Index(segments, versionIn(base))+1], "/") + "/"
	return u.String(), nil
}
