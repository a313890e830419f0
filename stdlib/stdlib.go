// Package stdlib is the one list of the modules that recipes see.
package stdlib

import (
	"errors"
	"io"
	"time"

	artifactclient "git.vanillacore.net/govstack/gsrun/internal/client/artifact"
	secretclient "git.vanillacore.net/govstack/gsrun/internal/client/secret"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/stdlib/artifact"
	"git.vanillacore.net/govstack/gsrun/stdlib/base64"
	"git.vanillacore.net/govstack/gsrun/stdlib/crypto"
	"git.vanillacore.net/govstack/gsrun/stdlib/csv"
	"git.vanillacore.net/govstack/gsrun/stdlib/git"
	"git.vanillacore.net/govstack/gsrun/stdlib/hash"
	"git.vanillacore.net/govstack/gsrun/stdlib/json"
	"git.vanillacore.net/govstack/gsrun/stdlib/kube"
	"git.vanillacore.net/govstack/gsrun/stdlib/log"
	"git.vanillacore.net/govstack/gsrun/stdlib/math"
	"git.vanillacore.net/govstack/gsrun/stdlib/net"
	"git.vanillacore.net/govstack/gsrun/stdlib/openstack"
	"git.vanillacore.net/govstack/gsrun/stdlib/outputs"
	"git.vanillacore.net/govstack/gsrun/stdlib/path"
	"git.vanillacore.net/govstack/gsrun/stdlib/re"
	"git.vanillacore.net/govstack/gsrun/stdlib/secret"
	"git.vanillacore.net/govstack/gsrun/stdlib/ssh"
	"git.vanillacore.net/govstack/gsrun/stdlib/template"
	startime "git.vanillacore.net/govstack/gsrun/stdlib/time"
	"git.vanillacore.net/govstack/gsrun/stdlib/toml"
	"git.vanillacore.net/govstack/gsrun/stdlib/yaml"
)

// An Env is what the modules of one run work with. The zero Env gives modules
// that are good for their texts alone.
type Env struct {
	CloudsFile string                         // the clouds.yaml that the site names
	CloudsEnv  bool                           // whether the site names the environment in its place
	LookupEnv  func(string) (string, bool)    // reads the environment where a recipe or the site says so
	Creates    int                            // bound of the creates that one service of a cloud is sent at the same time
	Interval   time.Duration                  // pause between two looks at what a cloud has under way; 0 means the module's own
	Patience   time.Duration                  // how long a cloud may take to show what it was asked to make; 0 means the module's own
	HostKeys   effect.Store                   // host keys that were read from consoles, or trusted at first use
	Generated  effect.Store                   // secrets that gsrun made; it encrypts
	Sources    map[string]secretclient.Source // where the site keeps its secrets
	Declared   map[string]string              // file and line of each source
	Readers    secretclient.Readers           // how they are read
	Lock       *artifactclient.Lock           // digests of upstream files
	Mirror     string                         // base URL of a mirror of them
	Cache      string                         // folder of fetched files
	Outputs    string                         // folder of what recipes make known to other programs
	Now        func() time.Time               // nil means the system's clock
}

// Modules returns the modules, ordered by name. Close ends the connections
// that they hold.
func Modules(e Env) []*builtin.Module {
	return []*builtin.Module{
		artifact.Module(artifact.Config{Lock: e.Lock, Mirror: e.Mirror, Cache: e.Cache}),
		base64.Module(),
		crypto.Module(crypto.Config{Store: e.Generated, Now: e.Now}),
		csv.Module(),
		git.Module(git.Config{Now: e.Now}),
		hash.Module(),
		json.Module(),
		kube.Module(kube.Config{}),
		log.Module(log.Config{}),
		math.Module(),
		net.Module(),
		openstack.Module(openstack.Config{CloudsFile: e.CloudsFile, CloudsEnv: e.CloudsEnv, LookupEnv: e.LookupEnv, Creates: e.Creates, Interval: e.Interval, Patience: e.Patience, HostKeys: e.HostKeys, Secrets: e.Generated}),
		outputs.Module(outputs.Config{Dir: e.Outputs}),
		path.Module(),
		re.Module(),
		secret.Module(secret.Config{Sources: e.Sources, Readers: e.Readers, Store: e.Generated, Declared: e.Declared}),
		ssh.Module(ssh.Config{LookupEnv: e.LookupEnv, HostKeys: e.HostKeys}),
		template.Module(),
		startime.Module(startime.Config{}),
		toml.Module(),
		yaml.Module(),
	}
}

// Close closes what the modules hold open: their connections.
func Close(modules []*builtin.Module) error {
	var errs []error
	for _, m := range modules {
		if c, ok := m.Recv.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// Keepers returns the modules whose systems keep what recipes make, by the
// module's name.
func Keepers(modules []*builtin.Module) map[string]effect.Keeper {
	return receivers[effect.Keeper](modules)
}

// Safes returns the modules that keep what recipes make in the site's store, by
// the module's name.
func Safes(modules []*builtin.Module) map[string]effect.Safe {
	return receivers[effect.Safe](modules)
}

// receivers returns the instances of modules that are a T, by the module's name.
func receivers[T any](modules []*builtin.Module) map[string]T {
	out := make(map[string]T)
	for _, m := range modules {
		if r, ok := m.Recv.(T); ok {
			out[m.Name] = r
		}
	}
	return out
}
