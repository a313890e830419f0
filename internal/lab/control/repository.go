package control

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	gitobject "github.com/go-git/go-git/v5/plumbing/object"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// A snapshot is one commit of a repository.
type snapshot struct {
	revision string
	tree     *gitobject.Tree
}

// open reads a repository at a revision, with the credential that the cluster has for it.
func (a *argo) open(namespace, repoURL, revision string) (*snapshot, error) {
	credential, err := a.credential(namespace, repoURL)
	if err != nil {
		return nil, err
	}
	if string(credential["insecure"]) != "true" {
		if err := a.knownHost(namespace, repoURL); err != nil {
			return nil, fmt.Errorf("failed to list refs: %w", err)
		}
	}
	if err := a.Access(repoURL, credential); err != nil {
		return nil, fmt.Errorf("failed to list refs: %w", err)
	}
	folder, ok := a.Repository(repoURL)
	if !ok {
		return nil, fmt.Errorf("failed to list refs: repository not found: %s", repoURL)
	}
	repository, err := git.PlainOpen(folder)
	if err != nil {
		return nil, fmt.Errorf("failed to list refs: %w", err)
	}
	if revision == "" {
		revision = "HEAD"
	}
	hash, err := repository.ResolveRevision(plumbing.Revision(revision))
	if err != nil {
		return nil, fmt.Errorf("unable to resolve %q to a commit SHA", revision)
	}
	commit, err := repository.CommitObject(*hash)
	if err != nil {
		return nil, fmt.Errorf("unable to resolve %q to a commit SHA: %w", revision, err)
	}
	tree, err := commit.Tree()
	if err != nil {
		return nil, err
	}
	return &snapshot{revision: hash.String(), tree: tree}, nil
}

// credential returns the keys of the Secret that belongs to a repository: its own, or that of the
// longest prefix of its URL. A repository on this machine or over plain https needs none.
func (a *argo) credential(namespace, repoURL string) (map[string][]byte, error) {
	var best *object
	length := -1
	for _, s := range a.list(secrets, namespace, all) {
		of := string(data(s, "url"))
		switch s.GetLabels()["argocd.argoproj.io/secret-type"] {
		case "repository":
			if sameRepository(of, repoURL) {
				best, length = s, len(repoURL)+1
			}
		case "repo-creds":
			if of != "" && strings.HasPrefix(repoURL, of) && len(of) > length {
				best, length = s, len(of)
			}
		}
	}
	if best == nil {
		if strings.HasPrefix(repoURL, "https://") || strings.HasPrefix(repoURL, "file://") {
			return nil, nil
		}
		return nil, fmt.Errorf("failed to list refs: no Secret labelled argocd.argoproj.io/secret-type=repository for %s in namespace %s", repoURL, namespace)
	}
	values := map[string][]byte{}
	for name := range table(best.Object, "data") {
		values[name] = data(best, name)
	}
	if !strings.HasPrefix(repoURL, "http") && !strings.HasPrefix(repoURL, "file:") && len(values["sshPrivateKey"]) == 0 {
		return nil, fmt.Errorf("failed to list refs: Secret %s has no sshPrivateKey for %s", best.GetName(), repoURL)
	}
	return values, nil
}

// knownHost says whether Argo CD's known hosts have a key of an SSH URL's server. Which key it
// is, the server itself could tell.
func (a *argo) knownHost(namespace, repository string) error {
	u, err := url.Parse(repository)
	if err != nil || u.Scheme != "ssh" {
		return nil
	}
	address := knownhosts.Normalize(u.Host)
	settings, _ := a.get(configMaps, namespace, "argocd-ssh-known-hosts-cm")
	if settings == nil {
		return errors.New("configmap argocd-ssh-known-hosts-cm not found")
	}
	rest := []byte(text(settings.Object, "data", "ssh_known_hosts"))
	for {
		_, hosts, _, _, next, err := ssh.ParseKnownHosts(rest)
		if err != nil {
			return fmt.Errorf("ssh: handshake failed: knownhosts: key is unknown (%s isn't in argocd-ssh-known-hosts-cm)", address)
		}
		for _, host := range hosts {
			if host == address || strings.HasPrefix(host, "|1|") {
				return nil
			}
		}
		rest = next
	}
}

// sameRepository compares URLs as Argo CD does: an ending of .git doesn't matter.
func sameRepository(a, b string) bool {
	normal := func(s string) string { return strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(s, "/"), ".git")) }
	return normal(a) == normal(b)
}

// directories returns the folders of the tree whose path matches a pattern.
func (s *snapshot) directories(pattern string) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("directory pattern %q: %w", pattern, err)
	}
	depth := strings.Count(pattern, "/")
	var found []string
	walker := gitobject.NewTreeWalker(s.tree, true, nil)
	defer walker.Close()
	for {
		name, entry, err := walker.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(found)
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if entry.Mode == filemode.Dir && strings.Count(name, "/") == depth {
			if ok, _ := path.Match(pattern, name); ok {
				found = append(found, name)
			}
		}
	}
}

// manifests returns the objects in the YAML and JSON files of a folder.
func (s *snapshot) manifests(folder string, recurse bool) ([]*object, error) {
	tree := s.tree
	if folder = path.Clean(folder); folder != "." && folder != "" {
		sub, err := s.tree.Tree(folder)
		if err != nil {
			return nil, fmt.Errorf("%s: app path does not exist", folder)
		}
		tree = sub
	}
	var objects []*object
	err := tree.Files().ForEach(func(f *gitobject.File) error {
		if !recurse && strings.Contains(f.Name, "/") {
			return nil
		}
		switch path.Base(f.Name) {
		case "kustomization.yaml", "kustomization.yml", "Kustomization", "Chart.yaml":
			return fmt.Errorf("%s: this lab's Argo CD reads plain manifests only", f.Name)
		}
		switch path.Ext(f.Name) {
		case ".yaml", ".yml", ".json":
		default:
			return nil
		}
		content, err := f.Contents()
		if err != nil {
			return err
		}
		read, err := decode([]byte(content))
		if err != nil {
			return fmt.Errorf("failed to unmarshal %q: %w", f.Name, err)
		}
		objects = append(objects, read...)
		return nil
	})
	return objects, err
}

// decode reads the objects of a manifest.
func decode(text []byte) ([]*object, error) {
	reader := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	var objects []*object
	for {
		var content map[string]any
		err := reader.Decode(&content)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(content) == 0 {
			continue
		}
		o := &object{Object: content}
		if o.GetKind() == "" || o.GetAPIVersion() == "" || o.GetName() == "" {
			return nil, errors.New("an object without apiVersion, kind or metadata.name")
		}
		objects = append(objects, o)
	}
}
