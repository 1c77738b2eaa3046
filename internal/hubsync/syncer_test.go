package hubsync

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/hubapi/hub"
	"slipway/internal/errs"
	"slipway/spawner"
)

// perUser returns the newest stamp by user and server, and fails on one of the future.
func perUser(t *testing.T, all []posted, born time.Time) map[string]time.Time {
	t.Helper()
	newest := map[string]time.Time{}
	for _, p := range all {
		if p.Stamp.After(born.Add(p.At)) {
			t.Errorf("%s/%s is told of activity in %v", p.User, p.Name, p.Stamp.Sub(born.Add(p.At)))
		}
		newest[p.User+"/"+p.Name] = p.Stamp
	}
	return newest
}

func TestActivityIsToldOnceAndByUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, e, born := newFakeHub(), &fakeEngine{}, time.Now()
		e.acts("alice", "", born)
		e.acts("alice", "gpu", born.Add(-time.Second))
		e.acts("has@", "", born)
		running(t, Config{Hub: h, Engine: e, Activity: true})
		time.Sleep(10 * time.Minute)
		if h.tried() != 2 || len(h.all()) != 3 {
			t.Errorf("%d posts of %d stamps", h.tried(), len(h.all()))
		}
		newer := time.Now()
		e.acts("alice", "gpu", newer)
		time.Sleep(2 * time.Minute)
		got := perUser(t, h.all(), born)
		if len(h.all()) != 4 || got["alice/gpu"] != newer || got["alice/"] != born {
			t.Errorf("%v", got)
		}
	})
}

func TestActivityIsSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, e := newFakeHub(), &fakeEngine{}
		for i := range 100 {
			e.acts(fmt.Sprint("u", i), "", time.Now())
		}
		running(t, Config{Hub: h, Engine: e, Activity: true})
		time.Sleep(2 * activityEvery)
		all, second := h.all(), map[int]int{}
		for _, p := range all {
			second[int(p.At.Seconds())]++
		}
		if most := slices.Max(slices.Collect(maps.Values(second))); len(all) != 100 || h.busiest() != 1 || most > 4 {
			t.Errorf("%d told, %d at once, %d in one second", len(all), h.busiest(), most)
		}
	})
}

func TestAHubThatIsDownForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, e, born := newFakeHub(), &fakeEngine{}, time.Now()
		h.set(func(posted) error { return down() })
		h.slow = 10 * time.Second
		for i := range 200 {
			e.acts(fmt.Sprint("u", i), "", born)
		}
		log := running(t, Config{Hub: h, Engine: e, Activity: true})
		time.Sleep(time.Hour)
		if h.busiest() > 1 || h.tried() > 60*(enough+1) || log.count("cannot tell") != 1 {
			t.Errorf("%d calls at once, %d in all, %d lines", h.busiest(), h.tried(), log.count("cannot tell"))
		}
		last := time.Now()
		for i := range 200 {
			e.acts(fmt.Sprint("u", i), "", last)
		}
		h.mu.Lock()
		h.slow = 0
		h.mu.Unlock()
		h.set(nil)
		time.Sleep(3 * activityEvery)
		got := perUser(t, h.all(), born)
		for i := range 200 {
			if name := fmt.Sprintf("u%d/", i); got[name] != last {
				t.Errorf("the Hub knows %v of %s", got[name], name)
			}
		}
		// The round that was under way when the Hub came back may have told it of older stamps first.
		if len(h.all()) > 400 || log.count("again") != 1 {
			t.Errorf("%d stamps told, log:\n%s", len(h.all()), log.String())
		}
	})
}

func TestAClockThatRunsAheadMakesNoFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, e, born := newFakeHub(), &fakeEngine{}, time.Now()
		e.acts("alice", "", born.Add(24*time.Hour))
		running(t, Config{Hub: h, Engine: e, Activity: true})
		time.Sleep(2 * activityEvery)
		if perUser(t, h.all(), born); len(h.all()) == 0 {
			t.Error("nothing was told")
		}
	})
}

func TestAServerThatTheHubDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, e := newFakeHub(), &fakeEngine{}
		h.set(func(p posted) error {
			if p.Name == "gone" {
				return errs.New(errs.NotFound, "No such server")
			}
			return nil
		})
		e.acts("alice", "", time.Now())
		e.acts("alice", "gone", time.Now())
		log := running(t, Config{Hub: h, Engine: e, Activity: true})
		time.Sleep(5 * activityEvery)
		if all := h.all(); len(all) != 1 || all[0].Name != "" || h.tried() != 3 || log.count("WARN") != 0 {
			t.Errorf("%+v after %d tries\n%s", all, h.tried(), log.String())
		}
	})
}

// One user whose stamp the Hub refuses must not cost the others theirs.
func TestARefusedStampIsOneUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, e := newFakeHub(), &fakeEngine{}
		h.set(func(p posted) error {
			if p.User < "u5" {
				return errs.New(errs.Invalid, "not like this")
			}
			return nil
		})
		for i := range 10 {
			e.acts(fmt.Sprint("u", i), "", time.Now())
		}
		running(t, Config{Hub: h, Engine: e, Activity: true})
		time.Sleep(2 * activityEvery)
		if len(h.all()) != 5 {
			t.Errorf("%d of 5 told", len(h.all()))
		}
	})
}

func TestSessionsThatEndAreForgotten(t *testing.T) {
	told := stamps{{User: "a", Name: ""}: time.Now()}
	if news := told.news(nil, time.Now()); len(news) != 0 || len(told) != 0 {
		t.Errorf("%v, %v", news, told)
	}
}

func TestReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, e := newFakeHub(), &fakeEngine{}
		h.slow = 7 * time.Second
		h.users = []hub.User{
			{Name: "has@", Servers: map[string]hub.Server{"": {Pending: "spawn"}, "x": {Ready: true}, "y": {Stopped: true}, "z": {Stopped: true, Pending: "stop"}}},
			{Name: "bob", Servers: map[string]hub.Server{}},
		}
		log := running(t, Config{Hub: h, Engine: e, Every: 5 * time.Minute, Age: 30 * time.Minute, Stop: true})
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		e.mu.Lock()
		defer e.mu.Unlock()
		if n := len(e.rosters); n == 0 || log.count("does not know") != n && log.count("do not know") == 0 {
			t.Fatalf("%d comparisons\n%s", n, log.String())
		}
		r := e.rosters[0]
		slices.SortFunc(r.Servers, func(a, b spawner.Server) int { return cmpNames(a, b) })
		want := []spawner.Server{{User: "has@", Name: ""}, {User: "has@", Name: "x"}, {User: "has@", Name: "z"}}
		if d := cmp.Diff(want, r.Servers); d != "" || r.Hub != "main" || !r.Stop || r.Age != 30*time.Minute {
			t.Errorf("%+v %s", r, d)
		}
		if answered := h.born.Add(h.told[0].At); answered.Sub(r.Asked) != h.slow {
			t.Errorf("asked %v before the answer", answered.Sub(r.Asked))
		}
	})
}

func cmpNames(a, b spawner.Server) int {
	if a.Name < b.Name {
		return -1
	}
	return 1
}

// A list that is not whole is an error, and from an error nothing is concluded.
func TestNoListReconcilesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, e := newFakeHub(), &fakeEngine{}
		h.set(func(posted) error { return errs.New(errs.Unavailable, "the list broke off") })
		log := running(t, Config{Hub: h, Engine: e, Every: 5 * time.Minute, Stop: true})
		time.Sleep(time.Hour)
		if e.reconciled() != 0 || h.tried() < 10 || h.tried() > 14 || log.count("WARN") != 1 {
			t.Errorf("%d comparisons, %d tries\n%s", e.reconciled(), h.tried(), log.String())
		}
	})
}

// A Hub that is mute is asked no more often than one that answers.
func TestAMuteHubHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, e := newFakeHub(), &fakeEngine{}
		h.slow = 24 * time.Hour
		running(t, Config{Hub: h, Engine: e, Every: 5 * time.Minute, Activity: true, FlavorsURL: "x", Flavors: func() any { return 1 }})
		time.Sleep(time.Hour)
		if e.reconciled() != 0 || h.busiest() > 2 {
			t.Errorf("%d comparisons, %d calls at once", e.reconciled(), h.busiest())
		}
	})
}

func TestFlavorsAreToldWhenTheyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, current := newFakeHub(), atomic.Int32{}
		flavors := func() any { return map[string]int32{"current": current.Load()} }
		log := running(t, Config{Hub: h, Engine: &fakeEngine{}, FlavorsURL: "http://hub/flavors", Flavors: flavors})
		time.Sleep(time.Minute)
		synctest.Wait()
		for range 100 {
			current.Add(1) // many changes, few posts
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		time.Sleep(3 * time.Second)
		all := h.all()
		if len(all) < 3 || len(all) > 8 || all[len(all)-1].JSON != `{"current":100}` || all[0].Name != "http://hub/flavors" {
			t.Errorf("%d posts: %+v", len(all), all)
		}
		h.set(func(posted) error { return down() })
		current.Store(7)
		before := h.tried()
		time.Sleep(time.Hour)
		if h.tried()-before > 70 || log.count("cannot") != 1 {
			t.Errorf("%d tries in an hour, %d lines", h.tried()-before, log.count("cannot"))
		}
		h.set(nil)
		time.Sleep(2 * time.Minute)
		if all := h.all(); all[len(all)-1].JSON != `{"current":7}` {
			t.Errorf("%+v", all)
		}
		n := len(h.all())
		time.Sleep(11 * time.Minute)
		if again := len(h.all()) - n; again != 2 {
			t.Errorf("a Hub that has restarted is told %d times in 11 minutes", again)
		}
	})
}
