package engine_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/agent/control"
	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/spawnertest"
)

// disk is the service's disk, which may be full.
type disk struct{ full atomic.Bool }

// room is Config.Room.
func (d *disk) room(string) (int64, error) {
	if d.full.Load() {
		return 1, nil
	}
	return 1 << 40, nil
}

// fills starts the service again with a disk that is full.
func (s *service) fills() *disk {
	d := &disk{}
	d.full.Store(true)
	s.config.Output.Room = d.room
	s.restart()
	return d
}

// TestFullDiskLosesNothing: what a job has left waits where it is while the service's disk is full, however long that
// takes and whatever becomes of the service meanwhile, and whoever asks is told so.
func TestFullDiskLosesNothing(t *testing.T) {
	tests := map[string]struct {
		backend string
		ends    func(*distant, *spawnertest.Hand, spawner.ID)
	}{
		"it has ended":           {"pool", func(_ *distant, h *spawnertest.Hand, _ spawner.ID) { h.Exit(0) }},
		"it has ended, unlinked": {"pool", func(s *distant, h *spawnertest.Hand, id spawner.ID) { s.crew.Cut(id); h.Exit(0) }},
		"its owner has ended it": {"pool", func(s *distant, _ *spawnertest.Hand, id spawner.ID) { s.ask(id) }},
		"it was here":            {"local", func(_ *distant, h *spawnertest.Hand, _ spawner.ID) { h.Exit(0) }},
	}
	for name, tt := range tests {
		t.Run(name, inPool(func(t *testing.T, s *distant) {
			d := s.fills()
			s.crew.Boot(func(h *spawnertest.Hand) { h.Ready() })
			r := poolJob()
			r.Backend = tt.backend
			id := s.reach(s.submit(alice, r).ID, spawner.Running).ID
			h := s.crew.Hand(id)
			h.Leave("result", "42")
			tt.ends(s, h, id)
			for range 2 {
				time.Sleep(time.Hour)
				synctest.Wait()
				s.waits(id, "the service's disk is full: your files wait on "+tt.backend+" and are kept; nothing is lost")
				s.restart()
			}
			d.full.Store(false)
			if w := s.reach(id, spawner.Stopped); strings.Contains(w.Outcome.Reason, "not all") || s.readFile(id, "result") != "42" {
				t.Errorf("%+v, result %q", w.Outcome, s.readFile(id, "result"))
			}
			if held := s.pool.Held(); len(held) > 0 {
				t.Errorf("in the pool %v", held)
			}
		}))
	}
}

// waits checks that a job has not ended, and that its owner can read why.
func (s *distant) waits(id spawner.ID, why string) {
	s.t.Helper()
	w, err := s.Get(s.t.Context(), alice, id)
	if err != nil || !w.Phase.Active() {
		s.t.Fatalf("%s: %+v, %v", w.Phase, w.Outcome, err)
	}
	told, err := s.Why(s.t.Context(), alice, id)
	if s.Detail(w) != why || told.Summary != why || !strings.Contains(told.Remedy, "slipway jobs rm") || err != nil {
		s.t.Errorf("told %q, and why: %+v, %v", s.Detail(w), told, err)
	}
	if event := strings.ToUpper(why[:1]) + why[1:]; !slices.Contains(messages(s.events(id, "")), event) {
		s.t.Errorf("events %q", messages(s.events(id, "")))
	}
}

// TestGivenUp: who does not want what a full disk keeps from coming gets rid of it.
func TestGivenUp(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		inPool(func(t *testing.T, s *distant) {
			s.fills()
			id := s.reach(s.submit(alice, poolJob()).ID, spawner.Running).ID
			h := s.crew.Hand(id)
			h.Leave("result", "42")
			if stopped {
				s.ask(id)
			} else {
				h.Exit(0)
			}
			time.Sleep(time.Hour)
			if err := s.Remove(t.Context(), alice, id); err != nil {
				t.Fatal(err)
			}
			if s.gone(id); len(s.pool.Held()) > 0 {
				t.Errorf("in the pool %v", s.pool.Held())
			}
		})(t)
	}
}

// TestOutputIsBounded: of a job's files no more are kept than all of them may have together.
func TestOutputIsBounded(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.config.Output.Most = 10
		s.restart()
		s.crew.Boot(func(h *spawnertest.Hand) {
			h.Ready()
			h.Leave("a", "12345678")
			h.Leave("b", "12345678")
			h.Leave("c", "12")
			h.Exit(0)
		})
		w := s.reach(s.submit(alice, simpleJob()).ID, spawner.Stopped)
		if want := "have at most 10 B in all"; !w.Outcome.Failed || !strings.Contains(w.Outcome.Reason, want) {
			t.Errorf("outcome %+v, want %q", w.Outcome, want)
		}
		sum := int64(0)
		files, _ := s.Files(t.Context(), alice, w.ID)
		for _, f := range files {
			sum += f.Size
		}
		if sum != 10 {
			t.Errorf("files %v", files)
		}
	})(t)
}

// drip is a pool of which a file comes back a byte a second.
type drip struct{ *spawnertest.Pool }

type dripping struct{ spawner.StagedOutput }

type slowly struct{}

func (d drip) StagedOutput(ctx context.Context, id spawner.ID) (spawner.StagedOutput, error) {
	r, err := d.Pool.StagedOutput(ctx, id)
	return dripping{r}, err
}

func (dripping) File(context.Context, string) (io.ReadCloser, int64, error) {
	return io.NopCloser(slowly{}), control.FileLimit, nil
}

// Read reads.
func (slowly) Read(p []byte) (int, error) {
	time.Sleep(time.Second)
	return copy(p, "x"), nil
}

// TestRemovedWhileCopying: a copy ends with the wish for it.
func TestRemovedWhileCopying(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.config.Backends[2] = drip{s.pool}
		s.restart()
		id := s.reach(s.submit(alice, poolJob()).ID, spawner.Running).ID
		h := s.crew.Hand(id)
		h.Leave("result", "42")
		h.Exit(0)
		time.Sleep(time.Hour)
		if err := s.Remove(t.Context(), alice, id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := s.Get(t.Context(), alice, id); err == nil {
			t.Error("it is still there")
		}
	})(t)
}

// loud are agents that print more whatever they are asked for.
type loud struct{ *spawnertest.Crew }

type endless struct{ engine.Agent }

func (l loud) Agent(id spawner.ID) engine.Agent { return endless{l.Crew.Agent(id)} }

func (endless) Log(context.Context, int64, bool) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("more and more")), nil
}

// TestLogIsBounded: an agent that prints without end has no more of it kept each time that it comes back.
func TestLogIsBounded(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.config.Agents = loud{s.crew}
		s.restart()
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready() })
		id := s.reach(s.submit(alice, simpleJob()).ID, spawner.Running).ID
		synctest.Wait()
		log := filepath.Join(s.config.Dir, string(id), "log")
		if err := os.Truncate(log, control.LogLimit-3); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			s.crew.Cut(id)
			synctest.Wait()
			s.crew.Join(id)
			synctest.Wait()
			if info, err := os.Stat(log); err != nil || info.Size() != control.LogLimit {
				t.Errorf("%v, %v", info.Size(), err)
			}
		}
	})(t)
}
