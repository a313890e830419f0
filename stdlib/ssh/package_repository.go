package ssh

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path"
	"regexp"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type packageRepositoryArgs struct {
	Name       string           `star:"name,required" doc:"Name of its files on the host: letters, digits, - and _."`
	URI        string           `star:"uri,required" doc:"Where it is: \"https://pkgs.k8s.io/core:/stable:/v1.37/deb/\"."`
	Suites     []string         `star:"suites" doc:"Suites, such as \"bookworm\"; one that ends in a slash is a folder and has no components."`
	Components []string         `star:"components" doc:"Components, such as \"main\"."`
	Key        effect.Text      `star:"key" doc:"Public key that signs it, as text (-----BEGIN PGP PUBLIC KEY BLOCK-----)."`
	KeyFile    effect.LocalFile `star:"key_file" doc:"Fetched file with the public key, as text or binary."`
	Trusted    bool             `star:"trusted" doc:"Take what it has unsigned. Only for a repository on the host itself."`
}

type packageRepositoryNameArgs struct {
	Name string `star:"name,required" doc:"Name of its files on the host."`
}

func packageRepositoryNoun() builtin.Noun {
	return builtin.Noun{
		Name: "package_repository", Doc: "A source of packages (apt)", Identity: builtin.NaturalKey,
		Attrs: []builtin.Attr{
			{Name: "name", Type: "str", Doc: "Name of its files."},
			{Name: "path", Type: "str", Doc: "Its file in /etc/apt/sources.list.d."},
			{Name: "sha256", Type: "str", Doc: "Digest of that file, in hex."},
			{Name: "key_sha256", Type: "str", Doc: "Digest of its key in /etc/apt/keyrings; None without a key."},
		},
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, packageRepositoryArgs]{
				Name: "ensure",
				Doc: "Make a repository be among the host's sources, in /etc/apt/sources.list.d/NAME.sources, signed by its key in " +
					"/etc/apt/keyrings. Its package lists are fetched, and what they are signed with is checked, before the host gets it: a run that " +
					"fails or is killed leaves what was there.",
				Returns: "object with name, path, sha256 and key_sha256",
				Example: `host.package_repository.ensure("tools", "https://packages.example.org/debian", suites = ["stable"], components = ["main"],
                               key = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n...")`,
				Effect:   builtin.Changes,
				Errors:   []fault.Kind{fault.Failed, fault.Unavailable, fault.Conflict, fault.Denied, fault.Invalid},
				Defaults: packageRepositoryArgs{Suites: []string{"/"}},
				Run:      ensurePackageRepository,
			}),
			builtin.Of(builtin.Spec[*Host, packageRepositoryNameArgs]{
				Name: "get", Doc: "Read what is known of a repository that was made by its name.",
				Returns: "object with name, path, sha256 and key_sha256; None if there is none",
				Example: `host.package_repository.get("tools")`,
				Effect:  builtin.Reads, Errors: []fault.Kind{fault.Denied, fault.Invalid}, Run: getPackageRepository,
			}),
			builtin.Of(builtin.Spec[*Host, packageRepositoryNameArgs]{
				Name: "delete", Doc: "Take a repository and its key from the host. What was installed from it stays.",
				Returns: "None", Example: `host.package_repository.delete("tools")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Denied, fault.Invalid}, Run: deletePackageRepository,
			}),
		},
	}
}

const observeRepositoryScript = `sum() { [ ! -f "$2" ] || { s=$(sha256sum <"$2") && echo "$1 ${s%% *}"; } || exit 1; }
sum source "$src"
sum asc "$ring.asc"
sum gpg "$ring.gpg"
if [ -f "$src" ]; then echo; cat "$src"; fi
`

// The lists are fetched with the new files first, beside those in force, where
// apt's own user, who checks signatures, can read the key.
const applyRepositoryScript = aptPrelude + `umask 022
mkdir -p "${ring%/*}" "${src%/*}" || exit 1
rm -rf "$dir".??????
t=$(mktemp -d "$dir.XXXXXX") && chmod 0755 "$t" || exit 1
end() { rm -rf "$t"; }
cat >"$t/key" || { end; exit 1; }
[ "$(wc -c <"$t/key")" -eq "$size" ] || { end; fail 83 'the key arrived incomplete'; }
if [ "$size" -gt 0 ]; then
	cp "$t/key" "$t/key.$ext" || { end; exit 1; }
	signed="Signed-By: $t/key.$ext"
	final="Signed-By: $ring.$ext
"
fi
printf '%s%s\n' "$text" "$signed" >"$t/$name.sources" || { end; exit 1; }
one="-o Dir::Etc::sourcelist=$t/$name.sources -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0 -o APT::Update::Error-Mode=any"
if ! update $one; then end; refuse "$said"; fi
case $said in *'Failed to fetch'*) end; refuse "$said" ;; esac
printf '%s%s' "$text" "$final" >"$t/$name.sources" && sync || { end; exit 1; }
if [ "$size" -gt 0 ]; then mv -f "$t/key.$ext" "$ring.$ext" || { end; exit 1; }; fi
mv -f "$t/$name.sources" "$src" || { end; exit 1; }
for e in asc gpg; do
	if [ "$size" -eq 0 ] || [ "$e" != "$ext" ]; then rm -f "$ring.$e"; fi
done
end
`

// wantedRepository is a repository as a recipe wants it.
type wantedRepository struct {
	name, ext string
	text      string // of the sources file, but for the line that names the key
	key       []byte
}

func repositoryVars(fn, name string) (vars, error) {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`).MatchString(name) {
		return nil, invalid(fn, "%q is no name of a repository's files: letters, digits, - and _", name)
	}
	return vars{"name": name, "src": "/etc/apt/sources.list.d/" + name + ".sources", "ring": "/etc/apt/keyrings/" + name, "dir": "/etc/apt/keyrings/.gsrun-" + name}, nil
}

func (a *packageRepositoryArgs) wanted(fn string) (*wantedRepository, error) {
	w := &wantedRepository{name: a.Name, key: []byte(a.Key.Reveal()), ext: "gpg"}
	word := regexp.MustCompile(`^[^\s\x00-\x20]+$`)
	for _, s := range append(append([]string{a.URI}, a.Suites...), a.Components...) {
		if !word.MatchString(s) {
			return nil, invalid(fn, "%s: %q is empty or has a space", a.Name, s)
		}
	}
	if !strings.Contains(a.URI, ":/") {
		return nil, invalid(fn, "%s: %q is no URI", a.Name, a.URI)
	}
	if len(a.Suites) == 0 {
		return nil, invalid(fn, "%s: no suite is named", a.Name)
	}
	for _, s := range a.Suites {
		if folder := strings.HasSuffix(s, "/"); folder == (len(a.Components) > 0) {
			return nil, fault.Hinted(fault.Invalid, `either suites = ["bookworm"], components = ["main"], or suites = ["/"] alone`, "%s: %s: the suite %q doesn't go with the components %q", fn, a.Name, s, a.Components)
		}
	}
	if a.KeyFile.Path != "" {
		if len(w.key) > 0 {
			return nil, invalid(fn, "%s: give one of key and key_file", a.Name)
		}
		data, err := os.ReadFile(a.KeyFile.Path)
		if err != nil {
			return nil, &fault.Error{Op: "reading", Target: a.KeyFile.Path, Kind: fault.NotFound, Err: err}
		}
		w.key = data
	}
	if a.Key.IsSecret() {
		return nil, invalid(fn, "%s: the key is secret: give the public one", a.Name)
	}
	if a.Key.Known() && len(w.key) == 0 != a.Trusted {
		return nil, invalid(fn, "%s: give its key, or trusted = True without one", a.Name)
	}
	if bytes.HasPrefix(bytes.TrimSpace(w.key), []byte("-----BEGIN PGP")) {
		w.ext = "asc"
	}
	w.text = "Types: deb\nURIs: " + a.URI + "\nSuites: " + strings.Join(a.Suites, " ") + "\n"
	if len(a.Components) > 0 {
		w.text += "Components: " + strings.Join(a.Components, " ") + "\n"
	}
	if a.Trusted {
		w.text += "Trusted: yes\n"
	}
	return w, nil
}

func ensurePackageRepository(ctx context.Context, h *Host, a packageRepositoryArgs) (any, error) {
	const fn = "ssh.host.package_repository.ensure"
	v, err := repositoryVars(fn, a.Name)
	if err != nil {
		return nil, err
	}
	w, err := a.wanted(fn)
	if err != nil {
		return nil, err
	}
	if !a.Key.Known() {
		return effect.DoLater(ctx, effect.Target{Scope: h.scope(), Kind: "package_repository", Name: a.Name})
	}
	sources, keySum := w.text, any(nil)
	if len(w.key) > 0 {
		sources += "Signed-By: " + v["ring"] + "." + w.ext + "\n"
		keySum = hexSum(w.key)
	}
	want := map[string]any{"name": a.Name, "path": v["src"], "sha256": hexSum([]byte(sources)), "key_sha256": keySum}
	return (&act{host: h, kind: "package_repository", name: a.Name, lock: "package", reach: []string{h.scope() + "/package/"},
		observe: func(ctx context.Context) (effect.State, error) { return h.observeRepository(ctx, v, a.Name) },
		diff: func(s effect.State) (effect.Change, error) {
			var fields []effect.Field
			if old, _ := s.Raw.(string); old != sources {
				fields = append(fields, effect.Field{Path: path.Base(v["src"]), Old: nilIfEmpty(old), New: sources})
			}
			if have := s.Attrs["key_sha256"]; have != keySum {
				fields = append(fields, effect.Field{Path: "key_sha256", Old: have, New: keySum})
			}
			return change(s, fields, want)
		},
		apply: func(ctx context.Context, _ effect.Change) (effect.State, error) {
			in := vars{"text": w.text, "ext": w.ext, "size": decimal(len(w.key)), "signed": "", "final": "", "said": ""}
			for k, x := range v {
				in[k] = x
			}
			_, err := h.ask(ctx, applyRepositoryScript, in, bytes.NewReader(w.key))
			if fault.KindOf(err) == fault.Failed {
				err = fault.Hinted(fault.Failed, "is it at that place, and signed by that key? The host's sources are as they were", "%w", err)
			}
			return effect.State{Exists: true, Attrs: want}, packageError(err)
		},
	}).do(ctx)
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (h *Host) observeRepository(ctx context.Context, v vars, name string) (effect.State, error) {
	got, err := h.look(ctx, observeRepositoryScript, v)
	if err != nil {
		return effect.State{}, err
	}
	var key any
	for _, ext := range []string{"asc", "gpg"} {
		if sum := got.get(ext); sum != "" {
			key = sum
		}
	}
	return effect.State{Exists: got.hasBody, Raw: string(got.body),
		Attrs: map[string]any{"name": name, "path": v["src"], "sha256": got.get("source"), "key_sha256": key}}, nil
}

func getPackageRepository(ctx context.Context, h *Host, a packageRepositoryNameArgs) (any, error) {
	v, err := repositoryVars("ssh.host.package_repository.get", a.Name)
	if err != nil {
		return nil, err
	}
	q := h.query("package_repository", a.Name)
	q.Absent = true
	return effect.Read(ctx, q, func(ctx context.Context) (effect.State, error) {
		s, err := h.observeRepository(ctx, v, a.Name)
		if err == nil && !s.Exists {
			err = fault.New(fault.NotFound, "the host has no %s", v["src"])
		}
		return s, err
	})
}

func deletePackageRepository(ctx context.Context, h *Host, a packageRepositoryNameArgs) (any, error) {
	v, err := repositoryVars("ssh.host.package_repository.delete", a.Name)
	if err != nil {
		return nil, err
	}
	_, err = effect.Do(ctx, &act{host: h, kind: "package_repository", name: a.Name, lock: "package", removes: true, reach: []string{h.scope() + "/package/"},
		observe: func(ctx context.Context) (effect.State, error) {
			s, err := h.observeRepository(ctx, v, a.Name)
			s.Exists = s.Exists || s.Attrs["key_sha256"] != nil
			return s, err
		},
		diff: removal,
		apply: func(ctx context.Context, _ effect.Change) (effect.State, error) {
			_, err := h.ask(ctx, `rm -f "$src" && rm -f "$ring.asc" "$ring.gpg"`+"\n", v, nil)
			return effect.State{}, err
		},
	})
	return nil, err
}
