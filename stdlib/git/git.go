// Package git is the module through which recipes read and write Git
// repositories.
package git

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/git"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Config says what the module needs from outside. The zero Config will do.
type Config struct {
	Now func() time.Time // when a commit is made; nil means the system's clock
}

// Git is one run's instance of the module.
type Git struct {
	now func() time.Time

	mu      sync.Mutex
	remotes []*client.Remote
}

// Close ends the connections of all repositories.
func (g *Git) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var errs []error
	for _, r := range g.remotes {
		errs = append(errs, r.Close())
	}
	g.remotes = nil
	return errors.Join(errs...)
}

// Module returns the module.
func Module(c Config) *builtin.Module {
	g := &Git{now: c.Now}
	if g.now == nil {
		g.now = time.Now
	}
	return builtin.NewModule(builtin.Module{
		Name: "git",
		Doc: "Git repositories on a server, by SSH or HTTPS. Files are read and written in memory; `push` is what changes the server: it never forces, " +
			"and when somebody else pushed first, the same files are written again on top of theirs. Nothing of this machine's Git is used: no configuration, no known hosts, no keys.",
		Recv:  g,
		Funcs: []builtin.Func{repo()},
		Types: []*builtin.Type{repoType()},
	})
}

type repoArgs struct {
	URL     effect.Text   `star:"url,required" doc:"ssh://git@HOST[:PORT]/PATH, git@HOST:PATH or https://HOST/PATH."`
	Branch  string        `star:"branch" doc:"The branch to read and write. An empty repository gets it with the first push."`
	Key     effect.Text   `star:"key" doc:"SSH: private key, such as that of a deploy key."`
	HostKey effect.Text   `star:"host_key" doc:"SSH: the server's public key, as a line of authorized_keys or known_hosts; several lines for several keys."`
	Token   effect.Text   `star:"token" doc:"HTTPS: access token or password. The user is the one in the URL, else git."`
	CA      effect.Text   `star:"ca" doc:"HTTPS: certificate of the authority that issued the server's, in PEM, instead of this machine's."`
	Via     effect.Dialer `star:"via" type:"dialer" doc:"Host to go through, such as an ssh.host."`
	Author  string        `star:"author" doc:"Author and committer of what is committed: Name <address>."`
}

func repo() builtin.Func {
	return builtin.Of(builtin.Spec[*Git, repoArgs]{
		Name: "repo",
		Doc: "A branch of a Git repository. It is fetched when it is first used, without its history where the server allows that; what is read later is of the same commit, " +
			"until a push.",
		Returns: "git.repo",
		Example: `gitops = git.repo("ssh://git@git.example.org/platform/gitops.git", key = secret("deploy_key"),
                  host_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2pS8hqjBSUt4yR6ZCDqJ4O3kqvcIyqVq0JbE0Hnbmr")`,
		Effect:   builtin.Connect,
		Errors:   []fault.Kind{fault.Invalid},
		Defaults: repoArgs{Branch: "main", Author: "gsrun <gsrun@localhost>"},
		Run: func(_ context.Context, g *Git, a repoArgs) (any, error) {
			if g == nil {
				g = &Git{now: time.Now}
			}
			return g.open(a)
		},
	})
}

// authorForm matches Name <address>.
var authorForm = regexp.MustCompile(`^\s*([^<>\n]*[^<>\s])\s*<([^<>\s]+@[^<>\s]+)>\s*$`)

// branchForm matches the names that this module takes for a branch: fewer
// than git does.
var branchForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+=@/-]*$`)

func (g *Git) open(a repoArgs) (*Repo, error) {
	m := authorForm.FindStringSubmatch(a.Author)
	if m == nil {
		return nil, fault.Hinted(fault.Invalid, `write author = "Name <name@example.org>"`, "the author %q can't be read", a.Author)
	}
	if !branchForm.MatchString(a.Branch) || strings.Contains(a.Branch, "..") || strings.Contains(a.Branch, "//") ||
		strings.HasSuffix(a.Branch, "/") || strings.HasSuffix(a.Branch, ".lock") || strings.HasSuffix(a.Branch, ".") {
		return nil, fault.New(fault.Invalid, "%q can't be the name of a branch", a.Branch)
	}
	if a.URL.IsSecret() {
		return nil, fault.Hinted(fault.Invalid, "give the token alone as a secret: token = secret(...)", "a repository's URL can't be a secret")
	}
	r := &Repo{url: a.URL, branch: a.Branch, name: m[1], email: m[2], now: g.now, turn: make(chan struct{}, 1)}
	for _, t := range []effect.Text{a.URL, a.Key, a.HostKey, a.Token, a.CA} {
		r.later = r.later || !t.Known()
	}
	r.later = r.later || a.Via != nil && !a.Via.Known()
	if a.URL.Known() {
		u, err := client.ParseURL(a.URL.Reveal())
		if err != nil {
			return nil, err
		}
		r.id = client.Name(u)
	}
	if r.later {
		return r, nil
	}
	o := client.Options{Key: a.Key.Reveal(), HostKeys: a.HostKey.Reveal(), Token: a.Token.Reveal(), CA: a.CA.Reveal()}
	if a.Via != nil {
		o.Dialer = a.Via
	}
	var err error
	if r.remote, err = client.NewRemote(a.URL.Reveal(), o); err != nil {
		return nil, err
	}
	r.objects = client.NewObjects()
	g.mu.Lock()
	g.remotes = append(g.remotes, r.remote)
	g.mu.Unlock()
	return r, nil
}
