package squashfs

import (
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// metaSize is the length of a block of metadata. Only the last one of a table may be shorter.
const metaSize = 8192

// metaRaw is the bit in a metadata block's head that says: stored as it is.
const metaRaw = 0x8000

// source reads parts of an image's file, within a budget of bytes that all its tables together may unpack to: a few
// bytes can claim to be gigabytes.
type source struct {
	file   io.ReaderAt
	end    uint64 // bytes that the image uses
	unpack unpacker
	budget int64
}

// read returns the bytes from one position up to another.
func (s *source) read(what string, from, to uint64) ([]byte, error) {
	if from > to || to > s.end {
		return nil, corrupt("%s is at %d to %d of %d bytes", what, from, to, s.end)
	}
	if err := s.charge(what, int64(to-from)); err != nil {
		return nil, err
	}
	b := make([]byte, to-from)
	n, err := s.file.ReadAt(b, int64(from))
	if n == len(b) {
		return b, nil
	}
	return nil, readError(what, from, err)
}

// readError tells an image that ends early from a disk that fails.
func readError(what string, at uint64, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return corrupt("%s at %d goes beyond the end of the file", what, at)
	}
	return &ioError{what: what, err: err}
}

// ioError is a fault of the disk, not of the image.
type ioError struct {
	what string
	err  error
}

func (e *ioError) Error() string { return "read " + e.what + " of squashfs: " + e.err.Error() }
func (e *ioError) Unwrap() error { return e.err }

func (s *source) charge(what string, n int64) error {
	if s.budget -= n; s.budget < 0 {
		return corrupt("%s is larger than an image of this size can need", what)
	}
	return nil
}

// table is a run of metadata blocks, unpacked.
type table struct {
	what   string
	data   []byte
	starts []uint32 // where each block is stored, from the start of the table
}

// table reads the metadata blocks that fill a part of the image, on all cores.
func (s *source) table(what string, from, to uint64) (*table, error) {
	raw, err := s.read(what, from, to)
	if err != nil {
		return nil, err
	}
	t := &table{what: what}
	for at := 0; at < len(raw); {
		n, err := storedLength(what, raw[at:])
		if err != nil {
			return nil, err
		}
		t.starts = append(t.starts, uint32(at))
		at += 2 + n
	}
	if err := s.charge(what, int64(len(t.starts))*metaSize); err != nil {
		return nil, err
	}
	return t, s.unpackAll(t, raw)
}

// storedLength reads the head of a metadata block and checks that the block is there.
func storedLength(what string, b []byte) (int, error) {
	if len(b) < 2 {
		return 0, corrupt("%s ends within a block's head", what)
	}
	n := int(binary.LittleEndian.Uint16(b) &^ metaRaw)
	if n == 0 || n > metaSize || 2+n > len(b) {
		return 0, corrupt("%s has a block of %d bytes where %d are left", what, n, len(b)-2)
	}
	return n, nil
}

func (s *source) unpackAll(t *table, raw []byte) error {
	t.data = make([]byte, len(t.starts)*metaSize)
	var next, last atomic.Int64
	failures := make([]error, min(runtime.GOMAXPROCS(0), len(t.starts)))
	var wg sync.WaitGroup
	for w := range failures {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(t.starts) && failures[w] == nil; i = int(next.Add(1)) - 1 {
				n, err := s.unpackBlock(t.data[i*metaSize:i*metaSize:(i+1)*metaSize], raw[t.starts[i]:])
				if err == nil && n < metaSize && i < len(t.starts)-1 {
					err = errors.New("a short block before the last")
				}
				if i == len(t.starts)-1 {
					last.Store(int64(n))
				}
				failures[w] = err
			}
		})
	}
	wg.Wait()
	if err := errors.Join(failures...); err != nil {
		return corrupt("%s: %w", t.what, err)
	}
	if len(t.starts) > 0 {
		t.data = t.data[:(len(t.starts)-1)*metaSize+int(last.Load())]
	}
	return nil
}

// unpackBlock unpacks the metadata block at the start of b, whose head has been checked, into dst.
func (s *source) unpackBlock(dst, b []byte) (int, error) {
	head := binary.LittleEndian.Uint16(b)
	body := b[2 : 2+int(head&^metaRaw)]
	if head&metaRaw != 0 {
		return copy(dst[:cap(dst)], body), nil
	}
	out, err := s.unpack(dst, body)
	return len(out), err
}

// position turns a reference to a block and a place in it into a place in data.
func (t *table) position(block uint32, offset uint16) (int, error) {
	i, found := slices.BinarySearch(t.starts, block)
	at := i*metaSize + int(offset)
	if !found || offset >= metaSize || at >= len(t.data) {
		return 0, corrupt("no place %d:%d in the %s", block, offset, t.what)
	}
	return at, nil
}

// reference splits a reference as inodes and xattrs have it.
func (t *table) reference(ref uint64) (int, error) {
	if ref>>48 != 0 {
		return 0, corrupt("no place %x in the %s", ref, t.what)
	}
	return t.position(uint32(ref>>16), uint16(ref))
}

// listed reads n bytes of a table that is found through a list of its blocks, and tells where its first block is.
func (s *source) listed(what string, list uint64, n int64) ([]byte, uint64, error) {
	blocks := (n + metaSize - 1) / metaSize
	if n == 0 {
		return nil, 0, corrupt("%s is empty", what)
	}
	if list > s.end || uint64(blocks)*8 > s.end-list {
		return nil, 0, corrupt("%s of %d bytes is listed at %d of %d", what, n, list, s.end)
	}
	index, err := s.read(what, list, list+uint64(blocks)*8)
	if err != nil {
		return nil, 0, err
	}
	if err := s.charge(what, blocks*metaSize); err != nil {
		return nil, 0, err
	}
	data := make([]byte, 0, blocks*metaSize)
	for i := range int(blocks) {
		if data, err = s.appendBlock(what, data, binary.LittleEndian.Uint64(index[8*i:]), list); err != nil {
			return nil, 0, err
		}
	}
	if int64(len(data)) != n {
		return nil, 0, corrupt("%s has %d bytes, not %d", what, len(data), n)
	}
	return data, binary.LittleEndian.Uint64(index), nil
}

func (s *source) appendBlock(what string, data []byte, at, end uint64) ([]byte, error) {
	if at < SuperblockSize || at >= end || len(data)%metaSize != 0 {
		return nil, corrupt("%s has a block at %d", what, at)
	}
	raw, err := s.read(what, at, min(at+2+metaSize, end))
	if err != nil {
		return nil, err
	}
	if _, err := storedLength(what, raw); err != nil {
		return nil, err
	}
	n, err := s.unpackBlock(data[len(data):len(data):len(data)+metaSize], raw)
	if err != nil {
		return nil, corrupt("%s: %w", what, err)
	}
	return data[:len(data)+n], nil
}
