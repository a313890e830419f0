package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

// TestCalls makes the calls of testdata/*.calls, bad ones among them, to the
// simulator, and compares the answers with those that a real cloud gave to the
// same calls. Its clock stands still between two waits, so that what is under
// way is seen as the real one, which is slower, shows it.
func TestCalls(t *testing.T) {
	files, err := filepath.Glob("testdata/*.calls")
	if err != nil || len(files) == 0 {
		t.Fatalf("no calls: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".calls"), func(t *testing.T) {
			t.Parallel()
			newPlayer(t).play(file)
		})
	}
}

// A player makes recorded calls with one login.
type player struct {
	t         *testing.T
	clock     *lab.ManualClock
	token     string
	endpoints map[string]string
	names     map[string]string // what was captured, by name
	last      any
}

func newPlayer(t *testing.T) *player {
	clock := lab.NewManualClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	cloud := lab.New(lab.Config{Clock: clock})
	t.Cleanup(cloud.Close)
	server := httptest.NewServer(cloud)
	t.Cleanup(server.Close)
	c := &player{t: t, clock: clock, endpoints: map[string]string{}, names: map[string]string{}}
	_, header, body := c.call("POST", server.URL+"/identity/v3/auth/tokens", fmt.Sprintf(`{"auth": {"identity": {"methods": ["password"], "password": {"user": {"name": %q, "password": %q, "domain": {"id": "default"}}}}, "scope": {"project": {"name": %q, "domain": {"id": "default"}}}}}`,
		"demo", "secret", "demo"))
	var login struct {
		Token struct {
			Project struct{ ID string }
			Catalog []struct {
				Type      string
				Endpoints []struct{ Interface, URL string }
			}
		}
	}
	if err := json.Unmarshal(body, &login); err != nil {
		t.Fatal(err)
	}
	c.token, c.names["project"] = header.Get("X-Subject-Token"), login.Token.Project.ID
	for _, s := range login.Token.Catalog {
		for _, e := range s.Endpoints {
			if e.Interface == "public" {
				c.endpoints[s.Type] = e.URL
			}
		}
	}
	return c
}

func (c *player) call(method, url, body string) (int, http.Header, []byte) {
	c.t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("X-Auth-Token", c.token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, raw
}

// play makes the calls of a file.
func (c *player) play(file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		words := strings.SplitN(c.filled(lines[i]), " ", 4)
		switch words[0] {
		case "", "#":
		case "capture":
			c.capture(words[1], words[2])
		case "wait":
			c.clock.Advance(time.Second) // by then nothing is under way
		default:
			want := strings.TrimPrefix(lines[i+1], "= ")
			status, _, raw := c.call(words[0], c.endpoints[words[1]]+words[2], strings.Join(words[3:], ""))
			c.last = nil
			if err := json.Unmarshal(raw, &c.last); err != nil {
				c.last = nil
			}
			got := fmt.Sprint(status)
			if strings.Contains(want, " ") {
				got += " " + c.plain(string(raw))
				code, body, _ := strings.Cut(want, " ")
				want = code + " " + c.plain(body)
			}
			if got != want {
				c.t.Errorf("%s:%d: %s\n got  %s\n want %s", file, i+1, lines[i], got, want)
			}
			i++
		}
	}
}

// filled puts what was captured in the place of its names.
func (c *player) filled(s string) string {
	names := make([]string, 0, len(c.names))
	for name := range c.names {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	for _, name := range names {
		s = strings.ReplaceAll(s, "$"+name, c.names[name])
	}
	return s
}

func (c *player) capture(name, path string) {
	x := c.last
	for _, key := range strings.Split(path, ".") {
		m, _ := x.(map[string]any)
		x = m[key]
	}
	id, found := x.(string)
	if !found {
		c.t.Fatalf("there is no %s to capture in %v", path, c.last)
	}
	c.names[name] = id
}

// differing is what isn't the same in two runs, and what stands for it.
var differing = []struct {
	form *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "<uuid>"},
	{regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:]*(\.\d+)?Z?"`), `"<time>"`},
	{regexp.MustCompile(`10\.77\.0\.([2-8]|1\d\d|2\d\d)\b`), "<ip>"},
	{regexp.MustCompile(`Value should be one of: [^"]*`), "Value should be one of these"}, // a set, in no order
	{regexp.MustCompile(`Value: '\{.*?\}'\. `), "Value: it. "},                            // a dict
}

// plain writes an answer without what differs from run to run, lists in order.
func (c *player) plain(s string) string {
	for name, id := range c.names {
		if len(id) > 8 {
			s = strings.ReplaceAll(s, id, "$"+name)
		}
	}
	for _, url := range c.endpoints {
		s = strings.ReplaceAll(s, url, "<load-balancer>")
	}
	for _, d := range differing {
		s = d.form.ReplaceAllString(s, d.name)
	}
	var x any
	if err := json.Unmarshal([]byte(s), &x); err != nil {
		return s
	}
	out, err := json.Marshal(inOrder(x))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(out)
}

// inOrder sorts the lists of objects within x: what was made within one second
// is listed in no order.
func inOrder(x any) any {
	switch x := x.(type) {
	case map[string]any:
		for k := range x {
			x[k] = inOrder(x[k])
		}
	case []any:
		for i := range x {
			x[i] = inOrder(x[i])
		}
		slices.SortFunc(x, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return x
}
