package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"slipway/spawner"
)

// lister counts how often all workloads are looked at.
type lister struct {
	*fakeEngine
	lists int
}

func (l *lister) List(ctx context.Context, c spawner.Caller) ([]spawner.Workload, error) {
	l.lists++
	return l.fakeEngine.List(ctx, c)
}

// TestStrangersProbeCostsNoList: anybody may ask for a path that ends in /api, as often as a socket takes it. With ten
// thousand records a list holds up all others for milliseconds.
func TestStrangersProbeCostsNoList(t *testing.T) {
	ended := lab("s-ended", "bob", "/user/bob/")
	ended.Phase, ended.Spec.EventsURL = spawner.Stopped, "http://hub/events"
	engine := &lister{fakeEngine: newFake(ended)}
	s := outpostServer(engine)
	defer s.Web.End()
	for _, path := range []string{"/user/bob/api", "/user/bob/x/api", "/user/nobody/api", "/x/api", "/api", "//api", "/user/api", "/user//api"} {
		s.proxy.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://x"+path, nil))
	}
	if engine.lists > 0 {
		t.Errorf("%d lists of all workloads", engine.lists)
	}
}

// TestLateProbeOfOddNames: names may hold slashes, and two users' paths are told apart by what their sessions say.
func TestLateProbeOfOddNames(t *testing.T) {
	ended := func(id spawner.ID, owner spawner.User, name, prefix string) spawner.Workload {
		w := lab(id, owner, prefix)
		w.Name, w.Phase, w.Spec.EventsURL = name, spawner.Stopped, "http://hub/events"
		return w
	}
	s := outpostServer(newFake(ended("s-1", "a/b", "", "/user/a/b/"), ended("s-2", "bob", "gpu 1", "/user/bob/gpu 1/"), ended("s-3", "a/c", "n", "/user/a/c/n/")))
	defer s.Web.End()
	for path, want := range map[string]int{
		"/user/a%2Fb/api": 503, "/user/bob/gpu%201/api": 503, "/user/a%2Fc/n/api": 503, "/user/a/api": 424, "/user/bob/api": 424, "/user/b/api": 424,
	} {
		w := httptest.NewRecorder()
		s.proxy.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}

// TestStrangersPinNoConnections: the Hub's question needs no credential, so anybody may put it, and while a session
// starts it is held. Only a few are, and what they hold is free again afterwards.
func TestStrangersPinNoConnections(t *testing.T) {
	booting := lab("s-boot", "bob", "/user/bob/")
	booting.Phase = spawner.Booting
	synctest.Test(t, func(t *testing.T) {
		s := outpostServer(newFake(booting))
		defer s.Web.End()
		var all sync.WaitGroup
		var answered atomic.Int64
		for range 1000 {
			all.Go(func() {
				w := httptest.NewRecorder()
				s.Public().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/user/bob/api", nil))
				if answered.Add(1); w.Code != http.StatusServiceUnavailable {
					t.Errorf("answered %d", w.Code)
				}
			})
		}
		synctest.Wait()
		if held := 1000 - answered.Load(); held != 4 {
			t.Errorf("%d are held", held)
		}
		all.Wait()
		began := time.Now()
		s.Public().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/user/bob/api", nil))
		if took := time.Since(began); took != 15*time.Second {
			t.Errorf("held for %v: those before are counted for ever", took)
		}
	})
}
