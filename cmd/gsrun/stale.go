package main

import (
	"fmt"
	"io"

	"git.vanillacore.net/govstack/gsrun/cmd/gsrun/view"
	"git.vanillacore.net/govstack/gsrun/runtime"
)

// staleOverride is an override whose shipped step has changed, as explain
// --output json writes it.
type staleOverride struct {
	Step    string `json:"step"`
	Pos     string `json:"pos"` // of the override
	Pinned  string `json:"pinned"`
	Now     string `json:"now"`
	Message string `json:"message"`
	Diff    string `json:"diff,omitempty"` // from what was pinned to what is
	Hint    string `json:"hint"`
}

// staleOf describes a stale override. recipe and p are as the command line has
// them, so that what the hint says to run means the same recipe and site.
func staleOf(st runtime.Stale, recipe string, p place) staleOverride {
	o := staleOverride{Step: st.Step, Pos: fmt.Sprintf("%s:%d", st.Pos.Filename(), st.Pos.Line), Pinned: st.Pinned, Now: st.Now}
	o.Hint = "take over what matters, then pin the step as it is now: "
	if st.Layer == siteLayer {
		o.Hint += repinCommand(recipe, st.Path, p)
	} else {
		o.Hint += fmt.Sprintf("write of = {%q: %q} there, which is no file of the site", st.Step, st.Now)
	}
	o.Message = fmt.Sprintf("%s: the step %s that it overrides has changed: it pins %s, the step below is %s", o.Pos, st.Step, st.Pinned, st.Now)
	switch {
	case st.Kept == "":
		o.Hint = "no copy of the pinned step is kept as " + st.Copy + " beside the override: compare the two by the history of the shipped recipes; " + o.Hint
	case st.Kept == st.Code:
		o.Hint = "its text and what it reaches read the same: what differs shows in no text; " + o.Hint
	default:
		o.Diff = view.Unified(st.Recipe+".star: "+st.Step+" as pinned", st.Recipe+".star: "+st.Step+" as it is", st.Kept, st.Code)
	}
	return o
}

// repinCommand is the call of gsrun that pins a step as it is now.
func repinCommand(recipe, step string, p place) string {
	c := "gsrun override " + recipe + " " + step + " --repin"
	if p.site != "" {
		c += " --site " + p.site
	}
	return c
}

// warnStale tells of overrides whose shipped step has changed.
func (a *app) warnStale(w io.Writer, r *runtime.Recipe) {
	for _, st := range r.Stale() {
		fmt.Fprintf(w, "gsrun: warning: %s\n", staleOf(st, r.Path, place{}).Message)
		fmt.Fprintln(w, "gsrun: hint: gsrun check shows the difference, and how to pin the step as it is now")
	}
}
