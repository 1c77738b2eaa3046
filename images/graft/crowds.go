package graft

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"slipway/images/tree"
)

// Crowd is a directory with many entries below it.
type Crowd struct {
	Path  string
	Files int64
}

// maxCrowds is how many directories Crowds names.
const maxCrowds = 3

// Crowds finds where most of the entries of an upper directory are: the deepest directories that have many, none within another, the
// largest first. It keeps nothing of what it passes.
func Crowds(ctx context.Context, upper string, strip *tree.Strip) ([]Crowd, error) {
	root, err := tree.OpenDir(upper)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	st, err := tree.StatFile(root)
	if err != nil {
		return nil, err
	}
	c := &census{ctx: ctx, dev: st.Dev}
	_, found, err := c.below(root, "", strip.Top())
	return found, err
}

type census struct {
	ctx context.Context
	dev uint64
}

// below counts what lies below a directory, and names the crowds in it. Where no directory in it has half of all, it is one itself.
func (c *census) below(dir *os.File, rel string, rules tree.Live) (files int64, found []Crowd, err error) {
	list, err := tree.Names(dir)
	if err != nil {
		return 0, nil, err
	}
	var largest int64
	for _, name := range list {
		if err := c.ctx.Err(); err != nil {
			return 0, nil, err
		}
		stripped, inside := rules.Enter(name)
		if stripped || rel == "" && name == runtimeDir {
			continue
		}
		n, crowds, err := c.entry(dir, name, tree.Join(rel, name), inside)
		if err != nil {
			return 0, nil, err
		}
		files, largest = files+1+n, max(largest, n)
		found = top(append(found, crowds...))
	}
	if 2*largest < files {
		found = []Crowd{{Path: "/" + rel, Files: files}}
	}
	return files, found, nil
}

// entry counts what lies below an entry; one that has gone, or is no directory, has nothing.
func (c *census) entry(dir *os.File, name, path string, rules tree.Live) (int64, []Crowd, error) {
	st, err := look(dir, name, path, c.dev)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !tree.IsDir(&st) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	sub, err := tree.Child(dir, name, c.dev)
	if err != nil {
		return 0, nil, nil // it is another thing by now
	}
	defer sub.Close()
	return c.below(sub, path, rules)
}

func top(list []Crowd) []Crowd {
	slices.SortStableFunc(list, func(a, b Crowd) int { return cmp.Compare(b.Files, a.Files) })
	return list[:min(maxCrowds, len(list))]
}
