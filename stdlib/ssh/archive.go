package ssh

import (
	"bytes"
	"context"
	"io"
	"os"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type archiveArgs struct {
	Path   string           `star:"path,required" doc:"Absolute path of the folder. What holds it must exist."`
	Source effect.LocalFile `star:"source,required" doc:"Fetched archive: tar, plain or compressed by gzip, bzip2, xz or zstd, or zip. The host needs the program that reads it."`
	Strip  int              `star:"strip" doc:"How many folders to leave out at the beginning of each name. Of a zip archive each must be the only one."`
	Owner  string           `star:"owner" doc:"Owner of all that is in it. None means the user that works on the host: root with sudo."`
	Mode   string           `star:"mode" doc:"Permissions of the folder itself, in octal. Those of what is in it come from the archive."`
}

func archiveNoun() builtin.Noun {
	return builtin.Noun{
		Name: "archive", Doc: "An archive that is unpacked into a folder of its own", Identity: builtin.NaturalKey,
		Attrs: []builtin.Attr{
			{Name: "path", Type: "str", Doc: "Path of the folder."},
			{Name: "sha256", Type: "str", Doc: "Digest of the archive that is unpacked, in hex. Pass the object to restart_on of a service."},
		},
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, archiveArgs]{
				Name: "ensure",
				Doc: "Make a folder hold what is in an archive, and nothing else. It is unpacked beside the folder and then put in its place, so that a " +
					"failure leaves the old one. A file .gsrun-archive in it says which archive that was; what somebody changes in the folder isn't seen. " +
					"A folder that has something in it and isn't from an archive is refused.",
				Returns: "object with path and sha256",
				Example: `tools = artifact.fetch({"url": "https://example.org/tools-1.2.tar.gz", "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"})
host.archive.ensure("/opt/tools", source = tools, strip = 1)`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.NotFound, fault.Exists, fault.Failed, fault.Conflict, fault.Denied, fault.Invalid},
				Defaults: archiveArgs{Mode: "0755"}, Run: ensureArchive,
			}),
			builtin.Of(builtin.Spec[*Host, pathArgs]{
				Name: "get", Doc: "Read which archive a folder is from.",
				Returns: "object with path and sha256; None if it isn't from an archive", Example: `host.archive.get("/opt/tools")`,
				Effect: builtin.Reads, Errors: []fault.Kind{fault.Denied, fault.Invalid}, Run: getArchive,
			}),
			builtin.Of(builtin.Spec[*Host, pathArgs]{
				Name: "delete", Doc: "Remove a folder that is from an archive, with all that is in it. Another is refused.",
				Returns: "None", Example: `host.archive.delete("/opt/tools")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Exists, fault.Denied, fault.Invalid}, Run: deleteArchive,
			}),
		},
	}
}

const observeArchiveScript = `if [ -L "$p" ]; then fail 82 "$p is a symbolic link"; fi
if [ -d "$p" ]; then
	if [ -f "$p/.gsrun-archive" ]; then echo "mark $(cat "$p/.gsrun-archive")"
	elif [ -n "$(ls -A "$p")" ]; then echo 'foreign yes'; fi
elif [ -e "$p" ]; then fail 82 "$p is no folder"
fi
`

// A folder can't be renamed over another: for a moment there is none. A run that
// ends then left the old one beside it, and the next one puts it back first.
const applyArchiveScript = `d=${p%/*}; b=${p##*/}
[ -d "${d:-/}" ] || fail 81 "its folder $d doesn't exist"
for o in "$d/.$b.gsrun-"??????/old; do
	if [ -d "$o" ] && [ ! -e "$p" ]; then mv "$o" "$p" || exit 1; fi
done
rm -rf "$d/.$b.gsrun-"??????
umask 022
t=$(mktemp -d "$d/.$b.gsrun-XXXXXX") || exit 1
die() { rm -rf "$t"; fail "$1" "$2"; }
if [ -n "$program" ] && ! command -v "$program" >/dev/null 2>&1; then die 81 "the host has no $program"; fi
cat >"$t/archive" || die 84 "writing $t/archive failed; is the disk full?"
s=$(sha256sum <"$t/archive"); [ "${s%% *}" = "$want" ] || die 83 'the archive arrived incomplete'
mkdir "$t/new" || die 84 "making $t/new failed"
if [ "$program" = unzip ]; then
	said=$(unzip -q "$t/archive" -d "$t/new" 2>&1) || die 84 "unpacking failed, and nothing was changed: $said"
	while [ "$strip" -gt 0 ]; do
		one=$(ls -A "$t/new")
		[ -d "$t/new/$one" ] && [ -n "$one" ] || die 84 "the archive has not one folder at its top: $one"
		mv "$t/new/$one" "$t/one" && rmdir "$t/new" && mv "$t/one" "$t/new" || die 84 'moving folders failed'
		strip=$((strip - 1))
	done
else
	said=$(tar $flag -x -f "$t/archive" -C "$t/new" --no-same-owner --strip-components="$strip" 2>&1) || die 84 "unpacking failed, and nothing was changed: $said"
fi
rm -f "$t/archive"
[ -n "$(ls -A "$t/new")" ] || die 84 'nothing is left of the archive; does strip leave out too much?'
echo "$mark" >"$t/new/.gsrun-archive" || die 84 'writing the mark failed'
said=$(chown -R -- "$own" "$t/new" 2>&1 && chmod -- "$mode" "$t/new" 2>&1) || { rm -rf "$t"; echo "$said" >&2; exit 1; }
sync
if [ -d "$p" ]; then mv "$p" "$t/old" || die 84 "moving the old $p away failed"; fi
mv "$t/new" "$p" || { [ ! -d "$t/old" ] || mv "$t/old" "$p"; die 84 "putting the new $p in place failed"; }
rm -rf "$t"
`

// unpacker returns the program that the host needs beside tar, and tar's flag.
func unpacker(fn string, l effect.LocalFile) (program, flag string, err error) {
	f, err := os.Open(l.Path)
	if err != nil {
		return "", "", &fault.Error{Op: "reading", Target: l.Path, Kind: fault.NotFound, Err: err}
	}
	defer f.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return "", "", err
	}
	head = head[:n]
	for _, k := range []struct{ magic, program, flag string }{
		{"\x1f\x8b", "gzip", "-z"}, {"BZh", "bzip2", "-j"}, {"\xfd7zXZ\x00", "xz", "-J"}, {"\x28\xb5\x2f\xfd", "zstd", "--zstd"}, {"PK\x03\x04", "unzip", ""},
	} {
		if bytes.HasPrefix(head, []byte(k.magic)) {
			return k.program, k.flag, nil
		}
	}
	if len(head) > 262 && string(head[257:262]) == "ustar" {
		return "", "", nil
	}
	return "", "", invalid(fn, "%s is no archive: neither tar, plain or compressed, nor zip", l.Path)
}

func ensureArchive(ctx context.Context, h *Host, a archiveArgs) (any, error) {
	const fn = "ssh.host.archive.ensure"
	if err := checkPath(fn, a.Path); err != nil {
		return nil, err
	}
	mode, err := parseMode(fn, a.Mode)
	if err != nil {
		return nil, err
	}
	if a.Strip < 0 {
		return nil, invalid(fn, "strip is negative")
	}
	program, flag, err := unpacker(fn, a.Source)
	if err != nil {
		return nil, err
	}
	if a.Owner == "" {
		a.Owner = h.as()
	}
	mark := strings.Join([]string{a.Source.SHA256, strconv.Itoa(a.Strip), a.Owner, formatMode(mode)}, " ")
	want := map[string]any{"path": a.Path, "sha256": a.Source.SHA256}
	return (&act{host: h, kind: "archive", name: a.Path, lock: "archive" + a.Path, reach: []string{h.scope() + "/file" + a.Path + "/"},
		observe: func(ctx context.Context) (effect.State, error) { return h.observeArchive(ctx, a.Path) },
		diff: func(s effect.State) (effect.Change, error) {
			have, _ := s.Raw.(archiveMark)
			if have.foreign {
				return effect.Change{}, fault.Hinted(fault.Exists, "remove it, or choose another path", "%s has something in it, and isn't from an archive", a.Path)
			}
			var fields []effect.Field
			if have.text != mark {
				fields = append(fields, effect.Field{Path: "unpacked", Old: nilIfEmpty(have.text), New: mark})
			}
			return change(s, fields, want)
		},
		apply: func(ctx context.Context, _ effect.Change) (effect.State, error) {
			f, err := os.Open(a.Source.Path)
			if err != nil {
				return effect.State{}, &fault.Error{Op: "reading", Target: a.Source.Path, Kind: fault.NotFound, Err: err}
			}
			defer f.Close()
			_, err = h.ask(ctx, applyArchiveScript, vars{"p": a.Path, "want": a.Source.SHA256, "program": program, "flag": flag,
				"strip": decimal(a.Strip), "own": a.Owner, "mode": formatMode(mode), "mark": mark}, f)
			if fault.KindOf(err) == fault.NotFound && program != "" {
				err = fault.Hinted(fault.NotFound, "make the folder that holds it, or install what unpacks it, first", "%w", err)
			}
			return effect.State{Exists: true, Attrs: want}, err
		},
	}).do(ctx)
}

// archiveMark is what a folder says of the archive that it is from.
type archiveMark struct {
	text    string
	foreign bool // it has something in it that isn't from an archive
}

func (h *Host) observeArchive(ctx context.Context, path string) (effect.State, error) {
	got, err := h.look(ctx, observeArchiveScript, vars{"p": path})
	if err != nil {
		return effect.State{}, err
	}
	m := archiveMark{text: got.get("mark"), foreign: got.get("foreign") != ""}
	sum, _, _ := strings.Cut(m.text, " ")
	return effect.State{Exists: m.text != "", Raw: m, Attrs: map[string]any{"path": path, "sha256": sum}}, nil
}

func getArchive(ctx context.Context, h *Host, a pathArgs) (any, error) {
	if err := checkPath("ssh.host.archive.get", a.Path); err != nil {
		return nil, err
	}
	q := h.query("archive", a.Path)
	q.Absent = true
	return effect.Read(ctx, q, func(ctx context.Context) (effect.State, error) {
		s, err := h.observeArchive(ctx, a.Path)
		if err == nil && !s.Exists {
			err = fault.New(fault.NotFound, "%s isn't from an archive", a.Path)
		}
		return s, err
	})
}

func deleteArchive(ctx context.Context, h *Host, a pathArgs) (any, error) {
	if err := checkPath("ssh.host.archive.delete", a.Path); err != nil {
		return nil, err
	}
	_, err := effect.Do(ctx, &act{host: h, kind: "archive", name: a.Path, lock: "archive" + a.Path, removes: true,
		observe: func(ctx context.Context) (effect.State, error) { return h.observeArchive(ctx, a.Path) },
		diff: func(s effect.State) (effect.Change, error) {
			if m, _ := s.Raw.(archiveMark); m.foreign {
				return effect.Change{}, fault.Hinted(fault.Exists, "host.directory.delete removes any folder", "%s isn't from an archive", a.Path)
			}
			return removal(s)
		},
		// The mark goes last: what a killed run left is found by the next.
		apply: func(ctx context.Context, _ effect.Change) (effect.State, error) {
			_, err := h.ask(ctx, `find "$p" -mindepth 1 -maxdepth 1 ! -name .gsrun-archive -exec rm -rf -- {} + && rm -rf -- "$p"`+"\n", vars{"p": a.Path}, nil)
			return effect.State{}, err
		},
	})
	return nil, err
}
