package hosts

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// A Lab is a set of hosts with their networks.
type Lab struct {
	User   Key // who may log in as root, debian (who may use sudo) and guest (who may not)
	UserCA Key // certifies users
	HostCA Key // certified the hosts' keys

	root, dir, group string

	mu    sync.Mutex
	hosts map[string]*Host
}

// made counts the hosts of this process: what a network interface was called
// is free again some time after its host has ended.
var made atomic.Int64

// New makes a lab without hosts, which keeps its files in the folder dir. The
// process must be one that Isolate started, and makes one lab at a time.
func New(dir string) (*Lab, error) {
	root := os.Getenv(inside)
	if root == "" {
		return nil, errors.New("making hosts: this process has no namespaces of its own; see Isolate")
	}
	l := &Lab{root: root, dir: dir, group: groupPrefix + rand.Text(), hosts: make(map[string]*Host)}
	for _, k := range []*Key{&l.User, &l.UserCA, &l.HostCA} {
		var err error
		if *k, err = NewKey(); err != nil {
			return nil, err
		}
	}
	l.sweepGroups()
	return l, nil
}

// A Leg is a network interface of a host.
type Leg struct {
	Network string
	Address string // "10.77.0.5/16"
}

// Spec says what a host is to be.
type Spec struct {
	Name    string
	Legs    []Leg             // eth0, eth1 and so on
	Gateway string            // by which everything else is reached; none if empty
	Systemd bool              // it runs systemd, not just sshd
	Lacks   []string          // patterns of programs that aren't there, such as "python3*"
	Busybox bool              // sh and all that coreutils has are busybox
	Disk    int               // MiB that the host can write; 0 is no limit
	Files   map[string]string // further files, by path
}

// Boot makes hosts and waits until each answers by SSH.
func (l *Lab) Boot(ctx context.Context, specs ...Spec) ([]*Host, error) {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(8)
	out := make([]*Host, len(specs))
	for i, s := range specs {
		all.Go(func() error {
			h, err := l.make(s)
			if err != nil {
				return err
			}
			out[i] = h
			return h.Start(ctx)
		})
	}
	return out, all.Wait()
}

func (l *Lab) make(s Spec) (*Host, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, there := l.hosts[s.Name]; there || s.Name == "" {
		return nil, fmt.Errorf("making a host: the name %q is taken or empty", s.Name)
	}
	h := &Host{Spec: s, lab: l, id: made.Add(1), dir: filepath.Join(l.dir, s.Name)}
	if err := h.create(); err != nil {
		return nil, fmt.Errorf("making the host %s: %w", s.Name, err)
	}
	l.hosts[s.Name] = h
	return h, nil
}

// Close ends the hosts and removes what is theirs, but for the lab's folder.
func (l *Lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, h := range l.hosts {
		errs = append(errs, h.Kill(), h.ns.Close())
	}
	l.hosts = nil
	l.sweepGroups()
	return errors.Join(append(errs, removeBridges())...)
}
