package worker

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const mostLinks = 40 // symbolic links on one path, as the kernel has it

// trusted returns where a path leads, without links in it, if nobody but root and this user can make it lead elsewhere:
// whatever lies on the way is of one of the two, and of directories nobody else may change what is in them but what is
// his own.
func trusted(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%s is no absolute path", path)
	}
	real, rest := "/", strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		next := filepath.Join(real, rest[0]) // real has no links, so .. is what it looks like
		rest = rest[1:]
		st, err := os.Lstat(next)
		if err != nil {
			return "", err
		}
		if !ours(st) {
			return "", fmt.Errorf("%s is of another user", next)
		}
		if st.Mode()&fs.ModeSymlink == 0 {
			if real = next; !st.IsDir() || changeable(st) && st.Mode()&fs.ModeSticky == 0 {
				return "", fmt.Errorf("others may change what is in %s", next)
			}
			continue
		}
		to, err := os.Readlink(next)
		if links++; err != nil || links > mostLinks {
			return "", fmt.Errorf("%s leads nowhere: %w", path, err)
		}
		if filepath.IsAbs(to) {
			real = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return real, nil
}

// ours reports whether something is root's or this user's.
func ours(st fs.FileInfo) bool {
	owner := ownerOf(st)
	return owner == 0 || owner == os.Getuid()
}

// changeable reports whether others may write to something.
func changeable(st fs.FileInfo) bool { return st.Mode().Perm()&0o022 != 0 }

// openOwn opens a regular file of that owner, which nobody else can have written and which has no other name: a second
// name may be another user's doing. Nothing that is no file is waited for.
func openOwn(path string, owner int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil {
		if sys, ok := st.Sys().(*syscall.Stat_t); !ok || !st.Mode().IsRegular() || int(sys.Uid) != owner ||
			sys.Nlink != 1 || changeable(st) {
			err = fmt.Errorf("%s is not a file that only user %d can have written", path, owner)
		}
	}
	if err != nil {
		_ = f.Close() // it was not even read
		return nil, err
	}
	return f, nil
}
