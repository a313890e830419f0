package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	upstream "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
	"go.yaml.in/yaml/v3"

	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/stdlib/openstack"
)

// ensures are what is measured, in functions of a number: what to make, or of
// how many.
const ensures = `
cloud = openstack.connect("bench")

def network(i):
    return cloud.network.ensure("bench-%d" % i)

def three(i):
    net = network(i)
    sub = cloud.subnet.ensure("bench-%d" % i, network = net, cidr = "10.20.0.0/24")
    cloud.port.ensure("bench-%d" % i, network = net, fixed_ips = [{"subnet": sub.id}])

def networks(n):
    for i in range(n):
        network(i)

def delete(i):
    cloud.port.delete("bench-%d" % i)
    cloud.network.delete("bench-%d" % i)
`

// converged measures ensures that find all as it should be, with a login made
// before, beside the calls of gophercloud that tell as much. Each time is a run
// of its own, so that none has anything to go by.
func (c cloud) converged(ctx context.Context) (figures []figure, err error) {
	m := openstack.Module(openstack.Config{CloudsFile: c.clouds})
	clouds := m.Recv.(*openstack.Clouds)
	defer clouds.Close()
	thread := &starlark.Thread{Name: "bench"}
	step := func() {
		door := &effect.Door{Clock: effect.SystemClock{}, Redactor: new(effect.Redactor), Deletes: -1}
		builtin.SetContext(thread, effect.With(ctx, effect.NewScope(door, effect.Owner{Site: "bench", Recipe: "bench"}, "step", nil)))
	}
	step()
	globals, err := starlark.ExecFileOptions(&syntax.FileOptions{}, thread, "bench.star", ensures, starlark.StringDict{"openstack": m.Value()})
	if err != nil {
		return nil, err
	}
	call := func(name string, i int) error {
		step()
		_, err := starlark.Call(thread, globals[name], starlark.Tuple{starlark.MakeInt(i)}, nil)
		return err
	}
	b, err := bare(ctx, c.clouds)
	if err != nil {
		return nil, err
	}
	made := 0
	defer func() {
		if c.fresh != nil {
			err = errors.Join(err, c.fresh())
			return
		}
		for i := range made {
			if derr := call("delete", i); err == nil {
				err = derr
			}
		}
	}()
	add := func(name, ensure string, i int, theirs func() error, goal string) {
		if err != nil {
			return
		}
		var ours, peer time.Duration
		if ours, peer, err = inTurns(c.rounds, func() error { return call(ensure, i) }, theirs); err == nil {
			figures = append(figures, figure{"openstack/" + c.name + "/" + name, us(ours), "us", "gophercloud", us(peer), goal})
		}
	}
	network := func() error { return b.network(ctx, 1, networks.ListOpts{Description: bareMark, ProjectID: b.project}) }
	for _, n := range []int{1, c.sets} {
		for ; made < n; made++ {
			if err := call("three", made); err != nil {
				return nil, err
			}
		}
		if n == 1 {
			add("ensure-converged", "network", 0, network, "1.1x")
		}
	}
	add(fmt.Sprintf("ensure-converged-1-of-%d", c.sets), "network", 0, network, "1.1x")
	add(fmt.Sprintf("network-subnet-port-converged-1-of-%d", c.sets), "three", 0, func() error { return errors.Join(network(), b.subnet(ctx), b.port(ctx)) }, "1.1x")
	add(fmt.Sprintf("ensure-converged-%d-of-%d", c.sets, c.sets), "networks", c.sets, func() error { return b.network(ctx, c.sets, networks.ListOpts{ProjectID: b.project}) }, "-")
	return figures, err
}

// inTurns returns the medians of two functions that are called in turns, so
// that what else the machine does meets both.
func inTurns(n int, a, b func() error) (time.Duration, time.Duration, error) {
	var times [2][]time.Duration
	for i := range n + 1 {
		for j, f := range []func() error{a, b} {
			begin := time.Now()
			if err := f(); err != nil {
				return 0, 0, err
			}
			if i > 0 {
				times[j] = append(times[j], time.Since(begin))
			}
		}
	}
	return middle(times[0]), middle(times[1]), nil
}

// bareMark is the owner mark of what gophercloud looks for.
const bareMark = "gsrun:bench/bench/bench-0"

// network lists networks with gophercloud, of which there have to be n.
func (b bareClient) network(ctx context.Context, n int, opts networks.ListOpts) error {
	pages, err := networks.List(b.ServiceClient, opts).AllPages(ctx)
	if err != nil {
		return err
	}
	all, err := networks.ExtractNetworks(pages)
	return found(len(all), n, err)
}

func (b bareClient) subnet(ctx context.Context) error {
	pages, err := subnets.List(b.ServiceClient, subnets.ListOpts{Description: bareMark, ProjectID: b.project}).AllPages(ctx)
	if err != nil {
		return err
	}
	all, err := subnets.ExtractSubnets(pages)
	return found(len(all), 1, err)
}

func (b bareClient) port(ctx context.Context) error {
	pages, err := ports.List(b.ServiceClient, ports.ListOpts{Description: bareMark, ProjectID: b.project}).AllPages(ctx)
	if err != nil {
		return err
	}
	all, err := ports.ExtractPorts(pages)
	return found(len(all), 1, err)
}

func found(n, want int, err error) error {
	if err == nil && n != want {
		err = fmt.Errorf("gophercloud finds %d, not %d", n, want)
	}
	return err
}

// A bareClient is gophercloud's client of Neutron.
type bareClient struct {
	*gophercloud.ServiceClient
	project string // id of the login's own
}

// bare logs in with gophercloud.
func bare(ctx context.Context, file string) (b bareClient, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return b, err
	}
	var doc struct {
		Clouds map[string]struct {
			Auth struct {
				URL         string `yaml:"auth_url"`
				User        string `yaml:"username"`
				Password    string `yaml:"password"`
				Project     string `yaml:"project_name"`
				Domain      string `yaml:"user_domain_name"`
				OtherDomain string `yaml:"default_domain"`
			} `yaml:"auth"`
		} `yaml:"clouds"`
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return b, err
	}
	a := doc.Clouds["bench"].Auth
	domain := a.Domain + a.OtherDomain
	provider, err := upstream.AuthenticatedClient(ctx, gophercloud.AuthOptions{IdentityEndpoint: a.URL, Username: a.User, Password: a.Password, DomainName: domain,
		Scope: &gophercloud.AuthScope{ProjectName: a.Project, DomainName: domain}})
	if err != nil {
		return b, fmt.Errorf("logging in with gophercloud: %w", err)
	}
	if r, ok := provider.GetAuthResult().(interface {
		ExtractProject() (*tokens.Project, error)
	}); ok {
		if p, err := r.ExtractProject(); err == nil && p != nil {
			b.project = p.ID
		}
	}
	b.ServiceClient, err = upstream.NewNetworkV2(provider, gophercloud.EndpointOpts{})
	return b, err
}
