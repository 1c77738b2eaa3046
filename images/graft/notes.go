package graft

import (
	"sync"

	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
)

// notes remember what contents have been stored, and what the files were then. They are small: there may be millions.
type notes struct {
	mu sync.RWMutex
	by map[uint64]note // by inode number
}

type note struct {
	mtime, ctime int64 // nanoseconds; the size is the data's
	data         *squashfs.Data
	xattrs       *squashfs.Xattrs
	plain        bool // the xattrs are those, and nothing of them was lost
}

func newNotes() *notes { return &notes{by: map[uint64]note{}} }

// find gives what is known of a file that has not changed since it was stored; none: its data is nil.
func (n *notes) find(st *unix.Stat_t) note {
	n.mu.RLock()
	defer n.mu.RUnlock()
	known, ok := n.by[st.Ino]
	if !ok || known.mtime != st.Mtim.Nano() || known.ctime != st.Ctim.Nano() || known.data.Size != uint64(st.Size) {
		return note{}
	}
	return known
}

// add notes what a file is, whose times are those of st.
func (n *notes) add(st *unix.Stat_t, known note) {
	known.mtime, known.ctime = st.Mtim.Nano(), st.Ctim.Nano()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.by[st.Ino] = known
}

// unchanged says whether two looks at an entry saw the same file with the same content.
func unchanged(a, b *unix.Stat_t) bool {
	return a.Ino == b.Ino && a.Mode == b.Mode && a.Size == b.Size && a.Mtim == b.Mtim && a.Ctim == b.Ctim
}
