package engine_test

import (
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

// takeStandby has a kernel of a user's on one part of the GPU, the next one stand by on the other, taken, and both shut
// down, and another one that none is to stand by after.
func takeStandby(s *fated) {
	r := warmRequest("one")
	r.Spec.GPU = part()
	first := s.kernel(r)
	s.rest(time.Minute)
	r.Launch, r.ID = "two", "id-two"
	second := s.kernel(r)
	if first.ID == second.ID {
		s.t.Errorf("both are %s", first.ID)
	}
	s.leave(first.ID)
	s.leave(second.ID)
	r.Launch, r.ID, r.Warm = "three", "id-three", 0
	s.leave(s.kernel(r).ID)
	s.rest(time.Minute)
	for begun := time.Now(); len(s.standbys()) > 0 && time.Since(begun) < 31*time.Minute; {
		s.rest(time.Minute) // one was not ready to be taken
	}
}

// leave shuts a kernel down.
func (s *fated) leave(id spawner.ID) {
	s.t.Helper()
	s.try(func() error {
		if err := s.Remove(s.t.Context(), alice, id); !errs.Is(err, errs.NotFound) {
			return err
		}
		return nil
	})
}

// kernel asks for a kernel until it runs.
func (s *fated) kernel(r spawner.KernelRequest) (w spawner.Workload) {
	s.t.Helper()
	s.try(func() (err error) { w, err = s.StartKernel(s.t.Context(), alice, r); return err })
	w = s.wait(w.ID, spawner.Running, spawner.Stopped)
	if w.Phase != spawner.Running {
		return w
	}
	if w.Standby != "" || w.Launch != r.Launch || w.Slice == nil {
		s.t.Errorf("it runs as %+v", w)
	}
	if app := s.crew.Hand(w.ID).App(); app.Standby || app.Launch != r.Launch {
		s.t.Errorf("its agent runs %+v", app)
	}
	return w
}
