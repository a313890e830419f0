package ssh

import (
	"cmp"
	"context"
	"strings"
)

// holdsFile lists what is held while apt changes held packages, which takes
// the hold off them. Where it is, a run ended between.
const holdsFile = "/var/lib/gsrun/holds"

// What apt would choose is asked only where it may matter: that takes a while.
const observePackageScript = `command -v dpkg-query >/dev/null 2>&1 || fail 84 "the host has no dpkg; only Debian and its relatives are supported"
for n in $names; do
	v=
	if s=$(dpkg-query -W -f '${Status} ${Version}\n' "$n" 2>/dev/null); then
		echo "package $n "$s
		case $s in *' installed '*) v=${s##* } ;; esac
	fi
	case $offers$v in all* | missing) asked="$asked $n" ;; esac
	case $v in $pattern) ;; *) other="$other $n" ;; esac
done
[ ! -e "$holds" ] || echo "unfinished yes"
if [ -z "$offers" ]; then
	:
elif [ "$pattern" = '*' ]; then
	[ -z "$asked" ] || apt-cache policy $asked 2>/dev/null | while read -r k v; do
		case $k in
		Candidate:) [ "$v" = '(none)' ] || echo "offer $n $v" ;;
		*:) [ -n "$v" ] || n=${k%:} ;;
		esac
	done
else
	[ -z "$other" ] || apt-cache madison $other 2>/dev/null | while read -r n bar v rest; do echo "offer $n $v"; done
fi
`

const aptPrelude = `export DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=a
get() { apt-get -y -q --no-install-recommends -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold "$@" 2>&1; }
locked() { case $1 in *'Could not get lock'* | *'Unable to acquire the dpkg'* | *'Unable to lock directory'*) return 0 ;; esac; return 1; }
# apt waits for dpkg's lock, but not for that of the lists, which a host that boots takes.
update() {
	n=0
	until said=$(get "$@" update); do
		locked "$said" && [ "$n" -lt 60 ] || return 1
		n=$((n + 1))
		sleep 2
	done
}
refuse() {
	said=$(printf '%s\n' "$1" | tail -n 8)
	if locked "$1"; then fail 83 "$said"; fi
	case $1 in
	*'Unable to locate package'* | *'was not found'* | *'no installation candidate'*) fail 81 "$said" ;;
	*'Failed to fetch'* | *'Temporary failure'* | *'Could not resolve'* | *'Could not connect'*) fail 85 "$said" ;;
	*) fail 84 "$said" ;;
	esac
}
`

// Lists that are missing or too old show as a failed install.
const installScript = aptPrelude + `restore() {
	[ -e "$holds" ] || return 0
	for n in $(cat "$holds"); do apt-mark hold "$n" >/dev/null 2>&1 || :; done
	rm -f "$holds" || exit 1
}
if [ -n "$specs" ]; then
	if [ -n "$changes" ] && [ ! -e "$holds" ]; then
		mkdir -p "${holds%/*}" && apt-mark showhold >"$holds.new" && mv -f "$holds.new" "$holds" || exit 1
	fi
	if ! said=$(get $flags install $specs); then
		if locked "$said"; then restore; refuse "$said"; fi
		update || { restore; refuse "$said"; }
		said=$(get $flags install $specs) || { restore; refuse "$said"; }
	fi
fi
restore
if [ -n "$hold" ]; then apt-mark hold $hold >/dev/null || exit 1; fi
if [ -n "$unhold" ]; then apt-mark unhold $unhold >/dev/null || exit 1; fi
`

// A package that is held back from upgrades may be removed by its name.
const uninstallScript = aptPrelude + `if [ -n "$names" ]; then said=$(get --allow-change-held-packages $how $names) || refuse "$said"; fi
for n in $(apt-mark showhold); do
	case " $held " in *" $n "*) apt-mark unhold "$n" >/dev/null || exit 1 ;; esac
done
`

// installed is what a host has of the packages asked for.
type installed struct {
	version    map[string]string
	left       map[string]bool // removed, but for their configuration
	broken     map[string]bool // neither installed nor removed
	held       map[string]bool
	offers     map[string][]string // versions that apt has, the one that it would take first
	unfinished bool                // a run ended while holds were off
}

// offers says of which packages it matters what apt would take.
type offers string

const (
	noOffers    offers = ""
	whereNeeded offers = "missing" // of those that aren't there as wanted
	ofAll       offers = "all"
)

// observePackages looks at packages of a version, which may be a pattern or
// empty for any.
func (h *Host) observePackages(ctx context.Context, names []string, version string, offers offers) (installed, error) {
	in := installed{version: make(map[string]string), left: make(map[string]bool), broken: make(map[string]bool),
		held: make(map[string]bool), offers: make(map[string][]string)}
	v := vars{"names": strings.Join(names, " "), "pattern": cmp.Or(version, "*"), "holds": holdsFile, "offers": string(offers), "asked": "", "other": ""}
	got, err := h.look(ctx, observePackageScript, v)
	if err != nil {
		return in, err
	}
	for _, line := range got.all("package") { // NAME want flag state VERSION
		f := strings.Fields(line)
		if len(f) > 1 && f[1] == "hold" {
			in.held[f[0]] = true
		}
		switch {
		case len(f) == 5 && f[3] == "installed":
			in.version[f[0]] = f[4]
		case len(f) == 5 && f[3] == "config-files":
			in.left[f[0]] = true
		case len(f) == 5 && f[3] != "not-installed":
			in.broken[f[0]] = true
		}
	}
	for _, line := range got.all("offer") {
		n, v, _ := strings.Cut(line, " ")
		in.offers[n] = append(in.offers[n], v)
	}
	in.unfinished = got.get("unfinished") != ""
	return in, nil
}

// offer returns the version that apt would take, or "" if it doesn't say.
func (in installed) offer(name, version string) string {
	bare, _, _ := strings.Cut(name, ":")
	for _, v := range append(in.offers[name], in.offers[bare]...) {
		if fits(v, version) {
			return v
		}
	}
	return ""
}
