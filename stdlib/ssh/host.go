package ssh

import (
	"context"
	"net"
	"strings"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/ssh"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A Host is one host of a recipe. In a plan its address or keys may not be
// known yet; then nothing is dialled.
type Host struct {
	pool        *Pool
	address     effect.Text
	port        int
	user        string
	key         effect.Text
	passphrase  effect.Text
	certificate effect.Text
	agent       string // the agent's socket; empty means none
	hostKey     []effect.Text
	knownHosts  effect.Text
	firstUse    bool // trust the key that is seen first
	planned     bool // in a plan, which keeps no key
	jump        *Host
	sudo        bool
	name        string // empty if neither it nor the address is known
	timeout     time.Duration
}

var _ effect.Dialer = (*Host)(nil)

type hostArgs struct {
	Address        effect.Text   `star:"address,required" doc:"Host name or IP address, as seen from here, or from the jump host if there is one."`
	User           string        `star:"user,required" doc:"User to log in as."`
	Key            effect.Text   `star:"key" doc:"Private key of the user: a secret or a text, in PEM or OpenSSH form (ed25519, RSA or ECDSA). With agent, it may be a public key, which chooses one of the agent's."`
	HostKey        effect.Data   `star:"host_key" doc:"The host's public key, or a list of keys: \"ssh-ed25519 AAAA...\" as its console or known_hosts shows it. No other key is accepted. \"@cert-authority *.example.org ssh-ed25519 AAAA...\" trusts the certificates of an authority, for hosts of these names or addresses; \"@revoked * ssh-ed25519 AAAA...\" takes a key back."`
	KnownHosts     effect.Text   `star:"known_hosts" doc:"Instead of host_key: a text in the form of known_hosts, whose lines for this host count. Names may be hashed."`
	TrustFirstUse  bool          `star:"trust_first_use" doc:"Instead of host_key: trust the key that the host shows first, keep it in the site's state, and accept no other from then on. Whoever answers at the address that first time is trusted. A plan keeps nothing."`
	Passphrase     effect.Text   `star:"passphrase" doc:"Passphrase of the private key, if it is encrypted."`
	Certificate    effect.Text   `star:"certificate" doc:"OpenSSH certificate of the user's key, for hosts that trust an authority: what the file that ends in -cert.pub holds. The key alone isn't offered then."`
	Agent          bool          `star:"agent" doc:"Log in with the keys of the SSH agent at SSH_AUTH_SOCK, after key if it is a private one. The agent isn't asked otherwise."`
	Port           int           `star:"port" doc:"TCP port."`
	Jump           *Host         `star:"jump" type:"ssh.host" doc:"Host through which this one is reached. Jump hosts may have jump hosts."`
	Sudo           bool          `star:"sudo" doc:"Do everything as root by sudo, which must not ask for a password."`
	Name           string        `star:"name" doc:"Name in plans and messages. None means the address."`
	ConnectTimeout time.Duration `star:"connect_timeout" doc:"Limit of each phase of connecting: transport, first answer, handshake."`
}

func hostFunc() builtin.Func {
	return builtin.Of(builtin.Spec[*Pool, hostArgs]{
		Name:    "host",
		Doc:     "Name a host. The connection is made at its first use and shared by all steps of the run.",
		Returns: "ssh.host",
		Example: `gw = ssh.host("203.0.113.7", user = "debian", key = secret("gateway_ssh"),
              host_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2cS0a9a0dDZ6F7g0u0z7jX9zA0u7c3w1mV4m8o1XyB", sudo = True)`,
		Effect:   builtin.Connect,
		Errors:   []fault.Kind{fault.Invalid},
		Defaults: hostArgs{Port: 22, ConnectTimeout: 10 * time.Second},
		Run:      newHost,
	})
}

func hostType() *builtin.Type {
	return &builtin.Type{
		Name: "ssh.host",
		Doc: "A host that is reached by SSH. Other modules reach what lies behind it through it. " +
			"Everything on it fails with `unreachable` if it can't be reached, saying whether it or its jump host is the problem; " +
			"with `untrusted` if its key isn't the known one; with `denied` if it refuses the user, or sudo.",
		Of: builtin.TypeOf[*Host](),
		Attrs: []builtin.Attr{
			{Name: "address", Type: "str", Doc: "Address as given."},
			{Name: "login", Type: "str", Doc: "User who logs in."},
			{Name: "port", Type: "int", Doc: "TCP port."},
			{Name: "name", Type: "str", Doc: "Name, or the address."},
		},
		Nouns: []builtin.Noun{
			fileNoun(), archiveNoun(), directoryNoun(), linkNoun(), lineNoun(), blockNoun(), replacementNoun(),
			packageNoun(), packageRepositoryNoun(), serviceNoun(), systemdUnitNoun(), sysctlNoun(), nftablesNoun(), kernelModuleNoun(),
			userNoun(), groupNoun(), authorizedKeyNoun(), wireguardNoun(),
			hostsEntryNoun(), hostnameNoun(), timezoneNoun(), cronNoun(),
		},
		Methods: []builtin.Func{runFunc(), waitFunc(), factsFunc(), connectsFunc(), tunnelFunc(), readFunc()},
	}
}

func newHost(ctx context.Context, p *Pool, a hostArgs) (any, error) {
	h := &Host{pool: p, address: a.Address, port: a.Port, user: a.User, key: a.Key, passphrase: a.Passphrase, certificate: a.Certificate,
		jump: a.Jump, sudo: a.Sudo, name: a.Name, timeout: a.ConnectTimeout}
	h.knownHosts = a.KnownHosts
	if err := a.oneSource(); err != nil {
		return nil, err
	}
	if a.TrustFirstUse {
		if err := h.remember(ctx); err != nil {
			return nil, err
		}
	}
	keys, ok := a.HostKey.V.([]any)
	if !ok {
		if keys = nil; a.HostKey.V != nil {
			keys = []any{a.HostKey.V}
		}
	}
	for _, k := range keys {
		t, err := textOf(k)
		if err != nil {
			return nil, fault.Hinted(fault.Invalid, `a host key looks like "ssh-ed25519 AAAA..."`, "ssh.host: host_key: %v", err)
		}
		h.hostKey = append(h.hostKey, t)
	}
	if err := h.useAgent(a.Agent); err != nil {
		return nil, err
	}
	if h.port < 1 || h.port > 65535 {
		return nil, fault.New(fault.Invalid, "ssh.host: port %d is not between 1 and 65535", h.port)
	}
	if strings.ContainsAny(h.name, "/ \n") {
		return nil, fault.New(fault.Invalid, "ssh.host: the name %q has a slash or a space", h.name)
	}
	if h.name == "" && a.Address.Known() {
		h.name = a.Address.Reveal()
	}
	if h.Known() { // what is wrong with the keys is said now, not at the first use
		if _, err := p.client(h); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// oneSource returns an error unless it is said once how the host is recognized.
func (a *hostArgs) oneSource() error {
	var given []string
	for _, s := range []struct {
		name  string
		given bool
	}{{"host_key", a.HostKey.V != nil}, {"known_hosts", !a.KnownHosts.Known() || !a.KnownHosts.Empty()}, {"trust_first_use", a.TrustFirstUse}} {
		if s.given {
			given = append(given, s.name)
		}
	}
	switch len(given) {
	case 0:
		return fault.Hinted(fault.Invalid, "pass host_key, for example the one that the server printed on its console", "ssh.host: neither host_key nor known_hosts is given, and no key is accepted blindly")
	case 1:
		return nil
	}
	return fault.New(fault.Invalid, "ssh.host: both %s are given, and only one can count", strings.Join(given, " and "))
}

// useAgent finds the SSH agent, if it is to be used.
func (h *Host) useAgent(use bool) error {
	if !use {
		if h.key.Known() && h.key.Empty() {
			return fault.Hinted(fault.Invalid, "pass key, or agent = True", "ssh.host: the private key isn't given, or is empty")
		}
		return nil
	}
	if look := h.pool.cfg.LookupEnv; look != nil {
		h.agent, _ = look("SSH_AUTH_SOCK")
	}
	if h.agent == "" {
		return fault.Hinted(fault.Invalid, "start one with `eval $(ssh-agent)` and `ssh-add`, or pass key", "ssh.host: there is no SSH agent here: SSH_AUTH_SOCK isn't set")
	}
	return nil
}

// textOf returns a string, secret or Unknown of data as a Text.
func textOf(x any) (effect.Text, error) {
	var t effect.Text
	err := t.Unpack(effect.ToStarlark(x))
	return t, err
}

func (h *Host) hostKeyLines() []string {
	lines := make([]string, len(h.hostKey))
	for i, k := range h.hostKey {
		lines[i] = k.Reveal()
	}
	return lines
}

// Known reports whether everything that connecting needs is known.
func (h *Host) Known() bool {
	known := h.address.Known() && h.key.Known() && h.passphrase.Known() && h.certificate.Known() && h.knownHosts.Known() && (h.jump == nil || h.jump.Known())
	for _, k := range h.hostKey {
		known = known && k.Known()
	}
	return known
}

// scope is the host's prefix of targets.
func (h *Host) scope() string {
	if h.name == "" {
		return "ssh/" + effect.UnknownText
	}
	return "ssh/" + h.name
}

// anything is the reach of a change that may change anything on the host.
func (h *Host) anything() []string { return []string{h.scope() + "/"} }

// Via names the host as a way to others.
func (h *Host) Via() string { return h.scope() }

func (h *Host) String() string { return strings.TrimPrefix(h.scope(), "ssh/") }

// Attrs returns the host's data.
func (h *Host) Attrs() map[string]any {
	name := any(h.name)
	if h.name == "" {
		name = h.address
	}
	return map[string]any{"address": h.address, "login": h.user, "port": h.port, "name": name}
}

// DialContext connects to addr from the host.
func (h *Host) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := h.pool.client(h)
	if err != nil {
		return nil, err
	}
	return c.DialContext(ctx, network, addr)
}

// as returns the user that ops on the host run as.
func (h *Host) as() string {
	if h.sudo {
		return "root"
	}
	return h.user
}

// become returns the user to become by sudo, if user was asked for.
func (h *Host) become(user string) string {
	if user == "" && h.sudo {
		return "root"
	}
	return user
}

// exec runs a command as user, or as the one that the host works as.
func (h *Host) exec(ctx context.Context, user string, cmd client.Command) (client.Result, error) {
	c, err := h.pool.client(h)
	if err != nil {
		return client.Result{}, err
	}
	cmd.As = h.become(user)
	return c.Run(ctx, cmd)
}
