package export

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
	"slipway/images/tree"
)

// planter makes entries below one directory, in the order of a walk. It goes by descriptors, follows no link and makes
// no device but whiteouts.
type planter struct {
	copier *copier
	levels []level // the directories that are open, the root first
}

// level is a directory that is being filled. It gets its attributes when it is left, as filling it changes its times.
type level struct {
	path string
	dir  *os.File
	node *squashfs.Node
}

// plant runs feed with a planter in dir, which becomes what root says, and finishes the directories that are left open.
func plant(
	ctx context.Context, image *squashfs.Image, dir *os.File, root *squashfs.Node, moved func(int64),
	feed func(context.Context, *planter) error,
) error {
	top, err := tree.Open(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("open directory to write to: %w", err)
	}
	return copying(ctx, image, moved, func(ctx context.Context, c *copier) error {
		p := &planter{copier: c, levels: []level{{"/", top, root}}}
		err := feed(ctx, p)
		return errors.Join(err, p.leave(0, err == nil))
	})
}

// leave closes directories until depth are open.
func (p *planter) leave(depth int, good bool) error {
	var err error
	for len(p.levels) > depth {
		l := p.levels[len(p.levels)-1]
		p.levels = p.levels[:len(p.levels)-1]
		if good && err == nil {
			err = finish(l.dir, l.path, l.node)
		}
		err = errors.Join(err, l.dir.Close())
	}
	return err
}

// parent returns the open directory that holds name, which must have been entered before.
func (p *planter) parent(name string) (*os.File, error) {
	want := path.Dir(name)
	for n := len(p.levels); n > 0; n-- {
		if p.levels[n-1].path == want {
			return p.levels[n-1].dir, p.leave(n, true)
		}
	}
	return nil, fmt.Errorf("write %s: its directory is not open", name)
}

// add makes the entry of a node. Directories are entered: what follows may lie in them.
func (p *planter) add(ctx context.Context, name string, n *squashfs.Node) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	dir, err := p.parent(name)
	if err != nil {
		return err
	}
	base := path.Base(name)
	switch n.Kind {
	case squashfs.Dir:
		return p.enter(dir, base, level{path: name, node: n})
	case squashfs.File:
		fd, err := unix.Openat(
			int(dir.Fd()), base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600,
		)
		if err != nil {
			return written(name, err)
		}
		return p.copier.fill(ctx, os.NewFile(uintptr(fd), base), name, n)
	case squashfs.Symlink:
		err = unix.Symlinkat(n.Target, int(dir.Fd()), base)
	case squashfs.Fifo, squashfs.Socket:
		err = unix.Mknodat(int(dir.Fd()), base, fileType(n.Kind)|0o600, 0)
	default: // callers skip or refuse them; whatever they do, none is made
		err = fmt.Errorf("a %s is the host's", n.Kind)
	}
	if err != nil {
		return written(name, err)
	}
	attr := attributes(n)
	if err := attr.Apply(tree.Under(dir, base)); err != nil {
		return written(name, err)
	}
	return nil
}

func (p *planter) enter(dir *os.File, base string, l level) error {
	if err := unix.Mkdirat(int(dir.Fd()), base, 0o700); err != nil {
		return written(l.path, err)
	}
	var err error
	if l.dir, err = tree.Open(dir, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW); err != nil {
		return written(l.path, err)
	}
	p.levels = append(p.levels, l)
	return nil
}

// link makes name a further name of what was added as first.
func (p *planter) link(name, first string) error {
	dir, err := p.parent(name)
	if err != nil {
		return err
	}
	from, err := tree.Open(p.levels[0].dir, path.Dir("."+first), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return written(name, err)
	}
	defer from.Close()
	if err := unix.Linkat(int(from.Fd()), path.Base(first), int(dir.Fd()), path.Base(name), 0); err != nil {
		return written(name, err)
	}
	return nil
}

// whiteout makes the mark by which an overlay hides a name of the layers below.
func (p *planter) whiteout(name string) error {
	dir, err := p.parent(name)
	if err != nil {
		return err
	}
	if err := unix.Mknodat(int(dir.Fd()), path.Base(name), unix.S_IFCHR, 0); err != nil {
		return written(name, err)
	}
	return nil
}

// finish gives an open file or directory the attributes of n.
func finish(f *os.File, name string, n *squashfs.Node) error {
	fd := int(f.Fd())
	err := unix.Fchown(fd, int(n.UID), int(n.GID))
	for _, x := range xattrs(n.Xattrs) {
		if err == nil {
			err = unix.Fsetxattr(fd, x.Name, x.Value, 0)
		}
	}
	if err == nil {
		err = unix.Fchmod(fd, uint32(n.Mode))
	}
	if err != nil {
		return written(name, err)
	}
	attr := attributes(n)
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, tree.FDPath(fd), []unix.Timespec{attr.Stat.Mtim, attr.Stat.Mtim}, 0); err != nil {
		return written(name, err)
	}
	return nil
}

// attributes says in the words of stat(2) what a node carries.
func attributes(n *squashfs.Node) tree.Attr {
	time := unix.NsecToTimespec(int64(n.MTime) * 1e9)
	a := tree.Attr{Stat: unix.Stat_t{
		Mode: fileType(n.Kind) | uint32(n.Mode), Uid: n.UID, Gid: n.GID, Atim: time, Mtim: time,
	}}
	for _, x := range xattrs(n.Xattrs) {
		a.Xattrs = append(a.Xattrs, tree.Xattr{Name: x.Name, Value: x.Value})
	}
	return a
}

func fileType(k squashfs.Kind) uint32 {
	types := map[squashfs.Kind]uint32{
		squashfs.Dir: unix.S_IFDIR, squashfs.File: unix.S_IFREG, squashfs.Symlink: unix.S_IFLNK,
		squashfs.Fifo: unix.S_IFIFO, squashfs.Socket: unix.S_IFSOCK,
	}
	return types[k]
}
