package real_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"git.vanillacore.net/govstack/gsrun/internal/lab/cloudproxy"
	"git.vanillacore.net/govstack/gsrun/internal/lab/real"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
)

// start returns a lab that ends with the test.
func start(t *testing.T) *real.Lab {
	skip.Slow(t, "it starts OpenStack")
	missing := real.Missing()
	skip.Unless(t, missing == "", "the real OpenStack", missing)
	cfg := real.Config{Progress: func(line string) { t.Log(line) }}
	if err := real.Install(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	l, err := real.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(l.Dir()); err == nil {
			t.Errorf("%s is still there", l.Dir())
		}
	})
	memory, cpu := int64(0), time.Duration(0)
	for _, s := range l.Status() {
		if !s.Up {
			t.Errorf("%s isn't up", s.Name)
		}
		memory, cpu = memory+s.Memory, cpu+s.CPU
		t.Logf("%-20s %4d MiB %5.1f s", s.Name, s.Memory>>20, s.CPU.Seconds())
	}
	t.Logf("started in %.1f s, %d MiB resident, %.1f s of CPU", took.Seconds(), memory>>20, cpu.Seconds())
	return l
}

// user calls the APIs as a tenant, through a proxy.
type user struct {
	t        *testing.T
	provider *gophercloud.ProviderClient
	clients  map[string]*gophercloud.ServiceClient
}

func logIn(t *testing.T, auth string, g real.Login) *user {
	t.Helper()
	provider, err := openstack.AuthenticatedClient(t.Context(), gophercloud.AuthOptions{IdentityEndpoint: auth, Username: g.User, Password: g.Password,
		TenantName: g.Project, DomainName: g.Domain, AllowReauth: true})
	if err != nil {
		t.Fatal(err)
	}
	u := &user{t: t, provider: provider, clients: map[string]*gophercloud.ServiceClient{}}
	at := gophercloud.EndpointOpts{Region: g.Region}
	for name, open := range map[string]func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error){
		"compute": openstack.NewComputeV2, "network": openstack.NewNetworkV2, "volume": openstack.NewBlockStorageV3, "load-balancer": openstack.NewLoadBalancerV2, "object-store": openstack.NewObjectStorageV1, "image": openstack.NewImageV2, "identity": openstack.NewIdentityV3,
	} {
		if u.clients[name], err = open(provider, at); err != nil {
			t.Fatal(err)
		}
	}
	return u
}

type doc = map[string]any

// do calls an API; the path is below the service's endpoint.
func (u *user) do(method, service, path string, in any) (int, doc) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), 5*time.Minute)
	defer cancel()
	opts := &gophercloud.RequestOpts{OkCodes: []int{200, 201, 202, 203, 204, 300, 400, 403, 404, 409, 500, 503}, KeepResponseBody: true}
	if service == "compute" {
		opts.MoreHeaders = map[string]string{"X-OpenStack-Nova-API-Version": "2.79"}
	}
	if in != nil {
		opts.JSONBody = in
	}
	answer, err := u.provider.Request(ctx, method, u.clients[service].ServiceURL(strings.Split(path, "/")...), opts)
	if err != nil {
		u.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		u.t.Fatal(err)
	}
	out := doc{}
	if len(data) > 0 && json.Unmarshal(data, &out) != nil {
		out["text"] = string(data)
	}
	return answer.StatusCode, out
}

// make creates something and returns it; the body holds it under kind.
func (u *user) make(service, path, kind string, in doc) doc {
	u.t.Helper()
	status, out := u.do("POST", service, path, doc{kind: in})
	made, ok := out[kind].(doc)
	if !ok {
		u.t.Fatalf("making a %s: %d %v", kind, status, out)
	}
	return made
}

// await reads something until a field of it has the value.
func (u *user) await(service, path, kind, field, want string) doc {
	u.t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		status, out := u.do("GET", service, path, nil)
		got, _ := out[kind].(doc)
		if got[field] == want {
			return got
		}
		if got == nil || time.Now().After(end) || got[field] == "ERROR" || got[field] == "error" {
			u.t.Fatalf("waiting for %s of %s to be %s: %d %v", field, path, want, status, out)
		}
	}
}

func id(d doc) string { return fmt.Sprint(d["id"]) }

// TestLab starts a lab once, which takes long, for all that is to be shown.
func TestLab(t *testing.T) {
	l := start(t)
	tenant, err := l.NewTenant(t.Context(), "first")
	if err != nil {
		t.Fatal(err)
	}
	proxy := cloudproxy.Serve(l.Endpoints())
	t.Cleanup(proxy.Close)
	u := logIn(t, proxy.AuthURL(), tenant.Login)

	t.Run("servers", func(t *testing.T) { u.t = t; testServers(u) })
	t.Run("load balancers", func(t *testing.T) { u.t = t; testBalancers(u) })
	t.Run("extensions", func(t *testing.T) { u.t = t; testExtensions(u) })
	t.Run("import", func(t *testing.T) { u.t = t; testImport(u) })
	t.Run("objects", func(t *testing.T) { u.t = t; testObjects(u, tenant) })
	t.Run("quota", func(t *testing.T) { u.t = t; testQuota(u, tenant) })
	t.Run("services", func(t *testing.T) { u.t = t; testServices(u, l) })
	t.Run("log", func(t *testing.T) {
		var seen []string
		for _, q := range proxy.Requests(0) {
			if q.User == "first" && q.Project == "first" && q.ID != "" {
				seen = append(seen, q.Service)
			}
		}
		for _, s := range []string{"compute", "network", "volume", "load-balancer", "object-store"} {
			if !strings.Contains(strings.Join(seen, " "), s) {
				t.Errorf("the log has no request to %s", s)
			}
		}
	})
	t.Run("delete", func(t *testing.T) { testDelete(t, l, tenant) })
}

// network makes a network with a subnet and a router to the public one.
func (u *user) network(name string) (network, subnet doc) {
	_, out := u.do("GET", "network", "networks?name=public", nil)
	public := out["networks"].([]any)[0].(doc)
	network = u.make("network", "networks", "network", doc{"name": name})
	subnet = u.make("network", "subnets", "subnet", doc{"name": name, "network_id": network["id"], "ip_version": 4, "cidr": "10.9.0.0/24"})
	router := u.make("network", "routers", "router", doc{"name": name, "external_gateway_info": doc{"network_id": public["id"]}})
	if status, out := u.do("PUT", "network", "routers/"+id(router)+"/add_router_interface", doc{"subnet_id": subnet["id"]}); status != 200 {
		u.t.Fatal(status, out)
	}
	u.make("network", "floatingips", "floatingip", doc{"floating_network_id": public["id"]})
	return network, subnet
}

func testServers(u *user) {
	t := u.t
	network, _ := u.network("net")
	_, out := u.do("GET", "compute", "flavors", nil)
	flavor := ""
	for _, f := range out["flavors"].([]any) {
		if f.(doc)["name"] == "m1.nano" {
			flavor = id(f.(doc))
		}
	}
	_, out = u.do("GET", "image", "images", nil)
	image := out["images"].([]any)[0].(doc)
	boot := func(name string, more doc) doc {
		in := doc{"name": name, "flavorRef": flavor, "imageRef": image["id"], "networks": []doc{{"uuid": network["id"]}}}
		for k, v := range more {
			in[k] = v
		}
		return u.make("compute", "servers", "server", in)
	}
	console := func(s doc) string {
		status, out := u.do("POST", "compute", "servers/"+id(s)+"/action", doc{"os-getConsoleOutput": doc{}})
		if status != 200 {
			t.Fatal(status, out)
		}
		return out["output"].(string)
	}
	one := boot("one", doc{"availability_zone": "az2"})
	silent := boot("silent", doc{"metadata": doc{"lab_console": "3600"}})
	keyless := boot("keyless", doc{"metadata": doc{"lab_console": "none"}})
	broken := boot("broken", doc{"metadata": doc{"lab_fail": "spawn"}})
	volume := u.make("volume", "volumes", "volume", doc{"size": 1, "imageRef": image["id"]})
	u.await("volume", "volumes/"+id(volume), "volume", "status", "available")
	fromVolume := u.make("compute", "servers", "server", doc{"name": "volume", "flavorRef": flavor, "networks": []doc{{"uuid": network["id"]}},
		"block_device_mapping_v2": []doc{{"boot_index": 0, "uuid": volume["id"], "source_type": "volume", "destination_type": "volume"}}})
	u.await("compute", "servers/"+id(one), "server", "status", "ACTIVE")
	u.await("compute", "servers/"+id(silent), "server", "status", "ACTIVE")
	u.await("compute", "servers/"+id(keyless), "server", "status", "ACTIVE")
	u.await("compute", "servers/"+id(fromVolume), "server", "status", "ACTIVE")
	u.await("volume", "volumes/"+id(volume), "volume", "status", "in-use")
	for status := ""; status != "ERROR"; time.Sleep(50 * time.Millisecond) {
		_, out := u.do("GET", "compute", "servers/"+id(broken), nil)
		if status = fmt.Sprint(out["server"].(doc)["status"]); status == "ACTIVE" {
			t.Fatal("lab_fail=spawn had no effect")
		}
	}
	text := console(one)
	_, keys, _ := strings.Cut(text, "-----BEGIN SSH HOST KEY KEYS-----\nssh-ed25519 AAAA")
	if _, after, found := strings.Cut(keys, "\n-----END SSH HOST KEY KEYS-----\n"); !found || !strings.Contains(after, "one login:") || console(one) != text {
		t.Errorf("the console shows %q", text)
	}
	if text := console(silent); text != "" {
		t.Errorf("the silent console shows %q", text)
	}
	if text := console(keyless); !strings.Contains(text, "login:") || strings.Contains(text, "HOST KEY") {
		t.Errorf("the console without keys shows %q", text)
	}
}

func testBalancers(u *user) {
	_, out := u.do("GET", "network", "subnets?name=net", nil)
	subnet := out["subnets"].([]any)[0].(doc)
	b := u.make("load-balancer", "lbaas/loadbalancers", "loadbalancer", doc{"name": "lb", "vip_subnet_id": subnet["id"]})
	path := "lbaas/loadbalancers/" + id(b)
	u.await("load-balancer", path, "loadbalancer", "provisioning_status", "ACTIVE")
	u.make("load-balancer", "lbaas/listeners", "listener", doc{"loadbalancer_id": b["id"], "protocol": "TCP", "protocol_port": 80})
	u.await("load-balancer", path, "loadbalancer", "provisioning_status", "ACTIVE")
}

// testExtensions asks for the extensions of Neutron that clients use.
func testExtensions(u *user) {
	t := u.t
	_, out := u.do("GET", "network", "extensions", nil)
	have := map[any]bool{}
	for _, e := range out["extensions"].([]any) {
		have[e.(doc)["alias"]] = true
	}
	for _, alias := range []string{"standard-attr-tag", "qos", "port-security", "dns-integration", "trunk", "subnet_allocation", "standard-attr-description", "rbac-policies",
		"external-net", "extraroute", "allowed-address-pairs", "net-mtu-writable", "quotas", "router-admin-state-down-before-update"} {
		if !have[alias] {
			t.Errorf("Neutron has no %s", alias)
		}
	}
	network := u.make("network", "networks", "network", doc{"name": "trunk"})
	u.make("network", "subnetpools", "subnetpool", doc{"name": "pool", "prefixes": []string{"10.77.0.0/16"}})
	parent := u.make("network", "ports", "port", doc{"network_id": network["id"], "dns_name": "parent", "port_security_enabled": false})
	trunk := u.make("network", "trunks", "trunk", doc{"port_id": parent["id"]})
	u.await("network", "trunks/"+id(trunk), "trunk", "name", "")
	if status, out := u.do("PUT", "network", "networks/"+id(network)+"/tags/one", nil); status != 201 {
		t.Error(status, out)
	}
}

// testImport has Glance fetch an image from this process.
func testImport(u *user) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "an image") }))
	defer web.Close()
	status, image := u.do("POST", "image", "images", doc{"name": "imported", "disk_format": "raw", "container_format": "bare", "protected": true})
	if status != 201 {
		u.t.Fatal(status, image)
	}
	status, out := u.do("POST", "image", "images/"+id(image)+"/import", doc{"method": doc{"name": "web-download", "uri": web.URL + "/image"}})
	if status != 202 {
		u.t.Fatal(status, out)
	}
	for end := time.Now().Add(5 * time.Minute); image["status"] != "active"; time.Sleep(50 * time.Millisecond) {
		if _, image = u.do("GET", "image", "images/"+id(image), nil); time.Now().After(end) {
			u.t.Fatal(image)
		}
	}
	if image["size"] != 8.0 {
		u.t.Error(image)
	}
}

// testObjects stores an object, and reads it as S3 has it.
func testObjects(u *user, tenant *real.Tenant) {
	t := u.t
	for _, path := range []string{"box", "box/one"} {
		if status, out := u.do("PUT", "object-store", path, nil); status != 201 {
			t.Fatal(status, out)
		}
	}
	_, out := u.do("POST", "identity", "users/"+tenant.UserID+"/credentials/OS-EC2", doc{"tenant_id": tenant.ProjectID})
	credential, ok := out["credential"].(doc)
	if !ok {
		t.Fatal(out)
	}
	root, err := url.Parse(u.clients["object-store"].Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	date := time.Now().UTC().Format(http.TimeFormat)
	sign := hmac.New(sha1.New, []byte(credential["secret"].(string)))
	fmt.Fprintf(sign, "GET\n\n\n%s\n/box", date)
	// The signature is of the path that Swift sees, without the proxy's prefix.
	req, err := http.NewRequestWithContext(t.Context(), "GET", root.Scheme+"://"+root.Host+"/object-store/box", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Date", date)
	req.Header.Set("Authorization", fmt.Sprintf("AWS %s:%s", credential["access"], base64.StdEncoding.EncodeToString(sign.Sum(nil))))
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != 200 || !strings.Contains(string(data), "<Key>one</Key>") {
		t.Errorf("%d %s %v", answer.StatusCode, data, err)
	}
}

func testQuota(u *user, tenant *real.Tenant) {
	for service, limits := range map[string]map[string]int{"compute": {"instances": 50}, "network": {"network": 1}, "volume": {"volumes": 50}, "load-balancer": {"load_balancer": 5}} {
		if err := tenant.SetQuota(u.t.Context(), service, limits); err != nil {
			u.t.Error(err)
		}
	}
	if status, out := u.do("POST", "network", "networks", doc{"network": doc{"name": "more"}}); status != http.StatusConflict {
		u.t.Error(status, out)
	}
}

func testServices(u *user, l *real.Lab) {
	t := u.t
	ctx := t.Context()
	// Nova asks Keystone about each token, and says so where it can't.
	if err := l.StopService("keystone"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) { // it remembers tokens for some seconds
		status, out := u.do("GET", "compute", "servers", nil)
		if status == http.StatusServiceUnavailable {
			break
		}
		if time.Now().After(end) {
			t.Fatal(status, out)
		}
	}
	if err := l.StartService(ctx, "keystone"); err != nil {
		t.Fatal(err)
	}
	if err := l.PauseService("nova-conductor"); err != nil {
		t.Fatal(err)
	}
	if err := l.ResumeService("nova-conductor"); err != nil {
		t.Fatal(err)
	}
	if err := l.StopService("nova"); err != nil {
		t.Fatal(err)
	}
	if _, err := u.provider.Request(ctx, "GET", u.clients["compute"].ServiceURL("servers"), &gophercloud.RequestOpts{}); err == nil {
		t.Error("Nova answers though it was stopped")
	}
	if err := l.StartService(ctx, "nova"); err != nil {
		t.Fatal(err)
	}
	if status, out := u.do("GET", "compute", "servers", nil); status != 200 {
		t.Error(status, out)
	}
	if err := l.StopService("weather"); err == nil {
		t.Error("a service that isn't there was stopped")
	}
}

// testDelete deletes the tenant and looks whether anything is left.
func testDelete(t *testing.T, l *real.Lab, tenant *real.Tenant) {
	began := time.Now()
	if err := tenant.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("deleted the tenant in %.1f s", time.Since(began).Seconds())
	admin := logIn(t, l.AuthURL(), l.Admin())
	for _, list := range [][3]string{{"compute", "servers?all_tenants=1&project_id=", "servers"}, {"network", "networks?project_id=", "networks"}, {"network", "ports?project_id=", "ports"},
		{"network", "routers?project_id=", "routers"}, {"network", "floatingips?project_id=", "floatingips"}, {"network", "security-groups?project_id=", "security_groups"},
		{"volume", "volumes?all_tenants=1&project_id=", "volumes"}, {"load-balancer", "lbaas/loadbalancers?project_id=", "loadbalancers"}} {
		status, out := admin.do("GET", list[0], list[1]+tenant.ProjectID, nil)
		left, ok := out[list[2]].([]any)
		if !ok || status != 200 {
			t.Errorf("listing %s: %d %v", list[2], status, out)
		}
		for _, d := range left {
			// Asking for an empty project's groups makes its default one.
			if d.(doc)["name"] != "default" {
				t.Errorf("left: %s %v", list[2], d)
			}
		}
	}
}
