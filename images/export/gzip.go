package export

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
)

const (
	gzipChunk = 1 << 20 // compressed by itself: the output does not depend on how many are at once
	gzipLevel = 3
)

// chunk is a part of a stream: plain, then packed.
type chunk struct {
	plain  []byte
	packed bytes.Buffer
}

// gzipped gives feed a writer and writes what it is given to out as one gzip stream, compressed in parallel.
func gzipped(ctx context.Context, out io.Writer, feed func(io.Writer) error) error {
	// deflate, no name, no time, no system
	if _, err := out.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}); err != nil {
		return err
	}
	chunks := sync.Pool{New: func() any { return &chunk{plain: make([]byte, 0, gzipChunk)} }}
	writers := sync.Pool{}
	sum, length := crc32.NewIEEE(), uint32(0)
	err := inOrder(ctx, func(put func(*chunk) error) error {
		c := &chunker{fresh: func() *chunk { return chunks.Get().(*chunk) }, put: put}
		if err := feed(c); err != nil {
			return err
		}
		return c.flush()
	}, func(c *chunk) error {
		return c.pack(&writers)
	}, func(c *chunk) error {
		sum.Write(c.plain)
		length += uint32(len(c.plain))
		_, err := out.Write(c.packed.Bytes())
		c.plain = c.plain[:0]
		c.packed.Reset()
		chunks.Put(c)
		return err
	})
	if err != nil {
		return err
	}
	end := binary.LittleEndian.AppendUint32([]byte{3, 0}, sum.Sum32()) // an empty last block, then the checks
	_, err = out.Write(binary.LittleEndian.AppendUint32(end, length))
	return err
}

// pack compresses a chunk up to a byte boundary, so that another can follow.
func (c *chunk) pack(writers *sync.Pool) error {
	w, ok := writers.Get().(*flate.Writer)
	if !ok {
		var err error
		if w, err = flate.NewWriter(nil, gzipLevel); err != nil {
			return err
		}
	}
	defer writers.Put(w)
	w.Reset(&c.packed)
	if _, err := w.Write(c.plain); err != nil {
		return err
	}
	return w.Flush()
}

// chunker cuts what is written to it.
type chunker struct {
	fresh func() *chunk
	put   func(*chunk) error
	now   *chunk
}

func (c *chunker) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if c.now == nil {
			c.now = c.fresh()
		}
		n := min(len(rest), gzipChunk-len(c.now.plain))
		c.now.plain = append(c.now.plain, rest[:n]...)
		rest = rest[n:]
		if len(c.now.plain) == gzipChunk {
			if err := c.flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

func (c *chunker) flush() error {
	full := c.now
	c.now = nil
	if full == nil {
		return nil
	}
	return c.put(full)
}
