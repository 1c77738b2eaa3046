//go:build unix

package render

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// terminalSize returns the size of the terminal that w is; not ok where it is none.
func terminalSize(w io.Writer) (width, height int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile || os.Getenv("TERM") == "dumb" {
		return 0, 0, false
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0, false
	}
	if size.Col == 0 || size.Row == 0 { // as on some serial lines
		return 80, 24, true
	}
	return int(size.Col), int(size.Row), true
}
