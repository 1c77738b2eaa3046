package environments

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/hubapi"
	"slipway/images"
	"slipway/images/progress"
	"slipway/internal/taskgroup"
	"slipway/spawner"
)

// TestFarFreezesTakeTurns: what sessions on other hosts have changed comes for one freeze of an owner at a time.
func TestFarFreezesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		copies, broken := 0, false
		f := &Service{
			freezes: taskgroup.New(t.Context()), cfg: Config{Principal: func(_ string, user spawner.User) string { return string(user) }},
			capture: func(context.Context, spawner.ID, func(hubapi.Progress)) (images.Source, func(), error) {
				if broken {
					return images.Source{}, nil, errors.New("no network")
				}
				copies++
				return images.Source{}, func() { copies-- }, nil
			},
		}
		take := func(owner string, far bool, patience time.Duration) (func(), error) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, done, err := f.treeOf(ctx, spawner.Workload{ID: "s-1", Owner: spawner.User(owner), RemoteRecord: spawner.RemoteRecord{Remote: far}}, func(hubapi.Progress) {})
			return done, err
		}
		first, err := take("alice", true, time.Second)
		must(t, err)
		if _, err := take("alice", true, time.Minute); !errors.Is(err, context.DeadlineExceeded) || copies != 1 {
			t.Errorf("a second one: %v, %d copies", err, copies)
		}
		other, err := take("bob", true, time.Second)
		must(t, err)
		near, err := take("alice", false, time.Second)
		must(t, err)
		go func() {
			time.Sleep(time.Hour)
			first()
		}()
		second, err := take("alice", true, 2*time.Hour)
		must(t, err)
		if copies != 3 {
			t.Errorf("%d copies", copies)
		}
		second()
		other()
		near()
		broken = true
		for range 2 { // what fails gives its turn back
			if _, err := take("alice", true, time.Second); err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("err = %v", err)
			}
		}
	})
}

// TestStepsOfAnIdleSession: what does not run neither goes on nor stands still.
func TestStepsOfAnIdleSession(t *testing.T) {
	for stage, want := range map[progress.Stage]string{
		progress.Reading: "the session goes on; then it will stand still for about 3 s", progress.Settling: "the session stands still",
	} {
		p := progress.Progress{Stage: stage, Pause: 3 * time.Second, Changed: 7}
		if got := wireProgress(p, false).Message; !strings.Contains(got, want) {
			t.Errorf("running, %s: %q", stage, got)
		}
		if got := wireProgress(p, true).Message; got != "storing the changes" {
			t.Errorf("idle, %s: %q", stage, got)
		}
	}
}
