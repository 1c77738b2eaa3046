package zmtp

import (
	"io"
	"sync"
)

const (
	spoolPiece = 64 << 10
	spoolLimit = 256 << 20 // bytes that wait; what a reader behind that has not taken waits in the kernel, which keeps it or drops it
)

// spool reads ahead: libzmq publishes without waiting, and drops what waits beyond its limit, of 1000 messages if nobody has set another.
type spool struct {
	from io.Reader

	mu      sync.Mutex
	changed sync.Cond
	pieces  [][]byte
	size    int
	err     error
}

func newSpool(from io.Reader) *spool {
	s := &spool{from: from}
	s.changed.L = &s.mu
	return s
}

// fill reads all there is, until there is an error.
func (s *spool) fill() {
	room := make([]byte, spoolPiece)
	for {
		n, err := s.from.Read(room)
		s.put(room[:n:n], err)
		if err != nil {
			return
		}
		if room = room[n:]; len(room) < spoolPiece/4 {
			room = make([]byte, spoolPiece)
		}
	}
}

func (s *spool) put(b []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.size > spoolLimit && s.err == nil {
		s.changed.Wait()
	}
	if len(b) > 0 {
		s.pieces, s.size = append(s.pieces, b), s.size+len(b)
	}
	if s.err == nil {
		s.err = err
	}
	s.changed.Broadcast()
}

// Read gives what was read, and then the error.
func (s *spool) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.pieces) == 0 && s.err == nil {
		s.changed.Wait()
	}
	if len(s.pieces) == 0 {
		return 0, s.err
	}
	n := copy(b, s.pieces[0])
	if s.pieces[0] = s.pieces[0][n:]; len(s.pieces[0]) == 0 {
		s.pieces[0] = nil
		s.pieces = s.pieces[1:]
	}
	s.size -= n
	s.changed.Broadcast()
	return n, nil
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
