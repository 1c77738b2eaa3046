package squashfs

import (
	"slices"
	"strings"
)

// Kind says what an inode is. The values are those of the format's basic inodes.
type Kind uint8

// The kinds.
const (
	Dir Kind = 1 + iota
	File
	Symlink
	BlockDevice
	CharDevice
	Fifo
	Socket
)

// String returns the kind's name.
func (k Kind) String() string {
	names := [...]string{
		"unknown", "directory", "file", "symlink", "block device", "character device", "fifo", "socket",
	}
	if int(k) >= len(names) {
		return names[0]
	}
	return names[k]
}

// Node is one inode. Nodes are immutable once they stand in a tree: trees share them. One that stands under several
// names is a hard link; a directory has one name only.
type Node struct {
	Kind     Kind
	Mode     uint16 // permissions, 07777
	UID, GID uint32
	MTime    uint32  // seconds since 1970
	Rdev     uint32  // devices: major<<8 | minor&0xff | (minor&^0xff)<<12
	Target   string  // symlinks
	Xattrs   *Xattrs // nil: none. Equal sets may be shared
	Data     *Data   // files; nil: empty
	Children []Entry // directories: in byte order of names

	// Its place among the nodes of the image that it was read from, from 1 on; only a hint, as copies keep it.
	serial uint32
}

// Entry is a name in a directory.
type Entry struct {
	Name string
	Node *Node
}

// Xattr is one extended attribute by its full name, such as "security.capability".
type Xattr struct {
	Name  string
	Value []byte
}

// Xattrs is the set of attributes of an inode.
type Xattrs struct {
	List []Xattr // sorted by name
}

// NoFragment is what Data.Fragment holds when no part of the file lies in a fragment.
const NoFragment = 0xffffffff

// Data says where a file's content lies. The block words are kept as the image has them: the low 24 bits are the stored
// length, bit 24 says stored as it is, and 0 is a hole of one block.
type Data struct {
	Start    uint64 // of the first stored block, from the superblock on
	Size     uint64
	Sparse   uint64 // bytes in holes
	Blocks   []uint32
	Fragment uint32 // index of the fragment block that holds the rest, or NoFragment
	Offset   uint32 // of the rest in that block
}

// Held returns how many bytes of the content lie in blocks that are no holes. It goes by the blocks, as an image may
// say anything of Sparse.
func (d *Data) Held(blockSize uint32) (bytes uint64) {
	for _, word := range d.Blocks {
		if word&lengthMask != 0 {
			bytes += uint64(blockSize)
		}
	}
	if d.Fragment != NoFragment {
		bytes += d.Size % uint64(blockSize)
	}
	return min(bytes, d.Size)
}

// Child returns the node that a directory has under name, nil when there is none.
func (n *Node) Child(name string) *Node {
	i, found := slices.BinarySearchFunc(
		n.Children, name, func(e Entry, name string) int { return strings.Compare(e.Name, name) },
	)
	if !found {
		return nil
	}
	return n.Children[i].Node
}

// With returns a copy of a directory with other children.
func (n *Node) With(children []Entry) *Node {
	c := *n
	c.Children = children
	return &c
}

// Size returns the length of a file's content, 0 for all else.
func (n *Node) Size() uint64 {
	if n.Data == nil {
		return 0
	}
	return n.Data.Size
}
