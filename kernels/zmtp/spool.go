package zmtp

import (
	"io"
	"sync"
)

const (
	spoolPiece = 64 << 10
	spoolSpare = 4 // pieces that are kept for what comes next
	// bytes that wait; what a reader behind that has not taken waits in the kernel, which keeps it or drops it
	spoolLimit = 256 << 20
)

// spool reads ahead: libzmq publishes without waiting, and drops what waits beyond its limit, of 1000 messages if
// nobody has set another.
type spool struct {
	from io.Reader

	mu      sync.Mutex
	changed sync.Cond
	pieces  []*piece // in order
	spare   []*piece
	size    int
	err     error
}

// piece is some of what was read.
type piece struct {
	room     [spoolPiece]byte
	from, to int // what is in it and was not taken
}

func newSpool(from io.Reader) *spool {
	s := &spool{from: from}
	s.changed.L = &s.mu
	return s
}

// fill reads all there is, until there is an error.
func (s *spool) fill() {
	for {
		p := s.last()
		n, err := s.from.Read(p.room[p.to:]) // of which nobody else knows yet
		if s.put(p, n, err); err != nil {
			return
		}
	}
}

// last returns the piece that has room, once more may be read.
func (s *spool) last() *piece {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.size > spoolLimit && s.err == nil {
		s.changed.Wait()
	}
	if n := len(s.pieces); n > 0 && s.pieces[n-1].to < spoolPiece {
		return s.pieces[n-1]
	}
	p := &piece{}
	if n := len(s.spare); n > 0 {
		p, s.spare = s.spare[n-1], s.spare[:n-1]
	}
	s.pieces = append(s.pieces, p)
	return p
}

func (s *spool) put(p *piece, n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.to += n
	s.size += n
	if s.err == nil {
		s.err = err
	}
	s.changed.Broadcast()
}

// Read returns what was read, and then the error.
func (s *spool) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.size == 0 && s.err == nil {
		s.changed.Wait()
	}
	if s.size == 0 {
		return 0, s.err
	}
	p := s.pieces[0]
	n := copy(b, p.room[p.from:p.to])
	p.from += n
	if s.size -= n; p.from == spoolPiece {
		s.take()
	}
	s.changed.Broadcast()
	return n, nil
}

// take takes away the first piece, of which nothing is left.
func (s *spool) take() {
	p := s.pieces[0]
	s.pieces[0] = nil
	s.pieces = s.pieces[1:]
	if p.from, p.to = 0, 0; len(s.spare) < spoolSpare {
		s.spare = append(s.spare, p)
	}
}

// end makes whoever waits for room go on.
func (s *spool) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = io.ErrClosedPipe
	}
	s.changed.Broadcast()
}
