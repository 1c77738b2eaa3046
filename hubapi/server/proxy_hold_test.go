package server

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
	"slipway/spawner"
)

// TestProxyHoldsTheHubsProbe: the Hub asks again only after seconds, so that its question waits for the answer.
func TestProxyHoldsTheHubsProbe(t *testing.T) {
	for _, tc := range []struct {
		name, method, path, header string
		first, then                spawner.Phase
		after, took                time.Duration
		dialed                     bool
	}{
		{"it runs", "GET", "/user/bob/api", "", spawner.Pending, spawner.Running, 3 * time.Second, 3 * time.Second, true},
		{"it ends", "GET", "/user/bob/api", "", spawner.Booting, spawner.Stopped, 2 * time.Second, 2 * time.Second, false},
		{"it is stopped", "GET", "/user/bob/api", "", spawner.Leased, spawner.Stopping, time.Second, time.Second, false},
		{"it takes its time", "GET", "/user/bob/api", "", spawner.Starting, spawner.Running, time.Minute, 15 * time.Second, false},
		{"it is forgotten", "GET", "/user/bob/api", "", spawner.Starting, "", time.Second, time.Second, false},
		{"it is being stopped", "GET", "/user/bob/api", "", spawner.Stopping, spawner.Running, time.Second, 0, false},
		{"another path", "GET", "/user/bob/api/kernels", "", spawner.Booting, spawner.Running, time.Second, 0, false},
		{"a longer path", "GET", "/user/bob/api/", "", spawner.Booting, spawner.Running, time.Second, 0, false},
		{"another method", "POST", "/user/bob/api", "", spawner.Booting, spawner.Running, time.Second, 0, false},
		{"a visitor", "GET", "/user/bob/api", "Cookie", spawner.Booting, spawner.Running, time.Second, 0, false},
		{"a program", "GET", "/user/bob/api", "Authorization", spawner.Booting, spawner.Running, time.Second, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				booting := lab("s-boot", "bob", "/user/bob/")
				booting.Phase = tc.first
				engine := newFake(booting)
				dialed := false
				cfg := outpostConfig(engine)
				cfg.Dial = func(context.Context, spawner.ID) (net.Conn, error) {
					dialed = true
					return nil, errs.New(errs.Unavailable, "no link")
				}
				s := New(cfg)
				defer s.Web.End()
				go func() {
					time.Sleep(tc.after)
					if tc.then == "" {
						engine.forget("s-boot")
						return
					}
					booting.Phase = tc.then
					engine.set(booting)
				}()
				r, w := httptest.NewRequest(tc.method, tc.path, nil), httptest.NewRecorder()
				if tc.header != "" {
					r.Header.Set(tc.header, "x")
				}
				began := time.Now()
				s.proxy.ServeHTTP(w, r)
				if took := time.Since(began); took != tc.took || dialed != tc.dialed || !dialed && w.Code != 503 {
					t.Errorf("took %v, forwarded %v, %d", took, dialed, w.Code)
				}
				if len(engine.visits) > 0 {
					t.Errorf("visits %v", engine.visits)
				}
				time.Sleep(2 * time.Minute) // until the other goroutine has ended
			})
		})
	}
}

func TestProxyEndsHeldProbes(t *testing.T) {
	booting := lab("s-boot", "bob", "/user/bob/")
	booting.Phase = spawner.Booting
	synctest.Test(t, func(t *testing.T) {
		s := outpostServer(newFake(booting))
		began := time.Now()
		time.AfterFunc(time.Second, s.Web.End)
		w := httptest.NewRecorder()
		s.Public().ServeHTTP(w, httptest.NewRequest("GET", "/user/bob/api", nil))
		if took := time.Since(began); took != time.Second || w.Code != 503 {
			t.Errorf("took %v: %d", took, w.Code)
		}
	})
}

func TestProxyTellsOfVisits(t *testing.T) {
	app := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, tc := range []struct {
		name, method, target, header string
		want                         []string
	}{
		{"the Hub's probe", "GET", "/user/alice/api", "", nil},
		{"nobody", "GET", "/user/alice/lab?x=token", "", nil},
		{"nobody at all", "POST", "/user/alice/lab", "", nil},
		{"a browser", "GET", "/user/alice/lab", "Cookie: a=b\r\n", []string{"s-alice false"}},
		{"a program", "HEAD", "/user/alice/api", "Authorization: token x\r\n", []string{"s-alice false"}},
		{"a link with a token", "GET", "/user/alice/api?a=b&token=x", "", []string{"s-alice false"}},
		{"a websocket", "GET", "/user/alice/ws", "Connection: upgrade\r\nUpgrade: websocket\r\n", []string{"s-alice false"}},
		{"a deed", "POST", "/user/alice/api/kernels", "Cookie: a=b\r\n", []string{"s-alice true"}},
		{"a removal", "DELETE", "/user/alice/api/kernels/1", "Authorization: token x\r\n", []string{"s-alice true"}},
		{"a page that saves its layout", "PUT", "/user/alice/lab/api/workspaces/default?1", "Cookie: a=b\r\n", []string{"s-alice false"}},
		{"a file of that name", "PUT", "/user/alice/api/contents/lab/api/workspaces/x", "Cookie: a=b\r\n", []string{"s-alice true"}},
		{"a question", "OPTIONS", "/user/alice/api", "Cookie: a=b\r\n", []string{"s-alice false"}},
		{"of no session", "GET", "/user/carol/", "Cookie: a=b\r\n", nil},
	} {
		engine := newFake(lab("s-alice", "alice", "/user/alice/"))
		h := withApps(t, engine, map[spawner.ID]http.Handler{"s-alice": app})
		h.raw(t, tc.method+" "+tc.target+" HTTP/1.1\r\nHost: x\r\n"+tc.header+"\r\n")
		if diff := cmp.Diff(tc.want, engine.visits); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

// TestStrangersKeepNoSessionRunning: anybody can send a cookie or a token that is worth nothing.
func TestStrangersKeepNoSessionRunning(t *testing.T) {
	for status, want := range map[int][]string{
		200: {"s-alice true"}, 201: {"s-alice true"}, 304: {"s-alice true"}, 302: nil, 401: nil, 403: nil, 404: nil, 405: nil, 500: nil,
	} {
		engine := newFake(lab("s-alice", "alice", "/user/alice/"))
		h := withApps(t, engine, map[spawner.ID]http.Handler{"s-alice": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })})
		h.raw(t, "POST /user/alice/api/kernels HTTP/1.1\r\nHost: x\r\nCookie: a=b\r\nContent-Length: 0\r\n\r\n")
		if diff := cmp.Diff(want, engine.visits); diff != "" {
			t.Errorf("%d: %s", status, diff)
		}
	}
}

// TestProbeAfterTheEnd: a Hub that waits for a session takes any answer below 500 for one that is up.
func TestProbeAfterTheEnd(t *testing.T) {
	for _, tc := range []struct {
		name, path, events, header string
		want                       int
	}{
		{"the Hub, which waits", "/user/bob/api", "http://hub/events", "", 503},
		{"a visitor", "/user/bob/api", "http://hub/events", "Cookie", 424},
		{"another path", "/user/bob/lab", "http://hub/events", "", 424},
		{"nobody's", "/user/carol/api", "http://hub/events", "", 424},
		{"a Hub that was told when it ran", "/user/bob/api", "", "", 424},
	} {
		ended := lab("s-ended", "bob", "/user/bob/")
		ended.Phase, ended.Spec.EventsURL = spawner.Stopped, tc.events
		s := outpostServer(newFake(ended))
		defer s.Web.End()
		r, w := httptest.NewRequest(http.MethodGet, tc.path, nil), httptest.NewRecorder()
		if tc.header != "" {
			r.Header.Set(tc.header, "x")
		}
		s.proxy.ServeHTTP(w, r)
		if w.Code != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, w.Code, tc.want)
		}
	}
}
