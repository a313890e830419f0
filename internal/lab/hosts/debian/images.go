package debian

import (
	"maps"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// imageList is where the container runtime notes its images: on the disk, as
// they outlive a reboot.
const imageList = "/var/lib/containerd/images"

func (k *kernel) images() []string {
	set := map[string]bool{}
	for line := range strings.SplitSeq(k.sys.Text(imageList), "\n") {
		if line != "" {
			set[line] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

func (k *kernel) hasImages() bool { return len(k.images()) > 0 }

// addImage notes an image. A disk that is full has no room for it; the next
// pull tries again.
func (k *kernel) addImage(name string) {
	if slices.Contains(k.images(), name) {
		return
	}
	if err := k.sys.FS.MkdirAll(tree.Root(), "/var/lib/containerd", 0o711); err != nil {
		return
	}
	text := k.sys.Text(imageList) + name + "\n"
	if err := k.sys.FS.WriteFile(tree.Root(), imageList, []byte(text), 0o600); err != nil {
		k.sys.console("containerd: %v", err)
	}
}
