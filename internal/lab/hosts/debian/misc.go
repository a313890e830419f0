package debian

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

func (s *System) df(_ context.Context, p *machine.Proc) int {
	o := p.Options("h|human-readable P|portability k m T output: B: l t: x: a i")
	if o == nil {
		return 1
	}
	used := s.FS.Used() + 1<<30
	p.Printf("Filesystem     1024-blocks    Used Available Capacity Mounted on\n/dev/vda1         %d %d  %d       %d%% /\n", DiskBytes>>10, used>>10, (DiskBytes-used)>>10, used*100/DiskBytes)
	return 0
}

func (s *System) free(_ context.Context, p *machine.Proc) int {
	mem := max(256, s.Config.MemoryMB)
	unit := 1024
	if slices.Contains(p.Args, "-m") {
		unit = 1
	}
	p.Printf("               total        used        free      shared  buff/cache   available\nMem:  %14d %11d %11d %11d %11d %11d\nSwap: %14d %11d %11d\n",
		mem*unit, mem/4*unit, mem/2*unit, 0, mem/4*unit, mem*3/4*unit, s.kernel.swapKB(), 0, s.kernel.swapKB())
	return 0
}

func (s *System) nproc(_ context.Context, p *machine.Proc) int {
	p.Printf("%d\n", max(1, s.Config.CPUs))
	return 0
}

// ss lists the sockets that services listen on.
func (s *System) ss(_ context.Context, p *machine.Proc) int {
	p.Printf("Netid State  Recv-Q Send-Q Local Address:Port Peer Address:Port\ntcp   LISTEN 0      128          0.0.0.0:22        0.0.0.0:*\n")
	s.kernel.mu.Lock()
	for _, t := range s.kernel.tunnels {
		if t.port > 0 {
			p.Printf("udp   UNCONN 0      0            0.0.0.0:%d     0.0.0.0:*\n", t.port)
		}
	}
	s.kernel.mu.Unlock()
	if s.Exists("/etc/kubernetes/admin.conf") {
		p.Printf("tcp   LISTEN 0      4096               *:6443              *:*\n")
	}
	return 0
}

func (s *System) mount(_ context.Context, p *machine.Proc) int {
	if len(p.Args) == 1 {
		for line := range strings.Lines(mounts) {
			f := strings.Fields(line)
			p.Printf("%s on %s type %s (%s)\n", f[0], f[1], f[2], f[3])
		}
		return 0
	}
	if p.Cred.UID != 0 {
		return p.Fail(1, "must be superuser to use mount.")
	}
	target := p.Args[len(p.Args)-1]
	if !s.Exists(p.Abs(target)) && target != "-a" {
		return p.Fail(32, "%s: mount point does not exist.", target)
	}
	s.FS.Touched()
	return 0
}

func (s *System) detectVirt(_ context.Context, p *machine.Proc) int {
	if slices.Contains(p.Args, "-c") || slices.Contains(p.Args, "--container") {
		p.Printf("none\n")
		return 1
	}
	p.Printf("kvm\n")
	return 0
}

func (s *System) timedatectl(_ context.Context, p *machine.Proc) int {
	zone := strings.TrimSpace(s.Text("/etc/timezone"))
	args := p.Args[1:]
	if len(args) > 0 {
		switch args[0] {
		case "set-timezone", "set-ntp":
			if p.Cred.UID != 0 {
				return p.Fail(1, "Failed to set time zone: %s", errNotRoot)
			}
			if args[0] == "set-timezone" && len(args) > 1 && args[1] != zone {
				if err := s.Put("/etc/timezone", args[1]+"\n", 0o644); err != nil {
					return p.Fail(1, "%s", machine.Strerror(err))
				}
			}
			return 0
		case "show":
			value := map[string]string{"Timezone": zone, "NTP": "yes", "NTPSynchronized": "yes"}
			for _, k := range []string{"Timezone", "NTP", "NTPSynchronized"} {
				if !strings.Contains(strings.Join(args, " "), "-p") && !strings.Contains(strings.Join(args, " "), "--property") || slices.ContainsFunc(args, func(a string) bool { return a == k || strings.HasSuffix(a, "="+k) }) {
					if slices.Contains(args, "--value") {
						p.Printf("%s\n", value[k])
					} else {
						p.Printf("%s=%s\n", k, value[k])
					}
				}
			}
			return 0
		}
	}
	p.Printf("               Local time: %s\n                Time zone: %s (UTC, +0000)\nSystem clock synchronized: yes\n              NTP service: active\n", s.Clock.Now().UTC().Format("Mon 2006-01-02 15:04:05 UTC"), zone)
	return 0
}

func (s *System) hostnamectl(_ context.Context, p *machine.Proc) int {
	args := p.Args[1:]
	if len(args) > 1 && (args[0] == "set-hostname" || args[0] == "hostname") {
		if p.Cred.UID != 0 {
			return p.Fail(1, "Could not set static hostname: %s", errNotRoot)
		}
		if strings.TrimSpace(s.Text("/etc/hostname")) != args[1] {
			if err := s.Put("/etc/hostname", args[1]+"\n", 0o644); err != nil {
				return p.Fail(1, "%s", machine.Strerror(err))
			}
		}
		s.setHostname(args[1])
		return 0
	}
	if len(args) > 0 && args[0] != "status" {
		p.Printf("%s\n", s.Hostname())
		return 0
	}
	p.Printf(" Static hostname: %s\n  Virtualization: kvm\nOperating System: Debian GNU/Linux 12 (bookworm)\n          Kernel: Linux %s\n    Architecture: x86-64\n", s.Hostname(), kernelRelease)
	return 0
}

func (s *System) lsblk(_ context.Context, p *machine.Proc) int {
	p.Printf("NAME   MAJ:MIN RM SIZE RO TYPE MOUNTPOINTS\nvda    254:0    0  20G  0 disk\n`-vda1 254:1    0  20G  0 part /\n")
	return 0
}

func (s *System) uptime(_ context.Context, p *machine.Proc) int {
	p.Printf(" %s up 1 min,  1 user,  load average: 0.00, 0.01, 0.05\n", s.Clock.Now().UTC().Format("15:04:05"))
	return 0
}

func (s *System) dmesg(_ context.Context, p *machine.Proc) int {
	if p.Cred.UID != 0 {
		return p.Fail(1, "read kernel buffer failed: Operation not permitted")
	}
	p.Printf("[    0.000000] Linux version %s\n", kernelRelease)
	return 0
}

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

// jq knows paths, -r, -e and -c.
func (s *System) jq(ctx context.Context, p *machine.Proc) int {
	o := p.Options("r|raw-output e|exit-status c|compact-output n s M S")
	if o == nil || len(o.Args) == 0 {
		return 2
	}
	code := 0
	status := p.Each(ctx, o.Args[1:], func(_ string, r io.Reader) error {
		var v any
		if err := json.Unmarshal([]byte(readAll(r)), &v); err != nil {
			code = p.Fail(2, "error (at <stdin>:1): %v", err)
			return nil
		}
		vals, err := jqPath(o.Args[0], v)
		if err != nil {
			code = p.Fail(5, "error: %v", err)
			return nil
		}
		for _, v := range vals {
			if text, ok := v.(string); ok && o.Has("r") {
				p.Printf("%s\n", text)
			} else {
				b, err := json.MarshalIndent(v, "", "  ")
				if o.Has("c") {
					b, err = json.Marshal(v)
				}
				if err != nil {
					return err
				}
				p.Printf("%s\n", b)
			}
			if o.Has("e") && (v == nil || v == false) {
				code = 1
			}
		}
		return nil
	})
	return max(code, status)
}

func jqPath(filter string, v any) ([]any, error) {
	vals := []any{v}
	filter = strings.TrimSpace(filter)
	for filter != "" && filter != "." {
		var next []any
		filter = strings.TrimPrefix(filter, ".")
		switch {
		case strings.HasPrefix(filter, "[]"):
			filter = filter[2:]
			for _, v := range vals {
				list, ok := v.([]any)
				if !ok {
					return nil, fmt.Errorf("Cannot iterate over %T", v)
				}
				next = append(next, list...)
			}
		case strings.HasPrefix(filter, "["):
			index, rest, _ := strings.Cut(filter[1:], "]")
			filter = rest
			n, err := strconv.Atoi(index)
			for _, v := range vals {
				list, _ := v.([]any)
				object, _ := v.(map[string]any)
				switch {
				case err != nil:
					next = append(next, object[strings.Trim(index, `"`)])
				case n >= 0 && n < len(list):
					next = append(next, list[n])
				case n < 0 && -n <= len(list):
					next = append(next, list[len(list)+n])
				default:
					next = append(next, nil)
				}
			}
		default:
			end := strings.IndexAny(filter, ".[ |")
			if end < 0 {
				end = len(filter)
			}
			name := strings.Trim(filter[:end], `"?`)
			if name == "" || strings.ContainsAny(filter[end:], "|") {
				return nil, fmt.Errorf("the filter %q is beyond this jq", filter)
			}
			filter = filter[end:]
			for _, v := range vals {
				object, ok := v.(map[string]any)
				if !ok && v != nil {
					return nil, fmt.Errorf("Cannot index %T with \"%s\"", v, name)
				}
				next = append(next, object[name])
			}
		}
		vals = next
	}
	return vals, nil
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

func (s *System) visudo(ctx context.Context, p *machine.Proc) int {
	o := p.Options("c|check f|file: q|quiet s")
	if o == nil {
		return 1
	}
	file := o.Get("f")
	if file == "" {
		file = "/etc/sudoers"
	}
	in, err := p.Input(ctx, file)
	if err != nil {
		return p.Fail(1, "%s: %s", file, machine.Strerror(err))
	}
	defer in.Close()
	for n, line := range strings.Split(readAll(in), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "@") || strings.HasPrefix(line, "Defaults") || strings.Contains(line, "_Alias") {
			continue
		}
		if !strings.Contains(line, "=") || len(strings.Fields(line)) < 2 {
			fmt.Fprintf(p.Stderr, "%s:%d:1: syntax error\n%s\n", file, n+1, line)
			return 1
		}
	}
	if !o.Has("q") {
		p.Printf("%s: parsed OK\n", file)
	}
	return 0
}
