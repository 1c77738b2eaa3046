package e2e

import (
	"sync"
	"testing"
)

// TestHTCondor walks the path of the service with sessions and jobs on the workers of a real pool. No test takes
// longer, and its file is the last by name because Go begins tests that are parallel about from the last to the first.
func TestHTCondor(t *testing.T) {
	t.Parallel()
	s := newFarSite(t)
	sessions := t.Run("sessions", func(t *testing.T) {
		var all sync.WaitGroup // by t.Parallel each would wait behind all other tests, beside a pool that does nothing
		for name, run := range map[string]func(*farSite){"session": (*farSite).aSession, "lab": (*farSite).aLab, "admin": (*farSite).administrator, "kernel": (*farSite).aKernel} {
			all.Go(func() { t.Run(name, func(t *testing.T) { run(s.of(t)) }) })
		}
		all.Wait()
	})
	for _, part := range []struct {
		name string
		run  func()
	}{{"jobs", s.jobs}, {"tokens", s.tokens}, {"orders", s.orders}, {"faults", s.faults}, {"apart", s.apart}} {
		if !sessions || !t.Run(part.name, func(t *testing.T) { s.as(t); part.run() }) {
			return
		}
	}
}
