package images

import (
	"io"
)

func sectionOf(r io.ReaderAt, from, size int64) *io.SectionReader {
	return io.NewSectionReader(r, from, size)
}
