package runtime

import (
	"strings"
	"sync"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/dialect"
	"git.vanillacore.net/govstack/gsrun/runtime/thread"
)

// A Loader loads recipe files through layers, each once. It may be used by
// several goroutines.
type Loader struct {
	layers      []Layer
	from        int // the first layer that it looks at
	predeclared starlark.StringDict
	threads     *thread.Factory
	catalog     *catalog
	language    *builtin.Module

	mu      sync.Mutex // held while anything loads: loads never wait for each other
	files   map[FileID]*loaded
	sources map[string]*dialect.File // by the name that shows in messages
	ids     map[string]FileID        // by the same
	views   map[int]*Loader          // by the first layer that they look at
}

// loaded is a file that was loaded, or is being loaded.
type loaded struct {
	file    *dialect.File
	globals starlark.StringDict
	helpers map[string]*helper // its functions
	err     error
	done    bool
}

// fileKey is where a thread that loads a file keeps which one.
const fileKey = "gsrun.file"

// Load loads the file at path from the top layer down, and what it loads.
func (l *Loader) Load(file string) (FileID, starlark.StringDict, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id, src, err := l.find(0, file)
	if err != nil {
		return FileID{}, nil, err
	}
	globals, err := l.load(id, src, nil)
	return id, globals, err
}

// load loads a file that was found. chain are the files that are waiting for
// it, outermost first.
func (l *Loader) load(id FileID, src []byte, chain []FileID) (starlark.StringDict, error) {
	if have, ok := l.files[id]; ok {
		if !have.done {
			return nil, l.cycle(id, chain)
		}
		return have.globals, have.err
	}
	entry := &loaded{}
	l.files[id] = entry
	entry.globals, entry.err = l.run(entry, id, src, append(chain[:len(chain):len(chain)], id))
	entry.done = true
	return entry.globals, entry.err
}

func (l *Loader) run(entry *loaded, id FileID, src []byte, chain []FileID) (starlark.StringDict, error) {
	name := l.layers[id.Layer].show(id.Path)
	f, err := dialect.Compile(name, src, l.predeclared.Has)
	l.sources[name] = &dialect.File{Name: name, Source: src}
	l.ids[name] = id
	if err != nil {
		return nil, err
	}
	entry.file = f
	l.sources[name] = f
	thread := l.threads.New(name, nil)
	thread.SetLocal(fileKey, &place{loader: l, id: id})
	thread.Load = func(_ *starlark.Thread, module string) (starlark.StringDict, error) {
		layer, file := resolve(id, module)
		next, src, err := l.find(layer, file)
		if err != nil {
			return nil, err
		}
		return l.load(next, src, chain)
	}
	globals, err := f.Init(thread, l.predeclared)
	if err != nil {
		return nil, l.threads.Explain(err)
	}
	var errs []error
	errs, entry.helpers = l.catalog.checkCalls(f, l.helpersOf(id, f))
	return globals, invalid(errs)
}

// helpersOf returns the functions that a file loads; nil for other names.
func (l *Loader) helpersOf(id FileID, f *dialect.File) map[string]*helper {
	helpers := make(map[string]*helper)
	for _, s := range f.Syntax.Stmts {
		load, ok := s.(*syntax.LoadStmt)
		if !ok {
			continue
		}
		layer, file := resolve(id, load.ModuleName())
		from, _, err := l.find(layer, file)
		if err != nil || l.files[from] == nil {
			continue
		}
		for i, name := range load.From {
			helpers[load.To[i].Name] = l.files[from].helpers[name.Name]
		}
	}
	return helpers
}

func (l *Loader) cycle(id FileID, chain []FileID) error {
	var names []string
	for _, c := range append(chain, id) {
		if len(names) == 0 && c != id {
			continue
		}
		names = append(names, l.layers[c.Layer].show(c.Path))
	}
	return fault.Hinted(fault.Invalid, "move what both need into a third file; an override loads what it replaces from @base//",
		"cycle of load statements: %s", strings.Join(names, " -> "))
}

// place says which file a thread is loading.
type place struct {
	loader *Loader
	id     FileID
}

func placeOf(thread *starlark.Thread) *place {
	p, _ := thread.Local(fileKey).(*place)
	return p
}

// source returns the text of a line of a loaded file, and whether there is
// one.
func (l *Loader) source(file string, line int) (string, bool) {
	l.mu.Lock()
	f := l.sources[file]
	l.mu.Unlock()
	if f == nil || line < 1 {
		return "", false
	}
	lines := strings.Split(string(f.Source), "\n")
	if line > len(lines) {
		return "", false
	}
	return lines[line-1], true
}
