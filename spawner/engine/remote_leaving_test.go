package engine_test

import (
	"testing"
	"testing/synctest"

	"slipway/spawner"
)

// TestEvictedSessionTellsItsEnd: that the app of an evicted session has ended is told before its place is known to be
// taken away. It begins anew all the same.
func TestEvictedSessionTellsItsEnd(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		w := s.reach(s.startSession(poolRequest("alice", "one")).ID, spawner.Running)
		s.crew.Hand(w.ID).Terminate()
		synctest.Wait()
		s.pool.Evict(w.ID, "a job of higher priority", false)
		if w = s.again(w.ID, 1); w.Evictions != 1 || w.Outcome != nil {
			t.Errorf("evicted %d times, outcome %+v", w.Evictions, w.Outcome)
		}
		s.stop(w.ID)
	})(t)
}
