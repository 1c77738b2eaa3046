package compare

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
)

// folder is a directory of one of the trees.
type folder interface {
	self() (entry, error)
	names() ([]string, error) // in byte order
	entry(name string) (entry, error)
	folder(name string) (folder, error)
	open(name string, e entry) (content, error)
	close()
}

// entry is all that is compared of one, but for its content.
type entry struct {
	format       uint32 // S_IFMT's part of the mode
	mode         uint32 // 07777
	uid, gid     uint32
	mtime        int64
	nsec         int64
	major, minor uint32
	size         uint64 // of regular files
	target       string
	xattrs       []tree.Xattr // that squashfs can hold, sorted by name
	lost         int          // xattrs that it cannot

	file any // tells files with several names apart; nil for one name
	ino  uint64
}

func (e entry) isDir() bool    { return e.format == unix.S_IFDIR }
func (e entry) isFile() bool   { return e.format == unix.S_IFREG }
func (e entry) isSocket() bool { return e.format == unix.S_IFSOCK }

func (e entry) isDevice() bool { return e.format == unix.S_IFCHR || e.format == unix.S_IFBLK }

func (e entry) kind() string {
	switch e.format {
	case unix.S_IFDIR:
		return "directory"
	case unix.S_IFREG:
		return "file"
	case unix.S_IFLNK:
		return "symlink"
	case unix.S_IFCHR:
		return "character device"
	case unix.S_IFBLK:
		return "block device"
	case unix.S_IFIFO:
		return "fifo"
	case unix.S_IFSOCK:
		return "socket"
	default:
		return fmt.Sprintf("thing of kind %o", e.format)
	}
}

// seconds returns the time as squashfs can hold it.
func (e entry) seconds() int64 { return min(max(e.mtime, 0), math.MaxUint32) }

// differences tells in what the session's entry differs from the environment's.
func (e entry) differences(env entry) []string {
	var out []string
	add := func(format string, there, here any) {
		if there != here {
			out = append(out, fmt.Sprintf(
				"%s in the session, %s in the environment", fmt.Sprintf(format, there),
				fmt.Sprintf(trimWord(format), here),
			))
		}
	}
	if e.format != env.format {
		return []string{fmt.Sprintf("a %s in the session, a %s in the environment", e.kind(), env.kind())}
	}
	add("mode %04o", e.mode, env.mode)
	add("owner %s", fmt.Sprint(e.uid, ":", e.gid), fmt.Sprint(env.uid, ":", env.gid))
	add("time %d", e.seconds(), env.seconds())
	if e.isDevice() {
		add("device %s", fmt.Sprint(e.major, ":", e.minor), fmt.Sprint(env.major, ":", env.minor))
	}
	add("size %d", e.size, env.size)
	add("a link to %q", e.target, env.target)
	return append(out, xattrDifferences(e.xattrs, env.xattrs)...)
}

// trimWord leaves the verb of a format: what the value is was said before.
func trimWord(format string) string { return format[strings.LastIndexByte(format, ' ')+1:] }

// xattrDifferences names what differs, and no values: they may be long, and what they hold is the user's.
func xattrDifferences(there, here []tree.Xattr) []string {
	var out []string
	for len(there) > 0 || len(here) > 0 {
		switch {
		case len(here) == 0 || len(there) > 0 && there[0].Name < here[0].Name:
			out, there = append(out, fmt.Sprintf("xattr %q only in the session", there[0].Name)), there[1:]
		case len(there) == 0 || here[0].Name < there[0].Name:
			out, here = append(out, fmt.Sprintf("xattr %q only in the environment", here[0].Name)), here[1:]
		default:
			if !bytes.Equal(there[0].Value, here[0].Value) {
				out = append(out, fmt.Sprintf("xattr %q has another value in the environment", there[0].Name))
			}
			there, here = there[1:], here[1:]
		}
	}
	return out
}
