package hosts

import (
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/pkg/sftp"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/debian"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// files is a host's tree as one user sees it by SFTP.
type files struct {
	fs   *tree.FS
	cred tree.Cred
	host *debian.System
}

var (
	_ sftp.FileReader           = (*files)(nil)
	_ sftp.OpenFileWriter       = (*files)(nil)
	_ sftp.PosixRenameFileCmder = (*files)(nil)
	_ sftp.LstatFileLister      = (*files)(nil)
	_ sftp.RealPathFileLister   = (*files)(nil)
	_ sftp.ReadlinkFileLister   = (*files)(nil)
	_ sftp.NameLookupFileLister = (*files)(nil)
	_ sftp.StatVFSFileCmder     = (*files)(nil)
)

// umask of an SFTP session.
const umask fs.FileMode = 0o022

func (f *files) open(r *sftp.Request) (*tree.File, error) {
	want := r.Pflags()
	flag := os.O_RDONLY
	switch {
	case want.Read && want.Write:
		flag = os.O_RDWR
	case want.Write:
		flag = os.O_WRONLY
	}
	if want.Creat {
		flag |= os.O_CREATE
	}
	if want.Trunc {
		flag |= os.O_TRUNC
	}
	if want.Excl {
		flag |= os.O_EXCL
	}
	perm := fs.FileMode(0o666) &^ umask
	if r.AttrFlags().Permissions {
		perm = r.Attributes().FileMode().Perm() &^ umask
	}
	return f.fs.Open(f.cred, r.Filepath, flag, perm)
}

func (f *files) Fileread(r *sftp.Request) (io.ReaderAt, error) { return f.open(r) }

func (f *files) Filewrite(r *sftp.Request) (io.WriterAt, error) { return f.open(r) }

func (f *files) OpenFile(r *sftp.Request) (sftp.WriterAtReaderAt, error) { return f.open(r) }

func (f *files) Filecmd(r *sftp.Request) error {
	switch r.Method {
	case "Setstat":
		return f.setstat(r)
	case "Rename":
		if _, err := f.fs.Stat(f.cred, r.Target, false); err == nil {
			return os.ErrExist
		}
		return f.fs.Rename(f.cred, r.Filepath, r.Target)
	case "Rmdir", "Remove":
		info, err := f.fs.Stat(f.cred, r.Filepath, false)
		if err != nil {
			return err
		}
		if info.IsDir() != (r.Method == "Rmdir") {
			return sftp.ErrSSHFxFailure
		}
		return f.fs.Remove(f.cred, r.Filepath)
	case "Mkdir":
		return f.fs.Mkdir(f.cred, r.Filepath, 0o777&^umask)
	case "Link":
		return f.fs.Link(f.cred, r.Filepath, r.Target)
	case "Symlink":
		return f.fs.Symlink(f.cred, r.Filepath, r.Target)
	}
	return sftp.ErrSSHFxOpUnsupported
}

func (f *files) setstat(r *sftp.Request) error {
	flags, attrs := r.AttrFlags(), r.Attributes()
	if flags.Size {
		h, err := f.fs.Open(f.cred, r.Filepath, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		err = h.Truncate(int64(attrs.Size))
		if cerr := h.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	if flags.Permissions {
		if err := f.fs.Chmod(f.cred, r.Filepath, tree.PermOf(attrs.Mode)); err != nil {
			return err
		}
	}
	if flags.UidGid {
		if err := f.fs.Chown(f.cred, r.Filepath, int(attrs.UID), int(attrs.GID), true); err != nil {
			return err
		}
	}
	if flags.Acmodtime {
		return f.fs.Chtimes(f.cred, r.Filepath, attrs.ModTime())
	}
	return nil
}

func (f *files) PosixRename(r *sftp.Request) error {
	return f.fs.Rename(f.cred, r.Filepath, r.Target)
}

func (f *files) StatVFS(*sftp.Request) (*sftp.StatVFS, error) {
	const block = 4096
	used := uint64(f.fs.Used()) / block
	return &sftp.StatVFS{Bsize: block, Frsize: block, Blocks: debian.DiskBytes / block, Bfree: debian.DiskBytes/block - used,
		Bavail: debian.DiskBytes/block - used, Files: 1 << 20, Ffree: 1 << 19, Namemax: 255}, nil
}

// list is what a listing returns, in the pieces that the client asks for.
type list []os.FileInfo

func (l list) ListAt(into []os.FileInfo, off int64) (int, error) {
	if off >= int64(len(l)) {
		return 0, io.EOF
	}
	n := copy(into, l[off:])
	if n < len(into) {
		return n, io.EOF
	}
	return n, nil
}

func (f *files) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	if r.Method == "List" {
		infos, err := f.fs.ReadDir(f.cred, r.Filepath)
		if err != nil {
			return nil, err
		}
		out := make(list, len(infos))
		for i, info := range infos {
			out[i] = info
		}
		return out, nil
	}
	info, err := f.fs.Stat(f.cred, r.Filepath, true)
	if err != nil {
		return nil, err
	}
	return list{info}, nil
}

func (f *files) Lstat(r *sftp.Request) (sftp.ListerAt, error) {
	info, err := f.fs.Stat(f.cred, r.Filepath, false)
	if err != nil {
		return nil, err
	}
	return list{info}, nil
}

func (f *files) RealPath(p string) (string, error) {
	real, err := f.fs.RealPath(f.cred, p, true)
	if err != nil {
		return path.Clean(p), nil
	}
	return real, nil
}

func (f *files) Readlink(p string) (string, error) { return f.fs.Readlink(f.cred, p) }

func (f *files) LookupUserName(uid string) string {
	if u, ok := f.host.LookupUser(uid); ok {
		return u.Name
	}
	return uid
}

func (f *files) LookupGroupName(gid string) string {
	if g, ok := f.host.LookupGroup(gid); ok {
		return g.Name
	}
	return gid
}
