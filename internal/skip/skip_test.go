package skip_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/skip"
)

// TestUnless runs itself again, as the test that is left out.
func TestUnless(t *testing.T) {
	skip.Unless(t, true, "nothing", "all is there")
	if os.Getenv("SKIP_PROBE") != "" {
		skip.Unless(t, false, "the probe", "it has no fuel")
		t.Log("went on")
		return
	}
	record := filepath.Join(t.TempDir(), "skipped")
	for _, tt := range []struct {
		name string
		env  []string
		pass bool
		says string
	}{
		{"anywhere", []string{"CI=", skip.Record + "="}, true, "--- SKIP: TestUnless"},
		{"recorded", []string{"CI=", skip.Record + "=" + record}, true, "NOT TESTED: the probe: it has no fuel"},
		{"recorded again", []string{"CI=", skip.Record + "=" + record}, true, "--- SKIP: TestUnless"},
		{"where nothing can be recorded", []string{"CI=", skip.Record + "=" + filepath.Join(record, "x")}, false, "can't be recorded"},
		{"in CI", []string{"CI=true"}, false, "no test may be left out in CI"},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestUnless$", "-test.v")
		cmd.Env = append(os.Environ(), append(tt.env, "SKIP_PROBE=1")...)
		out, err := cmd.CombinedOutput()
		if (err == nil) != tt.pass || !strings.Contains(string(out), tt.says) || strings.Contains(string(out), "went on") {
			t.Errorf("%s: %v\n%s", tt.name, err, out)
		}
	}
	line := "NOT TESTED: the probe: it has no fuel (TestUnless)\n"
	if got, err := os.ReadFile(record); err != nil || string(got) != line+line {
		t.Errorf("recorded %q, %v", got, err)
	}
}

func TestSlow(t *testing.T) {
	if os.Getenv("SKIP_PROBE") != "" {
		skip.Slow(t, "it starts a rocket")
		t.Log("went on")
		return
	}
	for flag, says := range map[string]string{"-test.short=true": "left out by -short: it starts a rocket", "-test.short=false": "went on"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSlow$", "-test.v", flag)
		cmd.Env = append(os.Environ(), "SKIP_PROBE=1", "CI=true")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), says) {
			t.Errorf("%s: %v\n%s", flag, err, out)
		}
	}
}
