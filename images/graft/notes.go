package graft

import (
	"sync"

	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
)

// notes remember what contents have been stored, and what the files were then. They are small: there may be millions.
type notes struct {
	mu sync.Mutex
	by map[uint64]note // by inode number
}

type note struct {
	mtime, ctime int64 // nanoseconds; the size is the data's
	data         *squashfs.Data
}

func newNotes() *notes { return &notes{by: map[uint64]note{}} }

// find gives the content of a file that has not changed since it was stored, else nil.
func (n *notes) find(st *unix.Stat_t) *squashfs.Data {
	n.mu.Lock()
	defer n.mu.Unlock()
	known, ok := n.by[st.Ino]
	if !ok || known.mtime != st.Mtim.Nano() || known.ctime != st.Ctim.Nano() || known.data.Size != uint64(st.Size) {
		return nil
	}
	return known.data
}

func (n *notes) add(st *unix.Stat_t, data *squashfs.Data) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.by[st.Ino] = note{mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(), data: data}
}

// unchanged says whether two looks at an entry saw the same file with the same content.
func unchanged(a, b *unix.Stat_t) bool {
	return a.Ino == b.Ino && a.Mode == b.Mode && a.Size == b.Size && a.Mtim == b.Mtim && a.Ctim == b.Ctim
}
