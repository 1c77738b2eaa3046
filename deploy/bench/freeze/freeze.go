package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

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
		b.key = fmt.Sprint("bench", round) // another session's: nothing is known of it
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
	b.add("written to the disk / what the SIF does not share", float64(frozen.written)/float64(b.last.Own))
	if st, err := os.Stat(b.squashed); err == nil {
		b.add("mksquashfs: MB", float64(st.Size())/mb)
	}
}

// touch makes one small change, by way of the container's own tree.
func (b *bench) touch(round int) error {
	return os.WriteFile(
		filepath.Join(b.box.merged, "opt", "slipway-bench"), fmt.Appendf(nil, "%d %s\n", round, time.Now()), 0o644,
	)
}

func (b *bench) freeze(ctx context.Context) (err error) {
	b.last, err = b.library.Freeze(ctx, images.Request{
		Owner: "bench", User: "bench", Key: b.key, Kind: "session", Source: b.box.source(), Allow: []string{"/opt/"},
	})
	return err
}

func (b *bench) pack(ctx context.Context) error {
	return call(
		ctx, "mksquashfs", b.box.upper, b.squashed, "-noappend", "-no-progress", "-quiet", "-comp", "zstd",
		"-Xcompression-level", "1",
	)
}

// again freezes a session that was frozen before, of which one file of 1 MB has changed since; and makes what came of
// it ready for a run.
func (b *bench) again(ctx context.Context) error {
	b.key = "again"
	if err := b.freeze(ctx); err != nil {
		return err
	}
	for round := range b.rounds + 1 {
		if err := os.WriteFile(filepath.Join(b.box.merged, "opt", "slipway-megabyte"), megabyte(round), 0o644); err != nil {
			return err
		}
		unix.Sync()
		before, err := onDisk(b.path("environments"))
		if err != nil {
			return err
		}
		frozen, err := measure(func() error { return b.freeze(ctx) })
		if err != nil {
			return err
		}
		unix.Sync()
		after, err := onDisk(b.path("environments"))
		if err != nil {
			return err
		}
		ready, err := measure(func() error {
			_, err := b.library.Ready(ctx, b.last.Digest)
			return err
		})
		if err != nil {
			return err
		}
		if round > 0 {
			b.spent("freeze again, 1 MB changed", frozen)
			b.add("freeze again: paused, ms", float64(b.last.Paused.Microseconds())/1e3)
			b.add("freeze again: MB of disk", float64(after-before)/mb)
			b.spent("made ready for its first run", ready)
		}
	}
	b.want("freeze again, 1 MB changed: s", target{most: 0.3})
	b.want("freeze again: MB of disk", target{most: 3})
	return nil
}

// megabyte returns one of numbers, which halve when they are packed.
func megabyte(round int) []byte {
	r := rand.New(rand.NewPCG(uint64(round), uint64(time.Now().UnixNano())))
	var out []byte
	for len(out) < 1<<20 {
		out = strconv.AppendUint(out, r.Uint64(), 16)
	}
	return out
}

// onDisk adds up what a directory takes, each file once however many names it has.
func onDisk(dir string) (n int64, err error) {
	seen := map[uint64]bool{}
	err = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		if err == nil && !seen[st.Ino] {
			seen[st.Ino] = true
			n += st.Blocks * 512
		}
		return err
	})
	return n, err
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
