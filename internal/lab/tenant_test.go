package lab

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/external"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
)

// tenant uses the cloud of a lab as its user does, by the lab's own site.
type tenant struct {
	t                       *testing.T
	lab                     *Lab
	transport               *http.Transport
	compute, network, image *gophercloud.ServiceClient
	key                     ssh.Signer
	external                string // the id of the external network
}

// subnet is one with the network that it is alone on.
type subnet struct{ network, id string }

// vm is a server, its host and its ports in order.
type vm struct {
	tenant *tenant
	id     string
	host   *hosts.Host
	ports  []string
}

// ok returns v unless err stops the test.
func ok[T any](t *testing.T, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func newTenant(t *testing.T, l *Lab) *tenant {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(l.Info.Site, "clouds.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Clouds map[string]struct {
			Auth map[string]string `yaml:"auth"`
		} `yaml:"clouds"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	auth := file.Clouds["openstack"].Auth
	ten := &tenant{t: t, lab: l, transport: &http.Transport{}}
	p, err := openstack.NewClient(auth["auth_url"])
	if err != nil {
		t.Fatal(err)
	}
	p.HTTPClient = http.Client{Transport: ten.transport}
	err = openstack.Authenticate(t.Context(), p, gophercloud.AuthOptions{IdentityEndpoint: auth["auth_url"], Username: auth["username"], Password: auth["password"],
		DomainName: auth["user_domain_name"], TenantName: auth["project_name"]})
	if err != nil {
		t.Fatal(err)
	}
	region := gophercloud.EndpointOpts{Region: "RegionOne"}
	ten.compute, err = openstack.NewComputeV2(p, region)
	ten.compute = ok(t, ten.compute, err)
	ten.network, err = openstack.NewNetworkV2(p, region)
	ten.network = ok(t, ten.network, err)
	ten.image, err = openstack.NewImageV2(p, region)
	ten.image = ok(t, ten.image, err)

	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ten.key, err = ssh.NewSignerFromSigner(private)
	ten.key = ok(t, ten.key, err)
	_, err = keypairs.Create(t.Context(), ten.compute, keypairs.CreateOpts{Name: "operator", PublicKey: hostKeyLine(ten.key.PublicKey())}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	pages, err := networks.List(ten.network, external.ListOptsExt{ListOptsBuilder: networks.ListOpts{}, External: &yes}).AllPages(t.Context())
	pages = ok(t, pages, err)
	found, err := networks.ExtractNetworks(pages)
	if err != nil || len(found) != 1 {
		t.Fatalf("external networks: %v, %v", found, err)
	}
	ten.external = found[0].ID
	return ten
}

func (ten *tenant) subnet(name, cidr, gateway string) subnet {
	ten.t.Helper()
	n, err := networks.Create(ten.t.Context(), ten.network, networks.CreateOpts{Name: name}).Extract()
	n = ok(ten.t, n, err)
	s, err := subnets.Create(ten.t.Context(), ten.network, subnets.CreateOpts{NetworkID: n.ID, CIDR: cidr, GatewayIP: &gateway, IPVersion: gophercloud.IPv4, Name: name}).Extract()
	return subnet{n.ID, ok(ten.t, s, err).ID}
}

// route joins a subnet with the external network.
func (ten *tenant) route(s subnet) {
	ten.t.Helper()
	r, err := routers.Create(ten.t.Context(), ten.network, routers.CreateOpts{Name: "edge", GatewayInfo: &routers.GatewayInfo{NetworkID: ten.external}}).Extract()
	r = ok(ten.t, r, err)
	_, err = routers.AddInterface(ten.t.Context(), ten.network, r.ID, routers.AddInterfaceOpts{SubnetID: s.id}).Extract()
	if err != nil {
		ten.t.Fatal(err)
	}
}

func (ten *tenant) port(s subnet, address string) string {
	ten.t.Helper()
	p, err := ports.Create(ten.t.Context(), ten.network, ports.CreateOpts{NetworkID: s.network, FixedIPs: []ports.IP{{SubnetID: s.id, IPAddress: address}}}).Extract()
	return ok(ten.t, p, err).ID
}

// boot boots a server with those ports, and waits until one can log in.
func (ten *tenant) boot(name string, portIDs ...string) *vm {
	ten.t.Helper()
	pages, err := images.List(ten.image, images.ListOpts{}).AllPages(ten.t.Context())
	pages = ok(ten.t, pages, err)
	found, err := images.ExtractImages(pages)
	if err != nil || len(found) == 0 {
		ten.t.Fatalf("images: %v, %v", found, err)
	}
	pages, err = flavors.ListDetail(ten.compute, nil).AllPages(ten.t.Context())
	pages = ok(ten.t, pages, err)
	sizes, err := flavors.ExtractFlavors(pages)
	size := slices.IndexFunc(sizes, func(f flavors.Flavor) bool { return f.Name == "m1.small" })
	if err != nil || size < 0 {
		ten.t.Fatalf("flavors: %v, %v", sizes, err)
	}
	var nics []servers.Network
	for _, p := range portIDs {
		nics = append(nics, servers.Network{Port: p})
	}
	s, err := servers.Create(ten.t.Context(), ten.compute, keypairs.CreateOptsExt{KeyName: "operator", CreateOptsBuilder: servers.CreateOpts{
		Name: name, ImageRef: found[0].ID, FlavorRef: sizes[size].ID, Networks: nics}}, nil).Extract()
	v := &vm{tenant: ten, id: ok(ten.t, s, err).ID, ports: portIDs}
	await(ten.t, "the host of "+name, func() bool {
		h, booted := ten.lab.Hosts.Host(v.id)
		v.host = h
		return booted
	})
	if err := v.host.WaitInit(ten.t.Context()); err != nil {
		ten.t.Fatal(err)
	}
	return v
}

// float gives a server's first port a floating address, and returns where its
// SSH is.
func (v *vm) float() string {
	t := v.tenant.t
	t.Helper()
	f, err := floatingips.Create(t.Context(), v.tenant.network, floatingips.CreateOpts{FloatingNetworkID: v.tenant.external, PortID: v.ports[0]}).Extract()
	f = ok(t, f, err)
	if err := v.tenant.lab.Cloud.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(f.FloatingIP, fmt.Sprint(v.tenant.lab.Info.SSHPort))
}

// login logs into a server at address, through another's connection if there
// is one.
func (v *vm) login(via *ssh.Client, address string) *ssh.Client {
	t := v.tenant.t
	t.Helper()
	dial := net.Dial
	if via != nil {
		dial = via.Dial
	}
	conn, err := dial("tcp", address)
	conn = ok(t, conn, err)
	c, channels, requests, err := ssh.NewClientConn(conn, address, &ssh.ClientConfig{
		User: "debian", Auth: []ssh.AuthMethod{ssh.PublicKeys(v.tenant.key)},
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			for _, k := range v.host.HostKeys() {
				if bytes.Equal(k.Marshal(), key.Marshal()) {
					return nil
				}
			}
			return fmt.Errorf("not the key of %s", v.host.Info().Name)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	client := ssh.NewClient(c, channels, requests)
	t.Cleanup(func() { client.Close() })
	return client
}
