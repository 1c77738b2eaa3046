package agent

import (
	"context"
	"net"
	"net/http"
	"time"

	"slipway/internal/agent/control"
)

const probeTime = 5 * time.Second

// becomeReady makes the app ready: at once, or when its path answers.
func (s *supervisor) becomeReady(app control.App) {
	s.agent.rounds.know(app.Doctor)
	ready := func(st *control.Status) {
		if st.State == control.Starting {
			st.State = control.Ready
		}
	}
	if !app.HTTP || app.Ready == "" {
		s.setLocked(ready)
		return
	}
	ask := question{"http://" + loopback(s.port) + app.Ready, 500, &http.Transport{DisableKeepAlives: true}}
	if app.Code {
		ask = s.agent.code.question()
	}
	s.agent.work.Go(func() {
		if ask.answered(s.agent.ctx, s.over) {
			s.set(ready)
			s.agent.rounds.begin()
		}
	})
}

// question is how to find out whether an app is up.
type question struct {
	url       string
	below     int // what the status of an answer must be below
	transport *http.Transport
}

// unixTransport asks a server at a unix socket.
func unixTransport(path string) *http.Transport {
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}}
}

// answered asks until an app answers so. It gives up when the app is over.
func (q question) answered(ctx context.Context, over <-chan struct{}) bool {
	every := time.NewTicker(control.ReadyEvery)
	defer every.Stop()
	for {
		if q.ask(ctx) {
			return true
		}
		select {
		case <-every.C:
		case <-over:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func (q question) ask(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, q.url, nil)
	if err != nil {
		return false
	}
	res, err := q.transport.RoundTrip(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode < q.below
}
