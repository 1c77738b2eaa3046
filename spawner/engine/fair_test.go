package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

var carol = spawner.Caller{User: "carol", Hub: "main"}

// serves is a service whose jobs run for a time each, so many at once.
func serves(t *testing.T, atOnce int, each time.Duration) *service {
	s := newService(t)
	s.kill()
	s.config.Capacity["local"] = spawner.Capacity{Count: atOnce}
	s.crew.Boot(func(h *spawnertest.Hand) {
		h.Ready()
		if h.App().Ready == "" { // a job
			time.AfterFunc(each, func() { h.Exit(0) })
		}
	})
	s.start()
	return s
}

func (s *service) scan(c spawner.Caller, n int) []spawner.Workload {
	s.t.Helper()
	jobs, err := s.SubmitScan(s.t.Context(), c, simpleJob(), points(n))
	if err != nil {
		s.t.Fatal(err)
	}
	return jobs
}

// ended counts a user's jobs that are done.
func (s *service) ended(c spawner.Caller) int {
	all, _ := s.List(s.t.Context(), c)
	return len(slices.DeleteFunc(all, func(w spawner.Workload) bool { return w.Phase != spawner.Stopped }))
}

func TestUsersShareFairly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t, 2, time.Minute)
		s.scan(alice, 150)
		time.Sleep(10 * time.Minute)
		few := s.scan(carol, 5)
		late := s.scan(bob, 150)
		if q := s.Queue(few[4]); q.Place < 5 || q.Place > 15 {
			t.Errorf("her fifth is number %d in line", q.Place)
		}
		if q := s.Queue(late[149]); q.Place < 250 || q.Place > 305 {
			t.Errorf("the last of all is number %d in line", q.Place)
		}
		time.Sleep(2 * time.Minute)
		if n := s.ended(carol); n == 0 {
			t.Error("nothing of who has had nothing begins at the next free place")
		}
		time.Sleep(8 * time.Minute)
		if n := s.ended(carol); n != 5 {
			t.Errorf("%d of her 5 are done", n)
		}
		time.Sleep(20 * time.Minute)
		s.restart()
		time.Sleep(20 * time.Minute)
		a, b := s.ended(alice), s.ended(bob)
		if diff := a - b; diff < -4 || diff > 4 || a+b < 90 {
			t.Errorf("%d and %d are done", a, b)
		}
	})
}

func TestPriorityCountsAmongOnesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t, 1, time.Minute)
		first := s.submit(alice, simpleJob())
		s.reach(first.ID, spawner.Running)
		low, urgent, others := simpleJob(), simpleJob(), simpleJob()
		low.Priority, urgent.Priority, others.Priority = -5, 100, 0
		a, b, c := s.submit(alice, low), s.submit(alice, urgent), s.submit(bob, others)
		var order []spawner.ID
		for range 3 {
			s.awaitAny(&order, a, b, c)
		}
		if want := []spawner.ID{c.ID, b.ID, a.ID}; !slices.Equal(order, want) {
			t.Errorf("%v begin, want %v: bob's, who has had nothing, then the one that matters more to alice", order, want)
		}
		bad := simpleJob()
		bad.Priority = 101
		if _, err := s.SubmitJob(t.Context(), alice, bad); !errs.Is(err, errs.Invalid) {
			t.Errorf("a priority of 101: %v", err)
		}
	})
}

// awaitAny waits until one more of some jobs runs, and notes which.
func (s *service) awaitAny(order *[]spawner.ID, of ...spawner.Workload) {
	for range 600 {
		for _, w := range of {
			if now, _ := s.Get(s.t.Context(), admin, w.ID); now.Phase == spawner.Running && !slices.Contains(*order, w.ID) {
				*order = append(*order, w.ID)
				return
			}
		}
		time.Sleep(time.Second)
	}
	s.t.Error("none begins")
}

// TestLargeIsNotStarved: who needs more than is ever free by chance has it held for her.
func TestLargeIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t, 8, time.Minute)
		s.kill()
		s.config.Capacity[spawner.Host] = spawner.Capacity{CPUs: 4}
		s.start()
		small, large := simpleJob(), simpleJob()
		small.Resources.CPUs, large.Resources.CPUs = 1, 4
		if _, err := s.SubmitScan(t.Context(), alice, small, points(200)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Second)
		w := s.submit(bob, large)
		synctest.Wait()
		if q := s.Queue(w); q.Place != 1 || !strings.HasSuffix(q.Lacks, "of 4 free on the whole host") {
			t.Errorf("%+v", q)
		}
		time.Sleep(2 * time.Minute)
		if got, _ := s.Get(t.Context(), bob, w.ID); got.Phase == spawner.Pending {
			t.Errorf("it waits: %+v", s.Queue(w))
		}
		huge := simpleJob()
		huge.Resources.CPUs = 5
		if _, err := s.SubmitJob(t.Context(), bob, huge); !errs.Is(err, errs.OverQuota) || !strings.Contains(err.Error(), "on the whole host") {
			t.Errorf("more than there is: %v", err)
		}
	})
}

// TestSessionsGoBeforeJobsOfTheHost: also before those that were asked for first, unless the site has it otherwise.
func TestSessionsGoBeforeJobsOfTheHost(t *testing.T) {
	for _, yield := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := serves(t, 8, time.Minute)
			s.kill()
			s.config.Capacity["docker"], s.config.Capacity[spawner.Host], s.config.SessionsFirst = spawner.Capacity{}, spawner.Capacity{CPUs: 2}, yield
			s.start()
			small := simpleJob()
			small.Resources.CPUs = 1
			if _, err := s.SubmitScan(t.Context(), alice, small, points(20)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			r := request("bob", "", "one")
			r.Spec.Resources.CPUs = 2
			w := s.startSession(r)
			time.Sleep(2 * time.Minute)
			got, _ := s.Get(t.Context(), bob, w.ID)
			if got.Phase == spawner.Running != yield {
				t.Errorf("yield %v: the session is %s, %+v", yield, got.Phase, s.Queue(got))
			}
			if n := s.ended(alice); yield && n > 2 {
				t.Errorf("%d jobs went before it", n)
			}
			plan, err := s.Plan(t.Context(), alice, small)
			if yield && (err != nil || plan.Free != 0 || plan.Most != 2 || plan.Lacks == "") {
				t.Errorf("%+v, %v", plan, err)
			}
		})
	}
}

func TestLimitsHoldOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t, 8, time.Hour)
		s.kill()
		s.parts.Allowance = func(_ string, u spawner.User) (spawner.Allowance, bool) {
			if u == "bob" {
				return spawner.Allowance{}, true
			}
			return spawner.Allowance{Running: 2, Submitted: 5, Storage: 1000}, true
		}
		s.start()
		refused := func(c spawner.Caller, r spawner.JobRequest, n int, words ...string) {
			t.Helper()
			_, err := s.SubmitScan(t.Context(), c, r, points(n))
			if !errs.Is(err, errs.OverQuota) {
				t.Errorf("%d more: %v", n, err)
				return
			}
			told, _ := errors.AsType[*errs.Error](err)
			for _, w := range words {
				if text := fmt.Sprint(err, told.Remedy); !strings.Contains(text, w) {
					t.Errorf("%q does not say %q", text, w)
				}
			}
		}
		refused(alice, simpleJob(), 6, "0 of your jobs", "than the 5")
		jobs := s.scan(alice, 5)
		s.scan(bob, 3)
		time.Sleep(time.Minute)
		for range 2 {
			refused(alice, simpleJob(), 1, "5 of your jobs wait or run", "slipway jobs")
			if got := s.runs(jobs); got != 2 {
				t.Errorf("%d run, want 2", got)
			}
			if q := s.Queue(jobs[4]); q.Place == 0 || q.Lacks != "2 of the 2 jobs that you may have running at once do" {
				t.Errorf("%+v", q)
			}
			s.restart()
			time.Sleep(time.Minute)
		}
		for _, w := range jobs {
			if _, err := s.Stop(t.Context(), alice, w.ID); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		large := simpleJob()
		large.Files = map[string][]byte{"data": make([]byte, 900)}
		w := s.submit(alice, large)
		s.restart()
		time.Sleep(time.Minute)
		refused(alice, large, 1, "900 B", "1000 B", "slipway jobs du", "slipway jobs rm")
		if _, err := s.Plan(t.Context(), alice, large); !errs.Is(err, errs.OverQuota) {
			t.Errorf("its plan: %v", err)
		}
		if u, err := s.Usage(t.Context(), alice); err != nil || u.Stored != 900 || len(u.Kept) != 1 || u.Kept[0].ID != string(w.ID) || u.Store != 1000 {
			t.Errorf("%+v, %v", u, err)
		}
		if n := s.Stats().Refused["storage"]; n != 1 {
			t.Errorf("%d are counted", n)
		}
		if err := s.Remove(t.Context(), alice, w.ID); err != nil {
			t.Fatal(err)
		}
		s.gone(w.ID)
		s.submit(alice, large)
	})
}

// runs counts those of some jobs that run.
func (s *service) runs(jobs []spawner.Workload) int {
	n := 0
	for _, w := range jobs {
		if now, _ := s.Get(s.t.Context(), admin, w.ID); now.Phase == spawner.Running {
			n++
		}
	}
	return n
}

// TestGPUHoursAreCounted: of sessions and jobs, over restarts, and who has had hers waits or is refused until some no
// longer count.
func TestGPUHoursAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newGPUService(t, 3)
		s.kill()
		s.config.Launch.SelfTest = 0
		s.parts.Allowance = func(string, spawner.User) (spawner.Allowance, bool) {
			return spawner.Allowance{GPUHours: 1, Window: 24 * time.Hour}, true
		}
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready() })
		s.start()
		w := s.startSession(onGPU("alice", "one"))
		time.Sleep(3*time.Hour + 30*time.Minute)
		s.restart()
		time.Sleep(2 * time.Minute)
		part := w.Spec.GPU.Part()
		had := func(want float64) {
			t.Helper()
			u, err := s.Usage(t.Context(), alice)
			if err != nil || u.GPUHours < want*0.98 || u.GPUHours > want*1.02 {
				t.Errorf("%.3f GPU hours, want %.3f; %v", u.GPUHours, want, err)
			}
		}
		had(3.5 * part)
		r := simpleJob()
		r.GPU = w.Spec.GPU
		s.submit(alice, r)
		time.Sleep(4 * time.Hour)
		had((3.5 + 2*4) * part)
		if _, err := s.SubmitJob(t.Context(), alice, r); !errs.Is(err, errs.OverQuota) || !strings.Contains(err.Error(), "of the 1 GPU hours that you may in 24h0m0s; some are free again from Jan") {
			t.Errorf("%v", err)
		}
		s.submit(bob, r)
		s.submit(alice, simpleJob()) // without a GPU
		if _, err := s.Stop(t.Context(), alice, w.ID); err != nil {
			t.Fatal(err)
		}
		s.reach(w.ID, spawner.Stopped)
	})
}
