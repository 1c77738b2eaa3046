package engine_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/spawnertest"
)

// errBroke is what a caller hears whose connection breaks while it waits for an answer.
var errBroke = errors.New("the link broke off")

// changed starts a session on another host that has changed something.
func (s *distant) changed() spawner.ID {
	s.t.Helper()
	w := s.reach(s.startSession(poolRequest("alice", "one")).ID, spawner.Running)
	s.crew.Hand(w.ID).Change("numpy")
	return w.ID
}

// ask asks for the end of a session, and does not wait for it.
func (s *distant) ask(id spawner.ID) {
	s.t.Helper()
	if _, err := s.Stop(s.t.Context(), alice, id); err != nil {
		s.t.Fatal(err)
	}
}

// keeps looks whether a session has come to its end with its changes.
func (s *distant) keeps(id spawner.ID) {
	s.t.Helper()
	if w := s.reach(id, spawner.Stopped); w.Kept != "sha256:notebook+numpy" || w.Outcome.Failed || len(s.pool.Held()) > 0 {
		s.t.Errorf("kept %q, outcome %+v, in the pool %v", w.Kept, w.Outcome, s.pool.Held())
	}
}

// TestRestartWhileRemoteIsStopped: the next service lets the agent in, also when the stop was asked for before it had
// looked at anything.
func TestRestartWhileRemoteIsStopped(t *testing.T) {
	t.Run("stopping", inPool(func(t *testing.T, s *distant) {
		id := s.changed()
		s.crew.Cut(id)
		synctest.Wait()
		s.ask(id)
		synctest.Wait()
		s.kill()
		s.crew.Join(id)
		s.start()
		s.keeps(id)
	}))
	t.Run("wanted stopped", inPool(func(t *testing.T, s *distant) {
		id := s.changed()
		s.kill()
		m, err := engine.New(t.Context(), s.config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Stop(t.Context(), alice, id); err != nil { // a service that is killed before it does anything
			t.Fatal(err)
		}
		s.start()
		s.keeps(id)
	}))
}

// TestAskedToEndWithoutAnswer: an agent that was asked to end does so whatever is heard of it, and has its time to
// bring back what it has; one that was not reached is asked again.
func TestAskedToEndWithoutAnswer(t *testing.T) {
	t.Run("the link breaks", inPool(func(t *testing.T, s *distant) {
		id := s.changed()
		s.crew.Parting(func(_ context.Context, h *spawnertest.Hand) error {
			h.Exit(143)
			s.crew.Cut(id)
			return errBroke
		})
		s.ask(id)
		time.Sleep(9 * time.Minute)
		s.pool.Exit(id, 0)
		s.keeps(id)
	}))
	t.Run("the service is killed", inPool(func(t *testing.T, s *distant) {
		id := s.changed()
		s.crew.Parting(func(ctx context.Context, h *spawnertest.Hand) error {
			h.Exit(143)
			<-ctx.Done()
			return ctx.Err()
		})
		s.ask(id)
		synctest.Wait()
		s.kill()
		s.crew.Cut(id)
		s.start()
		time.Sleep(9 * time.Minute)
		s.pool.Exit(id, 0)
		s.keeps(id)
	}))
	for _, exited := range []bool{false, true} {
		t.Run("not reached", inPool(func(t *testing.T, s *distant) {
			id := s.changed()
			if exited {
				s.crew.Hand(id).Exit(0)
			}
			s.crew.Parting(func(_ context.Context, h *spawnertest.Hand) error {
				s.crew.Parting(func(_ context.Context, h *spawnertest.Hand) error { h.Part(); return nil })
				return errBroke
			})
			s.ask(id)
			begun := time.Now()
			s.keeps(id)
			if took := time.Since(begun); took > time.Minute {
				t.Errorf("it took %s", took)
			}
		}))
	}
}

// TestRemoteMuteAgent: one that cannot be asked is ended by the batch system in the end: soon when nothing can have
// been changed in it, and else not before a link that is down for a while has come up again.
func TestRemoteMuteAgent(t *testing.T) {
	tests := map[string]struct {
		up       bool
		down     time.Duration // for how long its link is
		min, max time.Duration
		kept     bool
	}{
		"never up":             {down: time.Hour, min: 2 * time.Minute, max: 3 * time.Minute},
		"up, down for a while": {up: true, down: 5 * time.Minute, min: 5 * time.Minute, max: 6 * time.Minute, kept: true},
		"up, down for long":    {up: true, down: 18 * time.Minute, min: 18 * time.Minute, max: 19 * time.Minute, kept: true},
		"up, down for ever":    {up: true, down: time.Hour, min: 19 * time.Minute, max: 21 * time.Minute},
	}
	for name, tt := range tests {
		t.Run(name, inPool(func(t *testing.T, s *distant) {
			if !tt.up {
				s.crew.Boot(func(*spawnertest.Hand) {})
			}
			w := s.reach(s.startSession(poolRequest("alice", "one")).ID, map[bool]spawner.Phase{true: spawner.Running, false: spawner.Booting}[tt.up])
			s.crew.Hand(w.ID).Change("numpy")
			s.crew.Cut(w.ID)
			synctest.Wait()
			begun := time.Now()
			s.ask(w.ID)
			time.AfterFunc(tt.down, func() { s.crew.Join(w.ID) })
			w = s.endsWithin(w.ID, 30*time.Minute)
			if took := time.Since(begun); took < tt.min || took > tt.max || len(s.pool.Held()) > 0 {
				t.Errorf("it took %s; in the pool %v", took, s.pool.Held())
			}
			lost := strings.Contains(w.Outcome.Reason, "has not come back")
			if kept := w.Kept == "sha256:notebook+numpy"; kept != tt.kept || lost != (tt.up && !kept) {
				t.Errorf("kept %q, %+v", w.Kept, w.Outcome)
			}
		}))
	}
}

// TestKeptAfterALongWay: what took long to come back is tried to be kept as often as what came at once.
func TestKeptAfterALongWay(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		busy := time.Now().Add(20 * time.Minute)
		s.keep = func() error {
			if time.Now().Before(busy) {
				return errs.New(errs.Unavailable, "the library is busy")
			}
			return nil
		}
		id := s.changed()
		s.crew.Parting(func(_ context.Context, h *spawnertest.Hand) error { h.Exit(143); return nil })
		s.ask(id)
		time.Sleep(14 * time.Minute)
		if got := s.detailOf(id); got != "it ends on node1, and brings back what it has" {
			t.Errorf("on its way: %q", got)
		}
		s.pool.Exit(id, 0)
		time.Sleep(time.Minute)
		if got := s.detailOf(id); got != "its changes are being kept" {
			t.Errorf("here: %q", got)
		}
		s.keeps(id)
	})(t)
}

// endsWithin waits for what may take longer than reach does.
func (s *distant) endsWithin(id spawner.ID, most time.Duration) spawner.Workload {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), most)
	defer cancel()
	w, err := s.Await(ctx, admin, id, func(w spawner.Workload) bool { return w.Phase == spawner.Stopped })
	if err != nil {
		s.t.Fatalf("%s is %s: %v", id, w.Phase, err)
	}
	return w
}

// TestRemoteCanceled: what a job has printed and left until then comes back, also when the service is started again
// meanwhile and its link was down; one without a link is not waited for long.
func TestRemoteCanceled(t *testing.T) {
	tests := map[string]struct {
		down time.Duration // for how long its link is after the restart
		kept bool
		most time.Duration
	}{
		"link comes up": {down: 5 * time.Second, kept: true, most: 15 * time.Second},
		"link is down":  {down: time.Hour, most: 15 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, inPool(func(t *testing.T, s *distant) {
			job := s.reach(s.submit(alice, poolJob()).ID, spawner.Running)
			h := s.crew.Hand(job.ID)
			h.Print("half of it\n")
			h.Leave("result", "21")
			s.crew.Cut(job.ID)
			synctest.Wait()
			s.ask(job.ID)
			s.kill()
			begun := time.Now()
			time.AfterFunc(tt.down, func() { s.crew.Join(job.ID) })
			s.start()
			w := s.reach(job.ID, spawner.Stopped)
			if took := time.Since(begun); took > tt.most || !w.Outcome.Canceled || len(s.pool.Held()) > 0 {
				t.Errorf("it took %s: %+v, in the pool %v", took, w.Outcome, s.pool.Held())
			}
			tail, _ := s.logOf(job.ID)
			if kept := s.readFile(job.ID, "result") == "21" && tail == "half of it\n"; kept != tt.kept {
				t.Errorf("result %q, log %q", s.readFile(job.ID, "result"), tail)
			}
		}))
	}
}

// logOf reads a job's log.
func (s *service) logOf(id spawner.ID) (string, error) {
	r, err := s.Log(s.t.Context(), admin, id, 0, false)
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), err
}

func (s *service) detailOf(id spawner.ID) string {
	w, err := s.Get(s.t.Context(), admin, id)
	if err != nil {
		return err.Error()
	}
	return s.Detail(w)
}
