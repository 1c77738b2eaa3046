package export

import (
	"context"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
	"slipway/images/tree"
)

// Progress is told of each part done: bytes of contents so far, and of all. It is called by one goroutine at a time,
// and quick.
type Progress func(done, total int64)

// UpperConfig says which upper directory to write, and where.
type UpperConfig struct {
	Base     *squashfs.Image
	Env      *squashfs.Image // made of Base
	Dir      *os.File        // an empty directory, which becomes the upper directory
	Progress Progress        // may be nil
}

// Upper writes the upper directory of an overlay that, over the base's layers, shows the environment. After an error
// the directory holds a part, which the caller removes.
func Upper(ctx context.Context, cfg UpperConfig) error {
	changes := Changes(cfg.Base.Root, cfg.Env.Root)
	if err := refuse(overlay, changes); err != nil {
		return err
	}
	moved := meter(cfg.Progress, count(changes).Bytes)
	return plant(ctx, cfg.Env, cfg.Dir, cfg.Env.Root, moved, func(ctx context.Context, p *planter) error {
		for c := range changes {
			if err := p.change(ctx, c); err != nil {
				return err
			}
		}
		return nil
	})
}

// change writes one path in the terms of an overlay.
func (p *planter) change(ctx context.Context, c Change) error {
	switch {
	case c.Path == "/":
		return p.opaque(c)
	case c.What == Deleted:
		return p.whiteout(c.Path)
	case c.Link != "":
		return p.link(c.Path, c.Link)
	}
	if err := p.add(ctx, c.Path, c.Node); err != nil {
		return err
	}
	return p.opaque(c)
}

// opaque marks the directory that was just entered, so that nothing of the layers below shows in it.
func (p *planter) opaque(c Change) error {
	if !c.Opaque {
		return nil
	}
	dir := p.levels[len(p.levels)-1].dir
	if err := unix.Fsetxattr(int(dir.Fd()), tree.OverlayPrefix+"opaque", []byte("y"), 0); err != nil {
		return written(c.Path, fmt.Errorf("mark as opaque: %w", err))
	}
	return nil
}

// meter makes of steps the sum that a Progress is told.
func meter(tell Progress, total int64) func(int64) {
	var mu sync.Mutex
	var done int64
	return func(n int64) {
		mu.Lock()
		defer mu.Unlock()
		if done += n; tell != nil {
			tell(done, total)
		}
	}
}
