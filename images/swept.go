package images

import "sync"

// Sweeps counts what this process has found that nothing leads to: left by kills, or by owners who removed it.
type Sweeps struct {
	Environments, Bases int     // removed
	Bytes               int64   // of both
	Waiting             Waiting // found by the last sweep, and too young to go
}

// sweeps keeps the counts.
type sweeps struct {
	mu   sync.Mutex
	sums Sweeps
}

// add counts a sweep.
func (s *sweeps) add(out Swept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sums.Environments += len(out.Environments)
	s.sums.Bases += len(out.Bases)
	s.sums.Bytes += out.Bytes
	s.sums.Waiting = out.Waiting
}

// Sweeps returns the counts since the library was opened.
func (l *Library) Sweeps() Sweeps {
	l.sweeps.mu.Lock()
	defer l.sweeps.mu.Unlock()
	return l.sweeps.sums
}
