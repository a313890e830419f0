package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// A Snapshot is all that there is in a lab: descriptions by path, such as
// "host/lab-gateway/file/etc/nftables.conf". Ids, times, keys and what else
// differs from lab to lab isn't in it, so that the same work in two labs gives
// the same Snapshot.
type Snapshot map[string]string

// Snapshot looks at everything. Nothing may be changing meanwhile.
func (s *Lab) Snapshot(ctx context.Context) (Snapshot, error) {
	out := make(Snapshot)
	for kind, things := range s.Cloud.State(true) {
		seen := make(map[string]int)
		for _, thing := range things {
			text, err := json.MarshalIndent(thing, "", " ")
			if err != nil {
				return nil, fault.Wrap("writing", "openstack/"+kind, err)
			}
			// Of what has no name, and of what has the name of another, the order counts.
			name := fmt.Sprint("openstack/", kind, "/", thing["name"])
			if seen[name]++; seen[name] > 1 || thing["name"] == nil || thing["name"] == "" {
				name += fmt.Sprintf("#%d", seen[name])
			}
			out[name] = string(text)
		}
	}
	for _, h := range s.Hosts.Hosts() {
		if err := out.addHost(ctx, h); err != nil {
			return nil, fault.Wrap("looking at host", h.Info().Name, err)
		}
		if err := s.world.addKubernetes(ctx, out, h.Info()); err != nil {
			return nil, fault.Wrap("looking at the Kubernetes of", h.Info().Name, err)
		}
	}
	if err := s.addGit(out); err != nil {
		return nil, err
	}
	return s.anonymous(out)
}

// anonymous replaces the lab's own addresses and credentials.
func (s *Lab) anonymous(all Snapshot) (Snapshot, error) {
	names := []string{s.Info.OpenStack, "OPENSTACK", s.Git.Addr(), "GIT", hostKeyLine(s.Git.HostKey()), "GIT-HOST-KEY",
		"[" + strings.ReplaceAll(s.Git.Addr(), ":", "]:"), "GIT"}
	for _, file := range []string{"clouds.yaml", "keys/git_deploy"} {
		data, err := os.ReadFile(filepath.Join(s.Info.Site, file))
		if err != nil {
			return nil, err
		}
		quoted, err := json.Marshal(string(data)) // as it stands in an object
		if err != nil {
			return nil, err
		}
		names = append([]string{strings.Trim(string(quoted), `"`), "site:" + file}, names...)
	}
	for _, end := range []string{"min", "max"} { // of the security group's rule for SSH
		names = append(names, fmt.Sprintf(`"port_range_%s": %d`, end, s.Info.SSHPort), fmt.Sprintf(`"port_range_%s": SSH`, end))
	}
	replacer := strings.NewReplacer(names...)
	for name, text := range all {
		all[name] = madeCredential.ReplaceAllString(replacer.Replace(text), "${1}MADE")
	}
	return all, nil
}

// madeCredential finds an application credential that a recipe has made in a
// clouds.yaml that stands in an object.
var madeCredential = regexp.MustCompile(`(application_credential_(?:id|secret): )(?:\\"[^"\\]*\\"|[\w-]+)`)

// addGit adds the files and the history of the repository of spokes.
func (s *Lab) addGit(out Snapshot) error {
	files, err := s.Git.Files(repository, "HEAD")
	if err != nil {
		return err
	}
	for _, name := range files {
		if out["git/"+name], err = s.Git.ReadFile(repository, "HEAD", name); err != nil {
			return err
		}
	}
	refs, err := s.Git.History(repository)
	if err != nil {
		return err
	}
	out["git"] = refs
	return nil
}

// scratch are the folders of a host whose content lasts no longer than a boot, or is a log.
var scratch = regexp.MustCompile(`^/(proc|sys|dev|var/log)(/|$)`)

// generated are the files that hold keys, or names made of them: what counts is
// that they are there.
var generated = regexp.MustCompile(`^/(etc/kubernetes/(pki/|.*\.conf$)|etc/wireguard/.*\.(conf|key)$|etc/ssh/ssh_host_|etc/machine-id|etc/shadow|etc/hosts$|var/lib/kubelet/|var/lib/cloud/|var/lib/systemd/|home/.*/\.ssh/authorized_keys|root/\.ssh/)`)

// addHost adds a host's files, and what of them is in force: the kernel's
// parameters and modules, packet filter, packages and services.
func (out Snapshot) addHost(ctx context.Context, h *hosts.Host) error {
	prefix := "host/" + h.Info().Name
	sys := h.System()
	var walk func(dir string) error
	walk = func(dir string) error {
		kids, err := sys.FS.ReadDir(tree.Root(), dir)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		for _, kid := range kids {
			file := path.Join(dir, kid.Name())
			if scratch.MatchString(file) {
				continue
			}
			text, err := describe(sys.FS, file, kid)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			out[prefix+"/file"+file] = text
			if kid.IsDir() {
				if err := walk(file); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := walk("/"); err != nil {
		return err
	}
	for _, command := range []string{
		"nft list ruleset", "sysctl -a", "lsmod", "dpkg-query -W", "apt-mark showhold", "systemctl list-units --all --plain --no-legend",
		"systemctl list-unit-files --no-legend", "ip -o addr", "wg show all allowed-ips",
	} {
		text, err := sudo(ctx, sys.Machine, command)
		if err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
		out[prefix+"/command/"+command] = text
	}
	return nil
}

func describe(fsys *tree.FS, file string, i *tree.Info) (string, error) {
	text := fmt.Sprintf("%s %d:%d", i.Mode(), i.UID(), i.GID())
	switch {
	case i.Type() == fs.ModeSymlink:
		to, err := fsys.Readlink(tree.Root(), file)
		return text + " -> " + to, err
	case !i.Type().IsRegular() || generated.MatchString(file):
		return text, nil
	}
	data, err := fsys.ReadFile(tree.Root(), file)
	return text + "\n" + string(data), err
}

// sudo runs a command on a host, as root. A command that isn't there says
// nothing.
func sudo(ctx context.Context, m *machine.Machine, command string) (string, error) {
	root, ok := m.LookupUser("root")
	if !ok {
		return "", errors.New("there is no root")
	}
	var said bytes.Buffer
	_, err := m.Login(*root).Run(ctx, machine.Cmd{Args: strings.Fields(command), Stdin: strings.NewReader(""), Stdout: &said, Stderr: &said})
	if errors.Is(err, machine.ErrNotFound) {
		return "", nil
	}
	return said.String(), err
}
