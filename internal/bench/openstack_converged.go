package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	upstream "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
	"go.yaml.in/yaml/v3"

	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/stdlib/openstack"
)

// converged measures an ensure that finds all as it should be, with a login
// made before, beside the one call of gophercloud that tells as much. Each
// ensure is of a run of its own, so that none has anything to go by.
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
	globals, err := starlark.ExecFileOptions(&syntax.FileOptions{}, thread, "bench.star", `
cloud = openstack.connect("bench")

def ensure(i = 0):
    cloud.network.ensure("bench-%d" % i)

def delete(i = 0):
    cloud.network.delete("bench-%d" % i)
`, starlark.StringDict{"openstack": m.Value()})
	if err != nil {
		return nil, err
	}
	call := func(name string, args ...starlark.Value) error {
		step()
		_, err := starlark.Call(thread, globals[name], args, nil)
		return err
	}
	client, project, err := bare(ctx, c.clouds)
	if err != nil {
		return nil, err
	}
	theirs := func() error {
		pages, err := networks.List(client, networks.ListOpts{Description: "gsrun:bench/bench/bench-0", ProjectID: project}).AllPages(ctx)
		if err != nil {
			return err
		}
		all, err := networks.ExtractNetworks(pages)
		if err == nil && len(all) != 1 {
			err = fmt.Errorf("there are %d networks bench-0", len(all))
		}
		return err
	}
	made := 0
	defer func() {
		for i := range made {
			if derr := call("delete", starlark.MakeInt(i)); err == nil {
				err = derr
			}
		}
	}()
	for _, n := range []int{1, sets} {
		for ; made < n; made++ {
			if err := call("ensure", starlark.MakeInt(made)); err != nil {
				return nil, err
			}
		}
		ours, peer, err := inTurns(41, func() error { return call("ensure") }, theirs)
		if err != nil {
			return nil, err
		}
		name, goal := "ensure-converged", "1.1x"
		if n > 1 {
			name, goal = fmt.Sprintf("ensure-converged-1-of-%d", n), "-"
		}
		figures = append(figures, figure{"openstack/" + c.name + "/" + name, us(ours), "us", "gophercloud", us(peer), goal})
	}
	return figures, nil
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

// bare returns gophercloud's client of Neutron, and the project's id.
func bare(ctx context.Context, file string) (*gophercloud.ServiceClient, string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, "", err
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
		return nil, "", err
	}
	a := doc.Clouds["bench"].Auth
	domain := a.Domain + a.OtherDomain
	provider, err := upstream.AuthenticatedClient(ctx, gophercloud.AuthOptions{IdentityEndpoint: a.URL, Username: a.User, Password: a.Password, DomainName: domain,
		Scope: &gophercloud.AuthScope{ProjectName: a.Project, DomainName: domain}})
	if err != nil {
		return nil, "", fmt.Errorf("logging in with gophercloud: %w", err)
	}
	project := ""
	if r, ok := provider.GetAuthResult().(interface {
		ExtractProject() (*tokens.Project, error)
	}); ok {
		if p, err := r.ExtractProject(); err == nil && p != nil {
			project = p.ID
		}
	}
	client, err := upstream.NewNetworkV2(provider, gophercloud.EndpointOpts{})
	if err == nil && !strings.Contains(client.Endpoint, "://") {
		err = fmt.Errorf("gophercloud found no Neutron")
	}
	return client, project, err
}
