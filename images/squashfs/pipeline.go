package squashfs

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// block is one block on its way through the pipeline. Its buffer is used again and again.
type block struct {
	in     []byte
	out    []byte // a compressor's buffer, lent until the block is stored
	packed []byte // what to store; nil: in itself
	done   chan struct{}

	word  *uint32 // where the block's word belongs; nil: it is a fragment
	start *uint64 // where its place belongs, if it is the first stored one of a file

	flushed chan error // not nil: a mark, answered when all before it is written
}

// pipeline compresses blocks on several workers and writes them in the order in which they were sent.
type pipeline struct {
	out       io.Writer
	at        uint64 // where the next block goes, from the superblock on
	fragments []byte // the table's entries
	err       error  // the first that Out gave

	written atomic.Int64
	failed  atomic.Bool

	size   int    // of a block's buffer
	unused []byte // memory for blocks that there are not yet
	memory []byte // all of it
	free   chan *block
	outs   chan []byte
	work   chan *block
	order  chan *block
	once   sync.Once
	wg     sync.WaitGroup
}

// readAhead is how many bytes may wait for a compressor: work for all of them while the caller has other things to do,
// such as waiting for a container to stand still. It is memory of the kernel's, not of the collector's, which would let
// twice as much grow.
const readAhead = 48 << 20

func newPipeline(cfg WriterConfig, super Superblock, fragments []byte) (*pipeline, error) {
	size := int(super.BlockSize)
	outs := 2*cfg.Workers + 2
	count := max(readAhead/size, outs)
	p := &pipeline{
		out: cfg.Out, at: super.InodeTable, fragments: fragments, size: size,
		free: make(chan *block, count), outs: make(chan []byte, outs), work: make(chan *block, count),
		order: make(chan *block, count+1),
	}
	packers := make([]packer, cfg.Workers)
	for i := range packers {
		var err error
		if packers[i], err = newPacker(super.Compressor, cfg.Level, size); err != nil {
			return nil, err
		}
	}
	var err error
	if p.memory, err = takeMemory(count * size); err != nil {
		return nil, fmt.Errorf("%d bytes of memory: %w", count*size, err)
	}
	p.unused = p.memory
	for range outs { // a compressor may pass the block's size by a few bytes before it is found useless
		p.outs <- make([]byte, 0, size+size/64+64)
	}
	for _, pack := range packers {
		p.wg.Go(func() { p.compress(pack) })
	}
	p.wg.Go(p.store)
	return p, nil
}

// take waits for a block that can be filled. One goroutine calls it.
func (p *pipeline) take(ctx context.Context) (*block, error) {
	if p.failed.Load() {
		return nil, p.flush(ctx)
	}
	if len(p.free) == 0 && len(p.unused) > 0 {
		b := &block{in: p.unused[:p.size:p.size], done: make(chan struct{}, 1)}
		p.unused = p.unused[p.size:]
		return b, nil
	}
	select {
	case b := <-p.free:
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipeline) give(b *block) {
	b.word, b.start, b.out, b.packed = nil, nil, nil, nil
	p.free <- b
}

// send never waits: the channels hold all blocks that there are.
func (p *pipeline) send(b *block) {
	p.order <- b
	p.work <- b
}

// compress takes a buffer before a block: whoever has the block that is stored next never waits for one.
func (p *pipeline) compress(pack packer) {
	for out := range p.outs {
		b, more := <-p.work
		if !more {
			return
		}
		b.out, b.packed = out, pack(out, b.in)
		b.done <- struct{}{}
	}
}

// store writes the blocks. After a failure it goes on passing them, so that nobody waits for ever.
func (p *pipeline) store() {
	for b := range p.order {
		if b.flushed != nil {
			b.flushed <- p.err
			continue
		}
		<-b.done
		if p.err == nil {
			p.err = p.storeBlock(b)
			p.failed.Store(p.err != nil)
		}
		p.outs <- b.out
		p.give(b)
	}
}

func (p *pipeline) storeBlock(b *block) error {
	bytes, word := b.packed, uint32(len(b.packed))
	if bytes == nil {
		bytes, word = b.in, uint32(len(b.in))|storedRaw
	}
	n, err := p.out.Write(bytes)
	p.written.Add(int64(n))
	if err != nil {
		return fmt.Errorf("write the tail: %w", err)
	}
	if b.word == nil {
		p.fragments = binary.LittleEndian.AppendUint64(p.fragments, p.at)
		p.fragments = binary.LittleEndian.AppendUint32(p.fragments, word)
		p.fragments = append(p.fragments, 0, 0, 0, 0)
	} else {
		*b.word = word
		if *b.start == 0 {
			*b.start = p.at
		}
	}
	p.at += uint64(len(bytes))
	return nil
}

// flush waits until all blocks so far are stored.
func (p *pipeline) flush(ctx context.Context) error {
	mark := &block{flushed: make(chan error, 1)}
	select {
	case p.order <- mark:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-mark.flushed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pipeline) close() {
	p.once.Do(func() {
		close(p.work)
		close(p.order)
		p.wg.Wait()
		freeMemory(p.memory)
	})
}
