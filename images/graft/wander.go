package graft

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
)

// wanderer goes through an upper directory, less what is stripped, one entry after another, and keeps nothing of what
// it passes.
type wanderer struct {
	dev uint64
}

// visitor is given an entry: what it is, zero when it has gone since; and the directory, when it is one, open until the
// visitor returns.
type visitor func(path string, st unix.Stat_t, dir *os.File, rules tree.Live) error

// wander calls begin with the root of an upper directory.
func wander(
	ctx context.Context, upper string, strip *tree.Strip, begin func(w wanderer, root *os.File, rules tree.Live) error,
) error {
	root, err := tree.OpenDir(upper)
	if err != nil {
		return err
	}
	defer root.Close()
	st, err := tree.StatFile(root)
	if err != nil {
		return err
	}
	return begin(wanderer{st.Dev}, root, strip.Top())
}

// Each calls fn for all that an upper directory has, less what is stripped, one after another.
func Each(ctx context.Context, upper string, strip *tree.Strip, fn func(path string, st *unix.Stat_t)) error {
	return wander(ctx, upper, strip, func(w wanderer, root *os.File, rules tree.Live) error {
		var visit visitor
		visit = func(path string, st unix.Stat_t, sub *os.File, inside tree.Live) error {
			fn(path, &st)
			if sub != nil {
				return w.each(ctx, sub, path, inside, visit)
			}
			return nil
		}
		return w.each(ctx, root, "", rules, visit)
	})
}

// each visits the entries of a directory.
func (w wanderer) each(ctx context.Context, dir *os.File, rel string, rules tree.Live, visit visitor) error {
	list, err := tree.Names(dir)
	if err != nil {
		return err
	}
	for _, name := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		stripped, inside := rules.Enter(name)
		if stripped || rel == "" && name == runtimeDir {
			continue
		}
		if err := w.entry(dir, name, tree.Join(rel, name), inside, visit); err != nil {
			return err
		}
	}
	return nil
}

func (w wanderer) entry(dir *os.File, name, path string, rules tree.Live, visit visitor) error {
	st, err := look(dir, name, path, w.dev)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || !tree.IsDir(&st) {
		return visit(path, st, nil, rules)
	}
	sub, err := tree.Child(dir, name, w.dev)
	if err != nil {
		return visit(path, unix.Stat_t{}, nil, rules) // it is another thing by now
	}
	defer sub.Close()
	return visit(path, st, sub, rules)
}
