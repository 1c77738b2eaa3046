package agent

import (
	"context"
	"net/http"
	"time"

	"slipway/internal/agent/control"
)

const probeTime = 5 * time.Second

// becomeReady makes the app ready: at once, or when its path answers.
func (s *supervisor) becomeReady(app control.App) {
	ready := func(st *control.Status) {
		if st.State == control.Starting {
			st.State = control.Ready
		}
	}
	if !app.HTTP || app.Ready == "" {
		s.setLocked(ready)
		return
	}
	url := "http://" + loopback(s.port) + app.Ready
	s.agent.work.Go(func() {
		if s.answers(url) {
			s.set(ready)
		}
	})
}

// answers asks until the app answers with a status below 500. It gives up when the app has exited.
func (s *supervisor) answers(url string) bool {
	ctx, cancel := context.WithCancel(s.agent.ctx)
	defer cancel()
	every := time.NewTicker(control.ReadyEvery)
	defer every.Stop()
	transport := &http.Transport{DisableKeepAlives: true}
	for {
		if probe(ctx, transport, url) {
			return true
		}
		select {
		case <-every.C:
		case <-s.over:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func probe(ctx context.Context, t *http.Transport, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	res, err := t.RoundTrip(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode < 500
}
