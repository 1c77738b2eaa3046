package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/spawner"
)

// TestFetching: the owner of a start sees how far its image has come, no more than once a second, and nothing of what
// is not this run's.
func TestFetching(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		const size = 1000 << 20
		s.pool.Fill(true)
		w := s.reach(s.startSession(poolRequest("alice", "one")).ID, spawner.Starting)
		fetch := func(run string, percent int64) { s.engine.Fetching(w.ID, run, size*percent/100, size) }
		told := func() (out []string) {
			for _, e := range s.events(w.ID, "one") {
				if strings.HasPrefix(e.Message, "Downloading") {
					out = append(out, fmt.Sprintf("%s (%d)", e.Message, e.Percent))
				}
			}
			return out
		}
		// What the engine does at the same moment comes before what is fetched then: a line of its own among them
		// would have the next one told.
		pause := func() { time.Sleep(time.Second); synctest.Wait() }
		pause()
		revision := s.store.rev(t, w.ID)
		for _, percent := range []int64{0, 1, 7, 20, 44, 45} {
			fetch("one", percent)
			fetch("two", percent) // another run's
			if percent > 1 {
				pause()
			}
		}
		s.engine.Fetching(w.ID, "one", 5, 0)
		s.engine.Fetching(w.ID, "one", 2*size, size)
		s.engine.Fetching("nobody", "one", 1, size)
		const words = "Downloading the image to its worker node: %d %% of 1 GB (%d)"
		want := []string{}
		for _, p := range [][2]int{{0, 45}, {20, 47}, {44, 51}, {100, 59}} {
			want = append(want, fmt.Sprintf(words, p[0], p[1]))
		}
		if got := told(); !slices.Equal(got, want) {
			t.Errorf("told\n%q, want\n%q", got, want)
		}
		if s.store.rev(t, w.ID) != revision {
			t.Error("it was saved")
		}
		for n := range int64(100_000) { // who asks for parts here and there is heard no more often
			fetch("one", n%100)
		}
		if got := told(); len(got) > 6 {
			t.Errorf("told %d times", len(got))
		}
		s.pool.Fill(false)
		s.reach(w.ID, spawner.Running)
		fetch("one", 60)
		if got := s.events(w.ID, "one"); got[len(got)-1].Percent != 100 {
			t.Errorf("behind the start: %+v", got[len(got)-1])
		}
		s.stop(w.ID)
	})(t)
}

// TestLongDownload: a start goes on as long as its image comes, however long that takes, and who asks for the same
// again and again is not waited for.
func TestLongDownload(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.pool.Fill(true)
		w := s.reach(s.startSession(poolRequest("alice", "one")).ID, spawner.Starting)
		s.crew.Cut(w.ID)
		s.pool.Fill(false)
		<-time.After(time.Minute)
		for _, percent := range []int64{2, 10, 40, 90} {
			<-time.After(15 * time.Minute)
			if phase := s.phaseOf(w.ID); phase != spawner.Starting {
				t.Fatalf("at %d %% it is %s", percent, phase)
			}
			s.engine.Fetching(w.ID, "one", percent, 100)
		}
		for range 3 {
			<-time.After(9 * time.Minute)
			s.engine.Fetching(w.ID, "one", 2, 100)
			s.engine.Fetching(w.ID, "one", 90, 100)
		}
		if w = s.reach(w.ID, spawner.Stopped); !w.Outcome.Failed {
			t.Errorf("%+v", w.Outcome)
		}
		if late := time.Since(w.Started); late > 2*time.Hour {
			t.Errorf("given up after %s", late)
		}
	})(t)
}

// TestJobFetches: a job counts as running before its image has come, and its owner sees that too.
func TestJobFetches(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.pool.Fill(true)
		job := s.submit(alice, poolJob())
		s.reach(job.ID, spawner.Starting)
		s.crew.Cut(job.ID)
		s.pool.Fill(false)
		job = s.reach(job.ID, spawner.Running)
		s.engine.Fetching(job.ID, job.Run(), 30, 100)
		got := s.events(job.ID, job.Launch)
		if last := got[len(got)-1]; last.Message != "Downloading the environment to node1: 30 % of 100 B" {
			t.Errorf("%+v", last)
		}
	})(t)
}
