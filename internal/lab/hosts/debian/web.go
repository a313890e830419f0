package debian

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

// get makes an HTTP request: to a host of the lab by its networks, or outside
// by the hook that the lab has given.
func (s *System) get(ctx context.Context, method, address string, header http.Header, insecure bool, body io.Reader) (int, []byte, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return 0, nil, errors.New("URL rejected: Malformed input to a URL function")
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if (err == nil || u.Hostname() == "localhost") && s.Config.Dial != nil {
		client := &http.Client{Transport: &http.Transport{
			DialContext:       func(ctx context.Context, _, addr string) (net.Conn, error) { return s.Config.Dial(ctx, addr) },
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: insecure},
			DisableKeepAlives: true,
		}}
		req, err := http.NewRequestWithContext(ctx, method, address, body)
		if err != nil {
			return 0, nil, err
		}
		for k, v := range header {
			req.Header[k] = v
		}
		resp, err := client.Do(req)
		if err == nil {
			defer resp.Body.Close()
			data, err := io.ReadAll(resp.Body)
			return resp.StatusCode, data, err
		}
		// Loopback is where the lab's own services listen.
		outside := errors.Is(err, syscall.ENETUNREACH) || ip.IsLoopback() && errors.Is(err, syscall.ECONNREFUSED)
		if s.Config.Fetch == nil || !outside {
			return 0, nil, err
		}
	}
	if s.Config.Fetch == nil {
		return 0, nil, fmt.Errorf("Could not resolve host: %s", u.Hostname())
	}
	return s.Config.Fetch(ctx, method, address)
}

func (s *System) curl(ctx context.Context, p *machine.Proc) int {
	o := p.Options("f|fail s|silent S|show-error L|location o|output: O|remote-name k|insecure X|request: H|header: I|head w|write-out: m|max-time: retry: retry-delay: " +
		"retry-connrefused retry-all-errors connect-timeout: d|data: cacert: cert: key: v|verbose u|user: A: 4|ipv4 6|ipv6 V|version create-dirs noproxy: tlsv1.2 proto: fail-with-body g T: compressed")
	if o == nil {
		return 2
	}
	if o.Has("V") {
		p.Printf("curl 7.88.1 (x86_64-pc-linux-gnu)\n")
		return 0
	}
	if len(o.Args) == 0 {
		return p.Fail(2, "no URL specified!")
	}
	if d, err := strconv.ParseFloat(o.Get("m"), 64); err == nil && d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(d*float64(time.Second)))
		defer cancel()
	}
	method := http.MethodGet
	var body io.Reader
	switch {
	case o.Has("X"):
		method = o.Get("X")
	case o.Has("I"):
		method = http.MethodHead
	case o.Has("d"):
		method = http.MethodPost
	}
	if o.Has("d") {
		body = strings.NewReader(o.Get("d"))
	}
	header := http.Header{}
	for _, h := range o.All("H") {
		if k, v, ok := strings.Cut(h, ":"); ok {
			header.Set(k, strings.TrimSpace(v))
		}
	}
	for _, address := range o.Args {
		if !strings.Contains(address, "://") {
			address = "http://" + address
		}
		status, data, err := s.get(ctx, method, address, header, o.Has("k"), body)
		loud := !o.Has("s") || o.Has("S")
		if err != nil {
			code := 6
			switch {
			case ctx.Err() != nil:
				code, err = 28, errors.New("Operation timed out")
			case errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH):
				code = 7
			case strings.Contains(err.Error(), "certificate"):
				code = 60
			}
			if loud {
				fmt.Fprintf(p.Stderr, "curl: (%d) %v\n", code, err)
			}
			return code
		}
		if status >= 400 && o.Has("f") {
			if loud {
				fmt.Fprintf(p.Stderr, "curl: (22) The requested URL returned error: %d\n", status)
			}
			return 22
		}
		out := o.Get("o")
		if o.Has("O") {
			out = path.Base(address)
		}
		switch out {
		case "", "-":
			_, _ = p.Write(data)
		default:
			w, err := p.Open(ctx, out, 0x241, 0o666) // write, create, truncate
			if err == nil {
				_, err = w.Write(data)
				if cerr := w.Close(); err == nil {
					err = cerr
				}
			}
			if err != nil {
				fmt.Fprintf(p.Stderr, "curl: (23) Failure writing output to destination: %s\n", machine.Strerror(err))
				return 23
			}
		}
		if w := o.Get("w"); w != "" {
			p.Printf("%s", strings.NewReplacer("%{http_code}", strconv.Itoa(status), "%{response_code}", strconv.Itoa(status), `\n`, "\n").Replace(w))
		}
	}
	return 0
}

func (s *System) wget(ctx context.Context, p *machine.Proc) int {
	o := p.Options("q|quiet O|output-document: nv no-check-certificate c P: t|tries: T|timeout: S show-progress n:")
	if o == nil || len(o.Args) == 0 {
		return p.Fail(1, "missing URL")
	}
	status, data, err := s.get(ctx, http.MethodGet, o.Args[0], nil, o.Has("no-check-certificate"), nil)
	if err != nil {
		return p.Fail(4, "unable to resolve host address")
	}
	if status >= 400 {
		return p.Fail(8, "ERROR %d", status)
	}
	out := o.Get("O")
	if out == "" {
		out = path.Base(o.Args[0])
	}
	if out == "-" {
		_, _ = p.Write(data)
		return 0
	}
	if err := s.FS.WriteFile(p.Cred, p.Abs(out), data, 0o666&^p.Umask); err != nil {
		return p.Fail(3, "%s: %s", out, machine.Strerror(err))
	}
	return 0
}

// nc tells whether a port answers, or connects to it.
func (s *System) nc(ctx context.Context, p *machine.Proc) int {
	o := p.Options("z v w: n q: N 4 6 u")
	if o == nil || len(o.Args) != 2 {
		fmt.Fprintln(p.Stderr, "usage: nc [-zv] [-w timeout] destination port")
		return 1
	}
	if d, err := strconv.Atoi(o.Get("w")); err == nil && d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(d)*time.Second)
		defer cancel()
	}
	target := net.JoinHostPort(o.Args[0], o.Args[1])
	fail := func(err error) int {
		if o.Has("v") {
			text := machine.Strerror(err)
			if ctx.Err() != nil {
				text = "Connection timed out"
			}
			fmt.Fprintf(p.Stderr, "nc: connect to %s port %s (tcp) failed: %s\n", o.Args[0], o.Args[1], text)
		}
		return 1
	}
	if s.Config.Dial == nil {
		return fail(syscall.ENETUNREACH)
	}
	conn, err := s.Config.Dial(ctx, target)
	if err != nil {
		return fail(err)
	}
	defer conn.Close()
	if o.Has("v") {
		fmt.Fprintf(p.Stderr, "Connection to %s %s port [tcp/*] succeeded!\n", o.Args[0], o.Args[1])
	}
	if o.Has("z") {
		return 0
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	sending, enough := context.WithCancel(ctx)
	var send sync.WaitGroup
	defer send.Wait()
	defer enough()
	send.Go(func() {
		if _, err := io.Copy(conn, p.In(sending)); err != nil {
			return
		}
		if hc, ok := conn.(interface{ CloseWrite() error }); ok {
			// The peer may have gone already.
			_ = hc.CloseWrite()
		}
	})
	_, err = io.Copy(p, conn)
	conn.Close()
	if err != nil {
		return 1
	}
	return 0
}
