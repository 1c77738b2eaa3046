package docker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"slipway/internal/errs"
	"slipway/spawner"
)

// mostCounted bounds how many files are looked at to say how much a session has written: what lies beyond is not counted.
const mostCounted = 2_000_000

// Written gives how many bytes of the engine's disk a session's changes take. It reads their whole tree, and no file. An error of kind
// Missing says that the engine's directories cannot be read.
func (b *Backend) Written(ctx context.Context, id spawner.ID) (int64, error) {
	c, err := b.Capture(ctx, id)
	if err != nil {
		return 0, err
	}
	if c.Upper == "" {
		return 0, errs.New(errs.Missing, "see how much %s has written: %s", id, c.Why)
	}
	return diskUse(ctx, c.Upper)
}

// diskUse adds up what the files of a tree take that changes meanwhile. No link leads out of it.
func diskUse(ctx context.Context, dir string) (int64, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	var sum int64
	count, linked := 0, map[uint64]bool{}
	err = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return nil // it has just gone
		}
		if count++; count > mostCounted {
			return fs.SkipAll
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || st.Nlink > 1 && !d.IsDir() && linked[st.Ino] {
			return nil
		}
		if st.Nlink > 1 && !d.IsDir() {
			linked[st.Ino] = true
		}
		sum += st.Blocks * 512
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return sum, err
}
