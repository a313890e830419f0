package ssh

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/ssh"
)

// guardScript runs $run as the only one of its kind on the host: a command
// outlives the gsrun that began it, if that is killed, and the next gsrun
// waits for its end and looks again whether it is needed. The lock ends with
// the command, and isn't passed on to what it leaves in the background. A host
// without flock has no such lock.
const guardScript = `dir=/run/gsrun
mkdir -p -m 0700 "$dir" 2>/dev/null
if [ ! -w "$dir" ]; then
	dir=/tmp/gsrun-$(id -u)
	mkdir -m 0700 "$dir" 2>/dev/null
	[ -d "$dir" ] && [ ! -L "$dir" ] && [ "$(stat -c %u "$dir")" = "$(id -u)" ] || dir=
fi
if [ -n "$dir" ] && command -v flock >/dev/null 2>&1; then
	close=-o
	flock -o "$dir/$lock" true 2>/dev/null || close=
	export GSRUN_SCRIPT="$run"
	exec flock $close "$dir/$lock" sh -c 's=$GSRUN_SCRIPT; unset GSRUN_SCRIPT; eval "$s"'
fi
eval "$run"
`

// guarded returns cmd so that it runs once at a time, and only where it is
// needed: what creates and unless say is asked again once it is its turn.
func (a *runArgs) guarded(cmd client.Command) client.Command {
	if a.Creates == "" && a.Unless == "" {
		return cmd
	}
	var run strings.Builder
	if a.Creates != "" {
		p := client.Quote(a.Creates)
		run.WriteString("if [ -e " + p + " ] || [ -L " + p + " ]; then exit 0; fi\n")
	}
	if a.Unless != "" {
		run.WriteString("if (eval " + client.Quote(a.Unless) + ") </dev/null >/dev/null 2>&1; then exit 0; fi\n")
	}
	if cmd.Script != "" {
		run.WriteString(cmd.Script)
	} else {
		for _, word := range cmd.Argv {
			run.WriteString(client.Quote(word) + " ")
		}
	}
	sum := sha256.Sum256([]byte(a.Creates + "\x00" + a.Unless + "\x00" + a.title()))
	cmd.Argv = nil
	cmd.Script = "lock=run-" + hex.EncodeToString(sum[:8]) + "\nrun=" + client.Quote(run.String()) + "\n" + guardScript
	return cmd
}
