// Package openstack is a client of OpenStack's APIs for one cloud of a
// clouds.yaml: it logs in, finds the services, sends calls and turns what goes
// wrong into faults. It reads nothing that it isn't told to read: no
// environment, no search path, no proxy settings.
package openstack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// perService bounds the calls that run at the same time against one service.
const perService = 10

// callTime bounds one call where api_timeout doesn't. OpenStack's own services give up
// on each other after 60 s, so later answers aren't to be expected.
const callTime = 90 * time.Second

// A Client sends calls to one cloud with one login. It is safe for concurrent
// use. A token that expires is renewed once, whatever number of calls meet it.
type Client struct {
	entry     Entry
	provider  *gophercloud.ProviderClient
	transport *http.Transport
	project   string
	endpoints map[Service]string
	slots     map[Service]chan struct{}
}

// Connect logs in to the cloud that e describes. The errors have kind Invalid
// for an entry that can't be right, Denied for refused credentials,
// Untrusted for a certificate that doesn't verify, Unreachable and Unavailable
// for what may pass.
func Connect(ctx context.Context, e Entry) (*Client, error) {
	c := &Client{entry: e, endpoints: make(map[Service]string), slots: make(map[Service]chan struct{})}
	for _, s := range Services() {
		c.slots[s] = make(chan struct{}, perService)
	}
	var err error
	if c.transport, err = newTransport(e); err != nil {
		return nil, err
	}
	if c.provider, err = openstack.NewClient(e.AuthURL); err != nil {
		return nil, fault.New(fault.Invalid, "%s: cloud %q: auth.auth_url: %v", e.File, e.Name, err)
	}
	c.provider.HTTPClient = http.Client{Transport: c.transport}
	c.provider.UserAgent.Prepend("gsrun")
	c.provider.UseTokenLock()
	lctx, cancel := context.WithTimeoutCause(ctx, e.Timeout, tooSlow(Identity, e.Timeout))
	defer cancel()
	if err := openstack.AuthenticateV3(lctx, c.provider, e.options(), gophercloud.EndpointOpts{}); err != nil {
		c.Close()
		return nil, c.loginError(lctx, err)
	}
	if err := c.readCatalog(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the connections that are idle.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

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
		MaxIdleConnsPerHost:   perService,
		IdleConnTimeout:       30 * time.Second,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if e.CACert != "" {
		pem, err := os.ReadFile(e.CACert)
		if err != nil {
			return nil, fault.New(fault.Invalid, "%s: cloud %q: cacert: %v", e.File, e.Name, err)
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fault.New(fault.Invalid, "%s: cloud %q: cacert: %s holds no certificate in PEM form", e.File, e.Name, e.CACert)
		}
	}
	if e.Cert != "" {
		pair, err := tls.LoadX509KeyPair(e.Cert, e.Key)
		if err != nil {
			return nil, fault.New(fault.Invalid, "%s: cloud %q: cert and key: %v", e.File, e.Name, err)
		}
		t.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// options returns the login in the library's form.
func (e Entry) options() *gophercloud.AuthOptions {
	o := &gophercloud.AuthOptions{IdentityEndpoint: e.AuthURL, AllowReauth: true}
	switch e.Method {
	case ByToken:
		o.TokenID = e.Token
		o.AllowReauth = false // a token doesn't say how to get another
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
	case errors.As(err, &code) && code.Actual == http.StatusNotFound && e.Method != ByToken:
		out.Kind = fault.Invalid
		out.Hint = "check auth.auth_url (" + e.AuthURL + ") of cloud " + e.Name + " in " + e.File
	case f.Kind == fault.Denied:
		fields := "auth.username, auth.password, auth.user_domain_name and auth.project_name"
		switch e.Method {
		case ByCredential:
			fields = "auth.application_credential_id and auth.application_credential_secret"
		case ByToken:
			fields = "auth.token, which may have expired,"
		}
		out.Hint = "check " + fields + " of cloud " + e.Name + " in " + e.File + " (and secure.yaml beside it)"
	case f.Kind == fault.Unreachable:
		out.Hint = "check auth.auth_url (" + e.AuthURL + ") of cloud " + e.Name + " in " + e.File
	}
	return out
}

// readCatalog finds the endpoint of each service.
func (c *Client) readCatalog() error {
	var catalog *tokens.ServiceCatalog
	var err error
	switch r := c.provider.GetAuthResult().(type) {
	case tokens.CreateResult:
		if p, perr := r.ExtractProject(); perr == nil && p != nil {
			c.project = p.ID
		}
		catalog, err = r.ExtractServiceCatalog()
	case tokens.GetResult:
		if p, perr := r.ExtractProject(); perr == nil && p != nil {
			c.project = p.ID
		}
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
		return fault.Hinted(fault.Invalid, "the cloud has: "+strings.Join(names, ", "),
			"%s: cloud %q: region_name: there is no region %q", c.entry.File, c.entry.Name, c.entry.Region)
	}
	for s, u := range c.entry.Endpoints {
		c.endpoints[s] = u
	}
	return nil
}

// url returns the address of a path of a service.
func (c *Client) url(s Service, path string, query url.Values) (string, error) {
	base := c.endpoints[s]
	if base == "" {
		region := ""
		if c.entry.Region != "" {
			region = " in region " + c.entry.Region
		}
		return "", fault.Hinted(fault.Invalid, "check region_name and interface of cloud "+c.entry.Name+" in "+c.entry.File+", or set "+overrideField(string(s)),
			"cloud %s offers no %s service%s with the interface %s", c.entry.Name, s, region, c.entry.Interface)
	}
	base = strings.TrimRight(base, "/")
	if versionIn(base) == "" {
		base += "/" + s.versionPath()
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return base + path, nil
}
