package squashfs

import (
	"io"

	"slipway/internal/errs"
)

// Image is a parsed squashfs. It is safe for concurrent use.
type Image struct {
	Super Superblock
	Root  *Node

	file io.ReaderAt
	size int64
}

// Parse reads the tables of the image in r, which is size bytes long.
func Parse(r io.ReaderAt, size int64) (*Image, error) {
	return nil, errs.New(errs.Internal, "parse squashfs: not built yet")
}

// Lookup gives the node at a path such as "/usr/bin", nil when there is none. It follows no links.
func (i *Image) Lookup(path string) *Node { return nil }

// Cut gives the position of the inode table: what lies before it is data, which a graft keeps.
func (i *Image) Cut() int64 { return int64(i.Super.InodeTable) }

// Walk calls fn for every path, parents before children, in byte order of names in each directory. The root is "/".
// fs.SkipDir skips a directory's content, fs.SkipAll ends the walk.
func (i *Image) Walk(fn func(path string, n *Node) error) error { return nil }

// Memory says about how many bytes the tree takes.
func (i *Image) Memory() int64 { return 0 }
