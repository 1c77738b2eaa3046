package cli

import (
	"fmt"
	"io"
)

// page prints lines and keeps the first error.
type page struct {
	w   io.Writer
	err error
}

func (p *page) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// printSection prints a title and the lines below it; without lines nothing.
func (p *page) printSection(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	p.printf("\n%s\n", title)
	for _, line := range lines {
		p.printf("  %s\n", printable(line))
	}
}
