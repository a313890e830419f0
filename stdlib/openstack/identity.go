package openstack

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type noArgs struct{}

func identityMethod() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, noArgs]{
		Name: "identity",
		Doc: "Return who the login is, as the cloud says, without any secret: what a clouds.yaml for others is made of. " +
			"The attributes are texts, empty where they don't apply: `auth_url`, `region`, `interface`; `user_id`, `user_name`, `user_domain_id`, `user_domain_name`; " +
			"`project_id`, `project_name`, `project_domain_id`, `project_domain_name`; `application_credential_id`, `application_credential_name`; " +
			"further `roles`, a sorted list of names, `restricted`, whether the application credential may not make others, and `expires`, when the token ends (RFC 3339), which is renewed before.",
		Returns: "openstack.identity",
		Example: "me = cloud.identity()\n" + `where = "%s in %s" % (me.project_name, me.auth_url)`,
		Effect:  builtin.Reads,
		Run: func(ctx context.Context, c *Cloud, _ noArgs) (any, error) {
			return effect.Read(ctx, effect.Query{Target: c.target("identity", "")}, func(ctx context.Context) (any, error) {
				cl, err := c.client(ctx)
				if err != nil {
					return nil, err
				}
				p, err := cl.Principal()
				if err != nil {
					return nil, err
				}
				roles := make([]any, len(p.Roles))
				for i, r := range p.Roles {
					roles[i] = r
				}
				e := cl.Entry()
				return effect.NewObject("openstack.identity", map[string]any{
					"auth_url": e.AuthURL, "region": e.Region, "interface": e.Interface,
					"user_id": p.UserID, "user_name": p.UserName, "user_domain_id": p.UserDomainID, "user_domain_name": p.UserDomainName,
					"project_id": p.ProjectID, "project_name": p.ProjectName, "project_domain_id": p.ProjectDomainID, "project_domain_name": p.ProjectDomainName,
					"application_credential_id": p.CredentialID, "application_credential_name": p.CredentialName, "restricted": p.Restricted,
					"roles": roles, "expires": p.Expires.Format(time.RFC3339),
				}), nil
			})
		},
	})
}

type endpointsArgs struct {
	Service   string `star:"service,positional" doc:"Only those of this service, by its type in the catalog, such as \"compute\"; other types that it goes by count, too."`
	Interface string `star:"interface" doc:"Only those of this interface: public, internal or admin."`
	Region    string `star:"region" doc:"Only those in this region."`
}

func endpointsMethod() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, endpointsArgs]{
		Name: "endpoints",
		Doc: "Return the addresses of the cloud's services, as its catalog has them: what a host needs to reach, to use the cloud. " +
			"Each has the attributes `service` (the type), `name`, `interface`, `region`, `url`, `host` and `port`. They are sorted by service, region and interface.",
		Returns: "list[openstack.endpoint]",
		Example: `hosts = [e.host for e in cloud.endpoints(interface = "public")]`,
		Effect:  builtin.Reads,
		Run: func(ctx context.Context, c *Cloud, a endpointsArgs) (any, error) {
			return effect.Read(ctx, effect.Query{Target: c.target("endpoint", a.Service)}, func(ctx context.Context) ([]any, error) {
				found, _, err := c.endpoints(ctx, a)
				if err != nil {
					return nil, err
				}
				out := make([]any, len(found))
				for i, e := range found {
					host, port, err := hostPort(e.URL)
					if err != nil {
						return nil, err
					}
					out[i] = effect.NewObject("openstack.endpoint", map[string]any{
						"service": e.Type, "name": e.Name, "interface": e.Interface, "region": e.Region, "url": e.URL, "host": host, "port": port})
				}
				return out, nil
			})
		},
	})
}

type endpointArgs struct {
	Service   string `star:"service,required" doc:"The service, by its type in the catalog, such as \"compute\"; other types that it goes by count, too."`
	Interface string `star:"interface" doc:"public, internal or admin. Default: that of the login."`
	Region    string `star:"region" doc:"The region. Default: that of the login; any where it names none."`
}

func endpointMethod() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, endpointArgs]{
		Name:    "endpoint",
		Doc:     "Return the address of a service, as the catalog has it.",
		Returns: "str",
		Example: `url = cloud.endpoint("compute")`,
		Effect:  builtin.Reads,
		Errors:  []fault.Kind{fault.NotFound},
		Run: func(ctx context.Context, c *Cloud, a endpointArgs) (any, error) {
			return effect.Read(ctx, effect.Query{Target: c.target("endpoint", a.Service)}, func(ctx context.Context) (string, error) {
				cl, err := c.client(ctx)
				if err != nil {
					return "", err
				}
				want := endpointsArgs(a)
				if want.Interface == "" {
					want.Interface = cl.Entry().Interface
				}
				if want.Region == "" {
					want.Region = cl.Entry().Region
				}
				found, all, err := c.endpoints(ctx, want)
				if err != nil {
					return "", err
				}
				if len(found) > 0 {
					return found[0].URL, nil
				}
				var names []string
				for _, e := range all {
					if name := e.Type + " (" + e.Interface + ", " + e.Region + ")"; !slices.Contains(names, name) {
						names = append(names, name)
					}
				}
				region := ""
				if want.Region != "" {
					region = " in region " + want.Region
				}
				return "", fault.Hinted(fault.NotFound, "the catalog has: "+strings.Join(names, ", "), "the cloud has no %s service with the interface %s%s", a.Service, want.Interface, region)
			})
		},
	})
}

// endpoints returns those that are asked for, and all.
func (c *Cloud) endpoints(ctx context.Context, a endpointsArgs) (found, all []client.Endpoint, err error) {
	cl, err := c.client(ctx)
	if err != nil {
		return nil, nil, err
	}
	if all, err = cl.Endpoints(); err != nil {
		return nil, nil, err
	}
	types := client.Types(a.Service)
	place := func(e client.Endpoint) string {
		return e.Type + " " + e.Region + " " + e.Interface + " " + e.URL
	}
	slices.SortFunc(all, func(a, b client.Endpoint) int { return strings.Compare(place(a), place(b)) })
	for _, e := range all {
		if (a.Service == "" || slices.Contains(types, e.Type)) && (a.Interface == "" || e.Interface == a.Interface) && (a.Region == "" || e.Region == a.Region) {
			found = append(found, e)
		}
	}
	// The best of a service's types comes first.
	slices.SortStableFunc(found, func(x, y client.Endpoint) int {
		if a.Service == "" {
			return 0
		}
		return slices.Index(types, x.Type) - slices.Index(types, y.Type)
	})
	return found, all, nil
}

// hostPort returns what an address connects to.
func hostPort(address string) (string, int, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return "", 0, fault.New(fault.Unavailable, "the catalog has an address that is none: %q", address)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return "", 0, fault.New(fault.Unavailable, "the catalog has an address without a port: %q", address)
	}
	return u.Hostname(), n, nil
}
