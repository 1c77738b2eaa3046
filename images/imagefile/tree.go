package imagefile

import (
	"bytes"
	"io"
	"io/fs"
	"sync"

	"slipway/images/sif"
	"slipway/images/squashfs"
)

// Tree is the tree of an image in the making. It is parsed when somebody asks, which is rare.
type Tree struct {
	file io.ReaderAt
	size int64 // of the partition

	once  sync.Once
	image *squashfs.Image
	err   error
}

// NewTree returns the tree of an image whose partition has size bytes.
func NewTree(file io.ReaderAt, size int64) *Tree { return &Tree{file: file, size: size} }

func (t *Tree) parse() (*squashfs.Image, error) {
	t.once.Do(func() {
		t.image, t.err = squashfs.Parse(io.NewSectionReader(t.file, sif.PartitionOffset, t.size), t.size)
	})
	return t.image, t.err
}

// Open opens a regular file.
func (t *Tree) Open(path string) (io.ReadCloser, error) {
	image, err := t.parse()
	if err != nil {
		return nil, err
	}
	n := image.Lookup(path)
	if n == nil || n.Kind != squashfs.File {
		return nil, fs.ErrNotExist
	}
	if n.Data == nil {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	r, err := image.Open(n)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(r), nil
}

// Names lists a directory.
func (t *Tree) Names(dir string) []string {
	image, err := t.parse()
	if err != nil {
		return nil
	}
	n := image.Lookup(dir)
	if n == nil {
		return nil
	}
	var out []string
	for _, e := range n.Children {
		out = append(out, e.Name)
	}
	return out
}
