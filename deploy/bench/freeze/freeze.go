package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
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
	b.spent("image converted, once for all", u)
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
		if round == 0 {
			if err := b.rest(); err != nil {
				return err
			}
			continue
		}
		b.compare(frozen, packed)
		b.add("mksquashfs and the flush of its file: s", flushed)
		b.add("freeze, which flushes / mksquashfs with flush, wall", frozen.wall/flushed)
	}
	b.want("freeze / mksquashfs, wall", target{most: 1.3})
	b.want("session paused: ms", target{most: 300, worst: true})
	b.want("memory above idle, at most: MB", target{most: 300, worst: true})
	b.want("written to the disk / what the SIF does not share", target{most: 1.05})
	return nil
}

// rest finds out what the idle service takes, with the base's tables in memory.
func (b *bench) rest() (err error) {
	debug.FreeOSMemory()
	b.idle, _, err = resident()
	b.add("memory when idle, with the tables of a base: MB", float64(b.idle)/mb)
	return err
}

func (b *bench) compare(frozen, packed used) {
	b.spent("freeze to a complete SIF", frozen)
	b.spent("mksquashfs, zstd 1, the changes alone", packed)
	b.add("freeze / mksquashfs, wall", frozen.wall/packed.wall)
	b.add("session paused: ms", float64(b.last.Paused.Microseconds())/1e3)
	b.add("memory above idle, at most: MB", float64(frozen.peak-b.idle)/mb)
	b.add("the SIF: MB", float64(b.last.Size)/mb)
	b.add("of it its own: MB", float64(b.last.Own)/mb)
	alone := b.last.Size
	if b.shares {
		alone = b.last.Own
	}
	b.add("written to the disk / what the SIF does not share", float64(frozen.written)/float64(alone))
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
		b.add("unchanged freeze: CPU ms", 1e3*u.cpu)
		start := time.Now()
		_, files, _, err := graft.Scan(ctx, b.box.upper, strip)
		if err != nil {
			return err
		}
		b.add("scan: µs a file", float64(time.Since(start).Microseconds())/float64(files))
		b.add("files in the changes", float64(files))
	}
	b.want("unchanged freeze: ms", target{most: 100})
	b.want("scan: µs a file", target{most: 10})
	return nil
}

// settles waits until what was frozen is signed and known, which the service does behind its answers.
func (b *bench) settles(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	u, err := measure(func() error {
		go func() { done <- b.library.Run(ctx) }()
		return b.settled(ctx)
	})
	stop()
	n := float64(b.rounds + 1)
	b.spent("signed and looked through, behind the answer", used{wall: u.wall / n, cpu: u.cpu / n})
	return errors.Join(err, <-done)
}

// settled waits for the last environment, which is settled last.
func (b *bench) settled(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, ok := b.library.Glance(b.last.Digest); ok {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
