package tunnel

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// giver is a connection of this host that sends a file along with what it writes next.
type giver struct {
	*net.UnixConn
	file *os.File // nil: none any more
}

// Write sends b.
func (g *giver) Write(b []byte) (int, error) {
	if g.file == nil {
		return g.UnixConn.Write(b)
	}
	n, _, err := g.WriteMsgUnix(b, unix.UnixRights(int(g.file.Fd())), nil)
	g.file = nil
	return n, err
}

// taker is a connection of this host that keeps a file which comes along with what it reads. Any other reader throws
// such files away: the kernel closes what is not asked for.
type taker struct {
	*net.UnixConn
	file *os.File
	room [64]byte // for the numbers of a few files
}

// Read reads what came. Of files that came the last is kept.
func (t *taker) Read(b []byte) (int, error) {
	n, size, _, _, err := t.ReadMsgUnix(b, t.room[:])
	if size > 0 {
		t.keep(t.room[:size])
	}
	return n, err
}

func (t *taker) keep(rights []byte) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return
	}
	for _, m := range messages {
		fds, _ := unix.ParseUnixRights(&m)
		for _, fd := range fds {
			t.drop()
			t.file = os.NewFile(uintptr(fd), "passed")
		}
	}
}

func (t *taker) drop() {
	if t.file != nil {
		_ = t.file.Close()
		t.file = nil
	}
}

// take returns the socket that came, if one came. Whoever takes it closes it.
func (t *taker) take() (*net.UnixConn, error) {
	defer t.drop()
	if t.file == nil {
		return nil, errors.New("no socket has come along")
	}
	return connOf(t.file)
}

// connOf makes a connection of a socket, beside the file.
func connOf(f *os.File) (*net.UnixConn, error) {
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return nil, errors.New("it is no unix socket")
	}
	return u, nil
}

// twoEnds makes two sockets that are joined: one to keep, one to give away.
func twoEnds(kind int) (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	c, err := connOf(ours)
	if err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	return c, theirs, nil
}
