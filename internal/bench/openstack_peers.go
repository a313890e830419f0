package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A peer makes networks with subnets and ports, too.
type peer struct {
	name   string
	sets   int  // how many it makes where each takes a second; 0 is as many as gsrun
	cleans bool // clean deletes what it made
	// missing says why it can't be measured here; "" if it can.
	missing func() string
	run     func(ctx context.Context, c cloud, dir string) error
	clean   func(ctx context.Context, c cloud, dir string) func() error
}

// python is the interpreter that Debian's packages are for.
const python = "/usr/bin/python3"

func peers() []peer {
	none := func(context.Context, cloud, string) func() error { return func() error { return nil } }
	script := func(threads int) func(context.Context, cloud, string) error {
		return func(ctx context.Context, c cloud, dir string) error {
			return command(ctx, dir, c, python, "-c", sdk, fmt.Sprint(c.sets), fmt.Sprint(threads))
		}
	}
	clean := func(ctx context.Context, c cloud, dir string) func() error {
		return func() error { return command(ctx, dir, c, python, "-c", sdkClean) }
	}
	hasSDK := func() string {
		if out, err := exec.Command(python, "-c", "import openstack").CombinedOutput(); err != nil {
			return fmt.Sprintf("%s can't import openstack: %s", python, lastLine(out))
		}
		return ""
	}
	return []peer{
		{"openstacksdk", 0, true, hasSDK, script(1), clean},
		{"openstacksdk-10-threads", 0, true, hasSDK, script(10), clean},
		{"terraform", 0, false, noTerraform, terraform, none},
		{"ansible", 5, true, noAnsible, ansible, clean},
		{"openstack-cli", cliSets, true, func() string { return noProgram("openstack") }, cli, clean},
	}
}

func noProgram(name string) string {
	if _, err := exec.LookPath(name); err != nil {
		return "there is no " + name + " on PATH"
	}
	return ""
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// sdk makes so many sets with so many threads, those that aren't there by name.
const sdk = `
import concurrent.futures, sys, openstack
conn = openstack.connect(cloud="bench")
conn.network
def one(i):
    name = "bench-sdk-%d" % i
    net = conn.network.find_network(name) or conn.network.create_network(name=name)
    sub = conn.network.find_subnet(name) or conn.network.create_subnet(name=name, network_id=net.id, ip_version=4, cidr="10.20.0.0/24")
    conn.network.find_port(name) or conn.network.create_port(name=name, network_id=net.id, fixed_ips=[{"subnet_id": sub.id}])
with concurrent.futures.ThreadPoolExecutor(int(sys.argv[2])) as pool:
    list(pool.map(one, range(int(sys.argv[1]))))
`

// sdkClean deletes what the peers made.
const sdkClean = `
import openstack
conn = openstack.connect(cloud="bench")
for kind in ("port", "subnet", "network"):
    for x in list(getattr(conn.network, kind + "s")()):
        if x.name and x.name.startswith("bench-"):
            getattr(conn.network, "delete_" + kind)(x, ignore_missing=True)
`

// cliSets is how many the command line makes, nine processes each.
const cliSets = 2

// cli makes them with a command each, as scripts do: ask, and create what isn't there.
func cli(ctx context.Context, c cloud, dir string) error {
	for i := range cliSets {
		name := fmt.Sprintf("bench-cli-%d", i)
		for _, create := range [][]string{
			{"network", "create", name},
			{"subnet", "create", "--network", name, "--subnet-range", "10.20.0.0/24", name},
			{"port", "create", "--network", name, name},
		} {
			if command(ctx, dir, c, "openstack", create[0], "show", name) == nil {
				continue
			}
			if err := command(ctx, dir, c, "openstack", create...); err != nil {
				return err
			}
		}
	}
	return nil
}

const playbook = `- hosts: localhost
  connection: local
  gather_facts: false
  vars: {ansible_python_interpreter: /usr/bin/python3}
  tasks:
    - openstack.cloud.network: {cloud: bench, name: "bench-ansible-{{ item }}"}
      loop: "{{ range(0, 5) | list }}"
    - openstack.cloud.subnet: {cloud: bench, name: "bench-ansible-{{ item }}", network_name: "bench-ansible-{{ item }}", cidr: 10.20.0.0/24}
      loop: "{{ range(0, 5) | list }}"
    - openstack.cloud.port: {cloud: bench, name: "bench-ansible-{{ item }}", network: "bench-ansible-{{ item }}"}
      loop: "{{ range(0, 5) | list }}"
`

// workshop is the folder of what peers need and is slow to make; "" with the
// reason if there is none.
func workshop(elem ...string) (string, string) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err.Error()
	}
	return filepath.Join(append([]string{base, "gsrun", "bench"}, elem...)...), ""
}

// build makes a file in the workshop by running a command, unless it is there.
func build(file string, name string, args ...string) string {
	if _, err := os.Stat(file); err == nil {
		return ""
	}
	fmt.Fprintf(os.Stderr, "bench openstack: making %s\n", file)
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "GOBIN="+filepath.Dir(file))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Sprintf("%s %s: %v: %s", name, strings.Join(args, " "), err, lastLine(out))
	}
	return ""
}

// noAnsible asks for a module of the collection: it may refuse the SDK that is
// there.
func noAnsible() string {
	if why := noProgram("ansible-playbook"); why != "" {
		return why
	}
	out, _ := exec.Command("ansible", "localhost", "-m", "openstack.cloud.network", "-a", "cloud=bench name=bench", "-e", "ansible_python_interpreter="+python).CombinedOutput()
	for _, reason := range []string{"Incompatible openstacksdk", "openstacksdk is required", "couldn't resolve module", "was not found"} {
		if i := strings.Index(string(out), reason); i >= 0 {
			line, _, _ := strings.Cut(string(out)[i:], "\n")
			return strings.Trim(line, " \",}")
		}
	}
	return ""
}

func ansible(ctx context.Context, c cloud, dir string) error {
	file := filepath.Join(dir, "networks.yaml")
	if err := os.WriteFile(file, []byte(playbook), 0o600); err != nil {
		return err
	}
	return command(ctx, dir, c, "ansible-playbook", "-i", "localhost,", file)
}

const module = `
terraform {
  required_providers {
    openstack = { source = "terraform-provider-openstack/openstack" }
  }
}
provider "openstack" { cloud = "bench" }
resource "openstack_networking_network_v2" "n" {
  count = SETS
  name  = "bench-tf-${count.index}"
}
resource "openstack_networking_subnet_v2" "s" {
  count      = SETS
  name       = "bench-tf-${count.index}"
  network_id = openstack_networking_network_v2.n[count.index].id
  cidr       = "10.20.0.0/24"
}
resource "openstack_networking_port_v2" "p" {
  count      = SETS
  name       = "bench-tf-${count.index}"
  network_id = openstack_networking_network_v2.n[count.index].id
  fixed_ip {
    subnet_id = openstack_networking_subnet_v2.s[count.index].id
  }
}
`

func noTerraform() string {
	if why := noProgram("terraform"); why != "" {
		return why
	}
	dir, why := workshop("providers")
	if why != "" {
		return why
	}
	return build(filepath.Join(dir, "terraform-provider-openstack"), "go", "install", "github.com/terraform-provider-openstack/terraform-provider-openstack/v3@v3.4.0")
}

func terraform(ctx context.Context, c cloud, dir string) error {
	dir = filepath.Join(dir, "terraform")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	providers, _ := workshop("providers")
	rc := filepath.Join(dir, "rc")
	for path, text := range map[string]string{
		filepath.Join(dir, "main.tf"): strings.ReplaceAll(module, "SETS", fmt.Sprint(c.sets)),
		rc:                            fmt.Sprintf("provider_installation {\n  dev_overrides { \"terraform-provider-openstack/openstack\" = %q }\n  direct {}\n}\n", providers),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return command(ctx, dir, c, "env", "TF_CLI_CONFIG_FILE="+rc, "terraform", "apply", "-auto-approve", "-input=false", "-parallelism=10")
}
