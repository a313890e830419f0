package real

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/lock"
)

// packages are what the services need. None of them starts a service, has a
// configuration or asks for a database: those are in the packages of the
// daemons, which aren't installed.
var packages = []string{
	"python3-keystone", "python3-glance", "python3-placement", "python3-nova", "python3-neutron", "python3-cinder", "python3-octavia",
	"python3-swift",
	"uwsgi-core", "uwsgi-plugin-python3", "mariadb-server-core", "mariadb-client-core", "rabbitmq-server",
}

// unpacked are packages that are only unpacked, for their api-paste.ini.
var unpacked = []string{"nova-common", "glance-common", "neutron-common", "cinder-common"}

// Install installs the packages that aren't there yet, and unpacks a few
// others into the cache. It needs the network only if something is missing.
func Install(ctx context.Context, cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	free, err := lock.Take(ctx, filepath.Join(cfg.Cache, "install.lock"), func() { cfg.Progress("waiting for another gsrun that installs OpenStack") })
	if err != nil {
		return err
	}
	defer free()
	_, missing, err := versions(ctx, packages)
	if err != nil {
		return err
	}
	paste := pasteFolder(cfg)
	_, err = os.Stat(paste)
	if len(missing) == 0 && err == nil {
		return nil
	}
	cfg.Progress("installing Debian's OpenStack")
	// The mirror's index may be older than the mirror, or not there at all.
	if err := apt(ctx, "update"); err != nil {
		return err
	}
	if len(missing) > 0 {
		allow, err := forbidStarts()
		if err != nil {
			return err
		}
		err = apt(ctx, append([]string{"install", "-y", "--no-install-recommends"}, missing...)...)
		if err := errors.Join(err, allow()); err != nil {
			return err
		}
	}
	if _, err := os.Stat(paste); err == nil {
		return nil
	}
	return unpack(ctx, paste)
}

// versions returns "name=version" of the packages that are installed, and the
// names of those that aren't.
func versions(ctx context.Context, names []string) (have, missing []string, err error) {
	// It fails if it doesn't know one of them, and tells of the others all the same.
	out, err := exec.CommandContext(ctx, "dpkg-query", append([]string{"-W", "-f", "${Package}=${Version} ${db:Status-Abbrev}\n"}, names...)...).Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, nil, fmt.Errorf("asking dpkg what is installed: %w", err)
	}
	missing = slices.Clone(names)
	for line := range strings.Lines(string(out)) {
		version, status, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name, _, _ := strings.Cut(version, "="); strings.TrimSpace(status) == "ii" {
			have = append(have, version)
			missing = slices.DeleteFunc(missing, func(m string) bool { return m == name })
		}
	}
	return have, missing, nil
}

func apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=600", "-o", "Dpkg::Use-Pty=0", "-o", "APT::Sandbox::User=root"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("running apt-get %s: %w: %s", args[0], err, tail(out))
	}
	return nil
}

// forbidStarts keeps packages from starting their services, as rabbitmq-server
// would, until what it returns is called.
func forbidStarts() (allow func() error, err error) {
	const policy = "/usr/sbin/policy-rc.d"
	f, err := os.OpenFile(policy, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return func() error { return nil }, nil // the machine has a policy of its own
	}
	if err != nil {
		return nil, fmt.Errorf("keeping services from starting: %w", err)
	}
	_, err = f.WriteString("#!/bin/sh\nexit 101\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(policy))
	}
	return func() error { return os.Remove(policy) }, nil
}

func pasteFolder(cfg Config) string { return filepath.Join(cfg.Cache, "paste") }

// pasteFiles returns the folder that unpack has made.
func pasteFiles(ctx context.Context, cfg Config) (string, error) {
	_, missing, err := versions(ctx, packages)
	if err != nil {
		return "", err
	}
	if len(missing) > 0 {
		return "", fmt.Errorf("starting OpenStack: %s isn't installed", strings.Join(missing, ", "))
	}
	folder := pasteFolder(cfg)
	if _, err := os.Stat(folder); err != nil {
		return "", fmt.Errorf("starting OpenStack: %w", err)
	}
	return folder, nil
}

// unpack downloads the packages that are only unpacked, and makes folder of
// what is in them, all or nothing.
func unpack(ctx context.Context, folder string) error {
	temp, err := os.MkdirTemp(filepath.Dir(folder), "paste-")
	if err != nil {
		return fmt.Errorf("unpacking: %w", err)
	}
	defer os.RemoveAll(temp)
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=600", "-o", "APT::Sandbox::User=root", "download"}, unpacked...)...)
	cmd.Dir = temp
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("downloading %s: %w: %s", strings.Join(unpacked, ", "), err, tail(out))
	}
	debs, err := filepath.Glob(filepath.Join(temp, "*.deb"))
	if err != nil {
		return err
	}
	for _, deb := range debs {
		if out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", deb, filepath.Join(temp, "x")).CombinedOutput(); err != nil {
			return fmt.Errorf("unpacking %s: %w: %s", filepath.Base(deb), err, tail(out))
		}
	}
	return os.Rename(filepath.Join(temp, "x"), folder)
}

// tail is the end of a program's output, for an error.
func tail(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}
