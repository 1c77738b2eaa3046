package graft

import (
	"cmp"
	"context"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
)

// Crowd is a directory with many entries below it.
type Crowd struct {
	Path  string
	Files int64
}

// maxCrowds is how many directories Crowds names.
const maxCrowds = 3

// Crowds finds where most of the entries of an upper directory are: the deepest directories that have many, none within
// another, the largest first. It keeps nothing of what it passes.
func Crowds(ctx context.Context, upper string, strip *tree.Strip) ([]Crowd, error) {
	var found []Crowd
	err := wander(ctx, upper, strip, func(w wanderer, root *os.File, rules tree.Live) (err error) {
		_, found, err = w.crowds(ctx, root, "", rules)
		return err
	})
	return found, err
}

// crowds counts what lies below a directory, and names the crowds in it. Where no directory in it has half of all, it
// is one itself.
func (w wanderer) crowds(
	ctx context.Context, dir *os.File, rel string, rules tree.Live,
) (files int64, found []Crowd, err error) {
	var largest int64
	err = w.each(ctx, dir, rel, rules, func(path string, _ unix.Stat_t, sub *os.File, inside tree.Live) error {
		files++
		if sub == nil {
			return nil
		}
		n, crowds, err := w.crowds(ctx, sub, path, inside)
		files, largest = files+n, max(largest, n)
		found = top(append(found, crowds...))
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	if 2*largest < files {
		found = []Crowd{{Path: "/" + rel, Files: files}}
	}
	return files, found, nil
}

func top(list []Crowd) []Crowd {
	slices.SortStableFunc(list, func(a, b Crowd) int { return cmp.Compare(b.Files, a.Files) })
	return list[:min(maxCrowds, len(list))]
}
