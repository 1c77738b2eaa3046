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
	ready := func(st *control.Status) {
		if st.State == control.Starting {
			st.State = control.Ready
		}
	}
	if !app.HTTP || app.Ready == "" {
		s.setLocked(ready)
		return
	}
	url, transport := "http://"+loopback(s.port)+app.Ready, &http.Transport{DisableKeepAlives: true}
	if app.Code {
		url, transport = codeReady, unixTransport(s.agent.code.socket())
	}
	s.agent.work.Go(func() {
		if answers(s.agent.ctx, s.over, url, transport) {
			s.set(ready)
		}
	})
}

// unixTransport asks a server at a unix socket.
func unixTransport(path string) *http.Transport {
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}}
}

// answers asks until an app answers with a status below 500. It gives up when the app is over.
func answers(ctx context.Context, over <-chan struct{}, url string, transport *http.Transport) bool {
	every := time.NewTicker(control.ReadyEvery)
	defer every.Stop()
	for {
		if probe(ctx, transport, url) {
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
