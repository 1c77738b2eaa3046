package render

import (
	"fmt"
	"io"
	"strings"
)

// screen draws lines over those that it drew before, in a terminal that may change its size meanwhile.
type screen struct {
	w     io.Writer
	size  func() (width, height int, ok bool)
	drawn []int // how wide each line was
}

// draw draws lines that are at most as wide as the window.
func (s *screen) draw(lines []string, width int) error {
	up := 0
	for _, was := range s.drawn {
		up += max(1, (was+width-1)/width) // a window that became narrower has broken what was wider
	}
	var b strings.Builder
	if up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", up)
	}
	s.drawn = s.drawn[:0]
	for _, line := range lines {
		b.WriteString(line + "\x1b[K\n")
		s.drawn = append(s.drawn, wide(line))
	}
	b.WriteString("\x1b[J")
	_, err := io.WriteString(s.w, b.String())
	return err
}
