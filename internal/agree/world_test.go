package agree

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/internal/lab/gitserver"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
	cloud "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/stdlib"
	"git.vanillacore.net/govstack/gsrun/stdlib/crypto"
	"git.vanillacore.net/govstack/gsrun/stdlib/git"
	"git.vanillacore.net/govstack/gsrun/stdlib/openstack"
	"git.vanillacore.net/govstack/gsrun/stdlib/secret"
	"git.vanillacore.net/govstack/gsrun/stdlib/ssh"
)

// A ground is what the worlds of one test share.
type ground struct {
	pure []*builtin.Module
	key  sshtest.Key
	git  *gitserver.Server // nil if this machine can't serve Git
}

// A world is that of one case: a cloud, a host, a store of secrets and a
// repository, which nobody else uses.
type world struct {
	ssh     *builtin.Module
	cloud   *cloud.Cloud
	api     *httptest.Server
	fleet   *hosts.Fleet
	host    *hosts.Host
	secrets *memory
	dir     string
	repo    string // URL; empty without Git
	git     *gitserver.Server
	pure    []*builtin.Module
	address string
	key     string
	hostKey string
}

const cloudsFile = `clouds:
  lab:
    auth: {auth_url: %s/identity, username: demo, password: secret, project_name: demo, user_domain_name: Default, project_domain_name: Default}
    region_name: RegionOne
`

// newWorld makes the world of case n.
func (g *ground) newWorld(dir string, n uint64) (*world, error) {
	w := &world{secrets: &memory{}, dir: dir, git: g.git, pure: g.pure, key: g.key.Private, address: fmt.Sprintf("127.66.%d.%d", n>>8&255, n&255)}
	w.ssh = ssh.Module(ssh.Config{}) // its connections serve all runs: that is faster
	w.cloud = cloud.New(cloud.Config{Seed: n + 1, BootDelay: 3 * time.Millisecond, ConsoleLog: func(string) string { return console }})
	w.api = httptest.NewServer(w.cloud)
	w.fleet = hosts.New(hosts.Config{Egress: func(string) bool { return true }})
	h, err := w.fleet.Boot(hosts.Spec{ID: "gw", Name: "gw", AuthorizedKeys: []string{g.key.Public}, MemoryMB: 4096, CPUs: 2,
		Addresses: []hosts.Address{{IP: netip.MustParseAddr("10.20.0.5"), Prefix: 24, Network: "mgmt", Subnet: "mgmt"}}})
	if err != nil {
		return nil, err
	}
	w.host = h
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(h.WaitUp(ctx), h.WaitInit(ctx)); err != nil {
		return nil, err
	}
	ip := w.address
	for try := range 20 { // a port that is free now may be taken by another program then
		w.address = net.JoinHostPort(ip, fmt.Sprint(20_000+(int(n)*20+try)%9_000))
		if err = h.Listen(w.address); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	for _, k := range h.HostKeys() {
		w.hostKey = strings.TrimSpace(string(xssh.MarshalAuthorizedKey(k)))
		if k.Type() == xssh.KeyAlgoED25519 {
			break
		}
	}
	if g.git != nil && n%gitEvery == 0 {
		name := fmt.Sprintf("case%d", n)
		if err := errors.Join(g.git.Create(name, map[string]string{"README.md": "hello\n", "a.txt": "old\n"}), g.git.AddKey(name, g.key.Public, "case", true)); err != nil {
			return nil, err
		}
		w.repo = g.git.URL(name)
	}
	return w, errors.Join(os.WriteFile(filepath.Join(dir, "clouds.yaml"), fmt.Appendf(nil, cloudsFile, w.api.URL), 0o600),
		os.WriteFile(filepath.Join(dir, "image"), []byte(imageText), 0o600))
}

// gitEvery is how rarely a case has a repository: each call of one starts
// processes.
const gitEvery = 8

const (
	console   = "-----BEGIN SSH HOST KEY KEYS-----\nssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2cS0a9a0dDZ6F7g0u0z7jX9zA0u7c3w1mV4m8o1XyB root@vm\n-----END SSH HOST KEY KEYS-----\n"
	imageText = "an image of 24 bytes....\n"
)

func (w *world) close() error {
	w.api.Close()
	w.cloud.Close()
	return errors.Join(w.ssh.Recv.(*ssh.Pool).Close(), w.fleet.Close())
}

// modules returns the modules as a new run has them.
func (w *world) modules() []*builtin.Module {
	clouds := filepath.Join(w.dir, "clouds.yaml")
	own := []*builtin.Module{
		openstack.Module(openstack.Config{CloudsFile: clouds, HostKeys: w.secrets, Interval: 2 * time.Millisecond}),
		w.ssh, git.Module(git.Config{}), secret.Module(secret.Config{Store: w.secrets}), crypto.Module(crypto.Config{Store: w.secrets}),
	}
	for _, m := range w.pure { // the others keep nothing
		if !slices.ContainsFunc(own, func(o *builtin.Module) bool { return o.Name == m.Name }) {
			own = append(own, m)
		}
	}
	return own
}

// constants is the file lab.star, which tells a case's recipes where they are.
func (w *world) constants() string {
	address, port, _ := net.SplitHostPort(w.address)
	gitKey := ""
	if w.git != nil {
		gitKey = strings.TrimSpace(string(xssh.MarshalAuthorizedKey(w.git.HostKey())))
	}
	return fmt.Sprintf(`ADDRESS = %q
PORT = %s
KEY = %q
HOST_KEY = %q
REPO = %q
GIT_KEY = %q
IMAGE = struct(path = %q, sha256 = hash.sha256(%q), size = %d)

def host():
    """Return the host."""
    return ssh.host(ADDRESS, user = "debian", key = KEY, host_key = HOST_KEY, port = PORT, sudo = True, name = "gw")

def repo():
    """Return the repository."""
    return git.repo(REPO, key = KEY, host_key = GIT_KEY)
`, address, port, w.key, w.hostKey, w.repo, gitKey, filepath.Join(w.dir, "image"), imageText, len(imageText))
}

// A trace counts what was written to the world so far.
type trace struct {
	calls  int // of the cloud's log
	host   int64
	values int
	pushes int
}

func (w *world) trace() trace {
	t := trace{calls: len(w.cloud.Requests(0)), host: w.host.Writes(), values: w.secrets.writes()}
	if w.git != nil {
		t.pushes = len(w.pushes())
	}
	return t
}

func (w *world) pushes() []gitserver.Push {
	return slices.DeleteFunc(w.git.Pushes(0), func(p gitserver.Push) bool { return !strings.HasSuffix(w.repo, "/"+p.Repo) })
}

// since returns what was written to the world after t.
func (w *world) since(t trace) []string {
	var out []string
	for _, r := range w.cloud.Requests(t.calls) {
		if r.Write() {
			out = append(out, r.Method+" "+r.Path)
		}
	}
	now := w.trace()
	if now.host != t.host {
		out = append(out, fmt.Sprintf("%d writes on the host", now.host-t.host))
	}
	if now.values != t.values {
		out = append(out, fmt.Sprintf("%d stored values", now.values-t.values))
	}
	if now.pushes != t.pushes {
		out = append(out, fmt.Sprintf("%d pushes", now.pushes-t.pushes))
	}
	return out
}

// A memory is an effect.Store that forgets.
type memory struct {
	mu     sync.Mutex
	values map[string][]byte
	n      int
}

func (m *memory) writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.n
}

func (m *memory) Get(_ context.Context, name string) ([]byte, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[name]
	return v, ok, nil
}

func (m *memory) put(name string, value []byte) {
	m.n++
	if m.values == nil {
		m.values = make(map[string][]byte)
	}
	m.values[name] = slices.Clone(value)
}

func (m *memory) Put(_ context.Context, name string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(name, value)
	return nil
}

func (m *memory) Create(_ context.Context, name string, value []byte) ([]byte, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.values[name]; ok {
		return v, false, nil
	}
	m.put(name, value)
	return value, true, nil
}

func (m *memory) Delete(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n++
	delete(m.values, name)
	return nil
}

func (m *memory) List(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.values)), nil
}

// A vault keeps secrets in a form that is the same for the same text, so that
// results can be compared.
type vault struct{}

func (vault) Seal(s *effect.Secret) (string, error) { return fmt.Sprintf("%q", s.Reveal()), nil }

func (vault) Open(_ context.Context, sealed string) (*effect.Secret, error) {
	var plain string
	_, err := fmt.Sscanf(sealed, "%q", &plain)
	return effect.SecretOf(plain, ""), err
}

// newGround starts what the worlds share.
func newGround(t *testing.T) *ground {
	t.Helper()
	g := &ground{pure: stdlib.Modules(stdlib.Env{}), key: sshtest.NewKey(t, sshtest.Ed25519, "")}
	s, err := gitserver.New(t.TempDir(), gitserver.Options{})
	if err != nil && os.Getenv("CI") != "true" {
		t.Logf("NOT TESTED: no case has a repository: %v", err)
		return g
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	g.git = s
	return g
}
