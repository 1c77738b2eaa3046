package tree

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Attr is what an entry carries besides its content.
type Attr struct {
	Stat   unix.Stat_t
	Xattrs []Xattr
}

// Xattr is one extended attribute.
type Xattr struct {
	Name  string
	Value []byte
}

// ReadXattrs reads every xattr of path, sorted by name; path must not end in a symbolic link, but may be an FDPath. It
// asks for sizes first: none is lost because it is long.
func ReadXattrs(path string) ([]Xattr, error) { return readXattrs(path, unix.Listxattr, unix.Getxattr) }

// EntryXattrs reads every xattr of the entry called name in dir, of a link itself, sorted by name.
func EntryXattrs(dir *os.File, name string) ([]Xattr, error) {
	return readXattrs(Under(dir, name), unix.Llistxattr, unix.Lgetxattr)
}

func readXattrs(
	path string, list func(string, []byte) (int, error), get func(string, string, []byte) (int, error),
) ([]Xattr, error) {
	names, err := xattrNames(path, list)
	if err != nil {
		return nil, err
	}
	var out []Xattr
	for _, name := range names {
		value, err := grow(func(b []byte) (int, error) { return get(path, name, b) })
		if err != nil {
			return nil, fmt.Errorf("read xattr %s: %w", name, err)
		}
		out = append(out, Xattr{name, value})
	}
	return out, nil
}

// XattrNames returns the names of the xattrs of path, of a link itself, sorted.
func XattrNames(path string) ([]string, error) { return xattrNames(path, unix.Llistxattr) }

func xattrNames(path string, list func(string, []byte) (int, error)) ([]string, error) {
	if n, err := list(path, nil); n == 0 && err == nil { // as most have none
		return nil, nil
	}
	raw, err := grow(func(b []byte) (int, error) { return list(path, b) })
	if err != nil {
		if errors.Is(err, unix.ENOTSUP) {
			return nil, nil
		}
		return nil, fmt.Errorf("list xattrs: %w", err)
	}
	return splitNames(raw), nil
}

// splitNames takes apart what listxattr gives: names that end in a zero byte.
func splitNames(raw []byte) []string {
	var out []string
	for name := range strings.SplitSeq(string(raw), "\x00") {
		if name != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// grow calls read until its buffer is large enough.
func grow(read func([]byte) (int, error)) ([]byte, error) {
	buf := make([]byte, 256)
	for {
		n, err := read(buf)
		if err == nil {
			return buf[:n], nil
		}
		if !errors.Is(err, unix.ERANGE) || len(buf) > 1<<20 {
			return nil, err
		}
		buf = make([]byte, 4*len(buf))
	}
}

// Apply gives path the owner, xattrs, mode and times of a, in the order in which the kernel does not undo one by the
// next: a change of owner drops capabilities and set-id bits.
func (a *Attr) Apply(path string) error {
	if err := unix.Lchown(path, int(a.Stat.Uid), int(a.Stat.Gid)); err != nil {
		return fmt.Errorf("chown: %w", err)
	}
	for _, x := range a.Xattrs {
		if err := unix.Lsetxattr(path, x.Name, x.Value, 0); err != nil {
			return fmt.Errorf("set xattr %s: %w", x.Name, err)
		}
	}
	if a.Stat.Mode&unix.S_IFMT != unix.S_IFLNK {
		if err := unix.Chmod(path, a.Stat.Mode&0o7777); err != nil {
			return fmt.Errorf("chmod: %w", err)
		}
	}
	return SetTimes(path, &a.Stat)
}

// SetTimes gives path, a link itself, the times of st.
func SetTimes(path string, st *unix.Stat_t) error {
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("set times: %w", err)
	}
	return nil
}
