package real

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed conf
var conf embed.FS

//go:embed python
var python embed.FS

// configs are the files that are made of the templates in conf, below etc.
var configs = map[string]string{
	"rabbitmq.conf.tmpl":    "rabbitmq/rabbitmq.conf",
	"keystone.conf.tmpl":    "keystone/keystone.conf",
	"glance-api.conf.tmpl":  "glance/glance-api.conf",
	"placement.conf.tmpl":   "placement/placement.conf",
	"nova.conf.tmpl":        "nova/nova.conf",
	"neutron.conf.tmpl":     "neutron/neutron.conf",
	"cinder.conf.tmpl":      "cinder/cinder.conf",
	"octavia.conf.tmpl":     "octavia/octavia.conf",
	"swift.conf.tmpl":       "swift/swift.conf",
	"swift-proxy.conf.tmpl": "swift/proxy.conf",
}

// shipped are files of Debian's packages, and where they go below etc: Nova and
// Glance look for theirs beside the configuration and nowhere else.
var shipped = map[string]string{
	"usr/share/glance-common/glance-api-paste.ini": "glance/glance-api-paste.ini",
	"usr/share/nova-common/api-paste.ini":          "nova/api-paste.ini",
	"usr/share/neutron-common/api-paste.ini":       "neutron/api-paste.ini",
	"usr/share/cinder-common/api-paste.ini":        "cinder/api-paste.ini",
	"etc/cinder/resource_filters.json":             "cinder/resource_filters.json",
}

// settings is what the templates are filled with.
type settings struct {
	Dir, IP, Secret, Region string
	TokenSeconds            int
	lab                     *Lab
}

// Port is where a service listens.
func (s settings) Port(service string) int { return s.lab.portOf(service) }

// URL is the root of a service's address.
func (s settings) URL(service string) string { return s.lab.url(service) }

// Database is the address of a database, for SQLAlchemy.
func (s settings) Database(name string) string {
	return fmt.Sprintf("mysql+pymysql://root@localhost/%s?unix_socket=%s&charset=utf8", name, s.lab.socket())
}

// Transport is RabbitMQ's address, for oslo.messaging.
func (s settings) Transport() string {
	return fmt.Sprintf("rabbit://lab:%s@%s:%d//", secret, host, s.lab.portOf("rabbit"))
}

func (l *Lab) settings() settings {
	return settings{Dir: l.cfg.Dir, IP: host, Secret: secret, Region: region, TokenSeconds: int(l.cfg.TokenTTL.Seconds()), lab: l}
}

// configure writes the configuration.
func (l *Lab) configure() error {
	for _, dir := range []string{"run", "log", "data/locks", "data/rabbit", "data/glance/images", "data/glance/staging",
		"data/nova/fake1", "data/nova/fake2", "data/neutron", "data/cinder", "data/octavia/certs", "data/swift"} {
		if err := os.MkdirAll(l.path(dir), 0o700); err != nil {
			return fmt.Errorf("making the lab's folders: %w", err)
		}
	}
	all, err := template.New("").Option("missingkey=error").ParseFS(conf, "conf/*.tmpl")
	if err != nil {
		return fmt.Errorf("reading the configuration's templates: %w", err)
	}
	for name, file := range configs {
		var text bytes.Buffer
		if err := all.ExecuteTemplate(&text, name, l.settings()); err != nil {
			return fmt.Errorf("filling in %s: %w", name, err)
		}
		if err := write(l.path("etc", file), text.Bytes()); err != nil {
			return err
		}
	}
	for _, host := range computes {
		text := fmt.Sprintf("[DEFAULT]\nhost = %s\nstate_path = %s\n", host, l.path("data/nova", host))
		if err := write(l.path("etc/nova", host+".conf"), []byte(text)); err != nil {
			return err
		}
	}
	for from, to := range shipped {
		data, err := os.ReadFile(filepath.Join(l.paste, from))
		if err != nil {
			return fmt.Errorf("reading what Debian ships: %w", err)
		}
		if err := write(l.path("etc", to), data); err != nil {
			return err
		}
	}
	return write(l.path("etc/rabbitmq/enabled_plugins"), []byte("[].\n"))
}

// preparePython writes the Python pieces as an installed distribution, so that
// the services find the drivers in it. It lies in the cache, by its content:
// Python keeps there what it has compiled and found.
func preparePython(cache string) (string, error) {
	files, err := fs.Glob(python, "python/*")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	content := map[string][]byte{}
	for _, f := range files {
		data, err := python.ReadFile(f)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", f, len(data), data)
		name := path.Base(f)
		if !strings.HasSuffix(name, ".py") {
			name = "lab-1.dist-info/" + name
		}
		content[name] = data
	}
	folder := filepath.Join(cache, "python", "lab-"+hex.EncodeToString(sum.Sum(nil))[:12])
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o700); err != nil {
		return "", fmt.Errorf("writing the lab's Python pieces: %w", err)
	}
	temp, err := os.MkdirTemp(filepath.Dir(folder), "new-")
	if err != nil {
		return "", fmt.Errorf("writing the lab's Python pieces: %w", err)
	}
	defer os.RemoveAll(temp)
	for name, data := range content {
		if err := write(filepath.Join(temp, name), data); err != nil {
			return "", err
		}
	}
	// Another process may have been quicker with the same.
	if err := os.Rename(temp, folder); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("writing the lab's Python pieces: %w", err)
	}
	return folder, nil
}

func write(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("writing the lab's configuration: %w", err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return fmt.Errorf("writing the lab's configuration: %w", err)
	}
	return nil
}
