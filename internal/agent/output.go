package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// output keeps what the app printed, within a bound: the beginning of it (a job's), or the end (a session's, in two
// files that take turns). Offsets count all that was printed, so they stay right when the beginning has gone.
type output struct {
	path   string
	limit  int64
	recent bool // keep the end

	mu     sync.Mutex
	parts  []part
	size   int64
	cut    bool
	lost   int64 // bytes that were printed after the cut
	closed bool
	grown  chan struct{} // closed at the next change; nil when nobody waits
}

type part struct {
	file *os.File
	base int64 // offset of its first byte
	size int64
}

func newOutput(path string, limit int64, recent bool) (*output, error) {
	o := &output{path: path, limit: limit, recent: recent}
	return o, o.grow()
}

// grow begins a new file; the newest before it stays readable, and is kept under the name with .1.
func (o *output) grow() error {
	if len(o.parts) > 0 {
		if err := os.Rename(o.path, o.path+".1"); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(o.path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("open the app's log: %w", err)
	}
	o.parts = append(o.parts, part{file: f, base: o.size})
	if len(o.parts) > 2 {
		_ = o.parts[0].file.Close()
		o.parts = o.parts[1:]
	}
	return nil
}

// Write keeps b, or of it what the bound allows. It never fails: an app must not block or die because its log is full.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(b)
	if o.recent {
		o.keepRecent(b)
	} else {
		o.keepFirst(b)
	}
	o.changed()
	return n, nil
}

func (o *output) keepRecent(b []byte) {
	for half := o.limit / 2; len(b) > 0; {
		if o.parts[len(o.parts)-1].size >= half && o.grow() != nil {
			return
		}
		n := min(int64(len(b)), half-o.parts[len(o.parts)-1].size)
		if n <= 0 || !o.append(b[:n]) {
			return
		}
		b = b[n:]
	}
}

func (o *output) keepFirst(b []byte) {
	if o.cut {
		o.lost += int64(len(b))
		return
	}
	room := o.limit - o.size
	if int64(len(b)) <= room {
		o.append(b)
		return
	}
	o.append(b[:room])
	o.cut, o.lost = true, int64(len(b))-room
	o.append(
		fmt.Appendf(nil, "\nslipway: the output is longer than %d MiB; the rest of it was not kept\n", o.limit>>20),
	)
}

// append writes to the newest file; what a full disk does not take is lost.
func (o *output) append(b []byte) bool {
	p := &o.parts[len(o.parts)-1]
	n, err := p.file.WriteAt(b, p.size)
	p.size += int64(n)
	o.size += int64(n)
	return err == nil
}

// close says that nothing follows.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cut && !o.closed {
		o.append(fmt.Appendf(nil, "slipway: %d bytes were printed after that\n", o.lost))
	}
	o.closed = true
	o.changed()
}

func (o *output) changed() {
	if o.grown != nil {
		close(o.grown)
		o.grown = nil
	}
}

func (o *output) total() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.size
}

// readAt fills b from offset from on and gives the offset after what it read. With nothing there yet it gives io.EOF
// when the output has ended, and else a channel that is closed when there is more.
func (o *output) readAt(b []byte, from int64) (n int, next int64, more <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	from = max(from, o.parts[0].base)
	for _, p := range o.parts {
		if from >= p.base && from < p.base+p.size {
			n, err = p.file.ReadAt(b[:min(int64(len(b)), p.base+p.size-from)], from-p.base)
			if n > 0 && errors.Is(err, io.EOF) {
				err = nil
			}
			return n, from + int64(n), nil, err
		}
	}
	if o.closed {
		return 0, from, nil, io.EOF
	}
	if o.grown == nil {
		o.grown = make(chan struct{})
	}
	return 0, from, o.grown, nil
}
