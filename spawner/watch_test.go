package spawner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// sight is what somebody has seen of a scan.
type sight struct {
	last    int64
	batches int
	times   map[int]int // how often each point was told of
	points  map[int]spawner.Workload
}

// watch looks at a scan until it has ended, or for a while.
func (s *service) watch(c spawner.Caller, scan string, after int64, d time.Duration) (seen sight, err error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), d)
	defer cancel()
	seen = sight{last: after, times: map[int]int{}, points: map[int]spawner.Workload{}}
	for change, err := range s.Watch(ctx, c, scan, after) {
		if err != nil {
			return seen, err
		}
		if change.Seq <= seen.last && seen.batches > 0 || len(change.Workloads) > 500 {
			s.t.Errorf("%d points at %d, after %d", len(change.Workloads), change.Seq, seen.last)
		}
		seen.last, seen.batches = change.Seq, seen.batches+1
		for _, w := range change.Workloads {
			seen.times[w.Point]++
			seen.points[w.Point] = w
		}
	}
	return seen, nil
}

// TestWatch: who watches sees all points as they stand, then what changes, and what changed while she was away, also over a restart.
func TestWatch(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready() })
		jobs, err := s.SubmitScan(t.Context(), alice, poolJob(), points(3))
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			s.reach(j.ID, spawner.Running)
		}
		synctest.Wait()
		first, err := s.watch(alice, jobs[0].Scan, 0, time.Minute)
		if err != nil || len(first.points) != 3 || first.points[2].Phase != spawner.Running {
			t.Fatalf("%+v, %v", first, err)
		}
		s.crew.Hand(jobs[1].ID).Tell(control.Progress{Done: 1, Of: 2})
		next, err := s.watch(alice, jobs[0].Scan, first.last, time.Minute)
		if err != nil || len(next.points) != 1 || next.points[1].ID != jobs[1].ID {
			t.Errorf("a point makes progress: %+v, %v", next.points, err)
		}
		if none, err := s.watch(alice, jobs[0].Scan, next.last, time.Minute); err != nil || none.batches > 0 {
			t.Errorf("nothing changes: %+v, %v", none, err)
		}
		for _, other := range []spawner.Caller{bob, {}} {
			if _, err := s.watch(other, jobs[0].Scan, 0, time.Minute); !errs.Is(err, errs.NotFound) {
				t.Errorf("another: %v", err)
			}
		}
		s.restart()
		for _, j := range jobs {
			s.finish(j.ID)
		}
		last, err := s.watch(alice, jobs[0].Scan, next.last, time.Hour)
		if err != nil || len(last.points) != 3 || last.points[0].Phase != spawner.Stopped {
			t.Errorf("after a restart: %+v, %v", last, err)
		}
		ahead, err := s.watch(alice, jobs[0].Scan, last.last+1<<40, time.Hour) // of a service whose clock was ahead
		if err != nil || len(ahead.points) != 3 {
			t.Errorf("a number that has not come yet: %+v, %v", ahead, err)
		}
	})(t)
}

// TestWatchIsBounded: thousands of points that change all the time are told of in parts, and each as it stands, twice a second at most.
func TestWatchIsBounded(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.quiet()
		const n = 1200
		s.crew.Boot(func(h *spawnertest.Hand) {
			h.Ready()
			for i := range 50 {
				time.AfterFunc(time.Duration(i)*100*time.Millisecond, func() { h.Tell(control.Progress{Done: float64(i)}) })
			}
			time.AfterFunc(6*time.Second, func() { h.Exit(0) })
		})
		begun := time.Now()
		jobs, err := s.SubmitScan(t.Context(), alice, poolJob(), points(n))
		if err != nil {
			t.Fatal(err)
		}
		seen, err := s.watch(alice, jobs[0].Scan, 0, time.Hour)
		most := int(time.Since(begun)/(500*time.Millisecond)) + 3
		if err != nil || len(seen.points) != n {
			t.Errorf("%d points, %v", len(seen.points), err)
		}
		for p, times := range seen.times {
			if w := seen.points[p]; w.Phase != spawner.Stopped || times > most {
				t.Fatalf("point %d is %s, told of %d times of at most %d", p, w.Phase, times, most)
			}
		}
	})(t)
}
