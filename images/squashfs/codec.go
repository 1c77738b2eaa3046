package squashfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"slipway/internal/errs"
)

// The compressors' numbers in the superblock.
const (
	compressorGzip = 1
	compressorZstd = 6
)

// unpacker decompresses a block behind what dst holds, and never beyond dst's capacity. It may be called by several
// goroutines at once.
type unpacker func(dst, src []byte) ([]byte, error)

// packer compresses a block over dst. It gives nil when that saves nothing. One goroutine uses it.
type packer func(dst, src []byte) []byte

func newUnpacker(compressor uint16) (unpacker, error) {
	switch compressor {
	case compressorGzip:
		return unpackZlib(), nil
	case compressorZstd:
		return unpackZstd()
	}
	return nil, unsupported(compressor)
}

func unsupported(compressor uint16) error {
	names := map[uint16]string{2: "lzma", 3: "lzo", 4: "xz", 5: "lz4"}
	name, known := names[compressor]
	if !known {
		name = fmt.Sprintf("number %d", compressor)
	}
	return errs.New(errs.Conflict, "the squashfs is compressed with %s, which is not supported", name).
		With("pack it again with zstd or gzip")
}

func unpackZstd() (unpacker, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithDecoderMaxWindow(maxBlockSize),
		zstd.WithDecoderMaxMemory(maxBlockSize), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return func(dst, src []byte) ([]byte, error) {
		out, err := d.DecodeAll(src, dst)
		if err == nil && cap(out) != cap(dst) {
			err = errors.New("longer than a block")
		}
		return out, err
	}, nil
}

func unpackZlib() unpacker {
	var pool sync.Pool
	return func(dst, src []byte) ([]byte, error) {
		in := bytes.NewReader(src)
		r, _ := pool.Get().(io.ReadCloser)
		if r == nil {
			var err error
			if r, err = zlib.NewReader(in); err != nil {
				return nil, err
			}
		} else if err := r.(zlib.Resetter).Reset(in, nil); err != nil {
			return nil, err
		}
		defer pool.Put(r)
		return readInto(dst, r)
	}
}

// readInto reads to the end of r into what is left of dst's capacity.
func readInto(dst []byte, r io.Reader) ([]byte, error) {
	n, err := io.ReadFull(r, dst[len(dst):cap(dst)])
	dst = dst[:len(dst)+n]
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return dst, nil
	}
	if err != nil {
		return nil, err
	}
	var more [1]byte
	if n, err := r.Read(more[:]); n > 0 || err != io.EOF {
		return nil, errors.New("longer than a block")
	}
	return dst, nil
}

// newPacker makes a compressor of blocks of up to size bytes.
func newPacker(compressor uint16, level Level, size int) (packer, error) {
	switch {
	case level == Store:
		return func([]byte, []byte) []byte { return nil }, nil
	case compressor == compressorGzip:
		return packZlib(level)
	case compressor == compressorZstd:
		return packZstd(level, size)
	}
	return nil, unsupported(compressor)
}

// packZstd makes frames that a reader may decode with a window of one block: the kernel allows no more. Literals are
// entropy coded even where nothing repeats, which costs nothing that can be measured and makes numbers in text half as
// long. Incompressible data needs no test of its own: the encoder passes it at gigabytes a second, faster than one
// could look at it.
func packZstd(level Level, size int) (packer, error) {
	speed := zstd.SpeedFastest
	if level == Better {
		speed = zstd.SpeedDefault
	}
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(speed), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(size),
		zstd.WithSingleSegment(true), zstd.WithEncoderCRC(false), zstd.WithAllLitEntropyCompression(true))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return func(dst, src []byte) []byte { return ifSmaller(e.EncodeAll(src, dst[:0]), src) }, nil
}

func packZlib(level Level) (packer, error) {
	speed := zlib.BestSpeed
	if level == Better {
		speed = 6
	}
	w, err := zlib.NewWriterLevel(io.Discard, speed)
	if err != nil {
		return nil, fmt.Errorf("zlib: %w", err)
	}
	return func(dst, src []byte) []byte {
		out := bytes.NewBuffer(dst[:0])
		w.Reset(out)
		if _, err := w.Write(src); err != nil {
			return nil
		}
		if err := w.Close(); err != nil {
			return nil
		}
		return ifSmaller(out.Bytes(), src)
	}, nil
}

func ifSmaller(packed, src []byte) []byte {
	if len(packed) >= len(src) {
		return nil
	}
	return packed
}
