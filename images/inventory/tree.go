package inventory

import (
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"slipway/images/squashfs"
)

// Tree is a file tree whose contents can be read: what this package needs of an image.
type Tree struct {
	Root *squashfs.Node
	Open func(n *squashfs.Node) (io.ReaderAt, error)
}

// TreeOf returns the tree of a squashfs.
func TreeOf(i *squashfs.Image) Tree {
	return Tree{Root: i.Root, Open: func(n *squashfs.Node) (io.ReaderAt, error) { return i.Open(n) }}
}

// errTooLarge says that a file is beyond the bound that was set for its kind.
var errTooLarge = errors.New("too large to be read")

// lookup returns the node at a path, nil when there is none. It follows no link.
func (t Tree) lookup(name string) *squashfs.Node {
	n := t.Root
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." {
			continue
		}
		if n == nil || n.Kind != squashfs.Dir {
			return nil
		}
		n = n.Child(part)
	}
	return n
}

// maxLinks is the kernel's own bound.
const maxLinks = 40

// resolve follows links, within the tree, to what a path means; the node is nil when there is nothing.
func (t Tree) resolve(name string) (string, *squashfs.Node) {
	rest := strings.Split(name, "/")
	at, links := "/", 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		next := path.Join(at, part)
		n := t.lookup(next)
		switch {
		case n == nil:
			return next, nil
		case n.Kind != squashfs.Symlink:
			at = next
		case links == maxLinks || len(n.Target) > 4096:
			return next, nil
		default:
			links++
			if strings.HasPrefix(n.Target, "/") {
				at = "/"
			}
			rest = slices.Concat(strings.Split(n.Target, "/"), rest)
		}
	}
	return at, t.lookup(at)
}

// head reads up to limit bytes from a file's start.
func (t Tree) head(n *squashfs.Node, limit int64) ([]byte, error) {
	if n == nil || n.Kind != squashfs.File {
		return nil, errors.New("no regular file")
	}
	if n.Data == nil {
		return nil, nil
	}
	r, err := t.Open(n)
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(size(n), limit))
	if got, err := r.ReadAt(b, 0); err != nil && (!errors.Is(err, io.EOF) || got < len(b)) {
		return nil, err
	}
	return b, nil
}

// size is a file's length. What no file can have counts as the largest that it can.
func size(n *squashfs.Node) int64 {
	if n == nil || n.Data == nil {
		return 0
	}
	if n.Data.Size > 1<<62 {
		return 1 << 62
	}
	return int64(n.Data.Size)
}

// placed reports whether two files of one base, or of a base and what was grafted on it, have the very same content: it
// lies at the same place. False says nothing.
func placed(a, b *squashfs.Data) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	return a.Start == b.Start && a.Size == b.Size && a.Fragment == b.Fragment && a.Offset == b.Offset &&
		slices.Equal(a.Blocks, b.Blocks)
}

// sameFile reports whether two nodes are regular files of one content, as far as places tell.
func sameFile(a, b *squashfs.Node) bool {
	return a != nil && b != nil && a.Kind == squashfs.File && b.Kind == squashfs.File && (a == b ||
		placed(a.Data, b.Data))
}
