package debian

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// cloudInit applies a host's user data on its first boot.
type cloudInit struct {
	sys  *System
	once sync.Once
	done chan struct{} // closed when the first boot's work has ended

	mu   sync.Mutex
	errs []string
}

func newCloudInit(s *System) *cloudInit { return &cloudInit{sys: s, done: make(chan struct{})} }

// cloudConfig is the part of #cloud-config that is understood.
type cloudConfig struct {
	Hostname       string      `yaml:"hostname"`
	FQDN           string      `yaml:"fqdn"`
	ManageEtcHosts any         `yaml:"manage_etc_hosts"`
	Users          []yaml.Node `yaml:"users"`
	Keys           []string    `yaml:"ssh_authorized_keys"`
	Files          []cloudFile `yaml:"write_files"`
	PackageUpdate  bool        `yaml:"package_update"`
	PackageUpgrade bool        `yaml:"package_upgrade"`
	Packages       []yaml.Node `yaml:"packages"`
	BootCommands   []yaml.Node `yaml:"bootcmd"`
	Commands       []yaml.Node `yaml:"runcmd"`
	Timezone       string      `yaml:"timezone"`
	Groups         []yaml.Node `yaml:"groups"`
}

type cloudFile struct {
	Path        string `yaml:"path"`
	Content     string `yaml:"content"`
	Encoding    string `yaml:"encoding"`
	Owner       string `yaml:"owner"`
	Permissions string `yaml:"permissions"`
	Append      bool   `yaml:"append"`
	Defer       bool   `yaml:"defer"`
}

func (c *cloudInit) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.mu.Lock()
	c.errs = append(c.errs, text)
	c.mu.Unlock()
	c.sys.console("cloud-init[560]: %s", text)
}

// run does the first boot's work, once.
func (c *cloudInit) run(ctx context.Context) {
	c.once.Do(func() {
		defer close(c.done)
		if err := c.apply(ctx); err != nil {
			c.fail("%v", err)
		}
		status := "done"
		if len(c.errs) > 0 {
			status = "error"
		}
		text := fmt.Sprintf("{\"v1\": {\"stage\": null, \"datasource\": \"DataSourceOpenStackLocal\", \"status\": %q}}\n", status)
		if err := c.sys.Put("/run/cloud-init/result.json", text, 0o644); err != nil {
			c.sys.console("cloud-init[560]: %v", err)
		}
		if err := c.sys.Put("/var/lib/cloud/instance/boot-finished", "finished\n", 0o644); err != nil {
			c.sys.console("cloud-init[560]: %v", err)
		}
	})
}

func (c *cloudInit) apply(ctx context.Context) error {
	data := c.sys.Config.UserData
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		zr, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return fmt.Errorf("unpacking user data: %w", err)
		}
		if data, err = io.ReadAll(zr); err != nil {
			return fmt.Errorf("unpacking user data: %w", err)
		}
	}
	text := string(bytes.TrimSpace(data))
	switch {
	case text == "":
		return nil
	case strings.HasPrefix(text, "#!"):
		return c.script(ctx, text+"\n")
	case !strings.HasPrefix(text, "#cloud-config"):
		line, _, _ := strings.Cut(text, "\n")
		return fmt.Errorf("Unhandled non-multipart (text/x-not-multipart) userdata: '%.24s...'", line)
	}
	var cfg cloudConfig
	if err := yaml.Unmarshal(data, &cfg); err != nil {
		return fmt.Errorf("Failed loading yaml blob: %w", err)
	}
	c.commands(ctx, "bootcmd", cfg.BootCommands)
	if name := cfg.Hostname; name != "" {
		c.sys.setHostname(name)
		c.check("set_hostname", c.sys.Put("/etc/hostname", name+"\n", 0o644))
		hosts := strings.Replace(c.sys.Text("/etc/hosts"), "127.0.1.1 "+c.sys.Config.Hostname, strings.TrimSpace("127.0.1.1 "+cfg.FQDN+" "+name), 1)
		c.check("update_etc_hosts", c.sys.Put("/etc/hosts", hosts, 0o644))
	}
	if cfg.Timezone != "" {
		c.check("timezone", c.sys.setTimezone(cfg.Timezone))
	}
	for _, f := range cfg.Files {
		if !f.Defer {
			c.check("write_files", c.file(f))
		}
	}
	for _, n := range cfg.Groups {
		if n.Kind == yaml.ScalarNode {
			if _, ok := c.sys.LookupGroup(n.Value); !ok {
				gid := c.sys.freeID(false, true)
				c.check("groups", c.sys.edit("/etc/group", func(all []string) []string { return append(all, fmt.Sprintf("%s:x:%d:", n.Value, gid)) }))
			}
		}
	}
	c.check("users", c.users(cfg.Users))
	if len(cfg.Keys) > 0 {
		c.check("ssh_authorized_keys", c.keys(c.sys.Config.User, cfg.Keys))
	}
	for _, f := range cfg.Files {
		if f.Defer {
			c.check("write_files_deferred", c.file(f))
		}
	}
	if cfg.PackageUpdate || cfg.PackageUpgrade || len(cfg.Packages) > 0 {
		c.exec(ctx, "package_update", []string{"apt-get", "-q", "update"})
	}
	if cfg.PackageUpgrade {
		c.exec(ctx, "package_upgrade", []string{"apt-get", "-y", "dist-upgrade"})
	}
	if len(cfg.Packages) > 0 {
		args := []string{"apt-get", "-y", "install"}
		for _, n := range cfg.Packages {
			switch {
			case n.Kind == yaml.ScalarNode:
				args = append(args, n.Value)
			case n.Kind == yaml.SequenceNode && len(n.Content) == 2:
				args = append(args, n.Content[0].Value+"="+n.Content[1].Value)
			}
		}
		c.exec(ctx, "packages", args)
	}
	c.commands(ctx, "runcmd", cfg.Commands)
	return nil
}

func (c *cloudInit) check(module string, err error) {
	if err != nil {
		c.fail("Running module %s failed: %v", module, err)
	}
}

func (c *cloudInit) file(f cloudFile) error {
	if !path.IsAbs(f.Path) {
		return fmt.Errorf("write_files: %q is no absolute path", f.Path)
	}
	data := []byte(f.Content)
	var err error
	switch strings.ToLower(f.Encoding) {
	case "b64", "base64":
		data, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(f.Content), ""))
	case "gz+b64", "gz+base64", "gzip+b64", "gzip+base64":
		if data, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(f.Content), "")); err == nil {
			var zr *gzip.Reader
			if zr, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
				data, err = io.ReadAll(zr)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("write_files: decoding %s: %w", f.Path, err)
	}
	perm := fs.FileMode(0o644)
	if f.Permissions != "" {
		n, err := strconv.ParseUint(strings.TrimPrefix(f.Permissions, "0o"), 8, 16)
		if err != nil {
			return fmt.Errorf("write_files: permissions %q of %s", f.Permissions, f.Path)
		}
		perm = tree.PermOf(uint32(n))
	}
	if f.Append {
		data = append([]byte(c.sys.Text(f.Path)), data...)
	}
	if err := c.sys.Put(f.Path, string(data), perm); err != nil {
		return err
	}
	if f.Owner == "" {
		return nil
	}
	user, group, _ := strings.Cut(f.Owner, ":")
	u, ok := c.sys.LookupUser(user)
	if !ok {
		return fmt.Errorf("write_files: Unknown user or group: %q", f.Owner)
	}
	gid := u.Cred.GID
	if group != "" {
		g, ok := c.sys.LookupGroup(group)
		if !ok {
			return fmt.Errorf("write_files: Unknown user or group: %q", f.Owner)
		}
		gid = g.GID
	}
	return c.sys.FS.Chown(tree.Root(), f.Path, u.Cred.UID, gid, true)
}

// commands runs a list of commands, each a line for the shell or an argv, as
// one script that goes on after a failure, as cloud-init does.
func (c *cloudInit) commands(ctx context.Context, module string, nodes []yaml.Node) {
	if len(nodes) == 0 {
		return
	}
	script := "#!/bin/sh\n"
	for _, n := range nodes {
		switch n.Kind {
		case yaml.ScalarNode:
			script += n.Value + "\n"
		case yaml.SequenceNode:
			var args []string
			for _, a := range n.Content {
				args = append(args, a.Value)
			}
			script += strings.Join(quoteAll(args), " ") + "\n"
		}
	}
	c.check(module, c.script(ctx, script))
}

func (c *cloudInit) script(ctx context.Context, text string) error {
	const file = "/var/lib/cloud/instance/scripts/runcmd"
	if err := c.sys.Put(file, text, 0o700); err != nil {
		return err
	}
	if code := c.exec(ctx, "scripts_user", []string{file}); code != 0 {
		return fmt.Errorf("Failed to run module scripts_user: Runparts: 1 failures (runcmd)")
	}
	return nil
}

func (c *cloudInit) exec(ctx context.Context, module string, args []string) int {
	root, ok := c.sys.LookupUser("root")
	if !ok {
		c.fail("%s: no root", module)
		return 1
	}
	out := &journalWriter{m: c.sys.services, unit: "cloud-final.service", tag: "cloud-init"}
	env := root.Environ()
	env["DEBIAN_FRONTEND"] = "noninteractive"
	login := c.sys.Login(*root)
	code, err := login.Run(ctx, machine.Cmd{Args: args, Env: env, Dir: "/", Stdout: out, Stderr: out})
	out.flush()
	if err != nil || code != 0 {
		c.fail("Running module %s failed: exit code %d", module, code)
	}
	return code
}

func (s *System) cloudInitProgram(ctx context.Context, p *machine.Proc) int {
	if len(p.Args) < 2 {
		return p.Fail(2, "the following arguments are required: subcommand")
	}
	switch p.Args[1] {
	case "status":
	case "--version":
		p.Printf("/usr/bin/cloud-init 22.4.2\n")
		return 0
	case "clean":
		return 0
	default:
		return p.Fail(2, "invalid choice: '%s'", p.Args[1])
	}
	done := false
	select {
	case <-s.init.done:
		done = true
	default:
	}
	if strings.Contains(strings.Join(p.Args, " "), "--wait") && !done {
		select {
		case <-s.init.done:
			done = true
		case <-ctx.Done():
			return 1
		}
	}
	if !done {
		p.Printf("status: running\n")
		return 0
	}
	s.init.mu.Lock()
	errs := append([]string{}, s.init.errs...)
	s.init.mu.Unlock()
	if len(errs) > 0 {
		p.Printf("status: error\n")
		if strings.Contains(strings.Join(p.Args, " "), "--long") {
			p.Printf("errors:\n")
			for _, e := range errs {
				p.Printf("- %s\n", e)
			}
		}
		return 1
	}
	p.Printf("status: done\n")
	return 0
}
