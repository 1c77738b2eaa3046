package squashfs

import (
	"io"
	"sync"

	"slipway/internal/errs"
)

// Extent is a part of a file that holds data; what lies between extents is a hole.
type Extent struct {
	Offset, Length int64
}

// Reader reads the content of one file. ReadAt may be called by several goroutines at once, the other methods by one.
type Reader struct {
	img   *Image
	data  *Data
	size  int64
	block int64
	at    int64 // where Read goes on

	once   sync.Once
	starts []uint64 // of the stored blocks; made at the first read, as a list of extents does not need it
}

// Open returns a reader of a file's content. The node may be of the image's own tree or of one grafted from it, as long
// as its data lies in the image's bytes.
func (i *Image) Open(n *Node) (*Reader, error) {
	if n.Kind != File {
		return nil, errs.New(errs.Invalid, "a %s has no content to read", n.Kind)
	}
	r := &Reader{img: i, data: n.Data, block: int64(i.Super.BlockSize)}
	if r.data == nil {
		r.data = &Data{Fragment: NoFragment}
	}
	if uint64(len(r.data.Blocks)) != r.data.blocks(i.Super.BlockSize) {
		return nil, corrupt("a file of %d bytes lists %d blocks", r.data.Size, len(r.data.Blocks))
	}
	if err := r.data.check(i.Super); err != nil {
		return nil, err
	}
	r.size = int64(r.data.Size)
	return r, nil
}

// Size returns the length of the content.
func (r *Reader) Size() int64 { return r.size }

// Extents returns the parts that hold data, in order.
func (r *Reader) Extents() []Extent {
	var out []Extent
	for i := int64(0); i*r.block < r.size; i++ {
		if i < int64(len(r.data.Blocks)) && r.data.Blocks[i]&lengthMask == 0 {
			continue
		}
		length := min(r.block, r.size-i*r.block)
		if n := len(out); n > 0 && out[n-1].Offset+out[n-1].Length == i*r.block {
			out[n-1].Length += length
			continue
		}
		out = append(out, Extent{Offset: i * r.block, Length: length})
	}
	return out
}

// Read reads on from where the last Read or WriteTo ended.
func (r *Reader) Read(p []byte) (int, error) {
	n, err := r.ReadAt(p, r.at)
	r.at += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// ReadAt reads from a position.
func (r *Reader) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errs.New(errs.Invalid, "read at %d", off)
	}
	var done int
	for done < len(p) && off < r.size {
		n, err := r.readBlock(p[done:], off/r.block, int(off%r.block))
		done += n
		off += int64(n)
		if err != nil {
			return done, err
		}
	}
	if done < len(p) {
		return done, io.EOF
	}
	return done, nil
}

// WriteTo writes the rest of the content, holes as zeros.
func (r *Reader) WriteTo(w io.Writer) (int64, error) {
	var total int64
	buf := make([]byte, min(r.block, r.size-min(r.at, r.size)))
	for r.at < r.size {
		n, err := r.Read(buf[:min(r.block-r.at%r.block, r.size-r.at)])
		if err != nil {
			return total, err
		}
		m, err := w.Write(buf[:n])
		total += int64(m)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// readBlock copies the part of block i from a place in it on.
func (r *Reader) readBlock(p []byte, i int64, from int) (int, error) {
	length := int(min(r.block, r.size-i*r.block))
	p = p[:min(len(p), length-from)]
	if i >= int64(len(r.data.Blocks)) {
		return r.readFragment(p, from)
	}
	word := r.data.Blocks[i]
	if word&lengthMask == 0 {
		clear(p)
		return len(p), nil
	}
	key := blockKey{start: r.start(i), word: word}
	if len(p) == length {
		return r.img.load(p[:0:length], key, length)
	}
	data, err := r.img.cached(key, length)
	if err != nil {
		return 0, err
	}
	if len(data) != length {
		return 0, corrupt("a block has %d bytes, not %d", len(data), length)
	}
	return copy(p, data[from:]), nil
}

func (r *Reader) readFragment(p []byte, from int) (int, error) {
	start, word := r.img.fragment(r.data.Fragment)
	data, err := r.img.cached(blockKey{start: start, word: word}, int(r.block))
	if err != nil {
		return 0, err
	}
	if from += int(r.data.Offset); from+len(p) > len(data) {
		return 0, corrupt("a fragment of %d bytes is read at %d", len(data), from)
	}
	return copy(p, data[from:]), nil
}

func (r *Reader) start(i int64) uint64 {
	r.once.Do(func() {
		r.starts = make([]uint64, len(r.data.Blocks))
		at := r.data.Start
		for i, word := range r.data.Blocks {
			r.starts[i] = at
			at += uint64(word & lengthMask)
		}
	})
	return r.starts[i]
}

// cached returns a block of up to size bytes, unpacked.
func (i *Image) cached(k blockKey, size int) ([]byte, error) {
	if data, found := i.cache.get(k); found {
		return data, nil
	}
	data := make([]byte, 0, size)
	n, err := i.unpackAt(data, k)
	if err != nil {
		return nil, err
	}
	i.cache.put(k, data[:n])
	return data[:n], nil
}

// load unpacks a block of exactly size bytes into dst, past the cache: who reads whole blocks does not come back.
func (i *Image) load(dst []byte, k blockKey, size int) (int, error) {
	if data, found := i.cache.get(k); found && len(data) == size {
		return copy(dst[:size], data), nil
	}
	n, err := i.unpackAt(dst, k)
	if err == nil && n != size {
		err = corrupt("a block has %d bytes, not %d", n, size)
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}

// unpackAt reads a stored block and unpacks it into dst's capacity.
func (i *Image) unpackAt(dst []byte, k blockKey) (int, error) {
	length := int(k.word & lengthMask)
	if k.word&storedRaw != 0 {
		if length > cap(dst) {
			return 0, corrupt("a block of %d bytes is stored where %d belong", length, cap(dst))
		}
		return length, i.readFull(dst[:length], k.start)
	}
	raw := i.buffer()
	defer i.buffers.Put(raw)
	if err := i.readFull((*raw)[:length], k.start); err != nil {
		return 0, err
	}
	out, err := i.unpack(dst, (*raw)[:length])
	if err != nil {
		return 0, corrupt("the block at %d: %w", k.start, err)
	}
	return len(out), nil
}

func (i *Image) buffer() *[]byte {
	if b, ok := i.buffers.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, i.Super.BlockSize)
	return &b
}

func (i *Image) readFull(p []byte, at uint64) error {
	if n, err := i.file.ReadAt(p, int64(at)); n < len(p) {
		return readError("a block", at, err)
	}
	return nil
}
