package debian

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

type cloudUser struct {
	Name   string `yaml:"name"`
	Gecos  string `yaml:"gecos"`
	Groups any    `yaml:"groups"`
	Sudo   any    `yaml:"sudo"`
	Shell  string `yaml:"shell"`
	Home   string `yaml:"homedir"`
	Keys   any    `yaml:"ssh_authorized_keys"`
	System bool   `yaml:"system"`
	UID    int    `yaml:"uid"`
}

// list reads a YAML value that is a list of texts, or one text with commas.
func list(v any) []string {
	switch v := v.(type) {
	case string:
		return strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })
	case []any:
		var out []string
		for _, x := range v {
			out = append(out, fmt.Sprint(x))
		}
		return out
	}
	return nil
}

func (c *cloudInit) users(nodes []yaml.Node) error {
	var errs []error
	for _, n := range nodes {
		if n.Kind == yaml.ScalarNode {
			continue // "default": the image's user is there
		}
		var u cloudUser
		if err := n.Decode(&u); err != nil {
			errs = append(errs, err)
			continue
		}
		if u.Name == "" {
			errs = append(errs, errors.New("users: an entry without a name"))
			continue
		}
		if _, ok := c.sys.LookupUser(u.Name); !ok {
			home, shell := u.Home, u.Shell
			if home == "" {
				home = "/home/" + u.Name
			}
			if shell == "" {
				shell = "/bin/sh"
			}
			uid := u.UID
			if uid == 0 {
				uid = c.sys.freeID(u.System, false)
			}
			user := machine.User{Name: u.Name, Gecos: u.Gecos, Home: home, Shell: shell, Cred: tree.Cred{UID: uid, GID: -1}}
			if err := c.sys.addUser(user, list(u.Groups), true); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		var rules []string
		switch v := u.Sudo.(type) {
		case string:
			rules = []string{v}
		case []any:
			rules = list(v)
		}
		for _, rule := range rules {
			file := "/etc/sudoers.d/90-cloud-init-users"
			errs = append(errs, c.sys.Put(file, c.sys.Text(file)+u.Name+" "+rule+"\n", 0o440))
		}
		if keys, ok := u.Keys.([]any); ok {
			errs = append(errs, c.keys(u.Name, list(keys)))
		}
	}
	return errors.Join(errs...)
}

// keys adds to a user's authorized_keys.
func (c *cloudInit) keys(name string, keys []string) error {
	u, ok := c.sys.LookupUser(name)
	if !ok {
		return fmt.Errorf("ssh_authorized_keys: no user %q", name)
	}
	file := u.Home + "/.ssh/authorized_keys"
	if err := c.sys.Put(file, c.sys.Text(file)+lines(keys), 0o600); err != nil {
		return err
	}
	if err := c.sys.FS.Chmod(tree.Root(), path.Dir(file), 0o700); err != nil {
		return err
	}
	return c.sys.own(file, u.Home, u.Cred.UID, u.Cred.GID)
}
