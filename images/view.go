package images

import (
	"bytes"
	"io"
	"io/fs"
	"sync"

	"slipway/images/sif"
	"slipway/images/squashfs"
)

func sectionOf(r io.ReaderAt, from, size int64) *io.SectionReader {
	return io.NewSectionReader(r, from, size)
}

// lazyTree reads the tree of an image in the making; it is parsed when somebody asks, which is rare.
type lazyTree struct {
	file io.ReaderAt
	size int64 // of the partition

	once  sync.Once
	image *squashfs.Image
	err   error
}

func (t *lazyTree) parse() (*squashfs.Image, error) {
	t.once.Do(func() { t.image, t.err = squashfs.Parse(sectionOf(t.file, sif.PartitionOffset, t.size), t.size) })
	return t.image, t.err
}

// Open opens a regular file.
func (t *lazyTree) Open(path string) (io.ReadCloser, error) {
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
func (t *lazyTree) Names(dir string) []string {
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
