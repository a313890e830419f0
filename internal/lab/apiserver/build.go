package apiserver

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sort"
	"strings"
	"syscall"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/lock"
)

// SourceVariable names the environment variable that says where the nested module lies.
const SourceVariable = "GSRUN_LAB_SOURCE"

const modulePath = "git.vanillacore.net/govstack/gsrun/internal/lab/kubernetes"

// FindSource returns the folder of the nested module: what GSRUN_LAB_SOURCE names, else the one
// of the checkout that the working folder lies in, else the one that this program was built from.
func FindSource() (string, error) {
	if dir := os.Getenv(SourceVariable); dir != "" {
		if isSource(dir) {
			return filepath.Abs(dir)
		}
		return "", fault.Hinted(fault.NotFound, "it names the folder internal/lab/kubernetes of a checkout of gsrun",
			"%s: no module %s in %q", SourceVariable, modulePath, dir)
	}
	if dir, err := os.Getwd(); err == nil {
		for {
			if source := filepath.Join(dir, "internal", "lab", "kubernetes"); isSource(source) {
				return source, nil
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	if _, file, _, ok := runtime.Caller(0); ok {
		if source := filepath.Join(filepath.Dir(filepath.Dir(file)), "kubernetes"); isSource(source) {
			return source, nil
		}
	}
	return "", fault.Hinted(fault.NotFound,
		"run it inside a checkout of gsrun, set "+SourceVariable+" to its internal/lab/kubernetes, or set KUBEBUILDER_ASSETS",
		"the source of the lab's Kubernetes isn't here")
}

func isSource(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && bytes.HasPrefix(text, []byte("module "+modulePath+"\n"))
}

// Build returns the path of the lab's Kubernetes, built from source (empty: see FindSource) if
// cache (empty: gsrun/lab in the user's cache folder) doesn't have it yet. Two processes don't
// build it at once, and a build that was broken off leaves nothing that looks whole. Where there
// is no source, it is the program in cache that was used last.
func Build(ctx context.Context, source, cache string, progress func(string)) (string, error) {
	if cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fault.Hinted(fault.Invalid, "set HOME or XDG_CACHE_HOME", "finding the cache folder: %w", err)
		}
		cache = filepath.Join(base, "gsrun", "lab")
	}
	if source == "" {
		found, program, err := choose(FindSource, cache)
		if err != nil || program != "" {
			return program, err
		}
		source = found
	}
	digest, err := sourceDigest(source)
	if err != nil {
		return "", fault.Wrap("reading", source, err)
	}
	folder := filepath.Join(cache, "kubernetes-"+digest)
	program := filepath.Join(folder, "kubernetes")
	if _, err := os.Stat(program); err == nil {
		use(program)
		return program, nil
	}
	unlock, err := lock.Take(ctx, filepath.Join(folder, "lock"), func() {
		progress("waiting for another process that builds the lab's Kubernetes")
	})
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := compile(ctx, source, program, progress); err != nil {
		return "", err
	}
	removeUnused(cache, time.Now().Add(-unused))
	return program, nil
}

// choose returns the source that find finds; or where there is none, the program in cache that
// was used last.
func choose(find func() (string, error), cache string) (source, program string, err error) {
	if source, err = find(); err == nil {
		return source, "", nil
	}
	if os.Getenv(SourceVariable) != "" {
		return "", "", err // one was named, so it is that one or none
	}
	var latest time.Time
	for _, p := range programs(cache) {
		if info, err := os.Stat(p); err == nil && info.ModTime().After(latest) {
			program, latest = p, info.ModTime()
		}
	}
	if program == "" {
		return "", "", err
	}
	use(program)
	return "", program, nil
}

// programs lists the programs that were built whole.
func programs(cache string) []string {
	// The only error is that of a bad pattern, which nothing is listed for.
	list, _ := filepath.Glob(filepath.Join(cache, "kubernetes-*", "kubernetes"))
	return list
}

// use notes when a program was last used. A failure only lets it seem older.
func use(program string) {
	now := time.Now()
	_ = os.Chtimes(program, now, now)
}

// unused is how long a built program is kept after its last use: each is over 100 MB.
const unused = 14 * 24 * time.Hour

// removeUnused removes the programs of other sources that nobody has used since. A failure only
// leaves them there.
func removeUnused(cache string, since time.Time) {
	for _, program := range programs(cache) {
		if info, err := os.Stat(program); err == nil && info.ModTime().Before(since) {
			_ = os.RemoveAll(filepath.Dir(program))
		}
	}
}

// compile builds source into program, by way of a file beside it.
func compile(ctx context.Context, source, program string, progress func(string)) error {
	tool, err := exec.LookPath("go")
	if err != nil {
		return fault.Hinted(fault.NotFound, "install Go, or set KUBEBUILDER_ASSETS", "building the lab's Kubernetes needs the go command: %w", err)
	}
	progress("building the lab's Kubernetes, once: about 6 minutes on two idle cores")
	part := program + ".part"
	defer os.Remove(part)
	cmd := exec.CommandContext(ctx, tool, "build", "-v", "-trimpath", "-ldflags", linkFlags(source), "-o", part, ".")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	// The compilers that go starts are its children: on cancellation all of them have to end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	tail := make(chan string, 1)
	go func() { tail <- followBuild(reader, progress) }()
	err = cmd.Run()
	_ = writer.Close()
	last := <-tail
	if ctx.Err() != nil {
		return fault.Wrap("building", "the lab's Kubernetes", fault.FromContext(ctx))
	}
	if err != nil {
		return fault.New(fault.Failed, "building the lab's Kubernetes in %q: %w\n%s", source, err, last)
	}
	return os.Rename(part, program)
}

// followBuild reports every 100th package that is compiled, and returns the last lines of r.
func followBuild(r io.Reader, progress func(string)) string {
	var last []string
	packages, start := 0, time.Now()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if last = append(last, lines.Text()); len(last) > 20 {
			last = last[1:]
		}
		if packages++; packages%100 == 0 {
			progress(fmt.Sprintf("building the lab's Kubernetes: %d packages, %s", packages, time.Since(start).Round(time.Second)))
		}
	}
	_, _ = io.Copy(io.Discard, r)
	return strings.Join(last, "\n")
}

var kubernetesVersion = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)`)

// linkFlags strip the program and give it the version that it reports, which a build of the
// Kubernetes module alone doesn't know.
func linkFlags(source string) string {
	flags := "-s -w"
	text, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return flags
	}
	if m := kubernetesVersion.FindSubmatch(text); m != nil {
		for _, p := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
			flags += fmt.Sprintf(" -X %s.gitVersion=%s -X %s.gitMajor=%s -X %s.gitMinor=%s -X %s.gitTreeState=clean", p, m[1], p, m[2], p, m[3], p)
		}
	}
	return flags
}

// sourceDigest tells apart all that makes another program: the source, its dependencies, the
// compiler and the platform.
func sourceDigest(source string) (string, error) {
	files, err := filepath.Glob(filepath.Join(source, "*.go"))
	if err != nil {
		return "", err
	}
	files = append(files, filepath.Join(source, "go.mod"), filepath.Join(source, "go.sum"))
	sort.Strings(files)
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, filepath.Base(file), len(text))
		_, _ = sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}
