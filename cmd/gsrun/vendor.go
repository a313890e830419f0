package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sort"

	"github.com/spf13/cobra"
	"go.starlark.net/starlark"

	artifactclient "git.vanillacore.net/govstack/gsrun/internal/client/artifact"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/site"
)

func (a *app) vendorCmd() *cobra.Command {
	var p place
	c := &cobra.Command{
		Use:   "vendor",
		Short: "Fetch the upstream files that recipes name, and pin their digests in the site's gsrun.lock",
		Long: "Fetch every file that ARTIFACTS in versions.star names, from the site's mirror if it has one, and write\n" +
			"their digests to the site's gsrun.lock. A run refuses a file that isn't in the lock, or differs.",
		Example: "  gsrun vendor --site sites/oslab",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.requireSite(cmd.Context(), p)
			if err != nil {
				return err
			}
			return a.vendor(cmd.Context(), s, func(line string) { fmt.Fprintln(cmd.OutOrStdout(), line) })
		},
	}
	p.flags(c.Flags())
	return c
}

// vendor pins the files that the site's versions name.
func (a *app) vendor(ctx context.Context, s *site.Site, say func(string)) error {
	src, err := findRecipe("versions.star", s)
	if err != nil {
		return err
	}
	urls, err := artifactURLs(src)
	if err != nil {
		return err
	}
	cache, err := s.CacheDir()
	if err != nil {
		return err
	}
	lock, err := artifactclient.ReadLock(s.LockFile())
	if errors.Is(err, fs.ErrNotExist) {
		lock, err = artifactclient.NewLock(s.LockFile()), nil
	}
	if err != nil {
		return err
	}
	client := &artifactclient.Client{Lock: lock, Mirror: s.Artifacts.Mirror, Cache: cache, AllowUnlocked: true}
	pins, err := artifactclient.Vendor(ctx, client, urls, func(old, now artifactclient.Pin) error {
		if say != nil {
			say(fmt.Sprintf("changed upstream: %s was sha256:%s", now.Source, old.SHA256))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, pin := range pins {
		if err := lock.Set(pin); err != nil {
			return err
		}
		if say != nil {
			say(fmt.Sprintf("%s  %s", pin.SHA256, pin.Source))
		}
	}
	return lock.Write(s.LockFile())
}

// artifactURLs returns the URLs that ARTIFACTS in versions.star names.
func artifactURLs(src source) ([]string, error) {
	e := textEngine(src)
	globals, err := e.Globals(src.path)
	if err != nil {
		return nil, explain(e, err)
	}
	d, ok := globals["ARTIFACTS"].(*starlark.Dict)
	if !ok {
		return nil, fault.Hinted(fault.Invalid, "a site's versions.star takes what it keeps from @base//versions.star", "versions.star has no dict ARTIFACTS")
	}
	var urls []string
	for _, item := range d.Items() {
		u, ok := starlark.AsString(item[1])
		if !ok {
			return nil, fault.New(fault.Invalid, "ARTIFACTS: %s is no URL", item[1])
		}
		urls = append(urls, u)
	}
	sort.Strings(urls)
	return urls, nil
}
