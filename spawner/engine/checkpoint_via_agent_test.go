package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// TestChangesByLink: the changes of a session with which its pool had lost touch are taken from its agent, who still
// answers.
func TestChangesByLink(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		id := s.changed()
		s.pool.Shake(id)
		<-time.After(time.Minute)
		s.ask(id)
		s.keeps(id)
	})(t)
}

// TestChangesByLinkLater: an agent who does not answer at that moment is waited for.
func TestChangesByLinkLater(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		id := s.changed()
		s.pool.Shake(id)
		<-time.After(time.Minute)
		s.crew.Cut(id)
		synctest.Wait()
		s.ask(id)
		<-time.After(2 * time.Second)
		if s.phaseOf(id) != spawner.Stopping || s.pool.Count(spawnertest.Stop, id) > 0 {
			t.Errorf("it is %s though its agent may come back", s.phaseOf(id))
		}
		s.crew.Join(id)
		s.keeps(id)
	})(t)
}
