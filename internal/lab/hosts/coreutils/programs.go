// Package coreutils has the small programs that a Debian host always has: those
// of coreutils, findutils, grep, sed, awk, diffutils, tar, gzip and util-linux,
// as far as scripts that configure hosts use them.
package coreutils

import (
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

// Programs lists every program by name.
func Programs() map[string]machine.Program {
	return map[string]machine.Program{
		"sh": machine.Shell, "bash": machine.Shell, "dash": machine.Shell, "kill": machine.Kill,

		"cat": cat, "tee": tee, "head": head, "tail": tail, "wc": wc, "cut": cut, "tr": tr,
		"sort": sortLines, "uniq": uniq, "seq": seq, "nl": nl, "tac": tac, "rev": rev, "paste": paste, "fold": fold,
		"comm": comm, "split": split, "yes": yes, "expr": expr, "od": od,

		"mkdir": mkdir, "rmdir": rmdir, "rm": rm, "unlink": rm, "mv": mv, "cp": cp, "ln": ln, "ls": ls, "touch": touch,
		"install": install, "mktemp": mktemp, "truncate": truncate, "dd": dd, "sync": syncFiles, "fallocate": truncate,

		"chmod": chmod, "chown": chown, "chgrp": chown, "stat": stat, "test": test, "[": test,
		"readlink": readlink, "realpath": realpath, "basename": basename, "dirname": dirname, "pathchk": succeed,

		"sha256sum": checksum, "md5sum": checksum, "sha1sum": checksum, "sha512sum": checksum, "base64": base64Text,
		"cksum": checksum,

		"true": succeed, "false": fail, "echo": echo, "printf": printf, "sleep": sleep, "date": date,
		"env": env, "printenv": printenv, "timeout": timeout, "nohup": nohup, "setsid": setsid, "nice": nice, "ionice": nice,
		"stdbuf": nice, "xargs": xargs, "flock": flock, "ps": ps, "pgrep": pgrep, "pkill": pgrep, "which": which,
		"tty": tty, "arch": arch, "pwd": pwd,

		"grep": grep, "egrep": grep, "fgrep": grep, "sed": sed, "awk": awk, "mawk": awk, "find": find,
		"diff": diff, "cmp": compare, "tar": tarProgram, "gzip": gzipFiles, "gunzip": gzipFiles, "zcat": gzipFiles,
	}
}
