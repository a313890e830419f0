package ssh_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// echo returns the address of a server that reads all, and then sends it back.
func echo(t *testing.T) (addr string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer c.Close()
				all, _ := io.ReadAll(c) // what came before a break
				_, _ = c.Write(all)     // the test sees what arrives
			})
		}
	})
	stop = sync.OnceFunc(func() { l.Close(); work.Wait() })
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// through sends data to a local port, ends that way, and returns what comes back.
func through(t *testing.T, local *net.TCPAddr, data []byte) ([]byte, error) {
	t.Helper()
	c, err := net.DialTCP("tcp", nil, local)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(data)
		sent <- err
		_ = c.CloseWrite() // it may be reset
	}()
	got, err := io.ReadAll(c)
	if e := <-sent; err == nil {
		err = e
	}
	return got, err
}

func TestForwardedPort(t *testing.T) {
	_, cfg := daemon(t)
	addr, stop := echo(t)
	c := connect(t, cfg)
	local, err := c.Forward(bounded(t), addr)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.Forward(bounded(t), addr); err != nil || again.String() != local.String() || !local.IP.IsLoopback() {
		t.Errorf("%v and %v, %v", local, again, err)
	}
	data := bytes.Repeat([]byte("0123456789\x00\xff\n"), 100000)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if got, err := through(t, local, data); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes of %d came back: %v", len(got), len(data), err)
			}
		})
	}
	all.Wait()
	if c.Dials() != 1 {
		t.Errorf("%d connections", c.Dials())
	}
	stop()
	if got, err := through(t, local, data); err == nil {
		t.Errorf("%d bytes from nobody", len(got))
	}
	_, err = c.Forward(bounded(t), addr)
	want(t, err, fault.Unreachable, "can't connect to "+addr)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := net.DialTCP("tcp", nil, local); err == nil {
		t.Error("the port outlived its client")
	}
	_, err = c.Forward(bounded(t), addr)
	want(t, err, fault.Cancelled, "closed")
}

func TestForwardedPortOutlivesConnections(t *testing.T) {
	s, cfg := login(t, sshtest.Options{})
	_, other := login(t, sshtest.Options{Faults: sshtest.Faults{Greeting: "hello\n"}})
	c := connect(t, cfg)
	held, err := c.Forward(bounded(t), s.Addr()) // what leads to SSH ends with a side only
	if err != nil {
		t.Fatal(err)
	}
	local, err := c.Forward(bounded(t), fmt.Sprintf("%s:%d", other.Address, other.Port))
	if err != nil {
		t.Fatal(err)
	}
	open, err := net.DialTCP("tcp", nil, held)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	awaitTrue(t, func() bool { return len(s.Forwards()) == 3 }) // two trials, and this one
	greeting := func() (string, error) {
		c, err := net.DialTCP("tcp", nil, local)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		got, err := io.ReadAll(c)
		return string(got), err
	}
	if got, err := greeting(); got != "hello\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	s.Cut()
	_, _ = io.ReadAll(open) // how it ends is the network's matter
	awaitTrue(t, func() bool {
		got, err := greeting()
		return err == nil && got == "hello\n"
	})
	s.Set(sshtest.Faults{NoForward: true})
	if got, err := greeting(); err == nil {
		t.Errorf("%q from a host that doesn't forward", got)
	}
	_, err = c.Forward(bounded(t), s.Addr())
	want(t, err, fault.Denied, "doesn't forward")
}
