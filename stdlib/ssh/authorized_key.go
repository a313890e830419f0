package ssh

import (
	"context"
	"encoding/base64"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type authorizedKeyArgs struct {
	User string      `star:"user,required" doc:"User who may log in with the key."`
	Key  effect.Text `star:"key,required" doc:"Public key: \"ssh-ed25519 AAAA... comment\"."`
}

func authorizedKeyNoun() builtin.Noun {
	return builtin.Noun{
		Name: "authorized_key", Doc: "A public key that a user of the host may log in with", Identity: builtin.PartOf,
		Attrs: []builtin.Attr{
			{Name: "user", Type: "str", Doc: "The user."},
			{Name: "key", Type: "str", Doc: "The public key, without options and comment."},
		},
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, authorizedKeyArgs]{
				Name: "ensure", Doc: "Let a user log in with a key. Other keys, and options that stand before this one already, stay.",
				Returns: "object with user and key", Example: `host.authorized_key.ensure("debian", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2cS0a9a0dDZ6F7g0u0z7jX9zA0u7c3w1mV4m8o1XyB ops")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.NotFound, fault.Denied, fault.Invalid, fault.Failed}, Run: ensureAuthorizedKey,
			}),
			builtin.Of(builtin.Spec[*Host, authorizedKeyArgs]{
				Name: "delete", Doc: "Don't let a user log in with a key.",
				Returns: "None", Example: `host.authorized_key.delete("debian", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2cS0a9a0dDZ6F7g0u0z7jX9zA0u7c3w1mV4m8o1XyB")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.NotFound, fault.Denied, fault.Invalid, fault.Failed}, Run: deleteAuthorizedKey,
			}),
		},
	}
}

const keysPrelude = `s=${s%:*}; home=${s##*:}; f=$home/.ssh/authorized_keys
`

// A step before may be about to make the user.
const observeKeysScript = `s=$(getent passwd "$u") || exit 0
` + keysPrelude + `echo
if [ -f "$f" ]; then cat "$f"; fi
`

// The file is written as a whole beside the old one, with the user's rights.
const applyKeysScript = `s=$(getent passwd "$u") || fail 81 "the host has no user $u"
` + keysPrelude + `umask 077
d=$home/.ssh
if [ ! -d "$d" ]; then mkdir -p "$d" && chown "$u:" "$d" || exit 1; fi
rm -f "$d/.gsrun-"??????
t=$(mktemp "$d/.gsrun-XXXXXX") && cat >"$t" && [ "$(wc -c <"$t")" -eq "$size" ] && chown "$u:" "$t" && chmod 0600 "$t" &&
	mv -f "$t" "$f" || { rm -f "$t"; exit 1; }
`

// publicKey returns the type and the base64 form of a public key.
func publicKey(fn, s string) (string, error) {
	f := strings.Fields(s)
	if len(f) >= 2 && !strings.Contains(s, "\n") {
		if raw, err := base64.StdEncoding.DecodeString(f[1]); err == nil && len(raw) > 16 && strings.Contains(string(raw[:min(len(raw), 64)]), f[0]) {
			return f[0] + " " + f[1], nil
		}
	}
	return "", fault.Hinted(fault.Invalid, `it looks like "ssh-ed25519 AAAA... comment"`, "%s: that is no public key", fn)
}

// hasKey reports whether a line of authorized_keys has the key.
func hasKey(line, key string) bool {
	return !strings.HasPrefix(strings.TrimSpace(line), "#") && strings.Contains(" "+strings.Join(strings.Fields(line), " ")+" ", " "+key+" ")
}

func ensureAuthorizedKey(ctx context.Context, h *Host, a authorizedKeyArgs) (any, error) {
	return h.keyAct(ctx, "ssh.host.authorized_key.ensure", a, func(lines []string, there bool, key string) (effect.ChangeKind, []string) {
		if there {
			return effect.None, nil
		}
		return effect.Create, append(lines, strings.TrimSpace(a.Key.Reveal()))
	})
}

func deleteAuthorizedKey(ctx context.Context, h *Host, a authorizedKeyArgs) (any, error) {
	_, err := h.keyAct(ctx, "ssh.host.authorized_key.delete", a, func(lines []string, there bool, key string) (effect.ChangeKind, []string) {
		if !there {
			return effect.None, nil
		}
		var kept []string
		for _, l := range lines {
			if !hasKey(l, key) {
				kept = append(kept, l)
			}
		}
		return effect.Delete, kept
	})
	return nil, err
}

// keyAct changes the lines of a user's authorized_keys.
func (h *Host) keyAct(ctx context.Context, fn string, a authorizedKeyArgs, change func(lines []string, there bool, key string) (effect.ChangeKind, []string)) (any, error) {
	if err := checkUser(fn, a.User); err != nil {
		return nil, err
	}
	if !a.Key.Known() {
		return effect.DoLater(ctx, effect.Target{Scope: h.scope(), Kind: "authorized_key", Name: a.User})
	}
	key, err := publicKey(fn, a.Key.Reveal())
	if err != nil {
		return nil, err
	}
	attrs := map[string]any{"user": a.User, "key": key}
	read := func(ctx context.Context) ([]string, bool, error) {
		got, err := h.look(ctx, observeKeysScript, vars{"u": a.User})
		if err != nil {
			return nil, false, err
		}
		var lines []string
		there := false
		for l := range strings.Lines(string(got.body)) {
			l = strings.TrimSuffix(l, "\n")
			lines, there = append(lines, l), there || hasKey(l, key)
		}
		return lines, there, nil
	}
	return (&act{host: h, kind: "authorized_key", name: a.User + "/" + key[len(key)-12:], lock: "keys/" + a.User,
		observe: func(ctx context.Context) (effect.State, error) {
			lines, there, err := read(ctx)
			return effect.State{Exists: there, Raw: lines, Attrs: attrs}, err
		},
		diff: func(s effect.State) (effect.Change, error) {
			lines, _ := s.Raw.([]string)
			kind, _ := change(lines, s.Exists, key)
			c := effect.Change{Kind: kind}
			if kind == effect.Create {
				c.After, c.Fields = attrs, []effect.Field{{Path: "key", New: key}}
			}
			return c, nil
		},
		apply: func(ctx context.Context, _ effect.Change) (effect.State, error) {
			// Read again, now that nobody else of this run changes the file.
			lines, there, err := read(ctx)
			if err != nil {
				return effect.State{}, err
			}
			kind, lines := change(lines, there, key)
			if kind == effect.None {
				return effect.State{Exists: there, Attrs: attrs}, nil
			}
			text := ""
			if len(lines) > 0 {
				text = strings.Join(lines, "\n") + "\n"
			}
			_, err = h.ask(ctx, applyKeysScript, vars{"u": a.User, "size": decimal(len(text))}, strings.NewReader(text))
			return effect.State{Exists: kind == effect.Create, Attrs: attrs}, err
		},
	}).do(ctx)
}
