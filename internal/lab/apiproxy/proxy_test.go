package apiproxy_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/apiproxy"
	"git.vanillacore.net/govstack/gsrun/internal/lab/apiserver"
	"git.vanillacore.net/govstack/gsrun/internal/lab/inject"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
)

// rig is an API server with a proxy in front.
type rig struct {
	t       *testing.T
	cluster *apiserver.Cluster
	proxy   *apiproxy.Proxy
	faults  *inject.Set[apiproxy.Fault]
	address string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	skip.Slow(t, "it starts an API server")
	_, err := apiserver.Build(t.Context(), "", "", func(s string) { t.Log(s) })
	if err != nil {
		skip.Unless(t, false, "faults of a real API server", "it can't be built: "+err.Error())
	}
	r := &rig{t: t, faults: apiproxy.NewFaults()}
	if r.cluster, err = apiserver.Start(t.Context(), apiserver.Config{Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	if r.proxy, err = apiproxy.New(apiproxy.Config{Cluster: r.cluster, Address: r.cluster.Address, Host: "lab-seed", Faults: r.faults}); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.address = l.Addr().String()
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer conn.Close()
				r.proxy.Serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.proxy.Close()
		work.Wait()
	})
	return r
}

// client returns one of a user's own, with no connection yet.
func (r *rig) client(user string, change func(*rest.Config)) kubernetes.Interface {
	r.t.Helper()
	conf, err := r.cluster.REST(user, "system:masters")
	if err != nil {
		r.t.Fatal(err)
	}
	conf.Host = "https://" + r.address
	// A dialler keeps transports from being shared between clients.
	conf.Dial = new(net.Dialer).DialContext
	conf.ContentType = "application/json"
	if change != nil {
		change(conf)
	}
	c, err := kubernetes.NewForConfig(conf)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *rig) inject(f apiproxy.Fault) {
	r.t.Helper()
	if _, err := apiproxy.Inject(r.faults, f); err != nil {
		r.t.Fatal(err)
	}
	r.proxy.Break()
}

// make makes a ConfigMap.
func (r *rig) make(c kubernetes.Interface, name string) error {
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	_, err := c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

func (r *rig) exists(name string) bool {
	direct, err := r.cluster.Control()
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = kubernetes.NewForConfigOrDie(direct).CoreV1().ConfigMaps("default").Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		r.t.Fatal(err)
	}
	return err == nil
}

// TestProxy runs the tests that share one API server.
func TestProxy(t *testing.T) {
	r := newRig(t)
	for name, test := range map[string]func(*testing.T, *rig){"requests": testRequests, "watches": testWatches, "users": testUsers} {
		r.faults.Clear("")
		t.Run(name, func(t *testing.T) {
			r := *r
			r.t = t
			test(t, &r)
		})
	}
}

func testRequests(t *testing.T, r *rig) {
	c := r.client("operator", nil)
	for name, test := range map[string]struct {
		fault  apiproxy.Fault
		is     func(error) bool // what the request fails with; nil if it doesn't
		effect bool
	}{
		"conflict":     {apiproxy.Fault{Status: 409}, apierrors.IsConflict, false},
		"effect":       {apiproxy.Fault{Status: 500, Effect: true}, apierrors.IsInternalError, true},
		"unavailable":  {apiproxy.Fault{Status: 503, Message: "no"}, apierrors.IsServiceUnavailable, false},
		"reset-before": {apiproxy.Fault{Reset: "before"}, broken, false},
		"reset-after":  {apiproxy.Fault{Reset: "after"}, broken, true},
		"cut":          {apiproxy.Fault{Cut: true}, broken, true},
		"slow":         {apiproxy.Fault{DelayMS: 1}, nil, true},
		"elsewhere":    {apiproxy.Fault{Status: 409, Host: "other-*"}, nil, true},
		"other-path":   {apiproxy.Fault{Status: 409, Path: "/secrets"}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := r.make(c, name+"-undisturbed"); err != nil {
				t.Fatal(err)
			}
			test.fault.Method = http.MethodPost
			r.inject(test.fault)
			// The connection that was made while there was no fault is broken.
			c := r.client("operator", nil)
			err := r.make(c, name)
			if test.is == nil && err != nil || test.is != nil && (err == nil || !test.is(err)) {
				t.Errorf("got %v", err)
			}
			if got := r.exists(name); got != test.effect {
				t.Errorf("it is there: %v, want %v", got, test.effect)
			}
			r.faults.Clear("")
			if err := r.make(c, name+"-later"); err != nil {
				t.Errorf("later: %v", err)
			}
		})
	}
}

func broken(err error) bool {
	var status apierrors.APIStatus
	return err != nil && !errors.As(err, &status)
}

// A watch ends in good order, as an API server ends it when its time is up.
func testWatches(t *testing.T, r *rig) {
	c := r.client("operator", nil)
	for _, f := range []apiproxy.Fault{{End: true}, {End: true, DelayMS: 20}} {
		r.inject(f)
		w, err := c.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for range w.ResultChan() {
			n++
		}
		if f.DelayMS == 0 && n != 1 {
			t.Errorf("%d events before the end", n)
		}
	}
	if all := r.faults.List(); all[0].Hits != 1 || all[1].Hits != 1 {
		t.Errorf("%+v", all)
	}
}

// What the proxy passes on is asked by the same user, be it by certificate or
// by token.
func testUsers(t *testing.T, r *rig) {
	who := func(c kubernetes.Interface) string {
		t.Helper()
		got, err := c.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return got.Status.UserInfo.Username + " " + strings.Join(got.Status.UserInfo.Groups, ",")
	}
	token, err := r.client("operator", nil).CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	byToken := func(conf *rest.Config) {
		conf.CertData, conf.KeyData, conf.BearerToken = nil, nil, token.Status.Token
	}
	users := map[string]func(*rest.Config){"operator": nil, "other": nil, "": byToken}
	direct := make(map[string]string)
	for user, change := range users {
		direct[user] = who(r.client(user, change))
	}
	if !strings.HasPrefix(direct["operator"], "operator system:masters") || !strings.HasPrefix(direct[""], "system:serviceaccount:default:default ") {
		t.Fatalf("without faults: %q", direct)
	}
	r.inject(apiproxy.Fault{Path: "/never", Status: 500})
	for user, change := range users {
		if got := who(r.client(user, change)); got != direct[user] {
			t.Errorf("by way of the proxy %q, else %q", got, direct[user])
		}
	}
}

func TestBadFaults(t *testing.T) {
	for _, f := range []apiproxy.Fault{{}, {Path: "(", Status: 500}, {Host: "[", Status: 500}, {Status: 200}, {Reset: "never"}} {
		if _, err := apiproxy.Inject(apiproxy.NewFaults(), f); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", f, err)
		}
	}
}
