package export

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"iter"
	"path"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
)

// Layer describes a layer of an OCI image: its blob, and what is in it. It is worth keeping for a base, with the blob.
type Layer struct {
	Digest digest.Digest `json:"digest"` // of the blob
	Size   int64         `json:"size"`
	DiffID digest.Digest `json:"diffID"` // of the tar in it

	Sockets     Listed `json:"sockets,omitzero"`     // which no tar can hold
	SparseFiles int64  `json:"sparseFiles,omitzero"` // whose holes became zeros, as engines know no holes in layers
	SparseBytes int64  `json:"sparseBytes,omitzero"` // that they grew by
}

// LayerConfig says which layer to write.
type LayerConfig struct {
	Base     *squashfs.Image // nil: the layer holds the whole tree
	Env      *squashfs.Image
	Out      io.Writer // receives the blob
	Progress Progress  // may be nil
}

// WriteLayer writes an OCI layer, gzip'd, as that is what Docker 20.10 loads and every registry and node takes; zstd
// came to Docker with 23. With a base it holds the changes to it; a base's own layer is written once and serves all its
// environments. What a layer cannot hold is refused before anything is written. Docker takes owner, mode and time of
// every entry but the root, which it makes its own.
func WriteLayer(ctx context.Context, cfg LayerConfig) (Layer, error) {
	changes := Changes(nil, cfg.Env.Root)
	if cfg.Base != nil {
		changes = Changes(cfg.Base.Root, cfg.Env.Root)
	}
	if err := refuse(layers, changes); err != nil {
		return Layer{}, err
	}
	n := count(changes)
	layer := Layer{SparseFiles: n.SparseFiles, SparseBytes: n.SparseBytes}
	blob := &hashing{w: cfg.Out, hash: sha256.New()}
	diff := sha256.New()
	err := gzipped(ctx, blob, func(w io.Writer) error {
		a := archiver{
			image: cfg.Env, changes: changes, out: tar.NewWriter(io.MultiWriter(w, diff)),
			moved:   meter(cfg.Progress, n.Bytes+n.SparseBytes),
			buffers: sync.Pool{New: func() any { return new([readSize]byte) }}, sockets: &layer.Sockets,
		}
		return a.run(ctx)
	})
	if err != nil {
		return Layer{}, fmt.Errorf("write layer: %w", err)
	}
	layer.Digest, layer.Size = digest.NewDigest(digest.SHA256, blob.hash), blob.size
	layer.DiffID = digest.NewDigest(digest.SHA256, diff)
	return layer, nil
}

// archiver writes changes as the tar of a layer. Contents are read ahead.
type archiver struct {
	image   *squashfs.Image
	changes iter.Seq[Change]
	out     *tar.Writer
	moved   func(int64)
	buffers sync.Pool
	sockets *Listed
}

// block is a header, a part of a content, or both.
type block struct {
	header  *tar.Header
	path    string
	from    *squashfs.Reader
	at, end int64
	buf     *[readSize]byte
}

func (a *archiver) run(ctx context.Context) error {
	if err := inOrder(ctx, a.feed, a.read, a.write); err != nil {
		return err
	}
	return a.out.Close()
}

func (a *archiver) feed(put func(*block) error) error {
	for c := range a.changes {
		if c.Node != nil && c.Node.Kind == squashfs.Socket {
			a.sockets.add(c.Path)
			continue
		}
		h := header(c)
		if h.Typeflag == tar.TypeReg && h.Size > 0 {
			if err := a.content(c, h, put); err != nil {
				return err
			}
			continue
		}
		if err := put(&block{header: h, path: c.Path}); err != nil {
			return err
		}
		if c.Opaque {
			if err := put(&block{header: mark(path.Join(c.Path, whiteoutPrefix+whiteoutPrefix+".opq")), path: c.Path}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *archiver) content(c Change, h *tar.Header, put func(*block) error) error {
	from, err := a.image.Open(c.Node)
	if err != nil {
		return fmt.Errorf("open %s: %w", c.Path, err)
	}
	for at := int64(0); at < h.Size; at += readSize {
		b := &block{path: c.Path, from: from, at: at, end: min(at+readSize, h.Size)}
		if at == 0 {
			b.header = h
		}
		if err := put(b); err != nil {
			return err
		}
	}
	return nil
}

func (a *archiver) read(b *block) error {
	if b.from == nil {
		return nil
	}
	b.buf = a.buffers.Get().(*[readSize]byte)
	if n, err := b.from.ReadAt(b.buf[:b.end-b.at], b.at); int64(n) < b.end-b.at {
		return fmt.Errorf("read %s: %w", b.path, err)
	}
	return nil
}

func (a *archiver) write(b *block) error {
	if b.header != nil {
		if err := a.out.WriteHeader(b.header); err != nil {
			return fmt.Errorf("write header of %s: %w", b.path, err)
		}
	}
	if b.from == nil {
		return nil
	}
	defer a.buffers.Put(b.buf)
	if _, err := a.out.Write(b.buf[:b.end-b.at]); err != nil {
		return written(b.path, err)
	}
	a.moved(b.end - b.at)
	return nil
}

// header says what a layer says of a change. A hard link has all attributes too: engines set them once more.
func header(c Change) *tar.Header {
	if c.What == Deleted {
		return mark(path.Join(path.Dir(c.Path), whiteoutPrefix+path.Base(c.Path)))
	}
	n := c.Node
	h := &tar.Header{
		Name: "." + c.Path, Mode: int64(n.Mode), Uid: int(n.UID), Gid: int(n.GID),
		ModTime: time.Unix(int64(n.MTime), 0), Format: tar.FormatPAX,
	}
	if c.Path != "/" {
		h.Name = c.Path[1:]
	}
	if list := xattrs(n.Xattrs); len(list) > 0 {
		h.PAXRecords = map[string]string{}
		for _, x := range list {
			h.PAXRecords["SCHILY.xattr."+x.Name] = string(x.Value)
		}
	}
	if c.Link != "" {
		h.Typeflag, h.Linkname = tar.TypeLink, c.Link[1:]
		return h
	}
	switch n.Kind {
	case squashfs.Dir:
		h.Typeflag = tar.TypeDir
		if c.Path != "/" {
			h.Name += "/"
		}
	case squashfs.File:
		h.Typeflag, h.Size = tar.TypeReg, int64(n.Size())
	case squashfs.Symlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, n.Target
	case squashfs.Fifo:
		h.Typeflag = tar.TypeFifo
	case squashfs.CharDevice:
		h.Typeflag = tar.TypeChar
	case squashfs.BlockDevice:
		h.Typeflag = tar.TypeBlock
	}
	if n.Rdev != 0 {
		h.Devmajor, h.Devminor = int64(unix.Major(device(n.Rdev))), int64(unix.Minor(device(n.Rdev)))
	}
	return h
}

// device returns a device number as the kernel's calls take it.
func device(rdev uint32) uint64 {
	return unix.Mkdev(rdev>>8&0xfff, rdev&0xff|rdev>>12&^0xff)
}

// mark makes the header of an empty file whose name alone matters.
func mark(name string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name[1:], ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
}

// hashing hashes and counts what passes through it.
type hashing struct {
	w    io.Writer
	hash hash.Hash
	size int64
}

func (h *hashing) Write(p []byte) (int, error) {
	n, err := h.w.Write(p)
	h.hash.Write(p[:n])
	h.size += int64(n)
	if err != nil {
		err = written("the layer", err)
	}
	return n, err
}
