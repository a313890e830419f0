package openstack

import (
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
)

// knownStatus refuses to wait for what never comes.
func knownStatus(status string, known []string) error {
	if slices.Contains(known, status) {
		return nil
	}
	return didYouMean(status, known, "there is no status %q", status)
}

// didYouMean is an error for a name that isn't among those that are known.
func didYouMean(name string, known []string, format string, args ...any) error {
	hint := "known are " + strings.Join(known, ", ")
	if near := builtin.Nearest(name, known); near != "" {
		hint = "did you mean " + near + "? " + hint
	}
	return fault.Hinted(fault.Invalid, hint, format, args...)
}

func serverStatuses() []string {
	return []string{"ACTIVE", "BUILD", "DELETED", "ERROR", "HARD_REBOOT", "MIGRATING", "PASSWORD", "PAUSED", "REBOOT", "REBUILD", "RESCUE", "RESIZE",
		"REVERT_RESIZE", "SHELVED", "SHELVED_OFFLOADED", "SHUTOFF", "SOFT_DELETED", "SUSPENDED", "UNKNOWN", "VERIFY_RESIZE"}
}

// statusesOf returns what the status of a kind may be.
func statusesOf(kind string) []string {
	switch kind {
	case "volume":
		return []string{"available", "in-use", "creating", "downloading", "uploading", "attaching", "detaching", "reserved", "extending", "retyping", "maintenance", "managing",
			"awaiting-transfer", "backing-up", "restoring-backup", "reverting", "deleting", "error", "error_deleting", "error_extending", "error_managing", "error_backing-up", "error_restoring"}
	case "volume_snapshot":
		return []string{"available", "creating", "updating", "deleting", "deleted", "unmanaging", "backing-up", "restoring", "error", "error_deleting"}
	}
	return []string{"active", "queued", "saving", "uploading", "importing", "deactivated", "pending_delete", "deleted", "killed"} // of an image
}
