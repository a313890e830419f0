package hosts

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/lock"
)

const suite = "bookworm"

// packages are what is in the root beside Debian's smallest.
var packages = []string{
	"openssh-server", "sudo", "iproute2", "nftables", "conntrack", "wireguard-tools", "wireguard-go", "iputils-ping", "netcat-openbsd", "procps",
	"tini", "systemd", "systemd-sysv", "dbus", "libpam-systemd", "cron", "kmod", "ca-certificates", "busybox-static", "python3", "python3-apt",
}

// prepare makes the root a host's. It runs inside it.
//
//go:embed prepare.sh
var prepare string

// Config says where a lab keeps its things.
type Config struct {
	Cache    string       // folder of the root; by default ~/.cache/gsrun/hosts
	Progress func(string) // told what takes long; may be nil
}

func (c Config) withDefaults() (Config, error) {
	if c.Cache == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return c, fmt.Errorf("looking for a cache folder: %w", err)
		}
		c.Cache = filepath.Join(cache, "gsrun", "hosts")
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	return c, nil
}

// Missing says what this machine lacks to run hosts; "" if nothing.
func Missing() string {
	if os.Getuid() != 0 {
		return "it needs root, for namespaces"
	}
	if _, err := os.Stat("/etc/debian_version"); err != nil {
		return "it needs Debian, for debootstrap"
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return "it needs /dev/net/tun, for WireGuard"
	}
	return ""
}

// Install makes the root, if the cache doesn't have it, and returns its folder.
func Install(ctx context.Context, cfg Config) (string, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(suite + strings.Join(packages, " ") + prepare))
	root := filepath.Join(cfg.Cache, "root-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	if err := os.MkdirAll(cfg.Cache, 0o755); err != nil {
		return "", fmt.Errorf("making the root of the hosts: %w", err)
	}
	free, err := lock.Take(ctx, filepath.Join(cfg.Cache, "install.lock"), func() { cfg.Progress("waiting for another gsrun that makes the hosts' root") })
	if err != nil {
		return "", err
	}
	defer free()
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	cfg.Progress("making the hosts' Debian root, which takes a minute or two")
	if err := build(ctx, root); err != nil {
		return "", fmt.Errorf("making the root of the hosts: %w", err)
	}
	return root, nil
}

// build makes a new root, all or nothing.
func build(ctx context.Context, root string) error {
	if _, err := exec.LookPath("debootstrap"); err != nil {
		if _, err := run(ctx, "apt-get", "-q", "-o", "DPkg::Lock::Timeout=600", "update"); err != nil {
			return err
		}
		if _, err := run(ctx, "apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=600", "install", "--no-install-recommends", "debootstrap"); err != nil {
			return err
		}
	}
	mirror, err := mirror()
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp(filepath.Dir(root), "root-new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if _, err := run(ctx, "debootstrap", "--variant=minbase", "--include="+strings.Join(packages, ","), suite, temp, mirror); err != nil {
		return err
	}
	if _, err := run(ctx, "chroot", temp, "/bin/sh", "-ec", prepare); err != nil {
		return err
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return err
	}
	return os.Rename(temp, root)
}

var debian = regexp.MustCompile(`(?m)^(?:deb |URIs:).*?(https?://\S+/debian)/?(?:\s|$)`)

// mirror is the one that this machine's apt uses.
func mirror() (string, error) {
	files, err := filepath.Glob("/etc/apt/sources.list.d/*")
	if err != nil {
		return "", err
	}
	for _, f := range append([]string{"/etc/apt/sources.list"}, files...) {
		text, err := os.ReadFile(f)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if m := debian.FindSubmatch(text); m != nil {
			return string(m[1]), nil
		}
	}
	return "", errors.New("no mirror of Debian stands in /etc/apt/sources.list or sources.list.d")
}

func run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	out, err := cmd.CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return "", fmt.Errorf("running %s: %w: %s", name, err, strings.Join(lines[max(0, len(lines)-8):], "\n"))
	}
	return string(out), nil
}
