package ssh

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Memory keeps the key that a host shows first, in the form of HostKeys. Its
// methods may be called at the same time.
type Memory interface {
	// Known returns the key that is kept, or nothing.
	Known(ctx context.Context) (line string, err error)
	// Keep keeps a key unless there is one, and returns the one that is kept then.
	Keep(ctx context.Context, line string) (kept string, err error)
	// Forget says how a person has it forget the key.
	Forget() string
}

// trusted returns what the host may prove itself with now.
func (c *Client) trusted(ctx context.Context) (*trust, error) {
	m := c.cfg.FirstUse
	if m == nil {
		return c.trust, nil
	}
	line, err := m.Known(ctx)
	if err != nil {
		return nil, err
	}
	t := &trust{forget: m.Forget()}
	if line == "" {
		t.keep = func(shown ssh.PublicKey) error { return c.keep(ctx, t, shown) }
		return t, nil
	}
	return t, c.recall(t, line)
}

// keep trusts the key that is shown, unless another was kept meanwhile.
func (c *Client) keep(ctx context.Context, t *trust, shown ssh.PublicKey) error {
	kept, err := c.cfg.FirstUse.Keep(ctx, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(shown))))
	if err != nil {
		return err
	}
	return c.recall(t, kept)
}

// recall has the key of a line count.
func (c *Client) recall(t *trust, line string) error {
	key, _, err := parseHostKeyLine(line)
	if err != nil {
		return fault.Hinted(fault.Invalid, t.forget, "the kept key of %s can't be read: %v", c.Label(), err)
	}
	t.keys = []ssh.PublicKey{key}
	return nil
}

// changed returns the hint for a host that doesn't show a known key.
func (t *trust) changed() string {
	how := "read its key anew from the console"
	if t.forget != "" {
		how = t.forget
	}
	return fmt.Sprintf("if the host was rebuilt, %s; if not, somebody else is answering at its address", how)
}
