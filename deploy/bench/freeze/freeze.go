package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"slipway/images"
	"slipway/images/graft"
	"slipway/images/tree"
)

const mb = 1e6

// prepare converts the image, as the service does when a site adds it.
func (b *bench) prepare(ctx context.Context) error {
	note("converting the image")
	u, err := measure(func() error { return b.library.Prepare(ctx, b.box.source(), nil) })
	if err != nil {
		return err
	}
	b.add("image converted, once for all: s", u.wall)
	b.add("image converted: CPU s", u.cpu)
	return nil
}

// freezes takes turns with mksquashfs, which packs the changes alone. The first round warms up and is not kept.
func (b *bench) freezes(ctx context.Context) error {
	for round := range b.rounds + 1 {
		if err := b.touch(round); err != nil {
			return err
		}
		if err := os.RemoveAll(b.squashed); err != nil {
			return err
		}
		packed, err := measure(func() error { return b.pack(ctx) })
		if err != nil {
			return err
		}
		flushed, err := flush(b.squashed, packed)
		if err != nil {
			return err
		}
		frozen, err := measure(func() error { return b.freeze(ctx) })
		if err != nil {
			return err
		}
		note("round %d: freeze %.2f s, mksquashfs %.2f s", round, frozen.wall, packed.wall)
		if round > 0 {
			b.compare(frozen, packed)
			b.add("mksquashfs and the flush of its file: s", flushed)
			b.add("freeze, which flushes / mksquashfs with flush, wall", frozen.wall/flushed)
		}
	}
	b.want("freeze / mksquashfs, wall", "at most 1.3")
	b.want("session paused: ms", "at most 300")
	b.want("memory above idle, at most: MB", "under 300")
	return nil
}

func (b *bench) compare(frozen, packed used) {
	b.add("freeze to a complete SIF: s", frozen.wall)
	b.add("freeze: CPU s", frozen.cpu)
	b.add("mksquashfs, zstd 1, the changes alone: s", packed.wall)
	b.add("mksquashfs: CPU s", packed.cpu)
	b.add("freeze / mksquashfs, wall", frozen.wall/packed.wall)
	b.add("session paused: ms", float64(b.last.Paused.Microseconds())/1e3)
	b.add("memory above idle, at most: MB", float64(frozen.peak-b.idle)/mb)
	b.add("the SIF: MB", float64(b.last.Size)/mb)
	b.add("of it its own: MB", float64(b.last.Own)/mb)
	b.add("written to the disk: MB", float64(frozen.written)/mb)
	if st, err := os.Stat(b.squashed); err == nil {
		b.add("mksquashfs: MB", float64(st.Size())/mb)
	}
}

// touch makes one small change, by way of the container's own tree.
func (b *bench) touch(round int) error {
	return os.WriteFile(filepath.Join(b.box.merged, "opt", "slipway-bench"), fmt.Appendf(nil, "%d %s\n", round, time.Now()), 0o644)
}

func (b *bench) freeze(ctx context.Context) (err error) {
	b.last, err = b.library.Freeze(ctx, images.Request{Owner: "bench", User: "bench", Key: "bench", Kind: "session", Source: b.box.source(), Allow: []string{"/opt/"}})
	return err
}

func (b *bench) pack(ctx context.Context) error {
	return call(ctx, "mksquashfs", b.box.upper, b.squashed, "-noappend", "-no-progress", "-quiet", "-comp", "zstd", "-Xcompression-level", "1")
}

// unchanged freezes again what has not changed, and scans.
func (b *bench) unchanged(ctx context.Context) error {
	strip, err := tree.NewStrip(nil)
	if err != nil {
		return err
	}
	for range 2 * b.rounds {
		u, err := measure(func() error { return b.freeze(ctx) })
		if err != nil {
			return err
		}
		if !b.last.Unchanged {
			return fmt.Errorf("%s is not unchanged", b.last.Digest)
		}
		b.add("unchanged freeze: ms", 1e3*u.wall)
		start := time.Now()
		_, files, _, err := graft.Scan(ctx, b.box.upper, strip)
		if err != nil {
			return err
		}
		b.add("scan: µs a file", float64(time.Since(start).Microseconds())/float64(files))
		b.add("files in the changes", float64(files))
	}
	b.want("unchanged freeze: ms", "at most 100")
	b.want("scan: µs a file", "under 10")
	return nil
}
