package kernel

import (
	"context"
	"sync"

	"slipway/kernels/wire"
	"slipway/kernels/zmtp"
)

// conns are a seat's connections to one process. All have one identity, by which the kernel finds the way back for an
// answer and for a question.
type conns struct {
	mu   sync.Mutex
	life *life // that they belong to
	open map[wire.Channel]*zmtp.Socket
	gone bool // the seat is no more
}

// socket returns the seat's socket of a channel. All are opened with the first: a cell that is sent may ask a question.
func (s *seat) socket(ctx context.Context, l *life, c wire.Channel) (*zmtp.Socket, error) {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	if s.conns.life != l {
		s.conns.life, s.conns.open = l, map[wire.Channel]*zmtp.Socket{}
	}
	for _, c := range []wire.Channel{wire.Stdin, wire.Shell, wire.Control} {
		if err := s.connect(ctx, l, c); err != nil {
			return nil, err
		}
	}
	return s.conns.open[c], nil
}

// connect opens the socket of a channel, where there is none. The lock is held.
func (s *seat) connect(ctx context.Context, l *life, c wire.Channel) error {
	switch {
	case s.conns.gone:
		return errOver
	case s.conns.open[c] != nil:
		return nil
	}
	socket, err := l.connect(ctx, c, "DEALER", s.identity)
	if err != nil {
		return err
	}
	s.conns.open[c] = socket
	l.during(func(context.Context) {
		l.takeAll(socket, c, s.hears)
		socket.Close()
		s.lost(c, socket)
	})
	return nil
}

// hears takes what the kernel says to this client alone.
func (s *seat) hears(m wire.Message) {
	s.kernel.act()
	if m.Channel != wire.Stdin {
		s.kernel.done(m.ParentID())
	}
	if m.Type() == "execute_reply" {
		s.answered(m)
	}
	s.add(m, true)
}

// lost has a socket be made anew when it is needed.
func (s *seat) lost(c wire.Channel, socket *zmtp.Socket) {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	if s.conns.open[c] == socket {
		delete(s.conns.open, c)
	}
}

// close closes the sockets of a seat that is no more.
func (s *seat) close() {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	s.conns.gone = true
	for _, socket := range s.conns.open {
		socket.Close()
	}
}
