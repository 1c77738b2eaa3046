package squashfs

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync"
)

// Image is a parsed squashfs. It is safe for concurrent use.
type Image struct {
	Super Superblock
	Root  *Node

	file      io.ReaderAt
	unpack    unpacker
	fragments []byte // the fragment table as it is stored, 16 bytes each
	memory    int64
	cache     *cache
	buffers   sync.Pool // of *[]byte, one block each
}

// Lookup returns the node at a path such as "/usr/bin", nil when there is none. It follows no links.
func (i *Image) Lookup(path string) *Node {
	n := i.Root
	for name := range strings.SplitSeq(path, "/") {
		if name == "" {
			continue
		}
		if n = n.Child(name); n == nil {
			return nil
		}
	}
	return n
}

// Cut returns the position of the inode table: what lies before it is data, which a graft keeps.
func (i *Image) Cut() int64 { return int64(i.Super.InodeTable) }

// Memory says about how many bytes the tree takes.
func (i *Image) Memory() int64 { return i.memory }

// Walk calls fn for every path, parents before children, in byte order of names in each directory. The root is "/".
// fs.SkipDir skips a directory's content, or what is left of the directory that a file is in; fs.SkipAll ends the walk.
func (i *Image) Walk(fn func(path string, n *Node) error) error { return i.Root.Walk(fn) }

// Walk does for the tree below a directory what [Image.Walk] does for an image.
func (n *Node) Walk(fn func(path string, n *Node) error) error {
	err := fn("/", n)
	if err == nil {
		err = n.walk("/", fn)
	}
	if errors.Is(err, fs.SkipAll) || errors.Is(err, fs.SkipDir) {
		return nil
	}
	return err
}

func (n *Node) walk(prefix string, fn func(string, *Node) error) error {
	for _, e := range n.Children {
		path := prefix + e.Name
		err := fn(path, e.Node)
		if err == nil && len(e.Node.Children) > 0 {
			err = e.Node.walk(path+"/", fn)
		}
		if err == nil || (err == fs.SkipDir && e.Node.Kind == Dir) {
			continue
		}
		if err == fs.SkipDir {
			return nil
		}
		return err
	}
	return nil
}
