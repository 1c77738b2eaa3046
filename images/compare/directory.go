package compare

import (
	"errors"
	"math"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
)

// directory is a folder that the kernel shows. Whoever owns it may change it at any time.
type directory struct {
	file *os.File
	dev  uint64
}

func newDirectory(root *os.File) (*directory, error) {
	st, err := tree.StatFile(root)
	return &directory{root, st.Dev}, err
}

func (d *directory) close() { _ = d.file.Close() } // it was only read

func (d *directory) self() (entry, error) {
	st, err := tree.StatFile(d.file)
	if err != nil {
		return entry{}, err
	}
	e := entryOf(&st)
	list, err := tree.ReadXattrs(tree.FDPath(int(d.file.Fd())))
	e.take(list)
	return e, err
}

// names lists from the start, also when the root was listed before.
func (d *directory) names() ([]string, error) {
	if _, err := d.file.Seek(0, 0); err != nil {
		return nil, err
	}
	return tree.Names(d.file)
}

func (d *directory) entry(name string) (entry, error) {
	st, err := tree.StatAt(d.file, name)
	if err != nil {
		return entry{}, err
	}
	e := entryOf(&st)
	if e.format == unix.S_IFLNK {
		if e.target, err = os.Readlink(tree.Under(d.file, name)); err != nil {
			return entry{}, err
		}
	}
	list, err := tree.EntryXattrs(d.file, name)
	e.take(list)
	return e, err
}

func entryOf(st *unix.Stat_t) entry {
	e := entry{
		format: st.Mode & unix.S_IFMT, mode: st.Mode & 0o7777, uid: st.Uid, gid: st.Gid, mtime: st.Mtim.Sec,
		nsec: st.Mtim.Nsec, ino: st.Ino,
	}
	if e.isDevice() {
		e.major, e.minor = unix.Major(st.Rdev), unix.Minor(st.Rdev)
	}
	if e.isFile() {
		e.size = uint64(st.Size)
	}
	if st.Nlink > 1 && !e.isDir() {
		e.file = [2]uint64{st.Dev, st.Ino}
	}
	return e
}

// take sorts out what squashfs cannot hold, and overlayfs's own marks.
func (e *entry) take(list []tree.Xattr) {
	for _, x := range list {
		switch namespace, _, _ := strings.Cut(x.Name, "."); {
		case strings.HasPrefix(x.Name, tree.OverlayPrefix):
		case namespace == "user" || namespace == "trusted" || namespace == "security":
			e.xattrs = append(e.xattrs, x)
		default:
			e.lost++
		}
	}
}

func (d *directory) folder(name string) (folder, error) {
	f, err := tree.Child(d.file, name, d.dev)
	if err != nil {
		return nil, err
	}
	return &directory{f, d.dev}, nil
}

var errMoved = errors.New("it changed while it was compared")

func (d *directory) open(name string, e entry) (content, error) {
	f, err := tree.Open(d.file, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, err
	}
	st, err := tree.StatFile(f)
	if now := entryOf(&st); err == nil && (now.format != e.format || now.ino != e.ino || now.size != e.size) {
		err = errMoved
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &file{f, st, st.Blocks*512 < st.Size}, nil
}

// file is the content of a regular file.
type file struct {
	*os.File
	opened unix.Stat_t
	sparse bool
}

func (f *file) same() error {
	st, err := tree.StatFile(f.File)
	if o := &f.opened; err == nil && (st.Size != o.Size || st.Mtim != o.Mtim || st.Ctim != o.Ctim) {
		return errMoved
	}
	return err
}

// data returns where data begins at or behind off. A file system that cannot tell has data everywhere.
func (f *file) data(off int64) int64 {
	if !f.sparse {
		return off
	}
	at, err := unix.Seek(int(f.Fd()), off, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return math.MaxInt64
	case err != nil || at < off:
		return off
	default:
		return at
	}
}
