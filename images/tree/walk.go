package tree

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
)

// MaxPath keeps every path below what system calls take, with room for the directory that it is packed from.
const MaxPath = unix.PathMax - 256

// beneath keeps a lookup in the directory that it starts from, whatever the tree's owner puts there meanwhile.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV

// OpenDir opens a directory that the host's administrator named.
func OpenDir(path string) (*os.File, error) {
	f, err := os.OpenFile(path, unix.O_DIRECTORY|os.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("open directory: %w", err)
	}
	return f, nil
}

// Child opens the directory called name in dir. It never follows a link and never leaves the file system dev: the tree
// may belong to a user who changes it while root reads it.
func Child(dir *os.File, name string, dev uint64) (*os.File, error) {
	f, err := Open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if errors.Is(err, unix.EXDEV) {
		return nil, errs.New(errs.Conflict, "%q lies on another file system", name)
	}
	if err != nil {
		return nil, err
	}
	st, err := StatFile(f)
	if err == nil && st.Dev != dev {
		err = errs.New(errs.Conflict, "%q lies on another file system", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Open opens the entry called name in dir with open(2)'s flags. A link is an error, but for O_PATH with O_NOFOLLOW,
// which opens the link itself.
func Open(dir *os.File, name string, flags uint64) (*os.File, error) {
	fd, err := OpenRaw(dir, name, flags)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// OpenRaw is Open for who closes the descriptor himself.
func OpenRaw(dir *os.File, name string, flags uint64) (fd int, err error) {
	fd, err = unix.Openat2(int(dir.Fd()), name, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: beneath})
	if err != nil {
		return -1, &os.PathError{Op: "openat", Path: name, Err: err}
	}
	return fd, nil
}

// Names lists a directory in byte order.
func Names(dir *os.File) ([]string, error) {
	list, err := dir.Readdirnames(-1)
	slices.Sort(list)
	return list, err
}

// StatFile looks at an open file.
func StatFile(f *os.File) (unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return st, &os.PathError{Op: "fstat", Path: f.Name(), Err: err}
	}
	return st, nil
}

// StatAt looks at the entry called name in dir, at a link itself.
func StatAt(dir *os.File, name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return st, &os.PathError{Op: "lstat", Path: name, Err: err}
	}
	return st, nil
}

// IsWhiteout says whether an entry of an overlay's upper directory stands for a deletion.
func IsWhiteout(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}

// IsDir says whether st is of a directory.
func IsDir(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }

// FDPath names an open file, also one that only has an O_PATH descriptor, for calls that take only paths.
func FDPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// Under names an entry of an open directory; the directory's own path does not matter any more.
func Under(dir *os.File, name string) string { return FDPath(int(dir.Fd())) + "/" + name }

// Join joins a path from the tree's root, "" for the root itself, and a name in it.
func Join(rel, name string) string {
	if rel == "" {
		return name
	}
	return rel + "/" + name
}
