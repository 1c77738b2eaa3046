package spawner_test

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

// TestAccountIsOfTheStart: as whom something runs is settled when it starts. What becomes of the account meanwhile is a matter of the next
// start, which is refused where it is asked for; a job that waits goes on waiting while nobody knows.
func TestAccountIsOfTheStart(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("directories are given to others")
	}
	inBubble(func(t *testing.T, s *service) {
		var refused atomic.Pointer[errs.Error]
		s.kill()
		s.config.Account = func(_ context.Context, _ string, u spawner.User) (spawner.Account, error) {
			if err := refused.Load(); err != nil {
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
		job := spawner.JobRequest{Environment: "ana", Argv: []string{"true"}}
		if _, err := s.SubmitJob(t.Context(), alice, job); !errs.Is(err, errs.Conflict) {
			t.Errorf("a job: %v", err)
		}
		if err := s.CheckJob(t.Context(), alice, job); !errs.Is(err, errs.Conflict) {
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
		s.reach(waits.ID, spawner.Leased)
		<-time.After(5 * time.Minute)
		if now := s.reach(waits.ID, spawner.Leased); now.Account.UID != 0 {
			t.Errorf("it has begun as %+v", now.Account)
		}
		refused.Store(nil)
		s.reach(waits.ID, spawner.Running)
		events := strings.Join(messages(s.events(w.ID, "one")), "\n")
		if strings.Contains(events, "another number") {
			t.Errorf("who runs is bothered: %s", events)
		}
	})(t)
}
