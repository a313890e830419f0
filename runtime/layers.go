// Package runtime runs recipes: it finds and loads their files through the
// layers, makes the graph of steps from the names of their parameters, and
// runs it. It knows no module by name.
package runtime

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Layer is a place that recipes are looked up in. Layers are ordered: the
// site's first, the binary's last.
type Layer struct {
	Name    string // "site", "tree" or "embedded"
	Prefix  string // how its files show in messages: "sites/oslab/recipes"
	Recipes fs.FS  // *.star
	Files   fs.FS  // what "files/..." is looked up in; nil if the layer has none
	FilesAt string // how that folder shows in messages: "sites/oslab/files"
}

// A FileID names a recipe file: a path within the recipes of a layer.
type FileID struct {
	Layer int
	Path  string // "gateway.star", "spoke/bridge.star"
}

// base is the prefix of a load that begins below the loading file's layer.
const base = "@base//"

// find returns the first layer from the given one down that has the file.
func find(layers []Layer, from int, file string) (FileID, []byte, error) {
	if !fs.ValidPath(file) {
		return FileID{}, nil, fault.Hinted(fault.Invalid, "paths are relative to the folder of recipes and can't leave it", "bad path %q", file)
	}
	for i := from; i < len(layers); i++ {
		src, err := fs.ReadFile(layers[i].Recipes, file)
		if err == nil {
			return FileID{Layer: i, Path: file}, src, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return FileID{}, nil, &fault.Error{Op: "reading", Target: layers[i].show(file), Kind: fault.Invalid, Err: err}
		}
	}
	var looked []string
	for _, l := range layers[min(from, len(layers)):] {
		looked = append(looked, l.Prefix)
	}
	if len(looked) == 0 {
		return FileID{}, nil, fault.Hinted(fault.Invalid, "@base// is what a site's file calls the recipes that it changes; load this one by its name", "no file %s in any lower layer: there is none", file)
	}
	return FileID{}, nil, fault.New(fault.Invalid, "no file %s in %s", file, strings.Join(looked, ", "))
}

// show returns how a file of the layer is written in messages.
func (l Layer) show(file string) string { return path.Join(l.Prefix, file) }

// resolve returns the path and the first layer for a load statement in the
// file `from`.
func resolve(from FileID, load string) (layer int, file string) {
	if rest, ok := strings.CutPrefix(load, base); ok {
		return from.Layer + 1, rest
	}
	if rest, ok := strings.CutPrefix(load, "//"); ok {
		return 0, rest
	}
	return 0, path.Join(path.Dir(from.Path), load)
}

// readFile returns a file that belongs to the recipes, from the top layer
// down. The name begins with "files/".
func readFile(layers []Layer, name string) ([]byte, error) {
	rest, ok := strings.CutPrefix(name, "files/")
	if !ok || !fs.ValidPath(rest) {
		return nil, fault.Hinted(fault.Invalid, `name a file as "files/NAME"`, "bad file name %q", name)
	}
	var looked []string
	for _, l := range layers {
		if l.Files == nil {
			continue
		}
		b, err := fs.ReadFile(l.Files, rest)
		if err == nil {
			return b, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, &fault.Error{Op: "reading", Target: name, Kind: fault.Invalid, Err: err}
		}
		looked = append(looked, l.Name)
	}
	return nil, fault.New(fault.Invalid, "no file %s in the layers %s", name, strings.Join(looked, ", "))
}

// Holders returns the layers that have the file of the recipes which is called
// name, such as "files/nftables.conf.tmpl": the first one's is read.
func (e *Engine) Holders(name string) []Layer {
	var out []Layer
	rest, ok := strings.CutPrefix(name, "files/")
	if !ok || !fs.ValidPath(rest) {
		return nil
	}
	for _, l := range e.layers {
		if l.Files == nil {
			continue
		}
		if st, err := fs.Stat(l.Files, rest); err == nil && !st.IsDir() {
			out = append(out, l)
		}
	}
	return out
}

// FilePath writes the path of a file of the recipes in this layer.
func (l Layer) FilePath(name string) string {
	return path.Join(l.FilesAt, strings.TrimPrefix(name, "files/"))
}
