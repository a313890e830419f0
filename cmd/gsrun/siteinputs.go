package main

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/site"
	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// knownRecipes returns an error if a site has inputs for what is no recipe in
// any layer: they would be ignored.
func (src source) knownRecipes(s *site.Site) error {
	if s == nil {
		return nil
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.Inputs)) {
		at := s.At("inputs." + name)
		if at == "" || src.has(name+".star") {
			continue // what the lab gives isn't the site's
		}
		hint := "the key is the recipe's path without recipes/ and .star, such as gateway"
		plain := strings.TrimSuffix(strings.TrimPrefix(name, "recipes/"), ".star")
		if src.has(plain + ".star") {
			hint = "did you mean " + plain + "?"
		} else if near := builtin.Nearest(plain, src.names()); near != "" {
			hint = "did you mean " + near + "?"
		}
		errs = append(errs, fault.Hinted(fault.Invalid, hint, "%s: inputs.%s: there is no recipe %s in %s", at, name, name, strings.Join(src.prefixes(), ", ")))
	}
	return errors.Join(errs...)
}

func (src source) has(file string) bool {
	if !fs.ValidPath(file) || path.Clean(file) != file {
		return false
	}
	return slices.ContainsFunc(src.layers, func(l runtime.Layer) bool {
		_, err := fs.Stat(l.Recipes, file)
		return err == nil
	})
}

// names lists the recipes of all layers.
func (src source) names() []string {
	var out []string
	for _, l := range src.layers {
		for _, pattern := range []string{"*.star", "*/*.star"} {
			files, err := fs.Glob(l.Recipes, pattern)
			if err != nil {
				continue
			}
			for _, f := range files {
				out = append(out, strings.TrimSuffix(f, ".star"))
			}
		}
	}
	return out
}

func (src source) prefixes() []string {
	var out []string
	for _, l := range src.layers {
		out = append(out, l.Prefix)
	}
	return out
}

// checkSiteInputs checks what a site says for the inputs of a recipe, and of
// those that it uses; that others are missing is for a run to say.
func checkSiteInputs(r *runtime.Recipe, s *site.Site) error {
	if s == nil {
		return nil
	}
	return errors.Join(siteInputErrors(r, s, make(map[string]bool))...)
}

func siteInputErrors(r *runtime.Recipe, s *site.Site, seen map[string]bool) []error {
	if seen[r.Path] {
		return nil
	}
	seen[r.Path] = true
	var errs []error
	given := s.InputsOf(r.Path)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		at := s.At("inputs." + r.Path + "." + name)
		if at == "" {
			continue
		}
		if err := r.CheckInput(name, effect.ToStarlark(given[name])); err != nil {
			errs = append(errs, fault.Hinted(fault.KindOf(err), fault.HintOf(err), "%s: inputs.%s: %v", at, r.Path, err))
		}
	}
	for _, step := range r.Steps {
		if step.Use != nil {
			errs = append(errs, siteInputErrors(step.Use, s, seen)...)
		}
	}
	return errs
}
