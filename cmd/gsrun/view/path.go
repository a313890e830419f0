package view

import (
	"fmt"
	"strings"
)

// ownerOf returns the step whose counts an op at path belongs to: that of the
// item's step.
func ownerOf(path string) string {
	if strings.HasSuffix(path, "]") {
		if i := strings.LastIndexByte(path, '['); i > strings.LastIndexByte(path, '/') {
			return path[:i]
		}
	}
	return path
}

// parentOf returns the path of the step that the one at path is part of: the
// recipe's, or the one whose item it is. It is "" for a step of the recipe that
// runs.
func parentOf(path string) string {
	if owner := ownerOf(path); owner != path {
		return owner
	}
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return ""
}

// itemOf returns the index of an item's name, "[2]", or -1 for another.
func itemOf(name string) int {
	var i int
	if n, err := fmt.Sscanf(name, "[%d]", &i); n == 1 && err == nil {
		return i
	}
	return -1
}
