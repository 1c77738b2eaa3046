package authproxy

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/secret"
)

// answering is a Hub that answers every question alike.
type answering struct {
	mu     sync.Mutex
	status int
	text   string
	asked  *http.Request
}

func (a *answering) turn(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status = status
}

func (a *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = r
	return &http.Response{StatusCode: a.status, Body: io.NopCloser(strings.NewReader(a.text)), Header: http.Header{}, Request: r}, nil
}

func answeredGate(t *testing.T, a *answering) *Proxy {
	t.Helper()
	env := environment("http://hub")
	g, err := New(Config{Env: func(name string) string { return env[name] }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	g.hub.trip = a
	return g
}

// A connection that is open ends soon after the Hub has taken the login back, and not because the Hub is away for a
// while.
func TestOpenConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answering{status: http.StatusOK, text: `{"name":"alice","scopes":["access:servers!user=alice"]}`}
		g := answeredGate(t, a)
		v := &visitor{token: secret.New("alices")}
		if err := v.good(t.Context(), g.hub, digest{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		ended := make(chan time.Time, 1)
		go g.watch(ctx, v, func() { ended <- time.Now() })
		<-time.After(3*recheck + time.Minute)
		a.turn(http.StatusBadGateway)
		<-time.After(2 * recheck)
		a.turn(http.StatusForbidden)
		if took := (<-ended).Sub(began); took < 5*recheck || took > 7*recheck {
			t.Errorf("it ended after %v", took)
		}
	})
}

// The Hub is told as jupyterhub-singleuser does, unless the service does it.
func TestReport(t *testing.T) {
	a := &answering{status: http.StatusOK}
	g := answeredGate(t, a)
	at := time.Date(2026, 11, 22, 3, 4, 5, 0, time.FixedZone("", 3600))
	if err := g.Report(t.Context(), at); err != nil || a.asked != nil {
		t.Errorf("nobody is to be told: %v, %v", err, a.asked)
	}
	g.hub.set.name, g.hub.set.activity, g.set.activity = "x", "http://hub/hub/api/users/alice/activity", "http://hub/hub/api/users/alice/activity"
	if err := g.Report(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	const want = `{"last_activity":"2026-11-22T02:04:05.000000Z","servers":{"x":{"last_activity":"2026-11-22T02:04:05.000000Z"}}}`
	b, _ := io.ReadAll(a.asked.Body)
	if string(b) != want || a.asked.Header.Get("Authorization") != "token its-own" || a.asked.URL.Path != "/hub/api/users/alice/activity" {
		t.Errorf("%s %s %v", a.asked.URL, b, a.asked.Header)
	}
	a.turn(http.StatusNotFound)
	if g.Report(t.Context(), at) == nil {
		t.Error("what the Hub refuses is told")
	}
}
