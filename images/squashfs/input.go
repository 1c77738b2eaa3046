package squashfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// input reads a file with holes, from its start to its end.
type input struct {
	r       io.ReaderAt
	extents []Extent // what has been passed is cut off
}

// any says whether there is data between two positions, the first of which never goes back.
func (i *input) any(from, to int64) bool {
	for len(i.extents) > 0 && i.extents[0].Offset+i.extents[0].Length <= from {
		i.extents = i.extents[1:]
	}
	return len(i.extents) > 0 && i.extents[0].Offset < to
}

// read fills p from a position on, holes with zeros, and says whether anything in it is not zero.
func (i *input) read(p []byte, at int64) (bool, error) {
	end := at + int64(len(p))
	done := at
	for _, e := range i.extents {
		from, to := max(e.Offset, at), min(e.Offset+e.Length, end)
		if from >= to {
			break
		}
		clear(p[done-at : from-at])
		if n, err := i.r.ReadAt(p[from-at:to-at], from); int64(n) < to-from {
			return false, shortRead(err)
		}
		done = to
	}
	clear(p[done-at:])
	return !allZero(p), nil
}

func shortRead(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return ErrShort
	}
	return fmt.Errorf("read: %w", err)
}

func allZero(p []byte) bool { return len(p) == 0 || p[0] == 0 && bytes.Equal(p[1:], p[:len(p)-1]) }
