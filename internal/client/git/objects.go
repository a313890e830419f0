package git

import (
	"fmt"
	"io"
	"path"
	"sort"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// Objects holds Git objects in memory. It is used by one goroutine at a time.
type Objects struct {
	store    *memory.Storage
	complete bool          // the history of what was fetched is there
	local    map[Hash]bool // made here: the server may not have them
}

// NewObjects returns an empty set of objects.
func NewObjects() *Objects { return &Objects{store: memory.NewStorage(), local: make(map[Hash]bool)} }

func (o *Objects) has(commit Hash, history bool) bool {
	_, ok := o.store.Commits[commit]
	return ok && (!history || o.complete)
}

// A File is one file of a commit.
type File struct {
	Hash Hash
	Mode filemode.FileMode
}

// Files returns the files of a commit by path. The zero Hash is a commit
// without files. Submodules are left out.
func (o *Objects) Files(commit Hash) (map[string]File, error) {
	files := make(map[string]File)
	if commit.IsZero() {
		return files, nil
	}
	c, err := object.GetCommit(o.store, commit)
	if err != nil {
		return nil, broken("commit", commit, err)
	}
	return files, o.walk(c.TreeHash, "", files)
}

func (o *Objects) walk(tree Hash, prefix string, files map[string]File) error {
	t, err := object.GetTree(o.store, tree)
	if err != nil {
		return broken("tree", tree, err)
	}
	for _, e := range t.Entries {
		switch e.Mode {
		case filemode.Dir:
			if err := o.walk(e.Hash, prefix+e.Name+"/", files); err != nil {
				return err
			}
		case filemode.Submodule:
		default:
			files[prefix+e.Name] = File{e.Hash, e.Mode}
		}
	}
	return nil
}

func broken(what string, h Hash, err error) error {
	return &fault.Error{Op: "reading " + what, Target: h.String(), Kind: fault.Failed, Err: err}
}

// Read returns the content of a file.
func (o *Objects) Read(blob Hash) ([]byte, error) {
	b, err := object.GetBlob(o.store, blob)
	if err != nil {
		return nil, broken("file", blob, err)
	}
	r, err := b.Reader()
	if err != nil {
		return nil, broken("file", blob, err)
	}
	defer r.Close()
	return io.ReadAll(r)
}

// HashOf returns the hash that a file with that content has.
func HashOf(content []byte) Hash { return plumbing.ComputeHash(plumbing.BlobObject, content) }

// Ancestors calls f for commit and for those before it, nearest first, until
// it returns false. The history must be there.
func (o *Objects) Ancestors(commit Hash, f func(Hash) bool) error {
	seen := map[Hash]bool{commit: true}
	queue := []Hash{commit}
	for len(queue) > 0 {
		h := queue[0]
		queue = queue[1:]
		if !f(h) {
			return nil
		}
		c, err := object.GetCommit(o.store, h)
		if err != nil {
			return broken("commit", h, err)
		}
		for _, p := range c.ParentHashes {
			if !seen[p] {
				seen[p] = true
				queue = append(queue, p)
			}
		}
	}
	return nil
}

// An Edit is what happens to one file.
type Edit struct {
	Content []byte
	Remove  bool
}

// A Draft is a commit to be made.
type Draft struct {
	Message     string
	Name, Email string // of the author and committer
	When        time.Time
	Edits       map[string]Edit // by path
}

// Commit makes commits from drafts, one after the other, on parent, which is
// zero for the first commit of a branch. A draft that changes nothing is left
// out. It returns the last commit, which is parent if all were left out, and
// the objects that are new.
func (o *Objects) Commit(parent Hash, drafts []Draft) (Hash, []Hash, error) {
	b := &builder{o: o, made: make(map[Hash]bool)}
	tree := Hash{}
	if !parent.IsZero() {
		c, err := object.GetCommit(o.store, parent)
		if err != nil {
			return parent, nil, broken("commit", parent, err)
		}
		tree = c.TreeHash
	}
	head := parent
	for _, d := range drafts {
		next, err := b.tree(tree, d.Edits)
		if err != nil {
			return parent, nil, err
		}
		if next == tree || next.IsZero() && tree.IsZero() {
			continue
		}
		if next.IsZero() { // the last file is gone: the empty tree
			if next, err = b.put(&object.Tree{}); err != nil {
				return parent, nil, err
			}
		}
		who := object.Signature{Name: d.Name, Email: d.Email, When: d.When}
		c := &object.Commit{Author: who, Committer: who, Message: d.Message, TreeHash: next}
		if !head.IsZero() {
			c.ParentHashes = []Hash{head}
		}
		if head, err = b.put(c); err != nil {
			return parent, nil, err
		}
		tree = next
	}
	if head == parent {
		return head, nil, nil
	}
	return head, b.list, nil
}

// builder stores new objects, and remembers them in the order in which they
// were made.
type builder struct {
	o    *Objects
	made map[Hash]bool
	list []Hash
}

type encoder interface {
	Encode(plumbing.EncodedObject) error
}

func (b *builder) put(e encoder) (Hash, error) {
	obj := b.o.store.NewEncodedObject()
	if err := e.Encode(obj); err != nil {
		return Hash{}, &fault.Error{Op: "making a Git object", Kind: fault.Internal, Err: err}
	}
	return b.keep(obj)
}

func (b *builder) keep(obj plumbing.EncodedObject) (Hash, error) {
	h := obj.Hash()
	if b.o.store.HasEncodedObject(h) != nil {
		if _, err := b.o.store.SetEncodedObject(obj); err != nil {
			return h, &fault.Error{Op: "keeping a Git object", Kind: fault.Internal, Err: err}
		}
		b.o.local[h] = true
	}
	// An object of a push that failed is here, but not on the server.
	if b.o.local[h] && !b.made[h] {
		b.made[h] = true
		b.list = append(b.list, h)
	}
	return h, nil
}

func (b *builder) blob(content []byte) (Hash, error) {
	obj := b.o.store.NewEncodedObject()
	obj.SetType(plumbing.BlobObject)
	w, err := obj.Writer()
	if err != nil {
		return Hash{}, &fault.Error{Op: "making a Git object", Kind: fault.Internal, Err: err}
	}
	if _, err := w.Write(content); err != nil {
		return Hash{}, &fault.Error{Op: "making a Git object", Kind: fault.Internal, Err: err}
	}
	if err := w.Close(); err != nil {
		return Hash{}, &fault.Error{Op: "making a Git object", Kind: fault.Internal, Err: err}
	}
	return b.keep(obj)
}

// tree returns the tree after the edits, zero if nothing is left in it.
func (b *builder) tree(old Hash, edits map[string]Edit) (Hash, error) {
	entries := make(map[string]object.TreeEntry)
	if !old.IsZero() {
		t, err := object.GetTree(b.o.store, old)
		if err != nil {
			return Hash{}, broken("tree", old, err)
		}
		for _, e := range t.Entries {
			entries[e.Name] = e
		}
	}
	below := make(map[string]map[string]Edit) // by folder
	for p, e := range edits {
		dir, rest, nested := strings.Cut(p, "/")
		if nested {
			if below[dir] == nil {
				below[dir] = make(map[string]Edit)
			}
			below[dir][rest] = e
			continue
		}
		if err := b.edit(entries, p, e); err != nil {
			return Hash{}, err
		}
	}
	for dir, es := range below {
		if err := b.folder(entries, dir, es); err != nil {
			return Hash{}, err
		}
	}
	if len(entries) == 0 {
		return Hash{}, nil
	}
	t := &object.Tree{}
	for _, e := range entries {
		t.Entries = append(t.Entries, e)
	}
	sort.Sort(object.TreeEntrySorter(t.Entries))
	return b.put(t)
}

// edit changes one file of a folder.
func (b *builder) edit(entries map[string]object.TreeEntry, name string, e Edit) error {
	have, there := entries[name]
	if there && (have.Mode == filemode.Dir || have.Mode == filemode.Submodule) {
		return fault.New(fault.Invalid, "%s is a folder in the repository, not a file", name)
	}
	if e.Remove {
		delete(entries, name)
		return nil
	}
	mode := filemode.Regular
	if there && have.Mode == filemode.Executable {
		mode = filemode.Executable
	}
	if there && have.Mode == mode && have.Hash == HashOf(e.Content) {
		return nil
	}
	h, err := b.blob(e.Content)
	entries[name] = object.TreeEntry{Name: name, Mode: mode, Hash: h}
	return err
}

// folder changes what is below one folder.
func (b *builder) folder(entries map[string]object.TreeEntry, name string, edits map[string]Edit) error {
	have, there := entries[name]
	if there && have.Mode != filemode.Dir {
		for _, e := range edits {
			if !e.Remove {
				return fault.New(fault.Invalid, "%s is a file in the repository, not a folder", name)
			}
		}
		return nil // what is to be removed isn't there
	}
	h, err := b.tree(have.Hash, edits)
	if err != nil {
		return err
	}
	if h.IsZero() {
		delete(entries, name)
		return nil
	}
	entries[name] = object.TreeEntry{Name: name, Mode: filemode.Dir, Hash: h}
	return nil
}

// CheckPath returns an error of kind Invalid unless p can name a file in a
// repository: relative, plain, and nothing of Git's own.
func CheckPath(p string) error {
	refuse := func(why string) error {
		return fault.Hinted(fault.Invalid, "write it as dir/file, relative to the repository", "%q can't be a file of a repository: %s", p, why)
	}
	switch {
	case p == "" || p == ".":
		return refuse("it is empty")
	case strings.HasPrefix(p, "/"):
		return refuse("it begins with a slash")
	case strings.HasSuffix(p, "/") || path.Clean(p) != p:
		return refuse(fmt.Sprintf("it isn't plain, as %q is", path.Clean(p)))
	case strings.ContainsAny(p, "\x00\n\r\\"):
		return refuse("it has a character that file names shouldn't have")
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." || strings.EqualFold(part, ".git") {
			return refuse(part + " isn't allowed in it")
		}
	}
	return nil
}
