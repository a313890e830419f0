package openstack

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func volumeSnapshotNoun() *noun {
	return &noun{
		name: "volume_snapshot", service: client.BlockStorage, key: "snapshot", plural: "snapshots", path: "/snapshots", detail: "/snapshots/detail",
		whole: true, scans: true, goes: goingVolume,
		attrs: []attr{
			idAttr(), nameAttr(),
			{Attr: builtin.Attr{Name: "status", Type: "str", Doc: "available once volumes can be made from it."}},
			{builtin.Attr{Name: "volume", Type: "str", Doc: "Id of its volume."}, func(o client.Object) any { return str(o, "volume_id") }},
			{Attr: builtin.Attr{Name: "size", Type: "int", Doc: "Size of the volume in GiB."}},
			{Attr: builtin.Attr{Name: "metadata", Type: "dict[str, str]", Doc: "Its metadata."}},
			{Attr: builtin.Attr{Name: "created_at", Type: "str", Doc: "When it was made, in UTC: 2026-01-31T12:00:00.000000."}},
			markAttr(),
		},
		phase: func(o client.Object) phase {
			s := str(o, "status")
			return phase{state: s, ready: !slices.Contains([]string{"creating", "deleting", "restoring", "unmanaging"}, s), failed: strings.HasPrefix(s, "error"), why: str(o, volumeWhy)}
		},
		expand: explainVolume,
		users: func(ctx context.Context, cl *client.Client, id string) ([]string, error) {
			all, err := volumeNoun().list(ctx, cl, url.Values{})
			if err != nil {
				return nil, err
			}
			var out []string
			for _, v := range all {
				if str(v, "snapshot_id") == id {
					out = append(out, "volume "+str(v, "name")+" ("+str(v, "id")+")")
				}
			}
			return out, nil
		},
	}
}

type volumeSnapshotArgs struct {
	Name     string                 `star:"name,required" doc:"The name."`
	Volume   effect.Reference       `star:"volume,required" of:"openstack.volume" doc:"The volume to keep a copy of as it is now; a name works too. Can't be changed."`
	Metadata map[string]effect.Text `star:"metadata" secret:"never" doc:"Metadata to have; other keys stay."`
	Exact    bool                   `star:"exact" doc:"Remove metadata that isn't given."`
	Timeout  time.Duration          `star:"timeout" doc:"How long making it may take."`
	Adopt    effect.Data            `star:"adopt" doc:"True takes over the one of that name that lacks this recipe's mark; an id the one that has it, whatever its name."`
	Replace  bool                   `star:"replace" doc:"Where what can't be changed differs, delete the snapshot and make it anew."`
}

func volumeSnapshotVerbs() builtin.Noun {
	n := volumeSnapshotNoun()
	v := n.verbs("A copy of a volume as it was at one time.", "before-upgrade", builtin.Of(builtin.Spec[*Cloud, volumeSnapshotArgs]{
		Name: "ensure",
		Doc: "Make a snapshot of that name be there, and wait until it is. One that is there stays as it is, however the volume has changed since: " +
			"put into the name what makes the difference. A volume that servers have is copied as if they had lost power.",
		Returns: "openstack.volume_snapshot",
		Example: "data = cloud.volume.ensure(\"data\", size = 1)\n" +
			`copy = cloud.volume_snapshot.ensure("before-upgrade", volume = data)`,
		Effect:   builtin.Changes,
		Errors:   []fault.Kind{fault.Exists, fault.Invalid, fault.NotFound, fault.Quota, fault.Failed, fault.Timeout},
		Defaults: volumeSnapshotArgs{Timeout: 10 * time.Minute},
		Run: func(ctx context.Context, c *Cloud, a volumeSnapshotArgs) (any, error) {
			op, err := newEnsure(ctx, c, n, a.Name, a.Adopt, a.Replace)
			if err != nil {
				return nil, err
			}
			op.timeout = a.Timeout
			op.wanted = func(ctx context.Context, cl *client.Client) ([]field, error) {
				id, err := volumeNoun().resolve(ctx, c, cl, a.Volume)
				if err != nil {
					return nil, err
				}
				if id == "" {
					return nil, fault.New(fault.Invalid, "the volume's id is empty")
				}
				fs := []field{{attr: "volume", key: "volume_id", want: id, fixed: true}, {key: "force", want: true}}
				if a.Metadata != nil || a.Exact {
					fs = append(fs, metadataField(a.Metadata, a.Exact, "/snapshots/"))
				}
				return fs, nil
			}
			return c.do(ctx, op)
		},
	}))
	v.Verbs = append(v.Verbs, n.waitVerb("cloud.volume.ensure(\"data\", size = 1)\ncloud.volume_snapshot.ensure(\"before-upgrade\", volume = \"data\")\n"+
		`copy = cloud.volume_snapshot.wait("before-upgrade", timeout = "2m")`))
	return v
}
