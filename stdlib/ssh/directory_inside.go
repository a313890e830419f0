package ssh

import "git.vanillacore.net/govstack/gsrun/runtime/effect"

// insideScript goes over what is in a folder and isn't as wanted, by one
// attribute after the other: it is told, or set. Files are executable if they
// were for anybody. A user or group that the host doesn't know (yet) nobody has.
const insideScript = `uid=$(id -u -- "$owner" 2>/dev/null) || uid=$owner
gid=
[ -z "$group" ] || ! command -v getent >/dev/null 2>&1 || gid=$(getent group "$group" | cut -d: -f3)
[ -n "$gid" ] || gid=$group
over() {
	with=$1 value=$2; shift 2
	if [ "$set" = yes ]; then find "$p/" -mindepth 1 "$@" -exec "$with" "$value" {} +
	else find "$p/" -mindepth 1 "$@" -print; fi
}
inside() {
	case $uid in
	*[!0-9]*) over chown "$uid" ! -type l ;;
	*) over chown "$uid" ! -type l ! -user "$uid" ;;
	esac || return 1
	case $gid in
	'') ;;
	*[!0-9]*) over chgrp "$gid" ! -type l ;;
	*) over chgrp "$gid" ! -type l ! -group "$gid" ;;
	esac || return 1
	over chmod "$mode" -type d ! -perm "$mode" || return 1
	over chmod "$run" -type f '(' -perm -100 -o -perm -010 -o -perm -001 ')' ! -perm "$run" || return 1
	over chmod "$data" -type f ! -perm -100 ! -perm -010 ! -perm -001 ! -perm "$data"
}
`

// A name with a line end in it counts as two, which does no harm.
const observeInsideScript = `[ -d "$p" ] || exit 0
` + insideScript + `set=no
all=$(inside) || exit 1
[ -z "$all" ] || echo "inside $(printf '%s\n' "$all" | wc -l)"
`

const setInsideScript = insideScript + `set=yes
inside || exit 1
`

// insideVars are the variables of insideScript.
func insideVars(p, owner, group string, mode int64) vars {
	return vars{"p": p, "owner": owner, "group": group, "mode": formatMode(mode),
		"run": formatMode(mode & 0o777), "data": formatMode(mode & 0o666)}
}

// insideField is the difference of what is in a folder, of which so many
// attributes aren't as wanted.
func insideField(n string) effect.Field {
	return effect.Field{Path: "inside", Old: n + " attributes differ", New: "as wanted"}
}
