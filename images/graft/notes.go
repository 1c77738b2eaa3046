package graft

import (
	"sync"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
)

// notes remember which contents are stored, and what the files were then. They are small: there may be millions.
type notes struct {
	mu sync.RWMutex
	by map[uint64]*note // by inode number
}

// note says where the content of a regular file is stored. What it says of the file never changes; body and group may
// be of this graft's pack or of an earlier one's.
type note struct {
	mtime, ctime, size int64          // times in nanoseconds
	earlier            uint64         // hash of the path under which an earlier graft read it; 0: this one has
	body               *body          // its whole blocks; nil: it is shorter than one
	group              *group         // that its rest lies in; nil: there is no rest. It is the intake's, as offset is
	offset             uint32         // of the rest in the group
	data               *squashfs.Data // all of it, of a whole tree, and then nothing of those three
	xattrs             *squashfs.Xattrs
	plain              bool // the xattrs are those, and nothing of them was lost
}

func newNotes() *notes { return &notes{by: map[uint64]*note{}} }

// find returns what is known of a file that has not changed since it was stored, nil: nothing.
func (n *notes) find(st *unix.Stat_t, path string) *note {
	n.mu.RLock()
	known := n.by[st.Ino]
	n.mu.RUnlock()
	if known == nil || known.mtime != st.Mtim.Nano() || known.ctime != st.Ctim.Nano() || known.size != st.Size {
		return nil
	}
	if known.earlier != 0 && known.earlier != hashOf(path) { // what a file may hold depends on its path too
		return nil
	}
	return known
}

// add notes what a file is, whose times are those of st.
func (n *notes) add(st *unix.Stat_t, known *note) {
	known.mtime, known.ctime, known.size = st.Mtim.Nano(), st.Ctim.Nano(), st.Size
	n.mu.Lock()
	defer n.mu.Unlock()
	n.by[st.Ino] = known
}

// hashOf names a path. It is never 0.
func hashOf(path string) uint64 { return max(xxhash.Sum64String(path), 1) }

// unchanged says whether two looks at an entry saw the same file with the same content.
func unchanged(a, b *unix.Stat_t) bool {
	return a.Ino == b.Ino && a.Mode == b.Mode && a.Size == b.Size && a.Mtim == b.Mtim && a.Ctim == b.Ctim
}

// identical says whether two looks at an entry saw nothing that differs, in content or otherwise.
func identical(a, b *unix.Stat_t) bool {
	return unchanged(a, b) && a.Nlink == b.Nlink && a.Uid == b.Uid && a.Gid == b.Gid && a.Rdev == b.Rdev
}
