package squash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
	"slipway/internal/errs"
)

// copier copies an upper directory as it is, whiteouts and opaque marks included, so that the copy can stand in for it
// as an overlay layer.
type copier struct {
	ctx     context.Context
	dev     uint64
	dst     *os.File          // root of the copy
	links   map[uint64]string // first name in the copy of each inode with several names
	skipped Skipped
	data    dataCopier
	tell    func(files, bytes int64)
}

// snapshot copies upper into dst, an empty directory that no one else can enter, and gives the paths that it left out. Every entry is opened once and then used through that descriptor, so a user who swaps a directory for a
// link meanwhile cannot make it read a file of the host.
func snapshot(ctx context.Context, upper string, dst *os.File, strip *tree.Strip, progress func(Stage, int64, int64, int64)) (skipped Skipped, err error) {
	src, err := tree.OpenDir(upper)
	if err != nil {
		return Skipped{}, err
	}
	defer src.Close()
	st, err := tree.StatFile(src)
	if err != nil {
		return Skipped{}, err
	}
	c := &copier{ctx: ctx, dev: st.Dev, dst: dst, links: map[uint64]string{}, tell: tally(progress)}
	if err := c.dir(src, dst, "", strip.Top()); err != nil {
		return Skipped{}, err
	}
	return c.skipped, nil
}

// dir copies the entries of src into dst, then gives dst the attributes of src.
func (c *copier) dir(src, dst *os.File, rel string, rules tree.Live) error {
	list, err := tree.Names(src)
	if err != nil {
		return fmt.Errorf("list /%s: %w", rel, err)
	}
	for _, name := range list {
		stripped, below := rules.Enter(name)
		if stripped || rel == "" && name == runtimeDir {
			continue
		}
		if err := c.entry(src, dst, name, tree.Join(rel, name), below); err != nil {
			return err
		}
	}
	st, err := tree.StatFile(src)
	if err != nil {
		return err
	}
	return c.attributes(tree.FDPath(int(src.Fd())), tree.Under(dst, "."), rel, &st)
}

func (c *copier) entry(srcDir, dstDir *os.File, name, path string, below tree.Live) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	fd, err := unix.Openat(int(srcDir.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /%s: %w", path, err)
	}
	src := os.NewFile(uintptr(fd), name)
	defer src.Close()
	st, err := tree.StatFile(src)
	if err != nil {
		return err
	}
	if st.Dev != c.dev {
		return errs.New(errs.Conflict, "/%s lies on another file system than the upper directory", path)
	}
	if err := c.make(src, dstDir, name, path, &st, below); err != nil {
		return fmt.Errorf("copy /%s: %w", path, err)
	}
	return nil
}

// make creates the copy of src, which is open with O_PATH only, so that looking at it sets nothing off.
func (c *copier) make(src, dstDir *os.File, name, path string, st *unix.Stat_t, below tree.Live) error {
	to, kind := int(dstDir.Fd()), st.Mode&unix.S_IFMT
	c.tell(1, 0)
	switch {
	case tree.IsWhiteout(st):
		return unix.Mknodat(to, name, unix.S_IFCHR, 0)
	case kind == unix.S_IFSOCK:
		c.skipped.Sockets = append(c.skipped.Sockets, "/"+path)
		return nil
	case kind == unix.S_IFCHR || kind == unix.S_IFBLK:
		c.skipped.Devices = append(c.skipped.Devices, "/"+path)
		return nil
	case kind == unix.S_IFDIR:
		return c.subdir(src, dstDir, name, path, below)
	}
	if first, seen := c.links[st.Ino]; seen {
		return unix.Linkat(int(c.dst.Fd()), first, to, name, 0)
	}
	if err := c.node(src, dstDir, name, st); err != nil {
		return err
	}
	if st.Nlink > 1 {
		c.links[st.Ino] = path
	}
	return c.attributes(tree.FDPath(int(src.Fd())), tree.Under(dstDir, name), path, st)
}

func (c *copier) subdir(src, dstDir *os.File, name, path string, below tree.Live) error {
	if err := unix.Mkdirat(int(dstDir.Fd()), name, 0o700); err != nil {
		return err
	}
	from, err := tree.Child(src, ".", c.dev)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := unix.Openat(int(dstDir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	dst := os.NewFile(uintptr(to), name)
	defer dst.Close()
	return c.dir(from, dst, path, below)
}

func (c *copier) node(src, dstDir *os.File, name string, st *unix.Stat_t) error {
	to := int(dstDir.Fd())
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return c.file(src, dstDir, name)
	case unix.S_IFLNK:
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(int(src.Fd()), "", target)
		if err != nil {
			return err
		}
		return unix.Symlinkat(string(target[:n]), to, name)
	default: // a fifo
		return unix.Mknodat(to, name, st.Mode&unix.S_IFMT|0o600, 0)
	}
}

func (c *copier) file(src, dstDir *os.File, name string) error {
	from, err := os.OpenFile(tree.FDPath(int(src.Fd())), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	fd, err := unix.Openat(int(dstDir.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	to := os.NewFile(uintptr(fd), name)
	err = c.data.copy(c.ctx, to, from, func(n int64) { c.tell(0, n) })
	return errors.Join(err, to.Close())
}

// attributes carries owner, mode, times and xattrs over. Of overlayfs's own xattrs those stay that say what the merged tree is;
// what this version does not know is refused.
func (c *copier) attributes(src, dst, path string, st *unix.Stat_t) error {
	xs, err := tree.ReadXattrs(src)
	if err != nil {
		return err
	}
	kept, err := keptXattrs(xs, path)
	if err != nil {
		return err
	}
	a := tree.Attr{Stat: *st, Xattrs: kept}
	return a.Apply(dst)
}

const overlayPrefix = "trusted.overlay."

func keptXattrs(xs []tree.Xattr, path string) ([]tree.Xattr, error) {
	for _, x := range xs {
		if rest, ok := strings.CutPrefix(x.Name, overlayPrefix); ok && !overlayKnown(rest, x.Value) {
			return nil, errs.New(errs.Conflict, "/%s carries %s%s=%q, which this version does not understand", path, overlayPrefix, rest, x.Value).
				With("mount overlays on this host with the kernel's plain options, and start the session anew")
		}
	}
	return slices.DeleteFunc(xs, func(x tree.Xattr) bool {
		rest, ok := strings.CutPrefix(x.Name, overlayPrefix)
		return ok && !overlayMeaning(rest)
	}), nil
}

// overlayMeaning says which of overlayfs's marks a copy of an upper directory must keep to show the same tree over the same layers.
func overlayMeaning(name string) bool {
	return name == "opaque" || name == "redirect" || name == "metacopy"
}

// overlayKnown says whether a mark has a meaning that tree.Merged carries out, or none away from its upper directory.
func overlayKnown(name string, value []byte) bool {
	switch name {
	case "opaque":
		return string(value) == "y"
	case "redirect", "metacopy", "origin", "impure", "uuid", "nlink", "protattr":
		return true
	default:
		return false
	}
}

// tally turns steps into sums.
func tally(progress func(Stage, int64, int64, int64)) func(files, bytes int64) {
	var files, bytes int64
	return func(f, b int64) {
		files, bytes = files+f, bytes+b
		progress(Copying, files, bytes, 0)
	}
}
