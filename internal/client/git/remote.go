// Package git speaks Git's protocol to a server over SSH and HTTP, and reads
// and makes commits in memory. It uses nothing of the machine's: no git
// program, no configuration, no known hosts, no proxy of the environment.
package git

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Hash is the SHA-1 of a Git object.
type Hash = plumbing.Hash

// A Dialer opens connections through somewhere else.
type Dialer interface {
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
}

// Options says how a Remote is reached. What fits the URL's scheme is used.
type Options struct {
	Key      string // SSH: private key, PEM
	HostKeys string // SSH: lines of authorized_keys or known_hosts, one of which the server must have
	Token    string // HTTP: password or access token
	CA       string // HTTPS: certificates to trust instead of the machine's, PEM
	Dialer   Dialer // nil connects directly
}

// A Remote is a repository on a server. It is used by one goroutine at a time.
type Remote struct {
	url       *url.URL
	transport transport
}

// idleTimeout is how long a server may send nothing before the connection
// counts as broken.
const idleTimeout = 2 * time.Minute

// dialTimeout bounds connecting and authenticating.
const dialTimeout = 30 * time.Second

// The services of a Git server.
const (
	uploadPack  = "git-upload-pack"
	receivePack = "git-receive-pack"
)

// A transport starts services on the server.
type transport interface {
	// open starts the service, which then sends its references.
	open(ctx context.Context, service string) (exchange, error)
	Close() error
}

// An exchange is one conversation with a service.
type exchange interface {
	// references is what the service sends first.
	references() io.Reader
	// send sends the request, after which no more follows, and returns the
	// answer.
	send(request io.Reader) (io.Reader, error)
	// explain returns err with what the server said besides, as an error of a
	// kind.
	explain(err error) error
	// close ends the conversation.
	close()
}

// scpLike matches user@host:path.
var scpLike = regexp.MustCompile(`^(?:([A-Za-z0-9._-]+)@)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([^/].*|/[^/].*)$`)

// ParseURL reads the URL of a repository: ssh://user@host:port/path,
// user@host:path, https:// or http://. Errors are of kind Invalid.
func ParseURL(raw string) (*url.URL, error) {
	refuse := func(format string, args ...any) error {
		return &fault.Error{Op: "reading repository URL", Kind: fault.Invalid,
			Hint: "write ssh://git@HOST[:PORT]/PATH, git@HOST:PATH or https://HOST/PATH", Err: fmt.Errorf(format, args...)}
	}
	if strings.ContainsAny(raw, "\x00\n\r ") {
		return nil, refuse("%q has blanks in it", raw)
	}
	if m := scpLike.FindStringSubmatch(raw); m != nil && !strings.Contains(raw, "://") {
		// Without a slash the path is relative to the user's home, and is sent so.
		u := &url.URL{Scheme: "ssh", Host: m[2], Path: m[3]}
		if m[1] != "" {
			u.User = url.User(m[1])
		}
		return u, nil
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, refuse("it is no URL") // the library's message quotes it, password included
	}
	if _, has := u.User.Password(); has {
		return nil, refuse("the URL of %s has a password in it: give it as token = secret(...)", u.Host)
	}
	switch u.Scheme {
	case "ssh", "https", "http":
	default:
		return nil, refuse("scheme %q of %q isn't spoken", u.Scheme, u.Redacted())
	}
	if u.Host == "" || strings.Trim(u.Path, "/") == "" {
		return nil, refuse("%q names no host or no path", u.Redacted())
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, refuse("%q has a query or fragment", u.Redacted())
	}
	return u, nil
}

// NewRemote returns the repository at a URL that ParseURL takes. It doesn't
// connect yet. Errors are of kind Invalid.
func NewRemote(raw string, o Options) (*Remote, error) {
	u, err := ParseURL(raw)
	if err != nil {
		return nil, err
	}
	r := &Remote{url: u}
	switch u.Scheme {
	case "ssh":
		r.transport, err = newSSH(u, o)
	default:
		r.transport, err = newHTTP(u, o)
	}
	if err != nil {
		return nil, fault.Wrap("preparing for", r.Name(), err)
	}
	return r, nil
}

// Name returns the repository's host and path, for people and as its identity.
func (r *Remote) Name() string { return Name(r.url) }

// Name returns host and path of a repository's URL, without what isn't part of
// its identity.
func Name(u *url.URL) string {
	return u.Host + "/" + strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")
}

// Close ends the connection, if there is one.
func (r *Remote) Close() error { return r.transport.Close() }

// watch returns a reader of r that ends with an error once nothing was read
// for idleTimeout, by calling stop.
func watch(r io.Reader, stop func()) *watched {
	return &watched{r: r, timer: time.AfterFunc(idleTimeout, stop)}
}

type watched struct {
	r     io.Reader
	timer *time.Timer
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil {
		w.timer.Stop()
	} else {
		w.timer.Reset(idleTimeout)
	}
	return n, err
}
