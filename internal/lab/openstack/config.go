package openstack

import (
	"io"
	"time"
)

// Config says what a [Cloud] consists of. The zero value is usable: it gives the users admin and demo, a few
// flavors, one image and the external network "public".
type Config struct {
	// Clock drives boots and token expiry. Default: the wall clock.
	Clock Clock
	// Seed makes ids repeatable; 0 draws a random one. Tokens are always random.
	Seed uint64
	// Region names the only region. Default "RegionOne".
	Region string
	// BaseURL is what the catalog and links begin with, without a slash at the end. Default: http and the
	// host that a request was sent to.
	BaseURL string
	// External is the network that floating IPs come from.
	External External
	// Users exist from the start. Default: admin (roles admin, member, reader in projects admin and demo)
	// and demo (member, reader in demo), with the password "secret".
	Users []User
	// ApplicationCredentials exist from the start.
	ApplicationCredentials []ApplicationCredential
	// Flavors exist from the start. Default: m1.nano, m1.small, m1.medium, m1.large and m1.huge, which fits
	// no host.
	Flavors []Flavor
	// Images exist from the start. Default: a tiny public image named "lab-tiny".
	Images []Image
	// ImportMethods are how Glance imports images: glance-direct and web-download are simulated. Default:
	// glance-direct. What is downloaded has to lie on loopback.
	ImportMethods []string
	// VolumeTypes exist from the start; the first is the default. Default: fake and __DEFAULT__.
	VolumeTypes []VolumeType
	// Zones are the availability zones; each has one hypervisor. Default az1 and az2.
	Zones []string
	// BootDelay is how long a server stays in BUILD; a third of it is the duration of the other server
	// actions. Default 300 ms.
	BootDelay time.Duration
	// TokenLifetime is how long tokens are valid. Default one hour.
	TokenLifetime time.Duration
	// Quota holds the defaults by resource name as Nova, Neutron and Cinder spell them ("instances", "cores", "ram",
	// "key_pairs", "server_groups", "server_group_members", "metadata_items", "network", "subnet", "port",
	// "router", "floatingip", "security_group", "security_group_rule", "volumes", "gigabytes", "snapshots"); -1 is unlimited. What isn't named has
	// OpenStack's default.
	Quota map[string]int
	// RequestLog gets one JSON line per request. Default: none.
	RequestLog io.Writer

	// OnServer is told when a server's machine comes, changes or goes. Hooks run one at a time, in order, and
	// may call methods of the Cloud but not its HTTP API. A request whose effect a hook is told of is answered
	// after the hook has returned, or after two seconds.
	OnServer func(ServerEvent, ServerInfo)
	// OnFloatingIP is told when a floating address begins or ceases to lead to a fixed one.
	OnFloatingIP func(FloatingIPEvent, FloatingIPInfo)
	// ConsoleLog gives a server's console output. Default: a few lines of a kernel and cloud-init, without
	// host keys.
	ConsoleLog func(serverID string) string
}

// External is the provider's network, which routers take as gateway and floating IPs are allocated from.
type External struct {
	Name  string // default "public"
	CIDR  string // default "127.77.0.0/16"
	Start string // first address handed out; default the tenth of CIDR
	End   string // last address handed out; default the last usable one of CIDR
}

// User is an account that has the same roles in each of its projects; projects are made as they are named.
type User struct {
	Name     string
	Password string
	Projects []string // the first is the default project
	Roles    []string // admin, member, reader or service
}

// ApplicationCredential lets a program act for a user in one project.
type ApplicationCredential struct {
	ID      string // default: made up
	Name    string
	Secret  string
	User    string
	Project string
}

// Flavor is a server size: RAM in MiB, disk in GiB.
type Flavor struct {
	ID         string // default: made up
	Name       string
	VCPUs      int
	RAM        int
	Disk       int
	Ephemeral  int
	Private    bool
	ExtraSpecs map[string]string
}

// Image is a public, active image.
type Image struct {
	ID         string // default: made up
	Name       string
	Data       []byte
	DiskFormat string // default "qcow2"
	MinDisk    int    // GiB
	MinRAM     int    // MiB
	Protected  bool
	Tags       []string
	Properties map[string]string
}

// VolumeType is a kind of volume. Several servers may have one whose extra spec multiattach is "<is> True".
type VolumeType struct {
	Name        string
	Description string
	ExtraSpecs  map[string]string
}

func (cfg Config) withDefaults() Config {
	if cfg.Clock == nil {
		cfg.Clock = wallClock{}
	}
	if cfg.Region == "" {
		cfg.Region = "RegionOne"
	}
	if cfg.External.Name == "" {
		cfg.External.Name = "public"
	}
	if cfg.External.CIDR == "" {
		cfg.External.CIDR = "127.77.0.0/16"
	}
	if cfg.Users == nil {
		cfg.Users = []User{
			{Name: "admin", Password: "secret", Projects: []string{"admin", "demo"}, Roles: []string{"admin", "member", "reader"}},
			{Name: "demo", Password: "secret", Projects: []string{"demo"}, Roles: []string{"member", "reader"}},
		}
	}
	if cfg.Flavors == nil {
		cfg.Flavors = []Flavor{
			{Name: "m1.nano", VCPUs: 1, RAM: 64, Disk: 1},
			{Name: "m1.small", VCPUs: 1, RAM: 512, Disk: 5},
			{Name: "m1.medium", VCPUs: 2, RAM: 2048, Disk: 10},
			{Name: "m1.large", VCPUs: 4, RAM: 8192, Disk: 40},
			{Name: "m1.huge", VCPUs: 2000, RAM: 900000, Disk: 10},
		}
	}
	if cfg.Images == nil {
		cfg.Images = []Image{{Name: "lab-tiny", Data: []byte("a tiny image of the lab\n"), DiskFormat: "raw"}}
	}
	if cfg.ImportMethods == nil {
		cfg.ImportMethods = []string{"glance-direct"}
	}
	if len(cfg.VolumeTypes) == 0 {
		cfg.VolumeTypes = []VolumeType{{Name: "fake"}, {Name: "__DEFAULT__", Description: "Default Volume Type"}}
	}
	if len(cfg.Zones) == 0 {
		cfg.Zones = []string{"az1", "az2"}
	}
	if cfg.BootDelay == 0 {
		cfg.BootDelay = 300 * time.Millisecond
	}
	if cfg.TokenLifetime == 0 {
		cfg.TokenLifetime = time.Hour
	}
	quota := map[string]int{
		"instances": 10, "cores": 20, "ram": 51200, "metadata_items": 128, "key_pairs": 100,
		"server_groups": 10, "server_group_members": 10,
		"injected_files": 5, "injected_file_content_bytes": 10240, "injected_file_path_bytes": 255,
		"network": 100, "subnet": 100, "subnetpool": -1, "port": 500, "router": 10, "floatingip": 50,
		"security_group": 10, "security_group_rule": 100, "rbac_policy": 10, "trunk": -1,
		"volumes": 10, "gigabytes": 1000, "snapshots": 10, "backups": 10, "backup_gigabytes": 1000, "groups": 10, "per_volume_gigabytes": -1,
	}
	for name, n := range cfg.Quota {
		quota[name] = n
	}
	cfg.Quota = quota
	return cfg
}
