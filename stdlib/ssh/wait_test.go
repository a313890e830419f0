package ssh_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

// step runs one step on the site's host, which it sees as `h`.
func (s *site) step(t *testing.T, door *effect.Door, lines string) {
	t.Helper()
	src := t.TempDir() + "/step.star"
	text := `def test_it():
    h = ssh.host(address, user = "root", key = key, host_key = host_key, port = port, name = "gw", connect_timeout = "5s")
    ` + lines + "\n"
	if err := os.WriteFile(src, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	startest.Run(t, src, s.options(door))
}

func TestWaitForCloudInit(t *testing.T) {
	s := newSite(t, sshtest.Options{})
	s.server.Program("cloud-init", `echo x >>looks
case $(wc -l <looks) in
1) exit 1 ;;
2) echo 'status: running' ;;
*) printf 'status: done\ntime: now\n' ;;
esac`)
	var seen []string
	var mu sync.Mutex
	door := startest.NewDoor(effect.Apply)
	door.Emit = func(e effect.Event) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, e.Message)
	}
	s.step(t, door, `h.wait(cloud_init = True, timeout = "20s", interval = "1ms")`)
	if got := fmt.Sprint(seen); got != "[cloud-init on gw: cloud-init doesn't say its status yet cloud-init on gw: cloud-init is running]" {
		t.Errorf("it said %s", got)
	}
	s.server.Program("cloud-init", `printf 'status: error\ndetail:\n("runcmd", it broke)\n'; exit 1`)
	s.step(t, nil, fails(`h.wait(cloud_init = True)`, "cloud-init failed: detail: (\"runcmd\", it broke)", fault.Failed))
	s.server.Program("cloud-init", `echo 'status: disabled'`)
	s.step(t, nil, `h.wait(cloud_init = True)`)
}

func TestWaitForASilentHost(t *testing.T) {
	s := newSite(t, sshtest.Options{Faults: sshtest.Faults{Mute: true}})
	s.step(t, nil, fails(`h.wait(timeout = "200ms", interval = "1ms")`, "last seen: connecting to gw (", fault.Timeout))
}

// hasty is a clock that leaps a minute at each pause.
type hasty struct {
	mu  sync.Mutex
	now time.Time
}

func (h *hasty) Now() time.Time { h.mu.Lock(); defer h.mu.Unlock(); return h.now }

func (h *hasty) Sleep(ctx context.Context, d time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
	return ctx.Err()
}

func TestWaitForAKeyThatIsNotYetThere(t *testing.T) {
	s := newSite(t, sshtest.Options{})
	good := s.key
	s.key = s.other
	door := startest.NewDoor(effect.Apply)
	clock := &hasty{now: time.Unix(1e9, 0)}
	door.Clock = clock
	s.step(t, door, fails(`h.wait(timeout = "20s", interval = "4s")`, `refuses user "root"`, fault.Denied))
	if waited := clock.Now().Sub(time.Unix(1e9, 0)); waited < 30*time.Second || waited > 36*time.Second {
		t.Errorf("it gave up after %s, want one of the first looks after 30 s", waited)
	}
	s.key = good
	s.step(t, nil, `h.wait()`)
}
