package graft

import (
	"math"

	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
)

// Losses counts what squashfs cannot hold, but for the fractions of seconds in times, which nearly every entry has.
type Losses struct {
	ACLs   Loss // POSIX access lists
	Xattrs Loss // of other namespaces than user, trusted and security
	Times  Loss // modification times before 1970 or after 2106, which become the nearest that can be held
}

// Loss is one kind of loss.
type Loss struct {
	Count int64
	Paths []string // the first of them
}

// maxLossPaths is how many paths a Loss names.
const maxLossPaths = 100

func (l *Loss) add(path string) {
	l.Count++
	if len(l.Paths) < maxLossPaths {
		l.Paths = append(l.Paths, "/"+path)
	}
}

// node makes the node of an entry, without what lies in it.
func (p *pass) node(path string, st *unix.Stat_t, xattrs *squashfs.Xattrs) *squashfs.Node {
	return &squashfs.Node{
		Kind: kind(st), Mode: uint16(st.Mode & 0o7777), UID: st.Uid, GID: st.Gid, MTime: p.seconds(path, st.Mtim),
		Rdev: rdev(st), Xattrs: xattrs,
	}
}

// kind knows all that travels.
func kind(st *unix.Stat_t) squashfs.Kind {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return squashfs.Dir
	case unix.S_IFLNK:
		return squashfs.Symlink
	case unix.S_IFIFO:
		return squashfs.Fifo
	case unix.S_IFSOCK:
		return squashfs.Socket
	case unix.S_IFCHR:
		return squashfs.CharDevice
	case unix.S_IFBLK:
		return squashfs.BlockDevice
	default:
		return squashfs.File
	}
}

// rdev is what a device stands for, as squashfs and old kernels write it; 0 for all else.
func rdev(st *unix.Stat_t) uint32 {
	if k := kind(st); k != squashfs.CharDevice && k != squashfs.BlockDevice {
		return 0
	}
	major, minor := unix.Major(st.Rdev), unix.Minor(st.Rdev)
	return minor&0xff | major<<8 | (minor&^0xff)<<12
}

func (p *pass) seconds(path string, at unix.Timespec) uint32 {
	if at.Sec < 0 || at.Sec > math.MaxUint32 {
		p.losses.Times.add(path)
	}
	return uint32(min(max(at.Sec, 0), math.MaxUint32))
}
