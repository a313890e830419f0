package lab

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"

	"golang.org/x/crypto/ssh"
)

type gitServer struct{}

func (gitServer) URL(string) string { return "ssh://git@127.0.0.1:1/gitops.git" }
func (gitServer) Close() error      { return nil }

func (s *server) startGit() (gitKeys, error) {
	s.git = &gitServer{}
	pub, priv, _ := ed25519.GenerateKey(rand.Reader)
	b, _ := ssh.MarshalPrivateKey(priv, "")
	p, _ := ssh.NewPublicKey(pub)
	return gitKeys{private: pem.EncodeToMemory(b), public: p, host: p}, nil
}
