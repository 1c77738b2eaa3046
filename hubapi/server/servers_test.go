package server

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/hubapi"
	"slipway/hubapi/hub"
	"slipway/hubapi/server/hubs"
	"slipway/internal/errs"
	"slipway/spawner"
)

// fakeServers is a Hub with one server of each user's.
type fakeServers struct {
	now     hub.Server
	refuses error
	says    []hub.Progress
	lost    error        // how the progress ends
	unready int          // so often it says first that nothing starts
	before  []hub.Server // what it says of the server first, once each
	after   hub.Server   // once it was started
	starts  func()
	looked  func() // called when it is asked for a server
	asked   []string
	options map[string]any
}

func (f *fakeServers) Server(_ context.Context, user, server string) (hub.Server, error) {
	if f.looked != nil {
		f.looked()
	}
	if len(f.before) > 0 {
		f.now, f.before = f.before[0], f.before[1:]
	}
	if f.now == (hub.Server{}) {
		return f.now, errs.New(errs.NotFound, "the Hub has no such server")
	}
	return f.now, nil
}

func (f *fakeServers) StartServer(_ context.Context, user, server string, options map[string]any) (bool, error) {
	f.asked, f.options = append(f.asked, user+"/"+server), options
	if f.after != (hub.Server{}) {
		f.now = f.after
	}
	if f.starts != nil {
		f.starts()
	}
	return false, f.refuses
}

func (f *fakeServers) Progress(context.Context, string, string) iter.Seq2[hub.Progress, error] {
	return func(yield func(hub.Progress, error) bool) {
		if f.unready--; f.unready >= 0 {
			yield(hub.Progress{}, errs.New(errs.Conflict, "it is not starting"))
			return
		}
		for _, p := range f.says {
			if !yield(p, nil) {
				return
			}
		}
		if f.lost != nil {
			yield(hub.Progress{}, f.lost)
		}
	}
}

func TestStartServer(t *testing.T) {
	steps := []hub.Progress{{Percent: 10, Message: "waits"}, {Percent: 100, Ready: true}}
	for name, test := range map[string]struct {
		servers *fakeServers
		token   string
		want    error  // of this kind
		say     string // in the error
		asked   bool
	}{
		"is up":             {&fakeServers{says: steps}, "alice-token", nil, "", true},
		"joined":            {&fakeServers{now: hub.Server{Pending: "spawn"}, says: steps}, "alice-token", nil, "", false},
		"runs already":      {&fakeServers{now: hub.Server{Ready: true}}, "alice-token", errs.New(errs.Conflict, ""), `your server "two" runs already`, false},
		"the Hub refuses":   {&fakeServers{refuses: errs.New(errs.OverQuota, "too many")}, "alice-token", errs.New(errs.OverQuota, ""), "too many", true},
		"fails":             {&fakeServers{says: []hub.Progress{{Failed: true, Message: "no such profile"}}}, "alice-token", errs.New(errs.Unavailable, ""), "no such profile", true},
		"breaks off":        {&fakeServers{lost: errs.New(errs.Unavailable, "the Hub is lost")}, "alice-token", errs.New(errs.Unavailable, ""), "is lost", true},
		"taken back":        {&fakeServers{unready: 2, says: []hub.Progress{{Failed: true, Message: "no such profile"}}}, "alice-token", errs.New(errs.Unavailable, ""), "no such profile", true},
		"is no session":     {&fakeServers{says: steps}, "carol-token", errs.New(errs.NotFound, ""), "not here", true},
		"no token there":    {nil, "alice-token", errs.New(errs.Missing, ""), "no token", false},
		"asked by a hub":    {&fakeServers{}, spawnerToken, errs.New(errs.Forbidden, ""), "only a user", false},
		"nobody is calling": {&fakeServers{}, "", errs.New(errs.Unauthorized, ""), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			running := lab("s-1", "alice", "/user/alice/two/")
			running.Name = "two"
			h := start(t, newFake(running, lab("s-2", "alice", "/user/alice/")), func(cfg *Config) {
				if test.servers != nil {
					cfg.Hubs[0].Servers = test.servers
				}
			})
			var told []string
			s, err := h.client(t, test.token).StartServer(t.Context(), hubapi.ServerRequest{Name: "two", Options: map[string]any{"environment": "ana:v1"}},
				func(p hubapi.Progress) { told = append(told, p.Message) })
			if test.want != nil {
				want, _ := errors.AsType[*errs.Error](test.want)
				if !errs.Is(err, want.Kind) || !strings.Contains(err.Error(), test.say) {
					t.Errorf("%v", err)
				}
			} else if err != nil || s.ID != "s-1" || len(told) != 1 || told[0] != "waits" {
				t.Errorf("%+v, %q, %v", s, told, err)
			}
			if test.servers == nil {
				return
			}
			if asked := len(test.servers.asked) == 1; asked != test.asked {
				t.Errorf("the Hub was asked for %q", test.servers.asked)
			}
			if diff := cmp.Diff(map[string]any{"environment": "ana:v1"}, test.servers.options); test.asked && diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNothingStarts: a Hub that does not say why nothing starts is not asked for ever.
func TestNothingStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		servers := &fakeServers{now: hub.Server{Pending: "spawn"}, unready: 1e6}
		s := New(Config{Engine: newFake(), Logger: quiet(), Hubs: []hubs.Hub{{Name: "main", APIURL: &url.URL{}, Servers: servers}}})
		_, _, err := s.API.Servers.StartFor(t.Context(), spawner.Caller{Hub: "main", User: "alice"}, hubapi.ServerRequest{}, func(hubapi.Progress) { t.Error("something is told") })
		if took := time.Since(began); !errs.Is(err, errs.Conflict) || took < 30*time.Second || took > 30*time.Second+200*time.Millisecond {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

// TestStartAfterStop: a start waits for the stop before it, at the Hub or here, and is not refused for what the Hub has
// not seen yet.
func TestStartAfterStop(t *testing.T) {
	for name, test := range map[string]struct {
		before []hub.Server
		want   spawner.Want
		phase  spawner.Phase // of the session when it is asked for
		told   []string
	}{
		"the Hub has not seen it": {[]hub.Server{{Ready: true}}, spawner.WantStopped, spawner.Stopped, []string{"waits"}},
		"it is being stopped":     {[]hub.Server{{Ready: true}, {Ready: true}}, spawner.WantStopped, spawner.Running, []string{"your default server is being stopped", "waits"}},
		"it is, by the Hub":       {[]hub.Server{{Pending: "stop"}, {Stopped: true}}, spawner.WantStopped, spawner.Stopped, []string{"your default server is being stopped", "waits"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := lab("s-1", "alice", "/user/alice/")
			engine := newFake(w)
			move := func(want spawner.Want, phase spawner.Phase) {
				now := w
				now.Want, now.Phase = want, phase
				engine.set(now)
			}
			move(test.want, test.phase)
			servers := &fakeServers{before: test.before, says: []hub.Progress{{Message: "waits"}, {Ready: true}}, starts: func() { move(spawner.WantRunning, spawner.Running) }, after: hub.Server{Ready: true, FullURL: "https://hub.example.org/user/alice/"}}
			h := start(t, engine, func(cfg *Config) { cfg.Hubs[0].Servers = servers })
			var told []string
			s, err := h.client(t, "alice-token").StartServer(t.Context(), hubapi.ServerRequest{}, func(p hubapi.Progress) {
				told = append(told, p.Message)
				if strings.Contains(p.Message, "stopped") {
					move(spawner.WantStopped, spawner.Stopped)
				}
			})
			if err != nil || s.ID != "s-1" || s.URL != "https://hub.example.org/user/alice/" || len(servers.asked) != 1 {
				t.Errorf("%+v, %v; asked for %q", s, err, servers.asked)
			}
			if d := cmp.Diff(test.told, slices.Compact(told)); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestOnlyUsersStartServers wants a session to start others of its user, and a job to start none.
func TestOnlyUsersStartServers(t *testing.T) {
	h := start(t, newFake(), func(cfg *Config) { cfg.Hubs[0].Servers = &fakeServers{} })
	for c, want := range map[spawner.Caller]bool{
		{Hub: "main", User: "alice"}:                  true,
		{Hub: "main", User: "alice", Workload: "s-1"}: true,
		{Hub: "main", User: "alice", Workload: "j-1"}: false,
		{Hub: "main", Spawner: true}:                  false,
		{System: true}:                                false,
		{Hub: "main", Spawner: true, User: "alice"}:   false,
	} {
		if err := h.API.Servers.StopFor(t.Context(), c, "none"); (err == nil) != want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestStartFor: who asks out of the service itself learns whether the start is hers, so that she takes back no other's.
func TestStartFor(t *testing.T) {
	alice := spawner.Caller{Hub: "main", User: "alice"}
	for name, test := range map[string]struct {
		servers *fakeServers
		asked   bool
		fails   bool
	}{
		"asked":             {&fakeServers{says: []hub.Progress{{Ready: true}}}, true, false},
		"asked, and failed": {&fakeServers{says: []hub.Progress{{Failed: true, Message: "no"}}}, true, true},
		"joined":            {&fakeServers{now: hub.Server{Pending: "spawn"}, says: []hub.Progress{{Ready: true}}}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, newFake(lab("s-2", "alice", "/user/alice/")), func(cfg *Config) { cfg.Hubs[0].Servers = test.servers })
			session, asked, err := h.API.Servers.StartFor(t.Context(), alice, hubapi.ServerRequest{}, func(hubapi.Progress) {})
			if asked != test.asked || (err != nil) != test.fails || (err == nil) != (session.ID == "s-2") {
				t.Errorf("%+v, %v, %v", session, asked, err)
			}
		})
	}
}

// coming is a session that is on its way up, for the first time or again.
func coming(id spawner.ID, again bool) spawner.Workload {
	w := lab(id, "alice", "/user/alice/")
	w.Phase, w.Ran = spawner.Starting, again
	return w
}

// TestStopFor: a start is taken back by the engine, also where the Hub has not asked for it yet, and what runs is left
// alone. What ran before keeps its changes, and of what never ran nothing is left.
func TestStopFor(t *testing.T) {
	alice := spawner.Caller{Hub: "main", User: "alice"}
	h := start(t, newFake(coming("s-2", true)), func(cfg *Config) { cfg.Hubs[0].Servers = &fakeServers{} })
	if err := h.API.Servers.StopFor(t.Context(), alice, ""); err != nil {
		t.Fatal(err)
	}
	if w, err := h.cfg.Engine.Get(t.Context(), alice, "s-2"); err != nil || w.Want != spawner.WantStopped {
		t.Errorf("%+v, %v", w, err)
	}
	engine := newFake()
	late := &fakeServers{before: []hub.Server{{Pending: "spawn"}}, looked: func() { engine.set(coming("s-3", false)) }}
	h = start(t, engine, func(cfg *Config) { cfg.Hubs[0].Servers = late })
	if err := h.API.Servers.StopFor(t.Context(), alice, ""); err != nil {
		t.Fatal(err)
	}
	if w, err := h.cfg.Engine.Get(t.Context(), alice, "s-3"); !errs.Is(err, errs.NotFound) {
		t.Errorf("%+v, %v", w, err)
	}
	h = start(t, newFake(), func(cfg *Config) { cfg.Hubs[0].Servers = &fakeServers{} })
	if err := h.API.Servers.StopFor(t.Context(), alice, ""); err != nil {
		t.Errorf("nothing is started: %v", err)
	}
	h = start(t, newFake(lab("s-4", "alice", "/user/alice/")), func(cfg *Config) { cfg.Hubs[0].Servers = &fakeServers{} })
	if err := h.API.Servers.StopFor(t.Context(), alice, ""); err != nil {
		t.Fatal(err)
	}
	if w, err := h.cfg.Engine.Get(t.Context(), alice, "s-4"); err != nil || w.Want != spawner.WantRunning {
		t.Errorf("what runs was stopped: %+v, %v", w, err)
	}
}
