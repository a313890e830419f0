package gitserver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// Branch is the branch that a new repository begins with.
const Branch = "main"

// environ is what git gets to see of the machine: nothing of the user's.
func (s *Server) environ(who string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir + "/home", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_TERMINAL_PROMPT=0", "GIT_COMMITTER_NAME=" + who, "GIT_COMMITTER_EMAIL=" + who + "@lab.invalid",
		"GIT_AUTHOR_NAME=" + who, "GIT_AUTHOR_EMAIL=" + who + "@lab.invalid",
	}
}

// command prepares git on a repository, with hooks and foreign configuration off.
func (s *Server) command(who string, args ...string) *exec.Cmd {
	args = append([]string{"-c", "core.hooksPath=" + os.DevNull, "-c", "safe.directory=*", "-c", "core.logAllRefUpdates=always", "-c", "gc.auto=0",
		"-c", "receive.autogc=false"}, args...)
	cmd := exec.Command(s.git, args...)
	cmd.Env = s.environ(who)
	cmd.Dir = s.dir
	return cmd
}

func (s *Server) output(stdin string, args ...string) (string, error) {
	cmd := s.command("lab", args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(errOut.String()))
	}
	return out.String(), nil
}

// Create makes a bare repository. If there are files, they are its first
// commit on the branch main; else it is empty. It fails with Exists if the name
// is taken and with Invalid if it can't be one.
func (s *Server) Create(name string, files map[string]string) error {
	fail := func(kind fault.Kind, err error) error {
		return &fault.Error{Op: "creating repository", Target: "git/" + name, Kind: kind, Err: err}
	}
	if !repoName.MatchString(name) || strings.HasSuffix(name, ".git") {
		return fail(fault.Invalid, errors.New("a name has letters, digits, and .-_/ inside, and no .git at its end"))
	}
	if s.has(name) {
		return fail(fault.Exists, errors.New("there is a repository of that name"))
	}
	if _, err := s.output("", "init", "--quiet", "--bare", "--initial-branch", Branch, s.path(name)); err != nil {
		return fail(fault.Failed, err)
	}
	if len(files) == 0 {
		return nil
	}
	if err := s.Commit(name, "Initial commit", files); err != nil {
		return fail(fault.Failed, err)
	}
	return nil
}

// Commit adds a commit to the branch main by the lab itself, past all keys:
// each file gets its content, the others stay. It isn't in the log of pushes.
func (s *Server) Commit(name, message string, files map[string]string) error {
	fail := func(kind fault.Kind, err error) error {
		return &fault.Error{Op: "committing", Target: "git/" + name, Kind: kind, Err: err}
	}
	if !s.has(name) {
		return fail(fault.NotFound, errors.New("no such repository"))
	}
	var in bytes.Buffer
	ref := "refs/heads/" + Branch
	fmt.Fprintf(&in, "commit %s\ncommitter lab <lab@lab.invalid> %d +0000\ndata %d\n%s\n", ref, s.now().Unix(), len(message), message)
	if old, err := s.Resolve(name, ref); err == nil {
		fmt.Fprintf(&in, "from %s\n", old)
	}
	var names []string
	for file := range files {
		if path.IsAbs(file) || path.Clean(file) != file || file == ".." || strings.HasPrefix(file, "../") || strings.ContainsAny(file, "\n\"") {
			return fail(fault.Invalid, fmt.Errorf("%q is no path in a repository", file))
		}
		names = append(names, file)
	}
	slices.Sort(names)
	for _, file := range names {
		fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", file, len(files[file]), files[file])
	}
	if _, err := s.output(in.String(), "--git-dir", s.path(name), "fast-import", "--quiet", "--date-format=raw"); err != nil {
		return fail(fault.Failed, err)
	}
	return nil
}

// Resolve returns the commit that a ref or another revision names. It fails
// with NotFound.
func (s *Server) Resolve(name, rev string) (string, error) {
	if s.has(name) && !strings.HasPrefix(rev, "-") {
		out, err := s.output("", "--git-dir", s.path(name), "rev-parse", "--verify", "--quiet", rev+"^{commit}")
		if err == nil {
			return strings.TrimSpace(out), nil
		}
	}
	return "", &fault.Error{Op: "resolving " + rev, Target: "git/" + name, Kind: fault.NotFound, Err: errors.New("no such commit")}
}

// ReadFile returns a file's content at a revision. It fails with NotFound.
func (s *Server) ReadFile(name, rev, file string) (string, error) {
	if s.has(name) && !strings.HasPrefix(rev, "-") {
		out, err := s.output("", "--git-dir", s.path(name), "cat-file", "blob", rev+":"+file)
		if err == nil {
			return out, nil
		}
	}
	return "", &fault.Error{Op: "reading " + file, Target: "git/" + name, Kind: fault.NotFound, Err: errors.New("no such file at " + rev)}
}

// Files lists the paths of all files at a revision. It fails with NotFound.
func (s *Server) Files(name, rev string) ([]string, error) {
	if s.has(name) && !strings.HasPrefix(rev, "-") {
		out, err := s.output("", "--git-dir", s.path(name), "ls-tree", "-r", "-z", "--name-only", rev)
		if err == nil {
			return strings.FieldsFunc(out, func(r rune) bool { return r == 0 }), nil
		}
	}
	return nil, &fault.Error{Op: "listing files", Target: "git/" + name, Kind: fault.NotFound, Err: errors.New("no such commit: " + rev)}
}

// History lists all refs, and after each the subjects of its commits, the
// newest first.
func (s *Server) History(name string) (string, error) {
	fail := func(err error) (string, error) {
		return "", &fault.Error{Op: "reading the history of", Target: "git/" + name, Kind: fault.Failed, Err: err}
	}
	refs, err := s.output("", "--git-dir", s.path(name), "for-each-ref", "--format=%(refname)")
	if err != nil {
		return fail(err)
	}
	var all strings.Builder
	for ref := range strings.FieldsSeq(refs) {
		subjects, err := s.output("", "--git-dir", s.path(name), "log", "--format=  %s", ref, "--")
		if err != nil {
			return fail(err)
		}
		all.WriteString(ref + "\n" + subjects)
	}
	return all.String(), nil
}
