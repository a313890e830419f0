package control

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// socketLength is what every system can take as a unix socket's name.
const socketLength = 100

// webhooks answers, in place of the pods behind Services, what the API server sends to them. A
// Service without a ready pod refuses the connection.
type webhooks struct {
	*engine
	mu    sync.Mutex
	signs map[string]*tls.Certificate // by host name; those that no Secret holds
}

// A dialled is a connection to a Service.
type dialled struct {
	net.Conn
	service *object
}

// serve answers on the socket until ctx ends.
func (w *webhooks) serve(ctx context.Context) error {
	if w.Socket == "" {
		return nil
	}
	w.signs = map[string]*tls.Certificate{}
	listener, err := listenUnix(w.Socket)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", w.Socket, err)
	}
	inner := &queueListener{conns: make(chan net.Conn), closed: make(chan struct{}), address: listener.Addr()}
	type serviceKey struct{}
	answers := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          quiet(),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if c, ok := c.(*tls.Conn); ok {
				if d, ok := c.NetConn().(*dialled); ok {
					return context.WithValue(ctx, serviceKey{}, d.service)
				}
			}
			return ctx
		},
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			service, _ := r.Context().Value(serviceKey{}).(*object)
			if service == nil || len(w.backends(service)) == 0 {
				// The pod behind a connection that was kept open is gone.
				panic(http.ErrAbortHandler)
			}
			w.review(rw, r)
		}),
	}
	connects := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          quiet(),
		Handler:           http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.connect(rw, r, inner) }),
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return served(connects.Serve(listener)) })
	group.Go(func() error { return served(answers.Serve(inner)) })
	group.Go(func() error {
		<-ctx.Done()
		return errors.Join(connects.Close(), answers.Close())
	})
	return group.Wait()
}

func served(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// connect answers a CONNECT to a Service's address.
func (w *webhooks) connect(rw http.ResponseWriter, r *http.Request, inner *queueListener) {
	if r.Method != http.MethodConnect {
		http.Error(rw, "only CONNECT is answered here", http.StatusMethodNotAllowed)
		return
	}
	address, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	found := w.list(services, "", func(o *object) bool { return text(o.Object, "spec", "clusterIP") == address })
	answer := "200 Connection established"
	switch {
	case len(found) == 0:
		answer = "502 dial tcp " + r.Host + ": connect: no route to host"
	case len(w.backends(found[0])) == 0:
		answer = "502 dial tcp " + r.Host + ": connect: connection refused"
	}
	// The API server repeats the status line alone, so that the reason has to stand there.
	conn, _, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = conn.SetDeadline(time.Time{})
	_, err = io.WriteString(conn, "HTTP/1.1 "+answer+"\r\n\r\n")
	if err != nil || !strings.HasPrefix(answer, "200") {
		_ = conn.Close()
		return
	}
	service := found[0]
	inner.put(tls.Server(&dialled{Conn: conn, service: service}, &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return w.certificate(hello.Context(), service, hello.ServerName)
		},
	}))
}

// backends returns the pods behind a Service that answer: the ready ones, or else, as kube-proxy
// has it, those that are ending but still serve.
func (w *webhooks) backends(service *object) []*object {
	var ready, ending []*object
	for _, slice := range w.list(slicesOf, service.GetNamespace(), func(o *object) bool {
		return o.GetLabels()["kubernetes.io/service-name"] == service.GetName()
	}) {
		for _, endpoint := range array(slice.Object, "endpoints") {
			pod, _ := w.get(pods, service.GetNamespace(), text(endpoint, "targetRef", "name"))
			conditions := table(endpoint, "conditions")
			switch {
			case pod == nil:
			case conditions["ready"] == true:
				ready = append(ready, pod)
			case conditions["serving"] == true && conditions["terminating"] == true:
				ending = append(ending, pod)
			}
		}
	}
	if len(ready) > 0 {
		return ready
	}
	return ending
}

// certificate returns what the pods behind service serve with: the pair in a Secret that they
// mount, or, for cert-manager's own webhook, one that it signs for itself.
func (w *webhooks) certificate(ctx context.Context, service *object, host string) (*tls.Certificate, error) {
	for _, pod := range w.backends(service) {
		for _, volume := range array(pod.Object, "spec", "volumes") {
			secret, _ := w.get(secrets, service.GetNamespace(), text(volume, "secret", "secretName"))
			if cert := data(secret, "tls.crt"); cert != nil {
				made, err := tls.X509KeyPair(cert, data(secret, "tls.key"))
				return &made, err
			}
		}
		if strings.HasPrefix(pod.GetName(), "cert-manager-webhook-") {
			return w.ownCertificate(ctx, service.GetNamespace(), host)
		}
	}
	return nil, fmt.Errorf("the pods behind %s/%s have no certificate", service.GetNamespace(), service.GetName())
}

func (w *webhooks) ownCertificate(ctx context.Context, namespace, host string) (*tls.Certificate, error) {
	by, err := (&certManager{w.engine}).authority(ctx, namespace)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	id := host + string(by.cert)
	if made := w.signs[id]; made != nil {
		return made, nil
	}
	signed, err := sign(w.Clock.Now(), subject{name: host, hosts: []string{host}}, by)
	if err != nil {
		return nil, err
	}
	made, err := tls.X509KeyPair(signed.cert, signed.key)
	if err != nil {
		return nil, err
	}
	w.signs[id] = &made
	return &made, nil
}

// listenUnix listens on a unix socket, and replaces one that nobody listens on any more. A name
// that is too long for the system is reached by way of its open folder.
func listenUnix(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if len(path) <= socketLength {
		return net.Listen("unix", path)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}

// A queueListener hands on connections that were accepted elsewhere.
type queueListener struct {
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
	address net.Addr
}

func (l *queueListener) put(c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.closed:
		_ = c.Close()
	}
}

// Accept returns the next connection.
func (l *queueListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (l *queueListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is that of the outer listener.
func (l *queueListener) Addr() net.Addr { return l.address }
