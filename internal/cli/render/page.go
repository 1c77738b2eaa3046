package render

import (
	"fmt"
	"io"
)

// Page prints lines and keeps the first error.
type Page struct {
	W   io.Writer
	Err error
}

// Printf prints as fmt.Fprintf does, unless something could not be printed before.
func (p *Page) Printf(format string, args ...any) {
	if p.Err == nil {
		_, p.Err = fmt.Fprintf(p.W, format, args...)
	}
}

// Section prints a title and the lines below it; without lines nothing.
func (p *Page) Section(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	p.Printf("\n%s\n", title)
	for _, line := range lines {
		p.Printf("  %s\n", Printable(line))
	}
}
