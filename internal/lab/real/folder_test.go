package real

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// bare returns a lab that runs nothing yet.
func bare(t *testing.T, cfg Config) *Lab {
	t.Helper()
	if cfg.Cache == "" {
		cfg.Cache = t.TempDir()
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	l, err := open(t.Context(), cfg, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, dir := range []string{"run", "log"} {
		if err := os.MkdirAll(l.path(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// sleeper starts a process in the lab.
func sleeper(t *testing.T, l *Lab) *process {
	t.Helper()
	if err := l.launch("nova", nil, "/bin/sleep", "3600"); err != nil {
		t.Fatal(err)
	}
	p := l.process("nova")
	if r := recorded(l.pidFile("nova")); !p.alive() || r == nil || r.pid != p.pid {
		t.Fatalf("%+v, recorded %+v", p, r)
	}
	return p
}

// die has the lab as it would be if this process had died.
func die(t *testing.T, l *Lab) {
	t.Helper()
	if err := l.lock.Close(); err != nil {
		t.Fatal(err)
	}
	l.lock = nil
	l.procs = map[string]*process{}
}

func await(t *testing.T, what string, ready func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ready(); time.Sleep(poll) {
		if time.Now().After(end) {
			t.Fatalf("waited for %s", what)
		}
	}
}

func gone(file string) bool {
	_, err := os.Stat(file)
	return os.IsNotExist(err)
}

// TestWarden ends what a process that has died left running.
func TestWarden(t *testing.T) {
	l := bare(t, Config{})
	p := sleeper(t, l)
	if err := l.warden.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "the process's end", func() bool { return !p.alive() })
	await(t, "the folder's end", func() bool { return gone(l.Dir()) })
	if err := l.warden.cmd.Wait(); err != nil {
		t.Error(err)
	}
	l.warden = nil
}

// TestSweep starts a lab beside one whose process has died, and one whose
// process hasn't.
func TestSweep(t *testing.T) {
	cache := t.TempDir()
	dead, running := bare(t, Config{Cache: cache}), bare(t, Config{Cache: cache})
	left, kept := sleeper(t, dead), sleeper(t, running)
	die(t, dead)
	l := bare(t, Config{Cache: cache})
	if left.alive() || !gone(dead.Dir()) {
		t.Error("what the dead one left is there")
	}
	if !kept.alive() || gone(running.Dir()) || running.port == l.port || l.port%span != firstPort%span {
		t.Errorf("the running one: ports %d and %d", running.port, l.port)
	}
}

// TestOthers leaves alone what it didn't start.
func TestOthers(t *testing.T) {
	l := bare(t, Config{})
	other := sleeper(t, l)
	if err := os.WriteFile(l.pidFile("nova"), []byte("1 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if p := recorded(l.pidFile("nova")); p != nil {
		t.Errorf("%+v", p)
	}
	// The same number, and another process.
	if err := os.WriteFile(l.pidFile("nova"), []byte(strings.Join([]string{"1", startTime(1) + "0"}, " ")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := endRecorded(l.Dir()); err != nil || !other.alive() || !gone(l.pidFile("nova")) {
		t.Error(err)
	}
}

func TestStop(t *testing.T) {
	l := bare(t, Config{})
	p := sleeper(t, l)
	if err := l.PauseService("nova"); err != nil {
		t.Fatal(err)
	}
	if err := l.StopService("nova"); err != nil || p.alive() || !gone(l.pidFile("nova")) {
		t.Error(err)
	}
	for _, err := range []error{l.PauseService("nova"), l.ResumeService("nova")} {
		if fault.KindOf(err) != fault.Conflict {
			t.Error(err)
		}
	}
	if err := l.StopService("nova"); err != nil {
		t.Error("stopping it again:", err)
	}
	if err := l.StopService("weather"); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
}

// TestFolder starts labs in folders that were named.
func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab")
	cfg := Config{Cache: t.TempDir(), Dir: dir}
	if _, err := Open(t.Context(), cfg); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
	l := bare(t, cfg)
	if err := l.remember(); err != nil {
		t.Fatal(err)
	}
	p := sleeper(t, l)
	if _, err := Open(t.Context(), cfg); fault.KindOf(err) != fault.Locked {
		t.Error(err)
	}
	if err := l.Detach(); err != nil || !p.alive() {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if q := again.process("nova"); again.port != l.port || !q.alive() || q.pid != p.pid {
		t.Errorf("%+v", q)
	}
	if err := again.Close(); err != nil || p.alive() {
		t.Error(err)
	}
	if _, err := Open(t.Context(), cfg); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}

	// A folder of something else isn't touched.
	other := t.TempDir()
	if err := os.MkdirAll(filepath.Join(other, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	cfg.Dir = other
	cfg, err = cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(t.Context(), cfg, ""); fault.KindOf(err) != fault.Invalid || gone(filepath.Join(other, "data")) {
		t.Error(err)
	}
	if err := bare(t, Config{}).Detach(); fault.KindOf(err) != fault.Invalid {
		t.Error(err)
	}
}

// TestConfigure fills in every template.
func TestConfigure(t *testing.T) {
	l := bare(t, Config{TokenTTL: 90 * time.Second})
	l.paste = t.TempDir()
	for from := range shipped {
		if err := write(filepath.Join(l.paste, from), []byte("pipeline\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.configure(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(l.path("etc/keystone/keystone.conf"))
	if err != nil || !strings.Contains(string(text), "expiration = 90\n") {
		t.Errorf("%s %v", text, err)
	}
	for _, s := range l.services() {
		for _, arg := range s.argv {
			if strings.HasPrefix(arg, "/") && gone(arg) {
				t.Errorf("%s is given %s, which isn't there", s.name, arg)
			}
		}
	}
	templates, err := conf.ReadDir("conf")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range templates {
		if configs[f.Name()] == "" && f.Name() != "common.tmpl" {
			t.Errorf("%s isn't used", f.Name())
		}
	}
}
