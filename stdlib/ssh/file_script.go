package ssh

import (
	"context"
	"io"
	"maps"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// fileRaw is what Observe knows of a file beyond its data.
type fileRaw struct {
	uid, gid string
	sha256   string
	text     *string // the content, if it was asked for and is text
}

const observeFileScript = `if [ ! -f "$p" ]; then
	if [ -d "$p" ]; then echo 'type folder'
	elif [ -e "$p" ]; then echo 'type special'
	else echo 'type none'; fi
	exit 0
fi
echo 'type file'
s=$(stat -L -c '%a %s %u %g %U %G' "$p") || exit 1
echo "stat $s"
s=$(sha256sum <"$p") || exit 1
echo "sha256 ${s%% *}"
if [ "$text" = yes ] && [ "${s%% *}" != "$want" ] && [ "$(wc -c <"$p")" -le "$limit" ]; then echo; cat "$p"; fi
`

// observeFile looks at a file. Its text is read too if that is asked for, the
// digest differs from want, and it isn't too long.
func (h *Host) observeFile(ctx context.Context, path, want string, text bool) (effect.State, error) {
	v := vars{"p": path, "want": want, "limit": strconv.Itoa(diffLimit), "text": "no"}
	if text {
		v["text"] = "yes"
	}
	got, err := h.look(ctx, observeFileScript, v)
	if err != nil {
		return effect.State{}, err
	}
	switch got.get("type") {
	case "none":
		return effect.State{}, nil
	case "file":
	default:
		return effect.State{}, fault.Hinted(fault.Exists, "remove it, or choose another path", "%s is there already, and is a %s, not a file", path, got.get("type"))
	}
	st := strings.Fields(got.get("stat"))
	if len(st) != 6 {
		return effect.State{}, fault.New(fault.Failed, "the host's stat says %q of %s", got.get("stat"), path)
	}
	mode, err := parseMode("stat", st[0])
	if err != nil {
		return effect.State{}, err
	}
	size, err := strconv.ParseInt(st[1], 10, 64)
	if err != nil {
		return effect.State{}, fault.New(fault.Failed, "the host's stat says %q of %s", got.get("stat"), path)
	}
	raw := fileRaw{uid: st[2], gid: st[3], sha256: got.get("sha256")}
	if got.hasBody && utf8.Valid(got.body) {
		s := string(got.body)
		raw.text = &s
	}
	return effect.State{Exists: true, Raw: raw, Attrs: map[string]any{"path": path, "sha256": raw.sha256, "size": size,
		"mode": formatMode(mode), "owner": st[4], "group": st[5]}}, nil
}

// replaceScript puts what comes on standard input in a file's place: written
// beside it, checked, on disk, then renamed. What a killed run left beside it
// is removed.
const replaceScript = `if [ -L "$p" ]; then p=$(readlink -f -- "$p") || fail 81 "the link $p leads nowhere"; fi
d=${p%/*}; b=${p##*/}
[ -d "${d:-/}" ] || fail 81 "its folder $d doesn't exist"
[ ! -d "$p" ] || fail 82 "$p is a folder"
umask 077
rm -f -- "$d/.$b.gsrun-"??????
t=$(mktemp "$d/.$b.gsrun-XXXXXX") || exit 1
die() { rm -f -- "$t"; fail "$1" "$2"; }
cat >"$t" || die 84 "writing $t failed; is the disk full?"
s=$(sha256sum <"$t") || die 84 "reading $t failed"
[ "${s%% *}" = "$want" ] || die 83 "the content arrived incomplete"
if [ "$had" = absent ]; then
	[ ! -e "$p" ] || die 83 "$p was made meanwhile"
elif [ -n "$had" ]; then
	s=$(sha256sum <"$p") || die 83 "$p vanished meanwhile"
	[ "${s%% *}" = "$had" ] || die 83 "$p was changed meanwhile"
fi
chown -- "$own" "$t" || { rm -f -- "$t"; exit 1; }
chmod -- "$mode" "$t" || { rm -f -- "$t"; exit 1; }
if [ -n "$check" ]; then
	said=$(eval "$check" 2>&1) || die 84 "it isn't valid, and was left as it was: $said"
fi
sync "$t" 2>/dev/null || sync
mv -f -- "$t" "$p" || { rm -f -- "$t"; exit 1; }
sync "${d:-/}" 2>/dev/null || :
stat -L -c 'stat %U %G' "$p"
`

const attributesScript = `chown -- "$own" "$p" && chmod -- "$mode" "$p" || exit 1
stat -L -c 'stat %U %G' "$p"
`

func (w *wantedFile) apply(ctx context.Context, h *Host, before effect.State) (effect.State, error) {
	own := w.owner + ":" + w.group
	if w.group == "" && before.Exists {
		own += before.Raw.(fileRaw).gid // a new file is put in its place
	}
	v := vars{"p": w.path, "own": own, "mode": formatMode(w.mode)}
	var got answer
	var err error
	if raw, _ := before.Raw.(fileRaw); before.Exists && raw.sha256 == w.sha256 {
		got, err = h.ask(ctx, attributesScript, v, nil)
	} else {
		got, err = w.replace(ctx, h, v, "")
	}
	if err != nil {
		return effect.State{}, err
	}
	return effect.State{Exists: true, Attrs: w.made(h, got)}, nil
}

// replace writes the content. If had isn't empty, the file must still have
// that digest, or be absent if it is that word.
func (w *wantedFile) replace(ctx context.Context, h *Host, v vars, had string) (answer, error) {
	v["want"], v["had"], v["check"] = w.sha256, had, ""
	maps.Copy(v, w.vars)
	if w.validate != "" {
		v["check"] = strings.ReplaceAll(w.validate, "%s", `"$t"`)
	}
	content := io.Reader(strings.NewReader(w.content.Reveal()))
	if w.local != nil {
		f, err := os.Open(w.local.Path)
		if err != nil {
			return answer{}, &fault.Error{Op: "reading", Target: w.local.Path, Kind: fault.NotFound, Err: err}
		}
		defer f.Close()
		content = f
	}
	return h.ask(ctx, replaceScript, v, content)
}

// made returns the data of a file that a script made, with the names that the
// host knows owner and group by.
func (w *wantedFile) made(h *Host, got answer) map[string]any {
	m := w.attrs(h, nil)
	m["owner"], m["group"], _ = strings.Cut(got.get("stat"), " ")
	return m
}
