package real

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// settled is what Open needs to know of a lab, kept in its folder.
type settled struct {
	Port     int           `json:"port"`
	TokenTTL time.Duration `json:"token_ttl"`
}

func (l *Lab) remember() error {
	data, err := json.Marshal(settled{l.port, l.cfg.TokenTTL})
	if err != nil {
		return err
	}
	return write(l.path("lab.json"), data)
}

// Detach lets the lab run on when this process ends; [Open] finds it again.
// That is only for a lab whose folder was chosen by Config.Dir: others are
// ended by the next Start.
func (l *Lab) Detach() error {
	if l.temp {
		return fault.New(fault.Invalid, "a lab without a folder of its own can't be detached")
	}
	return l.unlock()
}

// Open returns the lab that was started in cfg.Dir and detached. Close ends it.
func Open(ctx context.Context, cfg Config) (*Lab, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(cfg.Dir, "lab.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "there is no OpenStack in %s", cfg.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("looking for OpenStack: %w", err)
	}
	var s settled
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("reading %s: %w", filepath.Join(cfg.Dir, "lab.json"), err)
	}
	cfg.TokenTTL = s.TokenTTL
	l := &Lab{cfg: cfg, paste: pasteFolder(cfg), port: s.Port, procs: map[string]*process{}}
	if l.python, err = preparePython(cfg.Cache); err != nil {
		return nil, err
	}
	if l.lock, err = claim(l.path("lock")); err != nil {
		return nil, err
	}
	if l.lock == nil {
		return nil, fault.New(fault.Locked, "another process runs the lab in %s", cfg.Dir)
	}
	for _, name := range l.names() {
		if p := recorded(l.pidFile(name)); p != nil {
			l.procs[name] = p
		}
	}
	l.admin = &client{auth: l.AuthURL(), user: "admin", password: secret, project: "admin"}
	return l, nil
}

// names are those of all programs.
func (l *Lab) names() []string {
	names := []string{"mariadb", "epmd", "rabbit"}
	for _, s := range l.services() {
		names = append(names, s.name)
	}
	return names
}
