package lab

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"path/filepath"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/gitserver"
)

// repository is the Git repository that the spokes live in.
const repository = "gitops"

// gitKeys open the repository of spokes.
type gitKeys struct {
	private []byte // OpenSSH PEM
	public  ssh.PublicKey
	host    ssh.PublicKey // of the Git server
}

// startGit serves the repository of spokes, with one deploy key.
func (s *Lab) startGit() (gitKeys, error) {
	var err error
	if s.Git, err = gitserver.New(filepath.Join(s.dir, "git"), gitserver.Options{}); err != nil {
		return gitKeys{}, err
	}
	if err := s.Git.Create(repository, map[string]string{"README.md": "# The spokes of the lab\n\nEach folder in gitops/spokes declares one.\n"}); err != nil {
		return gitKeys{}, err
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return gitKeys{}, fault.Wrap("making", "the deploy key", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "deploy")
	if err != nil {
		return gitKeys{}, fault.Wrap("making", "the deploy key", err)
	}
	k := gitKeys{private: pem.EncodeToMemory(block), host: s.Git.HostKey()}
	if k.public, err = ssh.NewPublicKey(public); err != nil {
		return gitKeys{}, fault.Wrap("making", "the deploy key", err)
	}
	return k, s.Git.AddKey(repository, hostKeyLine(k.public), "deploy", true)
}

// access says whether the credential that a cluster has for a repository
// opens it.
func (k gitKeys) access(url string, credential map[string][]byte) error {
	signer, err := ssh.ParsePrivateKey(credential["sshPrivateKey"])
	if err != nil {
		return fault.New(fault.Denied, "the credential for %s has no key: %v", url, err)
	}
	if string(signer.PublicKey().Marshal()) != string(k.public.Marshal()) {
		return fault.New(fault.Denied, "permission denied (publickey)")
	}
	return nil
}

// repositoryFolder returns the bare repository that a URL of the lab's Git
// server stands for.
func (s *Lab) repositoryFolder(url string) (string, bool) {
	if url == s.Git.URL(repository) {
		return filepath.Join(s.dir, "git", "repositories", repository+".git"), true
	}
	return "", false
}
