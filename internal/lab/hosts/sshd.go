package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// serverVersion is how Debian 12's SSH server introduces itself.
const serverVersion = "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u5"

// defaultMaxSessions is sshd's MaxSessions.
const defaultMaxSessions = 10

// sshd serves one connection until it ends.
func (h *Host) sshd(conn net.Conn) {
	h.mu.Lock()
	power, mute := h.power, h.sick.Mute
	keys := h.keys
	h.mu.Unlock()
	if mute {
		h.hit(func(f *Fault) bool { return f.Mute })
		// Accepted, but nobody answers.
		_, _ = io.Copy(io.Discard, conn)
		return
	}
	cfg := &ssh.ServerConfig{
		ServerVersion: serverVersion,
		MaxAuthTries:  6,
		PublicKeyCallback: func(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			return nil, h.authorize(meta.User(), key)
		},
	}
	for _, k := range keys {
		cfg.AddHostKey(k)
	}
	sc, channels, requests, err := ssh.NewServerConn(conn, cfg)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancelCause(power)
	c := &connection{host: h, power: power, ctx: ctx, conn: sc, user: sc.User()}
	c.work.Go(func() { ssh.DiscardRequests(requests) })
	for nc := range channels {
		switch nc.ChannelType() {
		case "session":
			c.session(nc)
		case "direct-tcpip":
			c.forward(nc)
		default:
			// The peer is gone if this fails; the loop then ends.
			_ = nc.Reject(ssh.UnknownChannelType, "unknown channel type")
		}
	}
	cancel(nil)
	c.work.Wait()
}

// A connection is one login.
type connection struct {
	host     *Host
	power    context.Context // of the host; what runs outlives the connection
	ctx      context.Context
	conn     *ssh.ServerConn
	user     string
	sessions atomic.Int32
	work     sync.WaitGroup
}

var errKey = errors.New("permission denied (publickey)")

// authorize looks a key up in the user's authorized_keys.
func (h *Host) authorize(name string, key ssh.PublicKey) error {
	u, ok := h.sys.LookupUser(name)
	if !ok || u.Name != name || strings.HasSuffix(u.Shell, "/nologin") || strings.HasSuffix(u.Shell, "/false") {
		return errKey
	}
	file := u.Home + "/.ssh/authorized_keys"
	// StrictModes: nobody else may write to the file.
	info, err := h.sys.FS.Stat(tree.Root(), file, true)
	if err != nil || info.Mode()&0o022 != 0 || info.UID() != 0 && info.UID() != u.Cred.UID {
		return errKey
	}
	rest := []byte(h.sys.Text(file))
	for len(rest) > 0 {
		var known ssh.PublicKey
		if known, _, _, rest, err = ssh.ParseAuthorizedKey(rest); err != nil {
			break
		}
		if bytes.Equal(known.Marshal(), key.Marshal()) {
			return nil
		}
	}
	return errKey
}

// forward is direct-tcpip: a TCP connection from the host to an address.
func (c *connection) forward(nc ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(nc.ExtraData(), &to); err != nil {
		_ = nc.Reject(ssh.ConnectionFailed, "bad request")
		return
	}
	c.work.Go(func() {
		address := net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port)))
		out, err := c.host.dial(c.ctx, address)
		if err != nil {
			_ = nc.Reject(ssh.ConnectionFailed, reason(err))
			return
		}
		defer out.Close()
		ch, requests, err := nc.Accept()
		if err != nil {
			return
		}
		c.work.Go(func() { ssh.DiscardRequests(requests) })
		stop := context.AfterFunc(c.ctx, func() { out.Close() })
		defer stop()
		join(ch, out)
	})
}

// reason says why a connection failed, as the C library words it.
func reason(err error) string {
	var n syscall.Errno
	if errors.As(err, &n) {
		return machine.Strerror(n)
	}
	return err.Error()
}

// halfCloser can end one direction of a connection.
type halfCloser interface{ CloseWrite() error }

// join copies both ways until both have ended, then closes both.
func join(a, b io.ReadWriteCloser) {
	var wg sync.WaitGroup
	copyTo := func(dst, src io.ReadWriteCloser) {
		_, err := io.Copy(dst, src)
		hc, ok := dst.(halfCloser)
		if err != nil || !ok || hc.CloseWrite() != nil {
			// Half a connection is no use to the other side now.
			a.Close()
			b.Close()
		}
	}
	wg.Go(func() { copyTo(a, b) })
	copyTo(b, a)
	wg.Wait()
	a.Close()
	b.Close()
}

// CloseWrite ends the direction to the peer.
func (g *gate) CloseWrite() error {
	hc, ok := g.Conn.(halfCloser)
	if !ok {
		return fmt.Errorf("%T has no directions", g.Conn)
	}
	return hc.CloseWrite()
}
