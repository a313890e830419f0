package real

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/lock"
)

// The databases depend on these, and on the packages. Services that are
// configured otherwise make them fit when they start.
//
//go:embed catalog.go database.go fixtures.go
var sources embed.FS

// unusedTime is how long a template of another version is kept.
const unusedTime = 7 * 24 * time.Hour

// prepare returns the folder with the data that a lab begins with: migrated
// databases with the fixtures in them. It makes it if there is none for these
// packages.
func prepare(ctx context.Context, cfg Config, paste string) (string, error) {
	version, err := dataVersion(ctx)
	if err != nil {
		return "", err
	}
	template := filepath.Join(cfg.Cache, "data-"+version)
	free, err := lock.Take(ctx, template+".lock", func() { cfg.Progress("waiting for another gsrun that makes OpenStack's databases") })
	if err != nil {
		return "", err
	}
	defer free()
	if _, err := os.Stat(template); err == nil {
		now := time.Now()
		return template, os.Chtimes(template, now, now) // it is in use
	}
	if err := removeUnused(cfg.Cache); err != nil {
		return "", err
	}
	cfg.Progress("making OpenStack's databases, once")
	cfg.Dir, cfg.Port = "", 0
	l, err := open(ctx, cfg, paste)
	if err != nil {
		return "", err
	}
	err = l.build(ctx)
	if err == nil {
		// Only what is complete gets the name.
		err = os.Rename(l.path("data"), template)
	}
	return template, errors.Join(err, l.Close())
}

// build brings a lab up from nothing, and down again with its data whole.
func (l *Lab) build(ctx context.Context) error {
	if err := l.configure(); err != nil {
		return err
	}
	if err := writeCertificates(l.path("data/octavia")); err != nil {
		return err
	}
	err := l.run(ctx, "mariadb-install-db", "/usr/bin/mariadb-install-db", "--no-defaults", "--datadir="+l.path("data/mysql"), "--user=root",
		"--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=24M")
	if err != nil {
		return err
	}
	if err := l.startRabbit(); err != nil {
		return err
	}
	if err := l.startDatabase(ctx); err != nil {
		return err
	}
	if err := l.migrate(ctx); err != nil {
		return err
	}
	// Everything else logs in, and Nova's computes report to Placement.
	first := func(s service) bool { return s.name == "keystone" || s.name == "placement" }
	if err := l.startAll(ctx, first); err != nil {
		return err
	}
	if err := l.login(ctx); err != nil {
		return err
	}
	if err := l.makeIdentity(ctx); err != nil {
		return err
	}
	if err := l.startAll(ctx, func(s service) bool { return !first(s) }); err != nil {
		return err
	}
	if err := l.makeResources(ctx); err != nil {
		return err
	}
	l.stopAll(stopGrace, time.Minute)
	for _, dir := range []string{"rabbit", "locks"} {
		if err := os.RemoveAll(l.path("data", dir)); err != nil {
			return err
		}
	}
	return nil
}

// dataVersion names what the data depends on.
func dataVersion(ctx context.Context) (string, error) {
	have, _, err := versions(ctx, packages)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintln(sum, have)
	err = fs.WalkDir(sources, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := sources.ReadFile(name)
		fmt.Fprintf(sum, "%s %d\n%s", name, len(data), data)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))[:12], err
}

// removeUnused removes the data of other versions that wasn't used for long.
func removeUnused(cache string) error {
	all, err := filepath.Glob(filepath.Join(cache, "data-*"))
	if err != nil {
		return err
	}
	for _, dir := range all {
		if info, err := os.Stat(dir); err == nil && info.IsDir() && time.Since(info.ModTime()) > unusedTime {
			if err := os.RemoveAll(dir); err != nil {
				return fmt.Errorf("removing what isn't used any more: %w", err)
			}
		}
	}
	return nil
}

// copyTree copies a folder, without copying its bytes where the file system
// can do that.
func copyTree(ctx context.Context, from, to string) error {
	out, err := exec.CommandContext(ctx, "/bin/cp", "-a", "--reflink=auto", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, tail(out))
	}
	return nil
}
