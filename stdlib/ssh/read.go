package ssh

import (
	"context"
	"strconv"
	"unicode/utf8"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type readArgs struct {
	Path   string `star:"path,required" doc:"Absolute path."`
	Secret bool   `star:"secret" doc:"The content is secret, such as a kubeconfig: it shows nowhere."`
}

// readLimit bounds a file that is read into the recipe.
const readLimit = 4 << 20

func readFunc() builtin.Func {
	return builtin.Of(builtin.Spec[*Host, readArgs]{
		Name:    "read",
		Doc:     "Read a file of at most 4 MiB.",
		Returns: "str, or bytes if it isn't text, or a secret if that is asked for",
		Example: `hosts = host.read("/etc/hosts")
id = host.read("/etc/machine-id", secret = True)`,
		Effect: builtin.Reads,
		Errors: []fault.Kind{fault.NotFound, fault.Denied, fault.Exists, fault.Limit},
		Run:    read,
	})
}

const readScript = `if [ -d "$p" ]; then fail 82 "$p is a folder"; fi
if [ ! -e "$p" ]; then fail 81 "no such file: $p"; fi
n=$(wc -c <"$p") || exit 1
echo "size $n"
if [ "$n" -le "$limit" ]; then echo; cat "$p"; fi
`

func read(ctx context.Context, h *Host, a readArgs) (any, error) {
	if err := checkPath("ssh.host.read", a.Path); err != nil {
		return nil, err
	}
	return effect.Read(ctx, h.query("file", a.Path), func(ctx context.Context) (any, error) {
		got, err := h.look(ctx, readScript, vars{"p": a.Path, "limit": strconv.Itoa(readLimit)})
		if err != nil {
			return nil, err
		}
		if !got.hasBody {
			return nil, fault.New(fault.Limit, "%s has %s bytes, more than %d", a.Path, got.get("size"), readLimit)
		}
		switch {
		case a.Secret:
			return effect.NewSecret(ctx, string(got.body), "")
		case utf8.Valid(got.body):
			return string(got.body), nil
		}
		return got.body, nil
	})
}
