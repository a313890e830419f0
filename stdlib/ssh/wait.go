package ssh

import (
	"context"
	"strings"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type waitArgs struct {
	Timeout   time.Duration `star:"timeout" doc:"How long to wait."`
	CloudInit bool          `star:"cloud_init" doc:"Wait until cloud-init has finished too, if the host has it."`
	Interval  time.Duration `star:"interval" doc:"Pause between two looks."`
}

// deniedGrace is how long a booting host may refuse its user: the key is
// installed while it boots.
const deniedGrace = 30 * time.Second

func waitFunc() builtin.Func {
	return builtin.Of(builtin.Spec[*Host, waitArgs]{
		Name: "wait",
		Doc: "Wait until the host answers by SSH and lets its user in. While it doesn't, it says whether the host or a jump host is the problem. " +
			"A user who is refused is waited for too, up to 30 s, since a booting host installs the key late.",
		Returns:  "None",
		Example:  `host.wait(timeout = "5m", cloud_init = True)`,
		Effect:   builtin.Waits,
		Errors:   []fault.Kind{fault.Timeout, fault.Untrusted, fault.Denied, fault.Failed},
		Defaults: waitArgs{Timeout: 5 * time.Minute, Interval: 2 * time.Second},
		Run:      wait,
	})
}

const cloudInitScript = `command -v cloud-init >/dev/null 2>&1 || { echo 'status done'; exit 0; }
cloud-init status --long 2>/dev/null | while IFS= read -r l; do
	case $l in
	'status: '*) echo "status ${l#status: }" ;;
	'detail: '*) echo "detail ${l#detail: }" ;;
	?*) echo "more $l" ;;
	esac
done
`

func wait(ctx context.Context, h *Host, a waitArgs) (any, error) {
	what := "SSH on " + h.String()
	script := ""
	if a.CloudInit {
		what, script = "cloud-init on "+h.String(), cloudInitScript
	}
	var refused time.Time // when the user was refused first
	w := effect.Wait{Query: h.query("", ""), For: what, Timeout: a.Timeout, Interval: a.Interval}
	return effect.Await(ctx, w, func(ctx context.Context) (effect.Poll, error) {
		// A look ends before the wait does, so that what it saw is told.
		look, cancel := context.WithTimeoutCause(ctx, a.Timeout/2, fault.New(fault.Timeout, "no answer within %s", a.Timeout/2))
		defer cancel()
		got, err := h.ask(look, script, nil, nil)
		if fault.KindOf(err) == fault.Denied {
			now := effect.From(ctx).Door.Clock.Now()
			if refused.IsZero() {
				refused = now
			}
			if now.Sub(refused) < deniedGrace {
				return effect.Poll{Seen: err.Error()}, nil
			}
		}
		if err != nil {
			return effect.Poll{}, err
		}
		if !a.CloudInit {
			return effect.Poll{Done: true}, nil
		}
		switch status := got.get("status"); status {
		case "done", "disabled":
			return effect.Poll{Done: true}, nil
		case "error":
			return effect.Poll{}, fault.Hinted(fault.Failed, "read /var/log/cloud-init-output.log on the host", "cloud-init failed: %s",
				strings.TrimSpace(got.get("detail")+" "+strings.Join(got.all("more"), " ")))
		case "":
			return effect.Poll{Seen: "cloud-init doesn't say its status yet"}, nil
		default:
			return effect.Poll{Seen: "cloud-init is " + status}, nil
		}
	})
}
