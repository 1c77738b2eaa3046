package graft

import (
	"cmp"
	"context"
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
	var found []LargeFile
	err := Each(ctx, upper, strip, func(path string, st *unix.Stat_t) {
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			found = heaviest(append(found, LargeFile{Path: "/" + path, Bytes: min(st.Size, st.Blocks*512)}))
		}
	})
	return found, err
}

func heaviest(list []LargeFile) []LargeFile {
	slices.SortStableFunc(list, func(a, b LargeFile) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return list[:min(maxLargest, len(list))]
}
