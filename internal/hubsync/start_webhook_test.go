package hubsync

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/hubapi/hub"
	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
)

const sessionToken = "token-of-the-session"

// telling is one start that a StartWebhook tells of.
type telling struct {
	hub    *fakeHub
	engine *fakeEngine
	log    *notes
	done   chan struct{}
	cancel context.CancelFunc
	seq    int64
}

func tellOf(t *testing.T) *telling {
	w := spawner.Workload{ID: "s-1", Kind: spawner.Lab, Owner: "has@", Name: "gpu", Hub: "main", Launch: "l1", Phase: spawner.Starting}
	ctx, cancel := context.WithCancel(t.Context())
	tl := &telling{
		hub: newFakeHub(), engine: &fakeEngine{work: w, events: make(chan spawner.Event)}, log: &notes{}, done: make(chan struct{}), cancel: cancel,
	}
	h := &StartWebhook{Hubs: map[string]Hub{"main": tl.hub}, Engine: tl.engine, Logger: tl.log.logger()}
	go func() {
		defer close(tl.done)
		h.Tell(ctx, w, control.Env{tokenName: sessionToken})
	}()
	t.Cleanup(func() {
		cancel()
		<-tl.done
		if tl.engine.open != 0 || tl.log.count(sessionToken) != 0 {
			t.Errorf("%d readers are left; log:\n%s", tl.engine.open, tl.log.String())
		}
	})
	return tl
}

func (tl *telling) happens(percent int, message string) {
	tl.put(spawner.Event{Percent: percent, Message: message})
}

func (tl *telling) ends(failed bool, message string, phase spawner.Phase, o *spawner.Outcome) {
	tl.engine.mu.Lock()
	tl.engine.work.Phase, tl.engine.work.Outcome = phase, o
	tl.engine.mu.Unlock()
	tl.put(spawner.Event{Percent: 100, Message: message, Final: true, Failed: failed})
}

func (tl *telling) put(e spawner.Event) {
	tl.seq++
	e.Seq, e.Launch = tl.seq, "l1"
	select {
	case tl.engine.events <- e:
	case <-tl.done:
	}
	synctest.Wait()
}

// returned reports whether Tell has.
func (tl *telling) returned() bool {
	synctest.Wait()
	select {
	case <-tl.done:
		return true
	default:
		return false
	}
}

func (tl *telling) events() (all []hub.Event) {
	for _, p := range tl.hub.all() {
		all = append(all, p.Event)
	}
	return all
}

func TestAStartIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tl := tellOf(t)
		tl.happens(-1, "Waiting for room: number 2 in line")
		tl.happens(20, "Fetching <image>")
		tl.happens(-1, "Fetching")
		tl.happens(100, "Almost")
		tl.ends(false, "JupyterLab is ready", spawner.Running, nil)
		if !tl.returned() {
			t.Error("it goes on after the end")
		}
		want := []hub.Event{
			{Percent: 0, Message: "Waiting for room: number 2 in line", HTML: "Waiting for room: number 2 in line"},
			{Percent: 20, Message: "Fetching <image>", HTML: "Fetching &lt;image&gt;"},
			{Percent: 20, Message: "Fetching", HTML: "Fetching"},
			{Percent: 99, Message: "Almost", HTML: "Almost"},
			{Percent: 100, Message: "JupyterLab is ready", HTML: "JupyterLab is ready"},
		}
		if d := cmp.Diff(want, tl.events()); d != "" {
			t.Error(d)
		}
		if p := tl.hub.all()[0]; p.User != "has@" || p.Name != "gpu" || p.Token != sessionToken {
			t.Errorf("%+v", p)
		}
	})
}

func TestTheEndOfAStart(t *testing.T) {
	long := strings.Repeat("line <b>\n", 1000)
	for _, tc := range []struct {
		name    string
		phase   spawner.Phase
		launch  string
		outcome *spawner.Outcome
		failed  bool
		want    hub.Event
	}{
		{
			"failed", spawner.Stopped, "l1", &spawner.Outcome{Failed: true, Reason: "no image <x>", Remedy: "ask & wait", Tail: "one\n<two>\x1b[0m\n"}, true,
			hub.Event{Percent: 100, Failed: true, Message: "no image <x>: ask & wait",
				HTML: "<details><summary>no image &lt;x&gt;</summary>ask &amp; wait<pre>one\n&lt;two&gt;[0m</pre></details>"},
		},
		{
			"stopped by another", spawner.Stopped, "l1", &spawner.Outcome{Canceled: true, Reason: "its start was canceled"}, false,
			hub.Event{Percent: 100, Failed: true, Message: "its start was canceled", HTML: "<details><summary>its start was canceled</summary></details>"},
		},
		{
			"no outcome", spawner.Stopped, "l1", nil, false,
			hub.Event{Percent: 100, Failed: true, Message: "over", HTML: "<details><summary>over</summary></details>"},
		},
		{
			"another launch has begun", spawner.Starting, "l2", nil, true,
			hub.Event{Percent: 100, Failed: true, Message: "over", HTML: "<details><summary>over</summary></details>"},
		},
		{"another launch, after a good one", spawner.Starting, "l2", nil, false, hub.Event{Percent: 100, Message: "over", HTML: "over"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tl := tellOf(t)
				tl.engine.work.Launch = tc.launch
				tl.ends(tc.failed, "over", tc.phase, tc.outcome)
				time.Sleep(untilPolled)
				want := []hub.Event{tc.want}
				if tc.want.Failed { // why comes first, and that it failed only while no other start has begun
					reason := tc.want
					reason.Failed, reason.Percent = false, 99
					if want = []hub.Event{reason, tc.want}; tc.launch != "l1" {
						want = want[:1]
					}
				}
				if !tl.returned() {
					t.Error("it goes on after the end")
				}
				if d := cmp.Diff(want, tl.events()); d != "" {
					t.Error(d)
				}
			})
		})
	}
	e := failure(long, long, long)
	if len(e.HTML) > 5*(2*wordsLimit+tailLimit) || strings.Contains(e.HTML, "<b>") || strings.Count(e.HTML, "\n") > tailLines || strings.Contains(e.Message, "\n") {
		t.Errorf("%d bytes: %s", len(e.HTML), e.HTML)
	}
}

// While the Hub is down the start goes on; when it is back it hears where the start is, and how it ended.
func TestAHubThatIsDownHearsTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tl := tellOf(t)
		tl.hub.set(func(posted) error { return down() })
		for i := range 100 {
			tl.happens(i, fmt.Sprint("step ", i))
			time.Sleep(36 * time.Second) // an hour in all
		}
		if n := tl.hub.tried(); n > 3600/10 || tl.hub.busiest() > 1 {
			t.Errorf("%d tries in an hour, %d at once", n, tl.hub.busiest())
		}
		tl.ends(true, "over", spawner.Stopped, &spawner.Outcome{Failed: true, Reason: "why"})
		time.Sleep(time.Minute)
		tl.hub.set(nil)
		time.Sleep(time.Minute + untilPolled)
		all := tl.events()
		if len(all) != boxLimit+1 || !all[len(all)-1].Failed || !tl.returned() {
			t.Fatalf("%d events: %+v", len(all), all)
		}
		for i, e := range all[:len(all)-2] { // the last two tell of the failure
			if want := fmt.Sprint("step ", 100-boxLimit+1+i); e.Message != want {
				t.Errorf("%s instead of %s", e.Message, want)
			}
		}
	})
}

func TestAHubThatStaysDownIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tl := tellOf(t)
		tl.hub.set(func(posted) error { return down() })
		tl.ends(false, "ready", spawner.Running, nil)
		time.Sleep(lastWords - time.Second)
		if tl.returned() {
			t.Error("given up early")
		}
		if time.Sleep(time.Minute); !tl.returned() || tl.log.count("WARN") != 1 {
			t.Errorf("not given up, or not said once:\n%s", tl.log.String())
		}
	})
}

func TestADoorThatRefuses(t *testing.T) {
	for _, kind := range []errs.Kind{errs.NotFound, errs.Forbidden, errs.Unauthorized, errs.Missing, errs.Internal} {
		synctest.Test(t, func(t *testing.T) {
			tl := tellOf(t)
			tl.hub.set(func(posted) error { return errs.New(kind, "no") })
			tl.happens(1, "one")
			if !tl.returned() || tl.hub.tried() != 1 || tl.log.count("WARN") != 1 {
				t.Errorf("%v: %d tries\n%s", kind, tl.hub.tried(), tl.log.String())
			}
		})
	}
}

func TestAnEventThatIsFilteredIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tl := tellOf(t)
		tl.hub.set(func(p posted) error {
			if p.Event.Percent < 50 {
				return errs.New(errs.Invalid, "filtered")
			}
			return nil
		})
		for i := range 10 {
			tl.happens(i*10, "step")
		}
		tl.ends(false, "ready", spawner.Running, nil)
		if n := len(tl.events()); n != 6 || tl.log.count("does not take") != 1 || tl.log.count("WARN") != 0 {
			t.Errorf("%d told\n%s", n, tl.log.String())
		}
	})
}

func TestASlowHubDoesNotHoldTheEngineUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tl := tellOf(t)
		tl.hub.slow = time.Hour
		begun := time.Now()
		for i := range 100 {
			tl.happens(i, "step")
		}
		if time.Since(begun) != 0 {
			t.Errorf("events were held for %v", time.Since(begun))
		}
		if tl.cancel(); !tl.returned() {
			t.Error("it outlives its context")
		}
	})
}

func TestNothingToTell(t *testing.T) {
	log := &notes{}
	w := spawner.Workload{ID: "s-1", Hub: "main"}
	for _, h := range []*StartWebhook{
		{Hubs: map[string]Hub{}, Engine: &fakeEngine{}, Logger: log.logger()},
		{Hubs: map[string]Hub{"main": newFakeHub()}, Engine: &fakeEngine{}, Logger: log.logger()},
	} {
		h.Tell(t.Context(), w, control.Env{tokenName: sessionToken})
		h.Tell(t.Context(), w, nil)
	}
	if log.count("WARN") != 3 {
		t.Error(log.String())
	}
	if tok := tokenOf(spawner.Workload{Spec: spawner.Spec{Env: map[string]string{tokenName: "x"}}}, nil); !tok.Equal("x") {
		t.Error("a token among the public variables is not found")
	}
}
