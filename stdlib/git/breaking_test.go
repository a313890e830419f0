package git_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// breaking is a dialer whose connections break when the server's report on a
// push arrives.
type breaking struct {
	armed, broke atomic.Bool
}

func (b *breaking) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	return &breakingConn{Conn: c, b: b}, err
}
func (*breaking) Via() string { return "test" }
func (*breaking) Known() bool { return true }

type breakingConn struct {
	net.Conn
	b    *breaking
	sent atomic.Int64
}

func (c *breakingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if c.b.armed.Load() {
		c.sent.Add(int64(n))
	}
	return n, err
}

func (c *breakingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	// The pack was sent: what comes now is the answer.
	if c.sent.Load() > 300 && c.b.broke.CompareAndSwap(false, true) {
		c.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// handleOf returns the dialer as a recipe would get one.
func handleOf(t *testing.T, d effect.Dialer) starlark.Value {
	t.Helper()
	type args struct{}
	m := builtin.NewModule(builtin.Module{Name: "way", Doc: "A way.", Types: []*builtin.Type{{Name: "way.dialer", Doc: "A dialer.", Of: builtin.TypeOf[*breaking]()}},
		Funcs: []builtin.Func{builtin.Of(builtin.Spec[any, args]{Name: "open", Doc: "Open.", Returns: "way.dialer", Example: "way.open()", Effect: builtin.Pure,
			Run: func(context.Context, any, args) (any, error) { return d, nil }})}})
	open, err := m.Value().(starlark.HasAttrs).Attr("open")
	if err != nil {
		t.Fatal(err)
	}
	v, err := starlark.Call(&starlark.Thread{}, open, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
