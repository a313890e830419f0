package debian

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

// gpg only turns armoured keys into binary ones.
func (s *System) gpg(ctx context.Context, p *machine.Proc) int {
	o := p.Options("dearmor o|output: yes batch no-tty import keyring: show-keys with-fingerprint no-default-keyring homedir: version quiet q list-keys export a|armor")
	if o == nil {
		return 2
	}
	if o.Has("version") {
		p.Printf("gpg (GnuPG) 2.2.40\n")
		return 0
	}
	name := "-"
	if len(o.Args) > 0 {
		name = o.Args[0]
	}
	in, err := p.Input(ctx, name)
	if err != nil {
		return p.Fail(2, "can't open '%s': %s", name, machine.Strerror(err))
	}
	defer in.Close()
	text := readAll(in)
	if !o.Has("dearmor") {
		return 0
	}
	if strings.TrimSpace(text) == "" {
		return p.Fail(2, "no valid OpenPGP data found.")
	}
	data := []byte(text)
	if body, ok := strings.CutPrefix(text, "-----BEGIN"); ok {
		if _, rest, ok := strings.Cut(body, "\n\n"); ok {
			rest, _, _ = strings.Cut(rest, "\n=")
			rest, _, _ = strings.Cut(rest, "\n-----END")
			if raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(rest), "")); err == nil {
				data = raw
			}
		}
	}
	if out := o.Get("o"); out != "" && out != "-" {
		if s.Exists(p.Abs(out)) && !o.Has("yes") {
			return p.Fail(2, "cannot open '/dev/tty': No such device or address")
		}
		if err := s.FS.WriteFile(p.Cred, p.Abs(out), data, 0o666&^p.Umask); err != nil {
			return p.Fail(2, "can't create '%s': %s", out, machine.Strerror(err))
		}
		return 0
	}
	_, _ = p.Write(data)
	return 0
}

func (s *System) openssl(_ context.Context, p *machine.Proc) int {
	if len(p.Args) < 3 || p.Args[1] != "rand" {
		return p.Fail(1, "Invalid command; only rand is known")
	}
	n, err := strconv.Atoi(p.Args[len(p.Args)-1])
	if err != nil || n < 0 || n > 1<<20 {
		return p.Fail(1, "rand: Invalid number")
	}
	b := make([]byte, n)
	rand.Read(b)
	switch p.Args[2] {
	case "-hex":
		p.Printf("%s\n", hex.EncodeToString(b))
	case "-base64":
		p.Printf("%s\n", base64.StdEncoding.EncodeToString(b))
	default:
		_, _ = p.Write(b)
	}
	return 0
}

func (s *System) sshKeygen(_ context.Context, p *machine.Proc) int {
	o := p.Options("l f: E: A t: N: C: b: q y F: R: H v")
	if o == nil {
		return 1
	}
	if !o.Has("l") {
		return 0
	}
	data, err := s.FS.ReadFile(p.Cred, p.Abs(o.Get("f")))
	if err != nil {
		return p.Fail(255, "%s: %s", o.Get("f"), machine.Strerror(err))
	}
	key, comment, _, _, err := ssh.ParseAuthorizedKey(data)
	if err != nil {
		return p.Fail(255, "%s is not a public key file.", o.Get("f"))
	}
	p.Printf("256 %s %s (%s)\n", ssh.FingerprintSHA256(key), comment, strings.ToUpper(strings.TrimPrefix(strings.TrimPrefix(key.Type(), "ssh-"), "ecdsa-sha2-")))
	return 0
}
