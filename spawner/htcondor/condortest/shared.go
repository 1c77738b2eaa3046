package condortest

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"slipway/internal/testenv"
)

// Shared is one pool for all tests of a package, started by the first that asks.
type Shared struct {
	Options Options

	once sync.Once
	pool *Pool
	err  error
}

// Main runs the package's tests and ends the pool after them. It returns the exit code.
func (s *Shared) Main(m *testing.M) int {
	code := m.Run()
	if err := s.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// Close ends the pool, if there is one, for a package whose tests need a Main of their own.
func (s *Shared) Close() error {
	s.once.Do(func() {}) // nobody starts it now
	if s.pool == nil {
		return nil
	}
	return s.pool.Close()
}

// Pool returns the pool, or skips the test where none can be.
func (s *Shared) Pool(t testing.TB) *Pool {
	t.Helper()
	testenv.Need(t, testenv.HTCondor)
	s.once.Do(func() { s.pool, s.err = New(s.Options) })
	if s.err != nil {
		s.pool.tell(t)
		t.Fatal(s.err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			s.pool.tell(t)
		}
	})
	return s.pool
}
