package engine_test

import (
	"context"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/launch"
)

// TestAccountIsOfTheStart: as whom something runs is settled when it starts. What becomes of the account meanwhile is a
// matter of the next start, which is refused where it is asked for; a job that waits goes on waiting while nobody
// knows.
func TestAccountIsOfTheStart(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("directories are given to others")
	}
	inBubble(func(t *testing.T, s *service) {
		var refused atomic.Pointer[errs.Error]
		s.kill()
		s.config.Account = func(_ context.Context, _ string, u spawner.User) (spawner.Account, error) {
			if err := refused.Load(); err != nil && u == "alice" {
				return spawner.Account{}, err
			}
			return spawner.Account{UID: 41001, GID: 100, Groups: []spawner.Group{{ID: 47111, Name: "higgs"}}, Login: string(u), Home: "/home/" + string(u)}, nil
		}
		s.start()
		w := s.startSession(request("alice", "", "one"))
		s.reach(w.ID, spawner.Running)
		refused.Store(errs.New(errs.Conflict, "her account has another number").With("ask her administrator"))
		s.restart()
		if got := s.reach(w.ID, spawner.Running).Account; got.UID != 41001 || len(got.Groups) != 1 {
			t.Errorf("it runs as %+v", got)
		}
		if _, err := s.StartSession(t.Context(), hub, request("alice", "two", "two")); !errs.Is(err, errs.Conflict) {
			t.Errorf("another session: %v", err)
		}
		job := spawner.JobRequest{Spec: spawner.Spec{Environment: "ana", Argv: []string{"true"}}}
		if _, err := s.SubmitJob(t.Context(), alice, job); !errs.Is(err, errs.Conflict) {
			t.Errorf("a job: %v", err)
		}
		if _, err := s.Plan(t.Context(), alice, job); !errs.Is(err, errs.Conflict) {
			t.Errorf("a look at a job: %v", err)
		}
		refused.Store(nil)
		first, err := s.SubmitJob(t.Context(), alice, job)
		if err != nil {
			t.Fatal(err)
		}
		s.reach(first.ID, spawner.Running)
		waits, err := s.SubmitJob(t.Context(), alice, job)
		if err != nil {
			t.Fatal(err)
		}
		refused.Store(errs.New(errs.Unavailable, "the directory does not answer"))
		if _, err := s.Stop(t.Context(), alice, first.ID); err != nil {
			t.Fatal(err)
		}
		s.says(waits.ID, "is not known just now (the directory does not answer)")
		others, err := s.SubmitJob(t.Context(), bob, job)
		if err != nil {
			t.Fatal(err)
		}
		s.reach(others.ID, spawner.Running) // in the place that hers would have
		if now, _ := s.Get(t.Context(), alice, waits.ID); now.Account.UID != 0 || now.Phase != spawner.Pending || now.Outcome != nil {
			t.Errorf("it is %s as %+v: %+v", now.Phase, now.Account, now.Outcome)
		}
		if _, err := s.Stop(t.Context(), bob, others.ID); err != nil {
			t.Fatal(err)
		}
		refused.Store(nil)
		s.reach(waits.ID, spawner.Running)
		events := strings.Join(messages(s.events(w.ID, "one")), "\n")
		if strings.Contains(events, "another number") {
			t.Errorf("who runs is bothered: %s", events)
		}
	})(t)
}

// TestAJobWaitsForItsHome: while the homes' file system is away, who waits ends not, and holds nothing.
func TestAJobWaitsForItsHome(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		var away atomic.Bool
		s.kill()
		s.config.Launch.HomeMounts = func(_ context.Context, w spawner.Workload, _ spawner.Account, _ func(string)) (launch.HomeMounts, error) {
			if away.Load() && w.Owner == "alice" {
				return launch.HomeMounts{}, errs.New(errs.Unavailable, "/nfs does not answer")
			}
			return launch.HomeMounts{}, nil
		}
		s.start()
		away.Store(true)
		job := spawner.JobRequest{Spec: spawner.Spec{Environment: "ana", Argv: []string{"true"}}}
		var hers []spawner.ID
		for range 3 {
			w, err := s.SubmitJob(t.Context(), alice, job)
			if err != nil {
				t.Fatal(err)
			}
			hers = append(hers, w.ID)
		}
		s.says(hers[0], "not at hand now (/nfs does not answer)")
		others, err := s.SubmitJob(t.Context(), bob, job)
		if err != nil {
			t.Fatal(err)
		}
		s.reach(others.ID, spawner.Running)
		if _, err := s.Stop(t.Context(), bob, others.ID); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Minute)
		away.Store(false)
		for _, id := range hers {
			s.reach(id, spawner.Running)
			if _, err := s.Stop(t.Context(), alice, id); err != nil {
				t.Fatal(err)
			}
		}
	})(t)
}

// TestWithoutAny: while something is done that nobody's session may see, none begins.
func TestWithoutAny(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		alices := func(w spawner.Workload) bool { return w.Owner == "alice" }
		var over atomic.Bool
		begun := make(chan struct{})
		err := s.engine.WithoutAny(alices, func() error {
			go func() {
				defer close(begun)
				if s.startSession(request("alice", "", "one")); !over.Load() {
					t.Error("one has begun")
				}
			}()
			for range 1000 { // no clock goes on while somebody waits for a lock
				runtime.Gosched()
			}
			over.Store(true)
			return nil
		})
		if <-begun; err != nil {
			t.Error(err)
		}
		if err := s.engine.WithoutAny(alices, func() error { t.Error("it is done"); return nil }); !errs.Is(err, errs.Conflict) {
			t.Error(err)
		}
	})(t)
}

// says waits until what is told of a workload now has some words in it.
func (s *service) says(id spawner.ID, words string) {
	s.t.Helper()
	for range 600 {
		if strings.Contains(s.detailOf(id), words) {
			return
		}
		<-time.After(time.Second)
	}
	s.t.Fatalf("%s says %q, and not %q", id, s.detailOf(id), words)
}
