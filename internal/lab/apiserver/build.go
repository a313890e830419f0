package apiserver

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
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
// build it at once, and a build that was broken off leaves nothing that looks whole.
func Build(ctx context.Context, source, cache string, progress func(string)) (string, error) {
	if source == "" {
		found, err := FindSource()
		if err != nil {
			return "", err
		}
		source = found
	}
	if cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fault.Hinted(fault.Invalid, "set HOME or XDG_CACHE_HOME", "finding the cache folder: %w", err)
		}
		cache = filepath.Join(base, "gsrun", "lab")
	}
	digest, err := sourceDigest(source)
	if err != nil {
		return "", fault.Wrap("reading", source, err)
	}
	folder := filepath.Join(cache, "kubernetes-"+digest)
	program := filepath.Join(folder, "kubernetes")
	if _, err := os.Stat(program); err == nil {
		now := time.Now()
		_ = os.Chtimes(program, now, now) // in use: see removeUnused
		return program, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fault.Wrap("making", folder, err)
	}
	unlock, err := lock(ctx, filepath.Join(folder, "lock"), func() {
		progress("waiting for another process that builds the lab's Kubernetes")
	})
	if err != nil {
		return "", fault.Wrap("locking", folder, err)
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

// unused is how long a built program is kept after its last use: each is over 100 MB.
const unused = 14 * 24 * time.Hour

// removeUnused removes the programs of other sources that nobody has used since. A failure only
// leaves them there.
func removeUnused(cache string, since time.Time) {
	programs, err := filepath.Glob(filepath.Join(cache, "kubernetes-*", "kubernetes"))
	if err != nil {
		return
	}
	for _, program := range programs {
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

// lock takes the lock file at path, and returns what frees it. It calls waiting once if somebody
// else has it.
func lock(ctx context.Context, path string, waiting func()) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for first := true; ; first = false {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = file.Close()
			return nil, err
		}
		if first {
			waiting()
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, fault.FromContext(ctx)
		case <-tick.C:
		}
	}
}
