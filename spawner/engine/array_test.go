package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
	"slipway/internal/testenv"
	"slipway/spawner"
)

func points(n int) []spawner.Point {
	all := make([]spawner.Point, n)
	for i := range all {
		all[i] = spawner.Point{Env: map[string]string{"K": fmt.Sprint(i * i)}}
	}
	return all
}

// TestScan: each point is a job of its own, with what is its own and what is shared; a repetition gives the same.
func TestScan(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		r := poolJob()
		r.Env, r.Files, r.RequestID = map[string]string{"K": "none", "L": "all"}, map[string][]byte{"in": []byte("shared")}, "once"
		ps := points(5)
		ps[4].Argv = []string{"y"}
		jobs, err := s.SubmitScan(t.Context(), alice, r, ps)
		if err != nil || len(jobs) != 5 {
			t.Fatalf("%d jobs, %v", len(jobs), err)
		}
		again, err := s.SubmitScan(t.Context(), alice, r, ps)
		if err != nil || len(again) != 5 || again[0].ID != jobs[0].ID || again[4].ID != jobs[4].ID {
			t.Errorf("again: %d jobs, %v", len(again), err)
		}
		for n, j := range jobs {
			if j.Scan != jobs[0].Scan || j.Point != n || j.Scan == "" {
				t.Errorf("point %d is %d of %q", n, j.Point, j.Scan)
			}
			s.reach(j.ID, spawner.Running)
			l, _ := s.pool.Launched(j.ID)
			in, err := os.ReadFile(filepath.Join(l.InputDir, "in"))
			if env := l.App.Env; env["K"] != fmt.Sprint(n*n) || env["L"] != "all" || env[spawner.PointEnv] != fmt.Sprint(n) || string(in) != "shared" {
				t.Errorf("point %d has %v=%v, input %q, %v", n, "K", env["K"], in, err)
			}
			if want := map[bool]string{true: "y", false: "x"}[n == 4]; l.App.Argv[0] != want {
				t.Errorf("point %d runs %q", n, l.App.Argv)
			}
		}
		for _, j := range jobs {
			s.finish(j.ID)
		}
	})(t)
}

// TestScanIsAllOrNothing: what is wrong with one point, and a full disk, leave nothing.
func TestScanIsAllOrNothing(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		bad := points(3)
		bad[2].Env = map[string]string{"CUDA_VISIBLE_DEVICES": "0"}
		long := points(2)
		long[1].Argv = []string{strings.Repeat("x", 2<<20)}
		r := poolJob()
		r.Files = map[string][]byte{"in": []byte("shared")}
		for _, tt := range []struct {
			points []spawner.Point
			kind   errs.Kind
			text   string
		}{
			{nil, errs.Invalid, "from 1 to 10000"},
			{points(10_001), errs.Invalid, "from 1 to 10000"},
			{bad, errs.Invalid, "point 2"},
			{long, errs.Invalid, "point 1"},
		} {
			if _, err := s.SubmitScan(t.Context(), alice, r, tt.points); !errs.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%d points: %v", len(tt.points), err)
			}
		}
		s.fill(true)
		if _, err := s.SubmitScan(t.Context(), alice, r, points(3)); !errs.Is(err, errs.NoSpace) {
			t.Errorf("on a full disk: %v", err)
		}
		if _, err := s.SubmitScan(t.Context(), hub, r, points(3)); !errs.Is(err, errs.Forbidden) {
			t.Errorf("by a hub: %v", err)
		}
		all, _ := s.List(t.Context(), admin)
		if dirs, _ := os.ReadDir(s.config.Dir); len(all) > 0 || len(dirs) > 0 {
			t.Errorf("left: %v, %v", all, dirs)
		}
	})(t)
}

// TestScanTooLargeTogether: each point would do, and all of them are more than a service can bear.
func TestScanTooLargeTogether(t *testing.T) {
	files := func(n, size int) map[string][]byte {
		all, content := map[string][]byte{}, make([]byte, size)
		for i := range n {
			all[fmt.Sprint("in", i)] = content
		}
		return all
	}
	half := strings.Repeat("x", 512<<10)
	large := poolJob()
	large.Argv, large.Points = []string{"x", half}, points(100)
	own := points(130)
	for i := range own {
		own[i].Argv = []string{half}
	}
	inPool(func(t *testing.T, s *distant) {
		if _, err := s.Plan(t.Context(), alice, large); err != nil {
			t.Errorf("50 MiB for 100 points: %v", err)
		}
		for name, tt := range map[string]struct {
			edit   func(*spawner.JobRequest)
			points []spawner.Point
			want   []string // empty: it is accepted
		}{
			"command":          {func(r *spawner.JobRequest) { r.Argv = []string{"x", half} }, points(130), []string{"argv", "65 MiB with env, for 130 points", "64 MiB"}},
			"variables":        {func(r *spawner.JobRequest) { r.Env = map[string]string{"L": half} }, points(130), []string{"argv", "64 MiB", "file"}},
			"command of each":  {func(*spawner.JobRequest) {}, own, []string{"argv", "64 MiB"}},
			"files":            {func(r *spawner.JobRequest) { r.Files = files(101, 1) }, points(1000), []string{"files", "101 files for each of 1000", "100000"}},
			"files to carry":   {func(r *spawner.JobRequest) { r.Files = files(1, 7<<20) }, points(10_000), []string{"files", "7 MiB for each of 10000", "64 GiB"}},
			"an ordinary one":  {func(r *spawner.JobRequest) { r.Argv, r.Files = []string{"x", half}, files(3, 1<<20) }, points(20), nil},
			"nothing to carry": {func(r *spawner.JobRequest) { r.Files, r.Backend = files(1, 33<<20), "local" }, points(2000), nil},
			"patterns":         {func(r *spawner.JobRequest) { r.Out = slices.Repeat([]string{strings.Repeat("x", 60)}, 90) }, points(2), []string{"out", "5490 bytes", "4 KiB"}},
			"patterns of all": {func(r *spawner.JobRequest) {
				r.Out, r.Argv = slices.Repeat([]string{strings.Repeat("x", 60)}, 60), []string{"x", strings.Repeat("y", 4000)}
			}, points(10_000), []string{"argv", "64 MiB"}},
			"command of a few": {func(r *spawner.JobRequest) { r.Argv = []string{"x", half} }, points(2), nil},
		} {
			r := poolJob()
			tt.edit(&r)
			jobs, err := s.SubmitScan(t.Context(), alice, r, tt.points)
			r.Points = tt.points
			if _, planned := s.Plan(t.Context(), alice, r); (planned == nil) != (err == nil) {
				t.Errorf("%s: the plan says %v, the submission %v", name, planned, err)
			}
			switch {
			case len(tt.want) == 0 && err != nil:
				t.Errorf("%s: %v", name, err)
			case len(tt.want) > 0 && !errs.Is(err, errs.Invalid):
				t.Errorf("%s: %d jobs, %v", name, len(jobs), err)
			}
			for _, part := range tt.want {
				if !strings.Contains(fmt.Sprint(err), part) {
					t.Errorf("%s: %q is not in: %v", name, part, err)
				}
			}
			for _, j := range jobs {
				if err := s.Remove(t.Context(), alice, j.ID); err != nil {
					t.Error(err)
				}
			}
		}
	})(t)
}

func TestLargeScanIsSubmittedAnew(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.pool.Limit(1) // the others wait: each change of one saves all of it
		s.crew.Boot(payload(0))
		r := poolJob()
		r.Env = map[string]string{"L": strings.Repeat("x", 450<<10)}
		scan, err := s.SubmitScan(t.Context(), alice, r, points(100))
		if err != nil {
			t.Fatal(err)
		}
		ids := make([]spawner.ID, len(scan))
		for i, w := range scan {
			ids[i] = w.ID
		}
		if again, err := s.Resubmit(t.Context(), alice, ids, spawner.Resubmission{Scan: true}); err != nil || len(again) != 100 {
			t.Errorf("%d jobs, %v", len(again), err)
		}
	})(t)
}

// TestLargeScan: thousands of points are queued side by side, hold up nobody, and end.
func TestLargeScan(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.kill()
		s.config.Workers.Remotes = 0 // as many as the service has: each start waits for a second
		s.start()
		s.quiet()
		s.pool.Fill(true)
		begun := time.Now()
		jobs, err := s.SubmitScan(t.Context(), alice, poolJob(), points(testenv.Rounds(700, 2_000)))
		if err != nil {
			t.Fatal(err)
		}
		w := s.reach(s.startSession(request("bob", "", "one")).ID, spawner.Running) // on this host
		if took := w.Up.Sub(w.Started); took > 2*time.Second {
			t.Errorf("a session on this host has waited %s", took)
		}
		s.reach(jobs[len(jobs)-1].ID, spawner.Starting)
		for len(s.pool.Held()) < len(jobs) {
			time.Sleep(time.Second)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("they were queued in %s, with a second for a start", took)
		}
		for _, j := range jobs {
			if err := s.Remove(t.Context(), alice, j.ID); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if left, _ := s.List(t.Context(), alice); len(left) > 0 || len(s.pool.Held()) > 0 {
			t.Errorf("left: %d, in the pool %d", len(left), len(s.pool.Held()))
		}
	})(t)
}

// TestOneUserDoesNotTakeAll: who has as many as she may waits, is told so, and holds up nobody.
func TestOneUserDoesNotTakeAll(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.kill()
		s.config.Capacity["pool"] = spawner.Capacity{PerUser: 3}
		s.start()
		jobs, err := s.SubmitScan(t.Context(), alice, poolJob(), points(20))
		if err != nil {
			t.Fatal(err)
		}
		other := s.submit(bob, poolJob())
		s.reach(other.ID, spawner.Running)
		s.stop(s.reach(s.startSession(poolRequest("alice", "one")).ID, spawner.Running).ID) // her own sessions neither
		time.Sleep(time.Minute)
		if got := len(s.pool.Held()); got != 4 {
			t.Errorf("%d in the pool", got)
		}
		w, _ := s.Get(t.Context(), alice, jobs[3].ID)
		want := "Waiting for room, next in line: 3 of the 3 jobs that one user may have there at once are yours"
		if got := s.Detail(w); got != want || w.Phase != spawner.Pending {
			t.Errorf("%s: %q, want %q", w.Phase, got, want)
		}
		s.finish(jobs[0].ID)
		s.reach(jobs[3].ID, spawner.Running)
		s.restart()
		for _, j := range jobs[1:] {
			s.finish(j.ID)
		}
	})(t)
}
