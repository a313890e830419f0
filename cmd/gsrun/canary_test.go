package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A canary knows secrets, and finds them in what was written.
type canary struct {
	patterns map[string]string // form of a secret -> what it is
	looked   map[string]int    // bytes, by kind of place
	hits     map[string]bool
}

func newCanary() *canary {
	return &canary{patterns: make(map[string]string), looked: make(map[string]int), hits: make(map[string]bool)}
}

// add makes c look for a secret in every form. Of one of several lines it looks
// for each that is a key or the value of one, too.
func (c *canary) add(name, secret string) {
	for line := range strings.Lines(secret) {
		line = strings.TrimSpace(line)
		key, value, isPair := strings.Cut(line, ": ")
		switch {
		case line == strings.TrimSpace(secret):
		case isPair && (strings.Contains(key, "key-data") || strings.Contains(key, "password") || strings.Contains(key, "token")):
			c.add(name+" "+key, value)
		case !isPair && !strings.Contains(line, " ") && len(line) >= 40:
			c.add(name+" line", line)
		}
	}
	b := []byte(secret)
	quoted, _ := json.Marshal(secret) // a text always marshals
	escaped := string(quoted[1 : len(quoted)-1])
	again, _ := json.Marshal(escaped)
	for form, text := range map[string]string{
		"raw": strings.TrimSpace(secret), "JSON": escaped, "JSON in JSON": string(again[1 : len(again)-1]), "quoted": strconv.Quote(escaped)[1:],
		"query": url.QueryEscape(secret), "path": url.PathEscape(secret), "hex": hex.EncodeToString(b),
	} {
		c.patterns[strings.TrimSuffix(text, `"`)] = name + " (" + form + ")"
	}
	for before := range 3 {
		// Bytes whose encoding depends on the neighbours are left out.
		first := (3 - before) % 3
		whole := b[first : first+(len(b)-first)/3*3]
		c.patterns[base64.StdEncoding.EncodeToString(whole)] = fmt.Sprintf("%s (base64 after %d)", name, before)
		c.patterns[base64.URLEncoding.EncodeToString(whole)] = fmt.Sprintf("%s (base64url after %d)", name, before)
		twice := []byte(base64.StdEncoding.EncodeToString(whole))
		c.patterns[base64.StdEncoding.EncodeToString(twice[:len(twice)/3*3])] = fmt.Sprintf("%s (base64 twice after %d)", name, before)
	}
}

// look looks into data that was found at a place of a kind.
func (c *canary) look(kind, where string, data []byte) {
	c.looked[kind] += len(data)
	for pattern, name := range c.patterns {
		if bytes.Contains(data, []byte(pattern)) {
			c.hits[fmt.Sprintf("%s: %s holds %s", kind, where, name)] = true
		}
	}
}

// lookUnder looks into all files under a folder, and at their names.
func (c *canary) lookUnder(t *testing.T, kind, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		c.look(kind, path, append([]byte(path+"\n"), data...))
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// lookAtCommits looks into all commits of a repository: messages and content.
func (c *canary) lookAtCommits(t *testing.T, repo string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "-C", repo, "log", "--all", "--patch", "--text", "--format=fuller").Output()
	if err != nil {
		t.Errorf("%s: %v", repo, err)
	}
	c.look("commits", repo, out)
}

// report says what was looked at, and fails for each hit.
func (c *canary) report(t *testing.T, kinds ...string) {
	t.Helper()
	names := make(map[string]bool)
	for _, n := range c.patterns {
		name, _, _ := strings.Cut(n, " (")
		names[name] = true
	}
	t.Logf("looked for %d secrets in %d forms: %s", len(names), len(c.patterns), strings.Join(slices.Sorted(maps.Keys(names)), ", "))
	for _, kind := range slices.Sorted(maps.Keys(c.looked)) {
		t.Logf("%9d bytes of %s", c.looked[kind], kind)
	}
	for _, kind := range kinds {
		if c.looked[kind] == 0 {
			t.Errorf("nothing of %s was looked at", kind)
		}
	}
	for _, h := range slices.Sorted(maps.Keys(c.hits)) {
		t.Error(h)
	}
	t.Logf("%d hits", len(c.hits))
}

// A procWatch samples the command lines of all processes on this machine, and
// the environments of those that descend from this one but for one generation:
// what gsrun is given by its environment is no leak, what it hands on is.
type procWatch struct {
	stop chan struct{}
	wg   sync.WaitGroup

	mu    sync.Mutex
	lines map[string]bool
	envs  map[string]bool
	given map[int]bool // processes whose environment is what the test gave
	seen  int          // samples
}

func watchProcesses() *procWatch {
	w := &procWatch{stop: make(chan struct{}), lines: make(map[string]bool), envs: make(map[string]bool), given: make(map[int]bool)}
	w.wg.Add(1)
	go func() {
		defer w.wg.Done()
		tick := time.NewTicker(3 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-tick.C:
				w.sample()
			}
		}
	}()
	return w
}

func (w *procWatch) sample() {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	parents := make(map[int]int)
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", d.Name(), "cmdline"))
		if err != nil || len(line) == 0 {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", d.Name(), "stat"))
		if err != nil {
			continue
		}
		if fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])); len(fields) > 1 {
			parents[pid], _ = strconv.Atoi(fields[1])
		}
		w.mu.Lock()
		w.lines[string(line)] = true
		w.seen++
		w.mu.Unlock()
	}
	self := os.Getpid()
	for pid := range parents {
		w.mu.Lock()
		given := w.given[pid]
		w.mu.Unlock()
		if given || pid == self {
			continue
		}
		for up := parents[pid]; up > 1; up = parents[up] {
			if up == self {
				if env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ")); err == nil {
					w.mu.Lock()
					w.envs[string(env)] = true
					w.mu.Unlock()
				}
				break
			}
		}
	}
}

// run starts a command whose own environment may hold secrets, and waits for it.
func (w *procWatch) run(cmd *exec.Cmd) error {
	w.mu.Lock()
	err := cmd.Start()
	if err == nil {
		w.given[cmd.Process.Pid] = true
	}
	w.mu.Unlock()
	if err != nil {
		return err
	}
	return cmd.Wait()
}

// end stops the watch and looks at what it saw.
func (w *procWatch) end(c *canary) {
	close(w.stop)
	w.wg.Wait()
	for l := range w.lines {
		c.look("command lines", strings.ReplaceAll(l[:min(60, len(l))], "\x00", " "), []byte(l))
	}
	for e := range w.envs {
		c.look("environments", "a process", []byte(e))
	}
}

// TestCanaryFinds plants a secret in each kind of place: it is found.
func TestCanaryFinds(t *testing.T) {
	const secret = "canary/singing+in&the=cage"
	c := newCanary()
	c.add("planted", secret)
	c.add("key", "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgevZzL1gdAFr88hb2\n-----END PRIVATE KEY-----\n")
	quoted, _ := json.Marshal(secret)
	twice, _ := json.Marshal(string(quoted))
	planted := []string{
		secret, string(quoted), string(twice), url.QueryEscape(secret), url.PathEscape(secret), hex.EncodeToString([]byte(secret)),
		"    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgevZzL1gdAFr88hb2",
	}
	for before := range 4 {
		text := "user"[:before] + secret + "\n"
		planted = append(planted, base64.StdEncoding.EncodeToString([]byte(text)), base64.RawURLEncoding.EncodeToString([]byte(text)))
	}
	planted = append(planted, base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte(secret)))))
	for i, text := range planted {
		clear(c.hits)
		c.look("output", "here", []byte("before "+text+" after"))
		if len(c.hits) == 0 {
			t.Errorf("number %d isn't found: %s", i, text)
		}
	}

	clear(c.hits)
	dir := t.TempDir()
	for _, args := range [][]string{{"init", "--quiet"}, {"-c", "user.name=x", "-c", "user.email=x@x.invalid", "commit", "--quiet", "--allow-empty", "-m", secret}} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git: %v\n%s", err, out)
		}
	}
	c.lookAtCommits(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "journal"), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	c.lookUnder(t, "state", dir)

	w := watchProcesses()
	// A process that has the secret by right, and hands it on to two others.
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `read x; sh -c "read y; :" "$GIVEN" <&3 & read y; :`)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GIVEN=" + secret}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.ExtraFiles = []*os.File{in}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.run(cmd) }()
	fmt.Fprintln(stdin, "go")
	for found := false; !found; {
		w.mu.Lock()
		inLine, inEnv := false, false
		for l := range w.lines {
			inLine = inLine || strings.Contains(l, secret)
		}
		for e := range w.envs {
			inEnv = inEnv || strings.Contains(e, secret)
		}
		w.mu.Unlock()
		found = inLine && inEnv
		if t.Context().Err() != nil {
			t.Fatal("no process was seen")
		}
	}
	in.Close()
	out.Close()
	stdin.Close()
	if err := <-ended; err != nil {
		t.Log(err) // read ends with 1 at the end of its input
	}
	w.end(c)
	for _, kind := range []string{"commits", "state", "command lines", "environments"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(c.hits)), func(h string) bool { return strings.HasPrefix(h, kind+": ") }) {
			t.Errorf("what was planted in %s isn't found: %v", kind, c.hits)
		}
	}
}
