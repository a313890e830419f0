package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// sshTransport runs the services by SSH, all over one connection.
type sshTransport struct {
	addr   string
	path   string
	config *ssh.ClientConfig
	dialer Dialer
	client *ssh.Client
}

func newSSH(u *url.URL, o Options) (*sshTransport, error) {
	if o.Key == "" {
		return nil, fault.Hinted(fault.Invalid, "give the private key of a deploy key: key = secret(...)", "SSH needs a key")
	}
	signer, err := ssh.ParsePrivateKey([]byte(o.Key))
	if err != nil {
		var locked *ssh.PassphraseMissingError
		if errors.As(err, &locked) {
			return nil, fault.Hinted(fault.Invalid, "use a key without a passphrase, kept as a secret", "the private key is protected by a passphrase")
		}
		return nil, fault.Hinted(fault.Invalid, "give it in OpenSSH's form, whole", "the private key can't be read: %v", err)
	}
	keys, err := parseHostKeys(o.HostKeys)
	if err != nil {
		return nil, err
	}
	user := "git"
	if name := u.User.Username(); name != "" {
		user = name
	}
	port := u.Port()
	if port == "" {
		port = "22"
	}
	return &sshTransport{addr: net.JoinHostPort(u.Hostname(), port), path: u.Path, dialer: o.Dialer,
		config: &ssh.ClientConfig{User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)},
			HostKeyCallback: matchHostKey(keys), HostKeyAlgorithms: algorithms(keys), ClientVersion: "SSH-2.0-gsrun"}}, nil
}

// parseHostKeys reads the keys that a server may have: lines of
// authorized_keys, or of known_hosts, whose names are ignored.
func parseHostKeys(text string) ([]ssh.PublicKey, error) {
	const hint = "give the server's public key, as `ssh-keyscan` shows it, from a trusted place: host_key = \"ssh-ed25519 AAAA...\""
	var keys []ssh.PublicKey
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line)); err == nil {
			keys = append(keys, key)
			continue
		}
		marker, _, key, _, _, err := ssh.ParseKnownHosts([]byte(line))
		if err != nil || marker != "" {
			return nil, fault.Hinted(fault.Invalid, hint, "the host key %q can't be read", line)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fault.Hinted(fault.Invalid, hint, "SSH needs the server's host key")
	}
	return keys, nil
}

// matchHostKey accepts exactly the keys given.
func matchHostKey(keys []ssh.PublicKey) ssh.HostKeyCallback {
	return func(host string, _ net.Addr, got ssh.PublicKey) error {
		var known []string
		for _, k := range keys {
			if bytes.Equal(k.Marshal(), got.Marshal()) {
				return nil
			}
			known = append(known, k.Type()+" "+ssh.FingerprintSHA256(k))
		}
		return fault.Hinted(fault.Untrusted, "if the server's key was changed on purpose, give the new one; otherwise somebody may be in between",
			"the host key of %s is %s %s, want %s", host, got.Type(), ssh.FingerprintSHA256(got), strings.Join(known, " or "))
	}
}

// algorithms asks the server for a key of a type that can be checked.
func algorithms(keys []ssh.PublicKey) []string {
	var out []string
	for _, k := range keys {
		if k.Type() == ssh.KeyAlgoRSA {
			out = append(out, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		out = append(out, k.Type())
	}
	return out
}

func (t *sshTransport) Close() error {
	if t.client == nil {
		return nil
	}
	err := t.client.Close()
	t.client = nil
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (t *sshTransport) dial(ctx context.Context) (*ssh.Client, error) {
	dctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, fault.New(fault.Unreachable, "no SSH connection within %s", dialTimeout))
	defer cancel()
	dial := (&net.Dialer{}).DialContext
	if t.dialer != nil {
		dial = t.dialer.DialContext
	}
	conn, err := dial(dctx, "tcp", t.addr)
	if err != nil {
		return nil, dialError(dctx, err)
	}
	stop := context.AfterFunc(dctx, func() { conn.Close() })
	c, chans, reqs, err := ssh.NewClientConn(conn, t.addr, t.config)
	if !stop() && err == nil {
		err = dctx.Err()
		c.Close()
	}
	if err != nil {
		conn.Close()
		return nil, dialError(dctx, err)
	}
	return ssh.NewClient(c, chans, reqs), nil
}

func dialError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fault.FromContext(ctx)
	}
	var own *fault.Error
	if errors.As(err, &own) {
		return own
	}
	if text := err.Error(); strings.Contains(text, "unable to authenticate") {
		return fault.Hinted(fault.Denied, "add the public key to the repository as a deploy key (with write access, to push)", "the server refuses the key: %w", err)
	} else if strings.Contains(text, "no common algorithm for host key") {
		return fault.Hinted(fault.Untrusted, "give the key of a type that the server has", "the server has no host key of the type that was given: %w", err)
	}
	return fault.Hinted(fault.Unreachable, "check host, port and network", "%w", err)
}

func (t *sshTransport) open(ctx context.Context, service string) (exchange, error) {
	var session *ssh.Session
	var err error
	if t.client != nil {
		if session, err = t.client.NewSession(); err != nil {
			t.Close() // the server ended it while it was idle
		}
	}
	if session == nil {
		if t.client, err = t.dial(ctx); err != nil {
			t.client = nil
			return nil, err
		}
		if session, err = t.client.NewSession(); err != nil {
			t.Close()
			return nil, fault.New(fault.Unreachable, "no SSH session: %w", err)
		}
	}
	x := &sshExchange{ctx: ctx, client: t.client, session: session, service: service}
	x.stdin, err = session.StdinPipe()
	if err == nil {
		var out io.Reader
		if out, err = session.StdoutPipe(); err == nil {
			x.stdout = watch(out, x.abort)
		}
	}
	session.Stderr = &x.stderr
	x.stop = context.AfterFunc(ctx, x.abort)
	if err == nil {
		err = session.Start(service + " " + quote(t.path))
	}
	if err != nil {
		x.close()
		return nil, x.explain(err)
	}
	return x, nil
}

// quote writes s for the server's shell, or what plays its part.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

type sshExchange struct {
	ctx     context.Context
	client  *ssh.Client
	session *ssh.Session
	service string
	stdin   io.WriteCloser
	stdout  *watched
	stderr  limited
	stop    func() bool
	aborted sync.Once
}

// abort closes the connection, which ends all reads and writes on it.
func (x *sshExchange) abort() { x.aborted.Do(func() { x.client.Close() }) }

func (x *sshExchange) references() io.Reader { return x.stdout }

func (x *sshExchange) send(request io.Reader) (io.Reader, error) {
	// What net/http tells of a request is told here, too.
	trace := httptrace.ContextClientTrace(x.ctx)
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(x.client.RemoteAddr().String())
	}
	_, err := io.Copy(x.stdin, request)
	if err == nil {
		err = x.stdin.Close()
	}
	if trace != nil && trace.WroteRequest != nil {
		trace.WroteRequest(httptrace.WroteRequestInfo{Err: err})
	}
	return x.stdout, err
}

func (x *sshExchange) close() {
	x.stop()
	if x.stdout != nil {
		x.stdout.timer.Stop()
	}
	x.session.Close()
}

// explain waits for the command's end, and judges by what it wrote.
func (x *sshExchange) explain(err error) error {
	if cerr := fault.FromContext(x.ctx); cerr != nil {
		return cerr
	}
	var own *fault.Error
	if errors.As(err, &own) {
		return own
	}
	if x.stdin != nil {
		x.stdin.Close()
	}
	// The server closes the channel after it wrote why; one that doesn't is
	// not waited for long.
	ended := time.AfterFunc(5*time.Second, x.abort)
	var werr error
	if x.stdout != nil {
		_, _ = io.Copy(io.Discard, x.stdout)
		werr = x.session.Wait()
	}
	ended.Stop()
	if cerr := fault.FromContext(x.ctx); cerr != nil {
		return cerr
	}
	said := x.stderr.String()
	if said != "" {
		return refusal(said, err)
	}
	var exit *ssh.ExitError
	if errors.As(werr, &exit) {
		return fault.New(fault.Failed, "%s ended with status %d: %w", x.service, exit.ExitStatus(), err)
	}
	return fault.New(fault.Unreachable, "the connection broke: %w", err)
}

// limited keeps the first bytes that are written to it.
type limited struct {
	mu sync.Mutex
	b  bytes.Buffer
}

const maxSaid = 4096

func (l *limited) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := maxSaid - l.b.Len(); room > 0 {
		l.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (l *limited) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(l.b.String())
}

// refusal returns what a Git server said, as an error of the kind that the
// usual texts of Git and of the forges mean.
func refusal(said string, cause error) error {
	said = strings.Join(strings.Fields(strings.NewReplacer("\r", "\n", "remote: ", "").Replace(said)), " ")
	low := strings.ToLower(said)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(low, p) {
				return true
			}
		}
		return false
	}
	e := fault.New(fault.Failed, "the server says: %s", said)
	switch {
	case has("does not appear to be a git repository", "repository not found", "no such repository", "cannot find repository",
		"could not be found", "does not exist", "not found"):
		e.Kind, e.Hint = fault.NotFound, "check the path, and that the key may read the repository: some servers say this of one that it may not"
	case has("denied", "not allowed", "unauthorized", "not authorized", "permission", "read-only", "read only", "declined", "protected branch", "forbidden"):
		e.Kind, e.Hint = fault.Denied, "check that the key or token may write here, and the rules of the branch"
	case has("too many", "try again", "temporarily", "unavailable", "timed out", "internal server error"):
		e.Kind = fault.Unavailable
	case has("non-fast-forward", "fetch first", "failed to update ref", "cannot lock ref", "failed to lock", "incorrect old value",
		"stale info", "reference already exists", "but expected", "not our ref"):
		e.Kind = fault.Conflict
	}
	if cause != nil {
		e.Err = fmt.Errorf("%w (%w)", e.Err, cause)
	}
	return e
}
