package imagefile

import (
	"os"

	"golang.org/x/sys/unix"
)

// eagerPiece is how much is gathered before the disk begins with it.
const eagerPiece = 8 << 20

// EagerWriter writes to a file from a place on, and has the disk begin with each piece at once: the flush at the end then
// waits for the last of it, rather than for all.
type EagerWriter struct {
	file      *os.File
	at, begun int64
}

// NewEager returns a writer to a file from a place on.
func NewEager(file *os.File, from int64) *EagerWriter {
	return &EagerWriter{file: file, at: from, begun: from}
}

// Write writes p behind what was written before.
func (e *EagerWriter) Write(p []byte) (int, error) {
	n, err := e.file.WriteAt(p, e.at)
	e.at += int64(n)
	if e.at-e.begun >= eagerPiece {
		begin(e.file, e.begun, e.at-e.begun)
		e.begun = e.at
	}
	return n, err
}

// begin has the disk begin with a part of a file. That it cannot is no error: the flush tells of those.
func begin(f *os.File, from, n int64) {
	_ = unix.SyncFileRange(int(f.Fd()), from, n, unix.SYNC_FILE_RANGE_WRITE)
}
