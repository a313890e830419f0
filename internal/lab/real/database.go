package real

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"golang.org/x/sync/errgroup"
)

var databases = []string{"keystone", "glance", "placement", "nova_api", "nova", "nova_cell0", "neutron", "cinder", "octavia"}

func (l *Lab) socket() string { return l.path("run/mariadb.sock") }

// startDatabase starts MariaDB on a socket and waits until it answers.
func (l *Lab) startDatabase(ctx context.Context) error {
	// What a crash of the machine loses is of no concern: the lab goes with it.
	err := l.launch("mariadb", nil, "/usr/sbin/mariadbd", "--no-defaults", "--user=root", "--datadir="+l.path("data/mysql"), "--socket="+l.socket(), "--skip-networking",
		"--pid-file="+l.path("run/mariadb.own"), "--character-set-server=utf8mb3", "--collation-server=utf8mb3_general_ci", "--skip-log-bin", "--performance-schema=OFF",
		"--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--innodb-buffer-pool-size=128M", "--innodb-log-file-size=24M", "--max-connections=400",
		"--key-buffer-size=1M", "--aria-pagecache-buffer-size=4M", "--query-cache-size=0", "--innodb-fast-shutdown=1")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return until(ctx, l.process("mariadb"), "mariadb", l.path("log/mariadb.log"), func() bool {
		_, err := l.sql(ctx, "select 1")
		return err == nil
	})
}

// sql runs statements and returns what they answer.
func (l *Lab) sql(ctx context.Context, statements string) (string, error) {
	cmd := exec.CommandContext(ctx, "/usr/bin/mariadb", "--no-defaults", "-u", "root", "-S", l.socket(), "-N", "-B")
	cmd.Env = l.environment()
	cmd.Stdin = strings.NewReader(statements)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("asking mariadb: %w: %s", err, tail(out))
	}
	return strings.TrimSpace(string(out)), nil
}

// relocate writes this lab's addresses, which are in the databases too, over
// those of the lab that the data was made in.
func (l *Lab) relocate(ctx context.Context) error {
	set := l.settings()
	var text strings.Builder
	for _, e := range l.catalog() {
		fmt.Fprintf(&text, "update keystone.endpoint e join keystone.service s on e.service_id = s.id set e.url = '%s' where s.type = '%s';\n", e.url, e.kind)
	}
	fmt.Fprintf(&text, "update nova_api.cell_mappings set database_connection = '%s' where name = 'cell0';\n", set.Database("nova_cell0"))
	fmt.Fprintf(&text, "update nova_api.cell_mappings set database_connection = '%s', transport_url = '%s' where name = 'cell1';\n", set.Database("nova"), set.Transport())
	fmt.Fprintf(&text, "update glance.image_locations set value = concat('file://%s/', image_id);\n", l.path("data/glance/images"))
	_, err := l.sql(ctx, text.String())
	return err
}

// migrate makes the databases and their tables.
func (l *Lab) migrate(ctx context.Context) error {
	var text strings.Builder
	for _, d := range databases {
		fmt.Fprintf(&text, "create database %s character set utf8mb3;\n", d)
	}
	if _, err := l.sql(ctx, text.String()); err != nil {
		return err
	}
	set := l.settings()
	identity := l.url("keystone") + "/v3"
	keystone := []string{"keystone-manage", "--config-file", l.path("etc/keystone/keystone.conf")}
	nova := []string{"nova-manage", "--config-file", l.path("etc/nova/nova.conf")}
	// Two rows of about the same length.
	rows := [][][]string{
		{
			append(keystone, "db_sync"),
			append(keystone, "fernet_setup", "--keystone-user", "root", "--keystone-group", "root"),
			append(keystone, "credential_setup", "--keystone-user", "root", "--keystone-group", "root"),
			append(keystone, "bootstrap", "--bootstrap-password", secret, "--bootstrap-region-id", region,
				"--bootstrap-public-url", identity, "--bootstrap-internal-url", identity, "--bootstrap-admin-url", identity),
			{"glance-manage", "--config-file", l.path("etc/glance/glance-api.conf"), "db_sync"},
			{"placement-manage", "--config-file", l.path("etc/placement/placement.conf"), "db", "sync"},
			{"octavia-db-manage", "--config-file", l.path("etc/octavia/octavia.conf"), "upgrade", "head"},
			{"cinder-manage", "--config-file", l.path("etc/cinder/cinder.conf"), "db", "sync"},
		},
		{
			append(nova, "api_db", "sync"),
			append(nova, "cell_v2", "map_cell0", "--database_connection", set.Database("nova_cell0")),
			append(nova, "cell_v2", "create_cell", "--name", "cell1"),
			append(nova, "db", "sync"),
			{"neutron-db-manage", "--config-file", l.path("etc/neutron/neutron.conf"), "upgrade", "heads"},
		},
	}
	all, ctx := errgroup.WithContext(ctx)
	for _, row := range rows {
		all.Go(func() error {
			for i, args := range row {
				if err := l.manage(ctx, fmt.Sprintf("%s-%d", args[0], i), args...); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}

// manage runs one of the management commands.
func (l *Lab) manage(ctx context.Context, name string, args ...string) error {
	return l.run(ctx, name, l.serve(args...)...)
}
