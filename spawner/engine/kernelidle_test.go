package engine_test

import (
	"strings"
	"testing"
	"time"

	"slipway/internal/agent/control"
	"slipway/spawner"
)

// runKernel starts a kernel with limits and waits until it runs.
func (s *service) runKernel(launch string, life spawner.Life) spawner.Workload {
	s.t.Helper()
	r := kernelRequest(launch)
	r.Spec.Life = life
	w, err := s.StartKernel(s.t.Context(), alice, r)
	if err != nil {
		s.t.Fatal(err)
	}
	w = s.reach(w.ID, spawner.Running)
	s.Visit(w.ID, false) // its notebook is open
	return w
}

var hour = spawner.Life{Idle: time.Hour, Warning: 10 * time.Minute}

// A kernel that computes never idles, however long its cell runs and whoever watches it; one that waits for input()
// computes, as Jupyter has it.
func TestBusyKernelIsNeverCulled(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.runKernel("one", hour)
		hand := s.crew.Hand(w.ID)
		hand.Act(control.Activity{Asked: true, Kernels: 1, Busy: 1, Left: true, Quiet: (30 * time.Hour).Seconds()})
		<-time.After(30 * time.Hour)
		if got := s.phase(w.ID); got != spawner.Running || len(hand.Notices()) > 0 {
			t.Errorf("%s, told %q", got, hand.Notices())
		}
	})(t)
}

func TestIdleKernelIsWarnedAndEnded(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.runKernel("one", hour)
		hand := s.crew.Hand(w.ID)
		hand.Act(control.Activity{Asked: true, Kernels: 1, Quiet: -1})
		<-time.After(53 * time.Minute)
		const advice = "What it has in memory will be lost. To keep it, run any cell"
		if n := hand.Notices(); len(n) != 1 || !strings.HasPrefix(n[0], "This kernel will be stopped in ") || !strings.Contains(n[0], advice) {
			t.Errorf("told %q", n)
		}
		w = s.reach(w.ID, spawner.Stopped)
		if o := w.Outcome; !o.Expired || !strings.Contains(o.Reason, "idle for 1 h of at most 1 h") || !strings.Contains(o.Remedy, "start another") {
			t.Errorf("%+v", o)
		}
	})(t)
}

// Where the kernelspec says so, a kernel does not idle while a client is connected to it.
func TestConnectedKernel(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		life := hour
		life.Connected = true
		kept, other := s.runKernel("one", life), s.runKernel("two", hour)
		for _, w := range []spawner.Workload{kept, other} {
			s.crew.Hand(w.ID).Act(control.Activity{Asked: true, Kernels: 1, Quiet: -1})
		}
		<-time.After(5 * time.Hour)
		s.gone(other.ID)
		if got := s.phase(kept.ID); got != spawner.Running {
			t.Errorf("%s with its client", got)
		}
		s.crew.Hand(kept.ID).Act(control.Activity{Asked: true, Kernels: 1, Left: true, Quiet: -1})
		<-time.After(2 * time.Hour)
		s.gone(kept.ID)
	})(t)
}

// A kernel that is only too old is told that work does not keep it.
func TestOldKernelIsWarnedToo(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.runKernel("one", spawner.Life{MaxAge: 2 * time.Hour, Warning: 10 * time.Minute})
		hand := s.crew.Hand(w.ID)
		hand.Act(control.Activity{Asked: true, Kernels: 1, Busy: 1, Quiet: -1})
		<-time.After(111 * time.Minute)
		if n := hand.Notices(); len(n) != 1 || !strings.Contains(n[0], "write what you need to a file now") {
			t.Errorf("told %q", n)
		}
		if w = s.reach(w.ID, spawner.Stopped); !strings.Contains(w.Outcome.Reason, "up for 2 h of at most 2 h") {
			t.Errorf("%+v", w.Outcome)
		}
	})(t)
}

// A kernel that has lost its place says so to its agent, which tells it in the notebook.
func TestMovedKernelBeginsAnew(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		r := kernelRequest("one")
		r.Backend = "pool"
		w, err := s.StartKernel(t.Context(), alice, r)
		if err != nil {
			t.Fatal(err)
		}
		s.reach(w.ID, spawner.Running)
		if anew := s.crew.Hand(w.ID).App().Kernel.Anew; anew != "" {
			t.Errorf("at first: %q", anew)
		}
		s.pool.Evict(w.ID, "a job of higher priority", true)
		s.again(w.ID, 1)
		if anew := s.crew.Hand(w.ID).App().Kernel.Anew; !strings.Contains(anew, "its variables are gone. Run the cells that you need again") {
			t.Errorf("then: %q", anew)
		}
	})(t)
}

// Kernels that begin anew where they are are counted by why they do, once each.
func TestKernelsThatBeginAnewAreCounted(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		hand := s.crew.Hand(s.runKernel("one", spawner.Life{}).ID)
		for _, d := range []control.Deaths{{}, {Memory: 1}, {Memory: 1}, {Memory: 2, Exit: 1}, {}, {Signal: 3}} {
			hand.Act(control.Activity{Asked: true, Kernels: 1, Deaths: d})
			<-time.After(2 * time.Minute)
		}
		got := s.Stats().KernelRestarts["python"]
		if got[spawner.CauseMemory] != 2 || got[spawner.CauseExit] != 1 || got[spawner.CauseSignal] != 3 {
			t.Errorf("%v", got)
		}
	})(t)
}

// What kernels say and nobody can be given is counted, once for each.
func TestDroppedMessagesAreCounted(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		hand := s.crew.Hand(s.runKernel("one", spawner.Life{}).ID)
		for _, n := range []int64{0, 5, 5, 12, 0, 3} {
			hand.Act(control.Activity{Asked: true, Kernels: 1, Dropped: n})
			<-time.After(2 * time.Minute)
		}
		if n := s.Stats().KernelsDropped["python"]; n != 15 {
			t.Errorf("%d were dropped", n)
		}
		s.restart()
		<-time.After(2 * time.Minute)
		hand.Act(control.Activity{Asked: true, Kernels: 1, Dropped: 4})
		<-time.After(2 * time.Minute)
		if n := s.Stats().KernelsDropped["python"]; n != 1 {
			t.Errorf("since the restart %d", n)
		}
	})(t)
}
