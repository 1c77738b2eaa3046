package graft

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
)

// LargeFile is a file of an upper directory, and what it takes on the disk.
type LargeFile struct {
	Path  string
	Bytes int64
}

// maxLargest is how many files Largest names.
const maxLargest = 3

// Largest finds the files of an upper directory that take the most, the largest first.
func Largest(ctx context.Context, upper string, strip *tree.Strip) ([]LargeFile, error) {
	root, err := tree.OpenDir(upper)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	st, err := tree.StatFile(root)
	if err != nil {
		return nil, err
	}
	w := &weighing{ctx: ctx, dev: st.Dev}
	err = w.below(root, "", strip.Top())
	return w.found, err
}

type weighing struct {
	ctx   context.Context
	dev   uint64
	found []LargeFile
}

// below looks at all that lies below a directory.
func (w *weighing) below(dir *os.File, rel string, rules tree.Live) error {
	list, err := tree.Names(dir)
	if err != nil {
		return err
	}
	for _, name := range list {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		stripped, inside := rules.Enter(name)
		if stripped || rel == "" && name == runtimeDir {
			continue
		}
		if err := w.entry(dir, name, tree.Join(rel, name), inside); err != nil {
			return err
		}
	}
	return nil
}

// entry weighs a file, or what lies below a directory. One that has gone has no weight.
func (w *weighing) entry(dir *os.File, name, path string, rules tree.Live) error {
	st, err := look(dir, name, path, w.dev)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT == unix.S_IFREG:
		w.add(LargeFile{Path: "/" + path, Bytes: min(st.Size, st.Blocks*512)})
	case tree.IsDir(&st):
		sub, err := tree.Child(dir, name, w.dev)
		if err != nil {
			return nil // it is another thing by now
		}
		defer sub.Close()
		return w.below(sub, path, rules)
	}
	return nil
}

func (w *weighing) add(f LargeFile) {
	w.found = append(w.found, f)
	slices.SortStableFunc(w.found, func(a, b LargeFile) int { return cmp.Compare(b.Bytes, a.Bytes) })
	w.found = w.found[:min(maxLargest, len(w.found))]
}
