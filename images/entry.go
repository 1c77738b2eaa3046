package images

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
)

// maxPath keeps every path below what system calls take, with room for the directory that it is packed from.
const maxPath = unix.PathMax - 256

// openDir opens a directory that the host's administrator named.
func openDir(path string) (*os.File, error) {
	f, err := os.OpenFile(path, unix.O_DIRECTORY|os.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("open directory: %w", err)
	}
	return f, nil
}

// child opens the directory called name in dir. It never follows a link and never leaves the file system dev: the tree
// may belong to a user who changes it while root reads it.
func child(dir *os.File, name string, dev uint64) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "openat", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	st, err := statFile(f)
	if err == nil && st.Dev != dev {
		err = errs.New(errs.Conflict, "%q lies on another file system", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// names lists a directory in byte order.
func names(dir *os.File) ([]string, error) {
	list, err := dir.Readdirnames(-1)
	slices.Sort(list)
	return list, err
}

func statFile(f *os.File) (unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return st, &os.PathError{Op: "fstat", Path: f.Name(), Err: err}
	}
	return st, nil
}

func statAt(dir *os.File, name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return st, &os.PathError{Op: "lstat", Path: name, Err: err}
	}
	return st, nil
}

// isWhiteout says whether an entry of an upper directory stands for a deletion.
func isWhiteout(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}

func isDir(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }

// fdPath names an open file, also one that only has an O_PATH descriptor, for calls that take only paths.
func fdPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// under names an entry of an open directory; the directory's own path does not matter any more.
func under(dir *os.File, name string) string { return fdPath(int(dir.Fd())) + "/" + name }

// attr is what an entry carries besides its content.
type attr struct {
	st     unix.Stat_t
	xattrs []xattr
}

type xattr struct {
	name  string
	value []byte
}

// readXattrs reads every xattr of path, which must not end in a symbolic link. It asks for sizes first: none is lost
// because it is long.
func readXattrs(path string) ([]xattr, error) {
	list, err := xattrNames(path)
	if err != nil {
		return nil, err
	}
	var out []xattr
	for _, name := range list {
		value, err := grow(func(b []byte) (int, error) { return unix.Getxattr(path, name, b) })
		if err != nil {
			return nil, fmt.Errorf("read xattr %s: %w", name, err)
		}
		out = append(out, xattr{name, value})
	}
	return out, nil
}

func xattrNames(path string) ([]string, error) {
	raw, err := grow(func(b []byte) (int, error) { return unix.Listxattr(path, b) })
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

// apply gives path the owner, xattrs, mode and times of a, in the order in which the kernel does not undo one by the
// next: a change of owner drops capabilities and set-id bits.
func (a *attr) apply(path string) error {
	if err := unix.Lchown(path, int(a.st.Uid), int(a.st.Gid)); err != nil {
		return fmt.Errorf("chown: %w", err)
	}
	for _, x := range a.xattrs {
		if err := unix.Lsetxattr(path, x.name, x.value, 0); err != nil {
			return fmt.Errorf("set xattr %s: %w", x.name, err)
		}
	}
	if a.st.Mode&unix.S_IFMT != unix.S_IFLNK {
		if err := unix.Chmod(path, a.st.Mode&0o7777); err != nil {
			return fmt.Errorf("chmod: %w", err)
		}
	}
	return setTimes(path, &a.st)
}

func setTimes(path string, st *unix.Stat_t) error {
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("set times: %w", err)
	}
	return nil
}

// appendStat adds to b what tells a changed entry from an unchanged one.
func appendStat(b []byte, st *unix.Stat_t) []byte {
	for _, v := range []uint64{
		st.Ino, uint64(st.Mode), uint64(st.Uid)<<32 | uint64(st.Gid), uint64(st.Nlink), st.Rdev, uint64(st.Size),
		uint64(st.Mtim.Sec), uint64(st.Mtim.Nsec), uint64(st.Ctim.Sec), uint64(st.Ctim.Nsec),
	} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}
