package sshd

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lull is how long nothing comes from a terminal whose program has ended before it is taken to have said all. What the
// program left in the background may hold the terminal for ever.
const lull = 50 * time.Millisecond

// terminal is a pseudo terminal: what the client shows and types on one side, a program on the other.
type terminal struct {
	master *os.File
	name   string
	over   atomic.Bool // the program has ended
}

func newTerminal() (*terminal, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a terminal: %w", err), unix.Close(fd))
	}
	return &terminal{master: os.NewFile(uintptr(fd), "terminal"), name: fmt.Sprintf("/dev/pts/%d", n)}, nil
}

// program opens the program's side.
func (t *terminal) program() (*os.File, error) {
	return os.OpenFile(t.name, os.O_RDWR|syscall.O_NOCTTY, 0)
}

func (t *terminal) control(f func(fd int) error) error {
	raw, err := t.master.SyscallConn()
	if err != nil {
		return err
	}
	return errors.Join(raw.Control(func(fd uintptr) { err = f(int(fd)) }), err)
}

func (t *terminal) resize(s size) error {
	most := func(n uint32) uint16 { return uint16(min(n, math.MaxUint16)) }
	return t.control(func(fd int) error {
		return unix.IoctlSetWinsize(
			fd, unix.TIOCSWINSZ,
			&unix.Winsize{Row: most(s.Rows), Col: most(s.Columns), Xpixel: most(s.Width), Ypixel: most(s.Height)},
		)
	})
}

// set gives the terminal the settings of the client's own.
func (t *terminal) set(modes []mode) error {
	return t.control(func(fd int) error {
		now, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil {
			return err
		}
		for _, m := range modes {
			apply(now, m)
		}
		return unix.IoctlSetTermios(fd, unix.TCSETS, now)
	})
}

// Read reads what the program shows. Where nobody has the program's side open any more, and after a lull when the
// program has ended, it gives io.EOF.
func (t *terminal) Read(b []byte) (int, error) {
	if t.over.Load() {
		_ = t.master.SetReadDeadline(time.Now().Add(lull))
	}
	n, err := t.master.Read(b)
	switch {
	case errors.Is(err, syscall.EIO):
		return n, io.EOF
	case errors.Is(err, os.ErrDeadlineExceeded):
		return t.rest(b)
	}
	return n, err
}

// rest reads what is there now. A deadline passes on a machine with much else to do before anybody has looked: what a
// program showed just before its end is not to be cut.
func (t *terminal) rest(b []byte) (n int, err error) {
	err = t.control(func(fd int) error {
		n, err = unix.Read(fd, b)
		return err
	})
	if err != nil || n <= 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Write types.
func (t *terminal) Write(b []byte) (int, error) { return t.master.Write(b) }

// ended says that the program has.
func (t *terminal) ended() {
	t.over.Store(true)
	_ = t.master.SetReadDeadline(time.Now().Add(lull))
}

// Close hangs up.
func (t *terminal) Close() error { return t.master.Close() }
